//! `isorb scheduler`: a scheduling service with TAO's interface.

use super::service::ServiceArgs;
use isorb::Reference;
use isorb_sched::Policy;
use isorb_sched::file::ScheduleFile;
use isorb_sched_service::SchedulerService;
use isorb_sched_service::rtec_scheduler::SchedulerRef;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The object key of its URL, and its name in a naming service, as TAO's clients expect.
const NAME: &str = "ScheduleService";

/// Arguments of `isorb scheduler`. Further arguments go to the ORB (`-ORB…`).
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    service: ServiceArgs,
    /// Schedule file to start with: its operations have priorities from the start, and its settings
    /// apply.
    #[arg(long, value_name = "FILE")]
    schedule: Option<PathBuf>,
    /// Schedule file to write all registered operations to, at each compute_scheduling.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Policy: rms, dm, edf, mlf, muf, criticality, declared [default: the file's, or rms].
    #[arg(long)]
    policy: Option<Policy>,
    /// Greatest number of operations.
    #[arg(long, default_value_t = 4096)]
    operations: usize,
    /// URL of a naming service, such as corbaloc::host/NameService, to bind `ScheduleService` in.
    #[arg(long, value_name = "URL")]
    ns: Option<String>,
    /// File to write the reference to.
    #[arg(long, value_name = "FILE")]
    ior_file: Option<PathBuf>,
}

/// Serves until SIGTERM. It can be killed at any time, since a record is replaced as a whole.
pub fn run(args: &Args, orb_arguments: Vec<String>) -> Result<(), Box<dyn Error>> {
    let config = args.service.config(orb_arguments, 0)?;
    let service = service(args)?;
    let process = args.service.start(config)?;
    let orb = &process.orb;
    let root = orb.root_poa()?;
    let scheduler: SchedulerRef = root.activate(Arc::new(service))?;
    let object = scheduler.object();
    orb.register_corbaloc_key(NAME, object);
    root.manager().activate()?;
    if let Some(file) = &args.ior_file {
        std::fs::write(file, format!("{object}\n"))
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    if let Some(url) = &args.ns {
        super::ready::bind(orb, url, NAME, object)?;
    }
    let _metrics = process.ready(&super::ready::reference(orb, NAME, object), "")?;
    process.run();
    Ok(())
}

/// The service with its operations and its record.
fn service(args: &Args) -> Result<SchedulerService, Box<dyn Error>> {
    let file = args.schedule.as_deref().map(super::sched::read).transpose()?;
    let mut file = file.unwrap_or_else(|| ScheduleFile::of(NAME, Default::default(), Default::default()));
    file.config.policy = args.policy.unwrap_or(file.config.policy);
    if file.graph.operations().len() > args.operations {
        let (there, limit) = (file.graph.operations().len(), args.operations);
        return Err(format!("{}: {there} operations, and --operations allows {limit}", file.name).into());
    }
    let service = SchedulerService::of_file(&file, args.operations)?;
    let Some(path) = args.record.clone() else { return Ok(service) };
    // A record that cannot be written is an error at once, not after the first run.
    replace(&path, &file.text())?;
    Ok(service.recording(move |recorded| {
        // Registration does not name activities and objects; those of the file are kept.
        let mut whole = recorded.clone();
        (whole.activities, whole.objects) = (file.activities.clone(), file.objects.clone());
        if let Err(error) = replace(&path, &whole.text()) {
            eprintln!("isorb: warning: {error}");
        }
    }))
}

/// Writes a file beside it and renames that, so that no reader sees a part of it.
fn replace(path: &Path, text: &str) -> Result<(), String> {
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(part);
    std::fs::write(&part, text)
        .and_then(|()| std::fs::rename(&part, path))
        .map_err(|error| format!("{}: {error}", path.display()))
}

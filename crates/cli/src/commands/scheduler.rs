//! `isorb scheduler`: a scheduling service as a process, with TAO's interface.

use isorb::cos_naming::{NameComponent, NamingContextRef};
use isorb::{Object, Orb, Reference};
use isorb_sched::Policy;
use isorb_sched::file::ScheduleFile;
use isorb_sched_service::SchedulerService;
use isorb_sched_service::rtec_scheduler::SchedulerRef;
use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The key of its URL, and its name: as TAO's clients look for it.
const NAME: &str = "ScheduleService";

/// Where it listens, what it knows and where it keeps what it hears. Further arguments go to the ORB (`-ORB…`).
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Port to listen at; 0 for a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Address to listen at; 0.0.0.0 or :: for all.
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// What was compiled before: its operations have their priorities from the start, and its settings hold.
    #[arg(long, value_name = "FILE")]
    schedule: Option<PathBuf>,
    /// Writes what is registered into a schedule file, at each compute_scheduling.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// How to schedule: rms, dm, edf, mlf, muf, criticality, declared; the file's, or rms.
    #[arg(long)]
    policy: Option<Policy>,
    /// Operations that may be registered.
    #[arg(long, default_value_t = 4096)]
    operations: usize,
    /// Binds it as `ScheduleService` in this naming service: a URL such as corbaloc::host/NameService.
    #[arg(long, value_name = "URL")]
    ns: Option<String>,
    /// Writes its reference to a file.
    #[arg(long, value_name = "FILE")]
    ior_file: Option<PathBuf>,
}

/// Serves until it is killed, which it may be at any moment: a record is replaced as a whole.
pub fn run(args: &Args, orb_arguments: Vec<String>) -> Result<(), Box<dyn Error>> {
    let config = super::listen::config_at(orb_arguments, &args.host, args.port)?;
    let service = service(args)?;
    let orb = Orb::with_config(config)?;
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
        bind(&orb, url, object)?;
    }
    let mut output = std::io::stdout();
    writeln!(output, "READY {}", super::ready::reference(&orb, NAME, object))?;
    output.flush()?;
    orb.run();
    Ok(())
}

/// What it begins with, and where it records.
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
    // Nobody should run for an hour to find out that it cannot be written.
    replace(&path, &file.text())?;
    Ok(service.recording(move |recorded| {
        // What was registered does not say what names have: that stays the file's.
        let mut whole = recorded.clone();
        (whole.activities, whole.objects) = (file.activities.clone(), file.objects.clone());
        if let Err(error) = replace(&path, &whole.text()) {
            eprintln!("isorb: warning: {error}");
        }
    }))
}

/// Writes beside the file and renames, so that nobody ever sees half of it.
fn replace(path: &Path, text: &str) -> Result<(), String> {
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(part);
    std::fs::write(&part, text)
        .and_then(|()| std::fs::rename(&part, path))
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn bind(orb: &Orb, url: &str, object: &Object) -> Result<(), Box<dyn Error>> {
    let failed = |error: &dyn std::fmt::Display| format!("{NAME} is not bound in {url}: {error}");
    let root: NamingContextRef = orb.resolve(url).map_err(|error| failed(&error))?;
    let name = vec![NameComponent { id: NAME.to_owned(), kind: String::new() }];
    root.rebind(&name, object).map_err(|error| failed(&error))?;
    Ok(())
}

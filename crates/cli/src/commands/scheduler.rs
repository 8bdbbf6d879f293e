//! `isorb scheduler`: a scheduling service with TAO's interface.

use super::service::ServiceArgs;
use crate::commands::arguments::{Wrong, to_read, to_write};
use isorb::Reference;
use isorb_rt::log;
use isorb_sched::Policy;
use isorb_sched::file::ScheduleFile;
use isorb_sched_service::rtec_scheduler::SchedulerRef;
use isorb_sched_service::{SchedulerService, Tao1Scheduler, rtec_scheduler_tao1 as tao1};
use std::error::Error;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The object key of its URL, and its name in a naming service, as TAO's clients expect.
const NAME: &str = "ScheduleService";

/// The object key for clients of TAO 1.x, which cannot read the results of the newer interface.
const TAO1_NAME: &str = "ScheduleService1";

/// The target of this module's log records.
const LOG: &str = "isorb::scheduler";

/// Arguments of `isorb scheduler`. Further arguments go to the ORB (`-ORB…`).
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    service: ServiceArgs,
    /// Schedule file to start with: its operations have priorities from the start, and its settings
    /// apply.
    #[arg(long, value_name = "FILE", value_parser = to_read())]
    schedule: Option<PathBuf>,
    /// Schedule file to write all registered operations to, at each compute_scheduling.
    #[arg(long, value_name = "FILE", value_parser = to_write())]
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
    #[arg(long, value_name = "FILE", value_parser = to_write())]
    ior_file: Option<PathBuf>,
}

/// Serves until SIGTERM. It can be killed at any time, since a record is replaced as a whole.
pub fn run(args: &Args, orb_arguments: Vec<String>) -> Result<(), Box<dyn Error>> {
    let config = args.service.config(orb_arguments, 0)?;
    let service = service(args)?;
    let process = args.service.start(config)?;
    let orb = &process.orb;
    let root = orb.root_poa()?;
    let service = Arc::new(service);
    let scheduler: SchedulerRef = root.activate(service.clone())?;
    let older: tao1::SchedulerRef = root.activate(Arc::new(Tao1Scheduler::new(service)))?;
    let object = scheduler.object();
    orb.register_corbaloc_key(NAME, object);
    orb.register_corbaloc_key(TAO1_NAME, older.object());
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
        let wrong = format!("{}: {there} operations, and --operations allows {limit}", file.name);
        return Err(Wrong(wrong).into());
    }
    let service = SchedulerService::of_file(&file, args.operations)?;
    let Some(path) = args.record.clone() else { return Ok(service) };
    // A record that cannot be written is an error at once, not after the first run. Space comes
    // back by itself.
    match replace(&path, &file.text()) {
        Err(error) if error.kind() == ErrorKind::StorageFull => {
            log::warn(LOG, format_args!("{}: {error}; recorded when there is space", path.display()));
        }
        written => written.map_err(|error| format!("{}: {error}", path.display()))?,
    }
    Ok(service.recording(move |recorded| {
        // Registration does not name activities and objects; those of the file are kept.
        let mut whole = recorded.clone();
        (whole.activities, whole.objects) = (file.activities.clone(), file.objects.clone());
        if let Err(error) = replace(&path, &whole.text()) {
            log::error(LOG, format_args!("{}: {error}; the record before stays", path.display()));
        }
    }))
}

/// Writes a file beside it and renames that, so that no reader sees a part of it.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(part);
    let replaced = std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, path));
    if replaced.is_err() {
        // On a full disk it would take the space that others wait for.
        let _ = std::fs::remove_file(&part);
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_cannot_be_replaced_leaves_no_part() {
        let folder = isorb_testkit::TempFolder::new();
        let path = folder.file("record");
        replace(&path, "old").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        // A folder is not replaced by a file.
        let taken = folder.file("taken");
        std::fs::create_dir(&taken).unwrap();
        replace(&taken, "new").unwrap_err();
        let names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|of| of.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
    }
}

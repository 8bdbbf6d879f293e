//! Which scheduler admits the consumers of the channel.

use super::arguments::Args;
use super::processors;
use crate::commands::sched;
use isorb::Orb;
use isorb_event::Strategy;
use isorb_event::servants::{DependencyRecorder, RegisteredOperations};
use isorb_sched::Preemption;
use isorb_sched_service::rtec_scheduler::SchedulerRef;
use std::error::Error;
use std::sync::Arc;

pub fn is_scheduled(args: &Args) -> bool {
    args.schedule.is_some() || args.scheduler.is_some() && !args.record
}

/// The scheduler that admits consumers.
pub struct Admitting {
    pub operations: RegisteredOperations,
    /// Its name for messages.
    pub of: String,
    /// The processors of the operations; none where they have one together.
    pub processors: Vec<usize>,
}

const NO_FILE: &str = "--processors places the operations of a --schedule; a scheduling service computes for one processor: have it \
     write its operations to a file (isorb scheduler --record FILE), and give the channel that file";

pub fn scheduler(args: &Args, strategy: Strategy, orb: &Orb) -> Result<Option<Admitting>, Box<dyn Error>> {
    if !args.processors.is_empty() && args.schedule.is_none() {
        return Err(NO_FILE.into());
    }
    if !is_scheduled(args) {
        return Ok(None);
    }
    let file = args.schedule.as_ref().map(|file| sched::read(file)).transpose()?;
    if let Some(file) = &file {
        let processors = processors::of(&args.processors, file)?;
        if !processors.is_empty() {
            if args.push_threads == 0 {
                return Err("the threads of the processors push to the consumers of the schedule, and --push-threads to all others: \
                     give it at least 1 thread"
                    .into());
            }
            let operations = RegisteredOperations::of_file_on(file, &processors)?;
            return Ok(Some(Admitting { operations, of: file.name.clone(), processors }));
        }
    }
    let preemption = match args.push_threads {
        0 => strategy.preemption().ok_or(
            "a schedule orders the consumers: with --push-threads 0 it needs --dispatching threads, single or upcalls",
        )?,
        // Remote consumers have their own threads for each level.
        _ => Preemption::Full,
    };
    let processors = Vec::new();
    if let Some(file) = file {
        let operations = RegisteredOperations::of_file(&file, preemption)?;
        return Ok(Some(Admitting { operations, of: file.name, processors }));
    }
    let Some(url) = &args.scheduler else { return Ok(None) };
    let scheduler = scheduler_at(url, orb)?;
    let operations = RegisteredOperations::of_scheduler(scheduler, args.priorities.clone(), preemption);
    Ok(Some(Admitting { operations, of: url.clone(), processors }))
}

fn scheduler_at(url: &str, orb: &Orb) -> Result<SchedulerRef, String> {
    orb.resolve(url).map_err(|error: isorb::SystemException| format!("no scheduler at {url}: {error}"))
}

/// The recorder of a configuration run.
pub fn recorder(args: &Args, orb: &Orb) -> Result<Option<Arc<DependencyRecorder>>, String> {
    let url = args.scheduler.as_deref().filter(|_| args.record);
    url.map(|url| Ok(Arc::new(DependencyRecorder::new(scheduler_at(url, orb)?)))).transpose()
}

//! The processors of `isorb event-channel`: which ones, whether they may be used, their consumers.

use isorb_event::Channel;
use isorb_rt::sched::{Cpus, current_cpus, possible_cpus};
use isorb_sched::file::ScheduleFile;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The processors that dispatch a schedule: those of the arguments, or of the file. None where its
/// operations have one together.
///
/// # Errors
/// A sentence about the first that is named twice, does not exist or may not be used.
pub fn of(arguments: &[usize], file: &ScheduleFile) -> Result<Vec<usize>, String> {
    let (by, named) = match arguments {
        [] => (file.name.as_str(), file.processors.as_slice()),
        named => ("--processors", named),
    };
    let allowed = current_cpus().map_err(|error| format!("the processors of this process: {error}"))?;
    for (at, processor) in named.iter().enumerate() {
        usable(*processor, &allowed, possible_cpus()).map_err(|why| format!("{by}: {why}"))?;
        if named[..at].contains(processor) {
            return Err(format!("{by}: processor {processor} is named twice"));
        }
    }
    Ok(named.to_vec())
}

/// Whether a processor of a machine that can have so many may be used.
fn usable(processor: usize, allowed: &Cpus, possible: usize) -> Result<(), String> {
    if allowed.contains(processor) {
        return Ok(());
    }
    Err(if processor < possible {
        format!(
            "processor {processor} may not be used: this process may run on {allowed}; start it with another affinity (taskset) or \
             control group (cpuset), or name others"
        )
    } else {
        format!("the machine has no processor {processor}; this process may run on {allowed}")
    })
}

/// The set of each.
pub fn sets(processors: &[usize]) -> Vec<Cpus> {
    processors.iter().copied().map(Cpus::one).collect()
}

/// Adds the consumers of each processor to the metrics.
pub fn metrics(text: &mut String, processors: &[usize], channel: &Channel) {
    if processors.is_empty() {
        return;
    }
    let mut consumers: BTreeMap<usize, u64> = processors.iter().map(|processor| (*processor, 0)).collect();
    for status in channel.consumers() {
        let at = status.processor.and_then(|of| of.iter().next());
        if let Some(count) = at.and_then(|at| consumers.get_mut(&at)) {
            *count += 1;
        }
    }
    let name = "isorb_event_processor_consumers";
    // Writing to a string does not fail.
    let _ = writeln!(text, "# TYPE {name} gauge\n# HELP {name} Consumers that a processor dispatches.");
    for (processor, count) in consumers {
        let _ = writeln!(text, "{name}{{processor=\"{processor}\"}} {count}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_that_cannot_be_used_is_named_with_those_that_can() {
        let allowed = Cpus::one(1).with(3);
        assert_eq!(usable(3, &allowed, 4), Ok(()));
        let refused = usable(2, &allowed, 4).unwrap_err();
        assert!(
            refused.starts_with("processor 2 may not be used: this process may run on 1,3; "),
            "{refused}"
        );
        let refused = usable(4, &allowed, 4).unwrap_err();
        assert_eq!(refused, "the machine has no processor 4; this process may run on 1,3");
    }

    #[test]
    fn the_arguments_go_before_the_file() {
        let one = current_cpus().unwrap().iter().next().unwrap();
        let file = ScheduleFile::parse("s.toml", "processors = [1023]").unwrap();
        assert_eq!(of(&[one], &file), Ok(vec![one]));
        assert_eq!(of(&[one, one], &file), Err(format!("--processors: processor {one} is named twice")));
        let refused = of(&[], &file).unwrap_err();
        assert!(refused.starts_with("s.toml: "), "{refused}");
        assert_eq!(of(&[], &ScheduleFile::parse("s.toml", "").unwrap()), Ok(vec![]));
    }
}

//! How long the kernel takes from waking a thread to running it, by its trace points.
//!
//! An instance of its own below tracefs, so that other users of the trace are not disturbed. Where
//! tracefs is not mounted, or not for us, there is no such figure.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

const TRACEFS: &str = "/sys/kernel/tracing";
/// For each processor: the pass of one subject.
const BUFFER_KIB: &str = "8192";
const EVENTS: [&str; 2] = ["sched_waking", "sched_switch"];

/// The trace points are on until this is read or dropped.
pub struct WakeTrace {
    instance: PathBuf,
}

impl WakeTrace {
    /// Turns them on.
    ///
    /// # Errors
    /// There is no tracefs, or this process may not use it.
    pub fn start() -> io::Result<WakeTrace> {
        let instances = PathBuf::from(TRACEFS).join("instances");
        if !instances.exists() {
            return Err(io::Error::new(ErrorKind::NotFound, format!("tracefs is not mounted at {TRACEFS}")));
        }
        let instance = instances.join(format!("isorb-bench-{}", std::process::id()));
        fs::create_dir(&instance)?;
        let trace = WakeTrace { instance };
        fs::write(trace.instance.join("buffer_size_kb"), BUFFER_KIB)?;
        for event in EVENTS {
            fs::write(trace.instance.join("events/sched").join(event).join("enable"), "1")?;
        }
        Ok(trace)
    }

    /// The wake-up latencies of the threads that `wanted` names by id and name, in nanoseconds.
    pub fn end(self, wanted: impl Fn(u32, &str) -> bool) -> io::Result<Vec<u64>> {
        fs::write(self.instance.join("tracing_on"), "0")?;
        Ok(latencies(&fs::read_to_string(self.instance.join("trace"))?, wanted))
    }
}

impl Drop for WakeTrace {
    fn drop(&mut self) {
        // The instance stays until the next start of the machine if this fails.
        let _ = fs::remove_dir(&self.instance);
    }
}

/// From the text of a trace: each thread from the first time that it was woken to its next run.
fn latencies(trace: &str, wanted: impl Fn(u32, &str) -> bool) -> Vec<u64> {
    let mut woken: Vec<(u32, u64)> = Vec::new();
    let mut all = Vec::new();
    for line in trace.lines() {
        if line.contains("LOST") {
            // The run that ends a latency may be among the events that the kernel lost.
            woken.clear();
        }
        let Some((head, event)) = EVENTS.iter().find_map(|event| line.split_once(&format!(": {event}: ")))
        else {
            continue;
        };
        let field = |name: &str| {
            let (_, rest) = event.split_once(name)?;
            rest.split(' ').next()
        };
        let Some(at) = head.rsplit(' ').next().and_then(nanoseconds) else { continue };
        let is_switch = event.contains("next_pid=");
        let (pid, comm) = if is_switch { ("next_pid=", "next_comm=") } else { (" pid=", "comm=") };
        let (Some(pid), Some(comm)) = (field(pid).and_then(|pid| pid.parse().ok()), field(comm)) else {
            continue;
        };
        let known = woken.iter().position(|&(of, _)| of == pid);
        match (is_switch, known) {
            (true, Some(known)) => {
                let (_, since) = woken.swap_remove(known);
                all.extend(wanted(pid, comm).then(|| at.saturating_sub(since)));
            }
            (false, None) => woken.push((pid, at)),
            _ => {}
        }
    }
    all
}

/// Of seconds with a point.
fn nanoseconds(seconds: &str) -> Option<u64> {
    let (seconds, micros) = seconds.split_once('.')?;
    Some(seconds.parse::<u64>().ok()? * 1_000_000_000 + micros.parse::<u64>().ok()? * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_ends_with_the_next_run() {
        let trace = "# tracer: nop
          cat-812   [000] d..2.    71.000010: sched_waking: comm=lane-0 pid=900 prio=59 target_cpu=000
          cat-812   [000] d..2.    71.000012: sched_waking: comm=lane-0 pid=900 prio=59 target_cpu=000
          cat-812   [000] d..2.    71.000013: sched_waking: comm=other pid=7 prio=120 target_cpu=000
          cat-812   [000] d..2.    71.000015: sched_switch: prev_comm=cat prev_pid=812 prev_prio=120 prev_state=R ==> next_comm=lane-0 next_pid=900 next_prio=59
       lane-0-900   [000] d..2.    71.000020: sched_switch: prev_comm=lane-0 prev_pid=900 prev_prio=59 prev_state=S ==> next_comm=other next_pid=7 next_prio=120
";
        assert_eq!(latencies(trace, |pid, _| pid == 900), [5_000]);
        assert_eq!(latencies(trace, |_, comm| comm == "other"), [7_000]);
        let lost = trace.replace("# tracer: nop", "").replace(
            "          cat-812   [000] d..2.    71.000015",
            "CPU:0 [LOST 7 EVENTS]\n cat-812 [000] d..2. 71.000015",
        );
        assert!(latencies(&lost, |pid, _| pid == 900).is_empty());
        assert!(latencies("nothing", |_, _| true).is_empty());
    }

    #[test]
    fn the_machine_says_why_it_has_none() {
        match WakeTrace::start() {
            Err(error) => assert!(!error.to_string().is_empty()),
            Ok(trace) => {
                std::thread::sleep(std::time::Duration::from_millis(20));
                assert!(!trace.end(|_, _| true).unwrap().is_empty(), "a thread was woken meanwhile");
            }
        }
    }
}

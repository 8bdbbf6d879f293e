//! How late threads wake up, here and now: a thread sleeps until a point of the clock, and looks
//! how far past it is.
//!
//! One thread a processor, bound to it, sleeps and does nothing else, so that it takes a fraction
//! of a percent of the processor at whatever priority. The ordinary class runs beside the real-time
//! one as the control: where the two are alike, either nothing else wants the processor or the
//! priority does not help.

use std::fmt;
use std::sync::mpsc;
use std::time::Duration;

use isorb_rt::sched::{Cpus, SchedClass, SpawnError, ThreadSpec};
use isorb_rt::time::{Deadline, now_ns, sleep_until};
use serde::Serialize;

/// How long and how often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// For how long each class is watched. Taken as at most ten minutes.
    pub length: Duration,
    /// Between two wake-ups. Taken as at least 100 microseconds.
    pub period: Duration,
}

/// What a class came to on all processors together. Times in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Latency {
    /// Native priority in `SCHED_FIFO`; `None` is the ordinary class.
    pub fifo: Option<u8>,
    /// Wake-ups.
    pub n: u64,
    /// The shortest.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// The processor that had the longest.
    pub worst_cpu: usize,
}

/// Why nothing was measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeError {
    /// A thread could not be started as it should.
    Start(SpawnError),
    /// A thread did not come to its end in three times its time and ten seconds: something more
    /// urgent has its processor.
    Stuck,
    /// There is no processor to measure on.
    NoProcessor,
}

/// Watches `cpus` with threads of `class`, all at the same time.
///
/// # Errors
/// [`ProbeError`]; after [`ProbeError::Stuck`] the threads may still be there, and end when they
/// get to run.
///
/// # Real-time
/// Allocates and starts threads, then each of those only sleeps and writes to memory that it has
/// touched before. Blocks for the plan's length, and three times that and ten seconds at most.
pub fn watch(plan: Plan, class: SchedClass, cpus: &[usize]) -> Result<Latency, ProbeError> {
    let period = plan.period.max(Duration::from_micros(100));
    let length = plan.length.min(Duration::from_secs(600)).max(period);
    let count = usize::try_from(length.as_nanos() / period.as_nanos()).unwrap_or(1).max(1);
    let (report, reports) = mpsc::channel();
    for &cpu in cpus {
        let report = report.clone();
        ThreadSpec::new(format!("wake-up-{cpu}"))
            .class(class)
            .cpus(Cpus::one(cpu))
            .prefault(64 * 1024)
            .spawn(move || {
                // The receiver has gone if this came too late.
                let _ = report.send((cpu, wake_ups(count, period)));
            })
            .map_err(ProbeError::Start)?;
    }
    drop(report);
    let deadline = Deadline::after(length * 3 + Duration::from_secs(10));
    let mut all = Vec::with_capacity(count * cpus.len());
    let mut worst = (0, 0);
    for _ in cpus {
        let left = deadline.remaining().unwrap_or_default();
        let (cpu, late) = reports.recv_timeout(left).map_err(|_| ProbeError::Stuck)?;
        worst = worst.max((late.iter().copied().max().unwrap_or(0), cpu));
        all.extend(late);
    }
    summary(all, worst.1, class.native_priority()).ok_or(ProbeError::NoProcessor)
}

fn wake_ups(count: usize, period: Duration) -> Vec<u64> {
    let mut late = vec![1; count];
    let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
    let mut at = now_ns() + period;
    for late in &mut late {
        sleep_until(Deadline::at_ns(at));
        let now = now_ns();
        *late = now.saturating_sub(at);
        // After a very late wake-up the probe skips the missed ones, which would be late as well.
        at += period * (1 + *late / period);
    }
    late
}

fn summary(mut late: Vec<u64>, worst_cpu: usize, fifo: Option<u8>) -> Option<Latency> {
    late.sort_unstable();
    let at = |share: f64| {
        let rank = (share * late.len() as f64).ceil() as usize;
        late.get(rank.clamp(1, late.len().max(1)) - 1).copied()
    };
    Some(Latency {
        fifo,
        n: late.len() as u64,
        min_ns: at(0.0)?,
        p50_ns: at(0.5)?,
        p99_ns: at(0.99)?,
        p999_ns: at(0.999)?,
        max_ns: at(1.0)?,
        worst_cpu,
    })
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProbeError::Start(error) => write!(f, "{error}"),
            ProbeError::Stuck => f.write_str(
                "a thread of the probe did not get to run: something more urgent has its processor",
            ),
            ProbeError::NoProcessor => f.write_str("there is no processor to measure on"),
        }
    }
}

impl std::error::Error for ProbeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wake_up_is_counted_and_none_is_early() {
        let cpus: Vec<usize> = isorb_rt::sched::current_cpus().unwrap().iter().collect();
        let plan = Plan { length: Duration::from_millis(20), period: Duration::from_millis(1) };
        let latency = watch(plan, SchedClass::Other, &cpus).unwrap();
        assert_eq!((latency.n, latency.fifo), (20 * cpus.len() as u64, None));
        assert!(latency.min_ns <= latency.p50_ns && latency.p999_ns <= latency.max_ns);
        assert!(cpus.contains(&latency.worst_cpu));
        assert_eq!(watch(plan, SchedClass::Other, &[]), Err(ProbeError::NoProcessor));
    }

    #[test]
    fn percentiles_by_rank() {
        let latency = summary((1..=1000).rev().collect(), 3, Some(7)).unwrap();
        assert_eq!((latency.min_ns, latency.p50_ns, latency.p99_ns), (1, 500, 990));
        assert_eq!((latency.p999_ns, latency.max_ns, latency.worst_cpu), (999, 1000, 3));
        assert_eq!(summary(vec![4], 0, None).unwrap().p50_ns, 4);
    }
}

//! The context of every experiment: processors, priority, length, and progress.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use isorb_rt::sched::{Cpus, Need, RealTime, SchedClass, SpawnError, ThreadSpec};

use super::BenchError;
use crate::machine::Machine;
use crate::process::{Launcher, Scheduling};

/// At which priority all that is measured runs.
#[derive(Args, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Urgency {
    /// Real-time priority for what is measured: require, prefer or off
    #[arg(long, default_value = "prefer")]
    pub real_time: RealTime,
    /// The native priority
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u8).range(1..=99))]
    pub priority: u8,
}

/// The context of every experiment.
pub struct Context<'a> {
    /// Starts the own binary again.
    pub launcher: &'a Launcher,
    /// What it runs on.
    pub machine: Machine,
    /// The native priority of what is measured; `None` where real-time scheduling is not to be had.
    pub fifo: Option<u8>,
    /// Within a minute, at the price of fewer samples.
    pub quick: bool,
    /// Addresses of servers on another host, by the names of subjects.
    pub servers: Option<BTreeMap<String, String>>,
    /// Blocks of each subject, where the user says how many.
    pub blocks: Option<usize>,
    smoke: bool,
    progress: Progress,
}

impl<'a> Context<'a> {
    /// Finds out what the process may do, and begins to show progress over `seconds`.
    pub fn new(
        launcher: &'a Launcher,
        Urgency { real_time, priority }: Urgency,
        quick: bool,
        seconds: u32,
    ) -> Result<(Context<'a>, Vec<String>), BenchError> {
        let need = Need { native_priority: priority, lock_memory: None };
        let granted = real_time.resolve(need).map_err(BenchError::NotRealTime)?;
        let fifo = granted.scheduling.then_some(priority);
        let missing = granted.missing().map(ToString::to_string).collect();
        let machine = Machine::read(fifo);
        let progress = Progress::new(Duration::from_secs(seconds.into()));
        Ok((
            Context { launcher, machine, fifo, quick, servers: None, blocks: None, smoke: false, progress },
            missing,
        ))
    }

    /// As quick as makes no sense but shows that everything runs.
    #[must_use]
    pub fn smoke(self, smoke: bool) -> Context<'a> {
        Context { quick: self.quick || smoke, smoke, ..self }
    }

    /// Whether only to show that it runs.
    pub fn is_smoke(&self) -> bool {
        self.smoke
    }

    /// Milliseconds that a measurement takes.
    pub fn ms(&self, quick: u32, full: u32) -> u32 {
        let ms = self.pick(quick, full);
        if self.smoke { ms / 10 } else { ms }
    }

    /// The processor that contenders share.
    pub fn cpu(&self) -> usize {
        self.machine.cpus.first().copied().unwrap_or(0)
    }

    /// The class of a thread `above` native priorities over the usual one.
    pub fn class(&self, above: u8) -> SchedClass {
        self.scheduling(above).fifo.map_or(SchedClass::Other, SchedClass::Fifo)
    }

    /// A place on that processor, `above` native priorities over the usual one.
    pub fn scheduling(&self, above: u8) -> Scheduling {
        Scheduling {
            cpu: Some(self.cpu()),
            fifo: self.fifo.map(|priority| priority.saturating_add(above).min(98)),
        }
    }

    /// The longer of two, unless it is to be quick.
    pub fn pick<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Runs `f` on a thread of its own, on the processor that contenders share and at the usual
    /// priority.
    pub fn on_thread<R: Send + 'static>(
        &self,
        f: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, BenchError> {
        let spec =
            ThreadSpec::new("measure").class(self.class(0)).cpus(Cpus::one(self.cpu())).prefault(256 * 1024);
        let thread = spec.spawn(f)?;
        thread.join().map_err(|_| BenchError::Thread(SpawnError::Create(isorb_rt::Errno::CANCELED)))
    }

    /// Begins to show progress over `length`.
    pub fn lasts(&mut self, length: Duration) {
        self.progress = Progress::new(length);
    }

    /// Says what comes next, and how much time is left.
    pub fn progress(&mut self, what: impl Into<String>) {
        self.progress.step(&what.into());
    }

    /// Prints while the progress steps aside.
    pub fn suspend_progress<R>(&self, f: impl FnOnce() -> R) -> R {
        self.progress.bar.suspend(f)
    }

    /// Ends the showing of progress.
    pub fn finish(&self) {
        self.progress.bar.finish_and_clear();
    }
}

/// A bar over the time that all of it should take; where standard error is no terminal, a line now
/// and then.
struct Progress {
    bar: ProgressBar,
    begin: Instant,
    length: Duration,
    last_line: Option<Instant>,
}

/// Between two lines.
const LINES_APART: Duration = Duration::from_secs(20);

impl Progress {
    fn new(length: Duration) -> Progress {
        // A template that does not parse leaves the usual one.
        let bar = ProgressBar::new(u64::try_from(length.as_millis()).unwrap_or(u64::MAX));
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {msg}") {
            bar.set_style(style);
        }
        Progress { bar, begin: Instant::now(), length, last_line: None }
    }

    fn step(&mut self, what: &str) {
        let done = self.begin.elapsed();
        let text = format!("{what}, {}", left(done, self.length));
        self.bar.set_position(u64::try_from(done.as_millis()).unwrap_or(u64::MAX));
        if self.bar.is_hidden() && self.last_line.is_none_or(|last| last.elapsed() > LINES_APART) {
            eprintln!("{text}");
            self.last_line = Some(Instant::now());
        }
        self.bar.set_message(text);
    }
}

fn left(done: Duration, length: Duration) -> String {
    match length.checked_sub(done) {
        Some(left) if left.as_secs() >= 120 => format!("{} min left", left.as_secs().div_ceil(60)),
        Some(left) => format!("{} s left", left.as_secs()),
        None => format!("{} s longer than planned", (done - length).as_secs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_said() {
        let of = |done, length| left(Duration::from_secs(done), Duration::from_secs(length));
        assert_eq!(
            [of(5, 60), of(0, 901), of(70, 60)],
            ["55 s left", "16 min left", "10 s longer than planned"]
        );
    }
}

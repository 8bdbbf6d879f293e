//! The context of every experiment: processors, priority, length, and progress.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use isorb_rt::sched::{Cpus, Need, RealTime, SchedClass, SpawnError, ThreadSpec};

use super::BenchError;
use crate::machine::Machine;
use crate::process::{Launcher, Scheduling};
use crate::progress::Progress;

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
        let progress = Progress::over(Duration::from_secs(seconds.into()));
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
        self.progress = Progress::over(length);
    }

    /// Says what comes next, and how much time is left.
    pub fn progress(&mut self, what: impl Into<String>) {
        self.progress.show(what.into());
    }

    /// Prints while the progress steps aside.
    pub fn suspend_progress<R>(&self, f: impl FnOnce() -> R) -> R {
        self.progress.suspend(f)
    }

    /// Ends the showing of progress.
    pub fn finish(&self) {
        self.progress.finish();
    }
}

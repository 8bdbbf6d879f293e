//! Which dispatcher, and what its threads are.

use isorb_rt::priority::{Levels, Linear, Priority, PriorityMapping};
use isorb_rt::sched::{Cpus, NativeRange, SpawnError};
#[cfg(not(loom))]
use isorb_rt::sched::{SchedClass, ThreadSpec};
use isorb_sched::Preemption;
use std::fmt;
use std::sync::Arc;

/// The dispatching strategies (paper 001, section 5.1.1, figure 11).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Strategy {
    /// None: consumers run on the supplier's thread.
    #[default]
    Direct,
    /// One thread, the most urgent consumer first; each runs to its end.
    SingleThreaded,
    /// Threads of their own for each level of priority; the system pre-empts.
    Threads {
        /// How many a level; at least 1.
        per_level: usize,
    },
    /// One thread; a running consumer makes way where it calls [`yield_now`](super::yield_now).
    Upcalls,
    /// Queues, and no thread: somebody calls [`Channel::step`](crate::Channel::step). For loops that are there already, and tests.
    ByHand {
        /// Whether consumers may make way.
        upcalls: bool,
    },
}

impl Strategy {
    /// How a consumer gives way to a more urgent one; `None` where nobody puts them in order. A scheduler's plan is for one of these.
    pub const fn preemption(self) -> Option<Preemption> {
        match self {
            Strategy::Direct => None,
            Strategy::Threads { .. } => Some(Preemption::Full),
            Strategy::Upcalls | Strategy::ByHand { upcalls: true } => Some(Preemption::Deferred),
            Strategy::SingleThreaded | Strategy::ByHand { upcalls: false } => Some(Preemption::None),
        }
    }
}

/// A thread of the channel's.
#[cfg(not(loom))]
pub(crate) type Worker = isorb_rt::sched::Thread<()>;
#[cfg(loom)]
pub(crate) type Worker = isorb_rt::sync::thread::JoinHandle<()>;

/// What the channel's threads are.
#[derive(Clone)]
pub struct ThreadSetup {
    /// Native priorities of the levels; `None` makes ordinary threads (no right to real-time scheduling, or a test).
    pub mapping: Option<Arc<dyn PriorityMapping>>,
    /// Where they may run.
    pub cpus: Option<Cpus>,
    /// Their stacks, in octets.
    pub stack: usize,
    /// How much of a stack is touched before the thread serves.
    pub prefault: usize,
}

impl ThreadSetup {
    /// Threads of class `SCHED_FIFO`, CORBA priorities spread over the native ones; where levels would fall together by that, they get
    /// different ones ([`for_levels`](Self::for_levels)).
    pub fn fifo() -> ThreadSetup {
        ThreadSetup { mapping: Some(Arc::new(Linear(NativeRange::system()))), ..ThreadSetup::default() }
    }

    /// The same, with a native priority of its own for each of these levels: levels of a schedule mostly are next to each other, where
    /// [`Linear`] gives them one. A mapping under which they differ is kept, and so is one that leaves levels to ordinary threads. Channels do
    /// this for theirs.
    ///
    /// A program whose ORB pushes at these priorities (`RTCurrent`, remote consumers) gives the ORB the same mapping.
    #[must_use]
    pub fn for_levels(mut self, levels: &[Priority]) -> ThreadSetup {
        let Some(mapping) = &self.mapping else { return self };
        let natives: Vec<Option<u8>> = levels.iter().map(|level| mapping.to_native(*level)).collect();
        let is_real_time = natives.iter().all(Option::is_some);
        if is_real_time && natives.windows(2).any(|pair| pair[0] >= pair[1]) {
            let system = NativeRange::system();
            let range = NativeRange {
                min: mapping.to_native(Priority::MIN).unwrap_or(system.min),
                max: mapping.to_native(Priority::MAX).unwrap_or(system.max),
            };
            if let Some(levels) = Levels::new(range, levels) {
                self.mapping = Some(Arc::new(levels));
            }
        }
        self
    }

    /// Only on these processors.
    #[must_use]
    pub fn on(mut self, cpus: Cpus) -> ThreadSetup {
        self.cpus = Some(cpus);
        self
    }

    pub(crate) fn spawn(
        &self,
        name: String,
        priority: Priority,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<Worker, SpawnError> {
        #[cfg(loom)]
        return Ok(self.model(name, priority, body));
        #[cfg(not(loom))]
        self.start(name, priority, body)
    }

    /// In a model there is neither priority nor processor.
    #[cfg(loom)]
    fn model(&self, _: String, _: Priority, body: impl FnOnce() + Send + 'static) -> Worker {
        isorb_rt::sync::thread::spawn(body)
    }

    #[cfg(not(loom))]
    fn start(
        &self,
        name: String,
        priority: Priority,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<Worker, SpawnError> {
        let native = self.mapping.as_ref().and_then(|mapping| mapping.to_native(priority));
        let class = native.map_or(SchedClass::Other, SchedClass::Fifo);
        let mut spec = ThreadSpec::new(name).class(class).stack_size(self.stack).prefault(self.prefault);
        if let Some(cpus) = &self.cpus {
            spec = spec.cpus(*cpus);
        }
        spec.spawn(body)
    }
}

impl Default for ThreadSetup {
    /// Ordinary threads with 1 MiB of stack.
    fn default() -> ThreadSetup {
        ThreadSetup { mapping: None, cpus: None, stack: 1 << 20, prefault: 64 * 1024 }
    }
}

impl fmt::Debug for ThreadSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadSetup")
            .field("real_time", &self.mapping.is_some())
            .field("cpus", &self.cpus)
            .field("stack", &self.stack)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Those from 1,000 on are real-time threads.
    struct Upper;

    impl PriorityMapping for Upper {
        fn to_native(&self, corba: Priority) -> Option<u8> {
            (corba.get() >= 1_000).then_some(7)
        }

        fn to_corba(&self, _: u8) -> Option<Priority> {
            None
        }
    }

    #[test]
    fn levels_that_would_fall_together_get_native_priorities_of_their_own() {
        let natives = |setup: ThreadSetup, levels: &[i16]| -> Vec<Option<u8>> {
            let levels: Vec<Priority> = levels.iter().filter_map(|level| Priority::new(*level)).collect();
            let mapping = setup.for_levels(&levels).mapping;
            levels
                .iter()
                .map(|level| mapping.as_ref().and_then(|mapping| mapping.to_native(*level)))
                .collect()
        };
        let fifo = ThreadSetup::fifo;
        assert_eq!(natives(fifo(), &[0, 98, 99, 100]), [Some(1), Some(2), Some(3), Some(4)]);
        assert_eq!(natives(fifo(), &[0, 8_192]), [Some(1), Some(25)], "as without levels");
        assert_eq!(natives(ThreadSetup::default(), &[98, 99]), [None, None]);
        // What a mapping leaves to ordinary threads stays theirs, whoever else falls together.
        let upper = || ThreadSetup { mapping: Some(Arc::new(Upper)), ..ThreadSetup::default() };
        assert_eq!(natives(upper(), &[0, 100, 1_000]), [None, None, Some(7)]);
    }
}

//! Dispatching strategies and their threads.

use isorb_rt::priority::{Levels, Linear, Priority, PriorityMapping};
use isorb_rt::sched::{Cpus, NativeRange, SpawnError};
#[cfg(not(loom))]
use isorb_rt::sched::{SchedClass, ThreadSpec};
use isorb_sched::Preemption;
use std::fmt;
use std::sync::Arc;

/// The dispatching strategies (TAO event service paper, section 5.1.1, figure 11).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Strategy {
    /// No dispatching: consumers run on the supplier's thread.
    #[default]
    Direct,
    /// One thread, the most urgent consumer first. Each consumer runs to its end.
    SingleThreaded,
    /// Threads for each priority level, pre-empted by the operating system.
    Threads {
        /// Threads of each level, at least 1.
        per_level: usize,
    },
    /// One thread. A running consumer yields to more urgent ones where it calls
    /// [`yield_now`](super::yield_now).
    Upcalls,
    /// Queues without threads: the program calls [`Channel::step`](crate::Channel::step). For
    /// existing event loops, and for tests.
    ByHand {
        /// Whether consumers may yield.
        upcalls: bool,
    },
}

impl Strategy {
    /// How a consumer is pre-empted by a more urgent one; `None` if consumers are not ordered. A
    /// scheduler's plan assumes one of these.
    pub const fn preemption(self) -> Option<Preemption> {
        match self {
            Strategy::Direct => None,
            Strategy::Threads { .. } => Some(Preemption::Full),
            Strategy::Upcalls | Strategy::ByHand { upcalls: true } => Some(Preemption::Deferred),
            Strategy::SingleThreaded | Strategy::ByHand { upcalls: false } => Some(Preemption::None),
        }
    }
}

/// A thread of a channel.
#[cfg(not(loom))]
pub(crate) type Worker = isorb_rt::sched::Thread<()>;
#[cfg(loom)]
pub(crate) type Worker = isorb_rt::sync::thread::JoinHandle<()>;

/// The scheduling class, processors and stacks of a channel's threads.
#[derive(Clone)]
pub struct ThreadSetup {
    /// The native priorities of the levels. `None` for ordinary threads (without the right to
    /// real-time scheduling, or in tests).
    pub mapping: Option<Arc<dyn PriorityMapping>>,
    /// The processors on which they may run.
    pub cpus: Option<Cpus>,
    /// The size of their stacks in octets.
    pub stack: usize,
    /// The octets of the stack that are touched before the thread serves.
    pub prefault: usize,
}

impl ThreadSetup {
    /// Threads of class `SCHED_FIFO`, with CORBA priorities mapped linearly to native ones. Levels
    /// that would get the same native priority get different ones
    /// ([`for_levels`](Self::for_levels)).
    pub fn fifo() -> ThreadSetup {
        ThreadSetup { mapping: Some(Arc::new(Linear(NativeRange::system()))), ..ThreadSetup::default() }
    }

    /// Gives each of these levels a native priority of its own. The levels of a schedule are often
    /// adjacent, and [`Linear`] would map them to one. A mapping that separates them is kept, and
    /// so is one that leaves levels to ordinary threads. Channels do this for their levels.
    ///
    /// If the ORB pushes at these priorities (`RTCurrent`, remote consumers), give it the same
    /// mapping.
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

    /// Confines the threads to these processors.
    #[must_use]
    pub fn on(mut self, cpus: Cpus) -> ThreadSetup {
        self.cpus = Some(cpus);
        self
    }

    /// Starts a thread that is replaced when it panics.
    pub(crate) fn spawn(
        &self,
        name: String,
        priority: Priority,
        body: impl FnMut() + Send + 'static,
    ) -> Result<Worker, SpawnError> {
        #[cfg(loom)]
        return Ok(self.model(name, priority, body));
        #[cfg(not(loom))]
        self.start(name, priority, body)
    }

    /// Loom models have neither priorities nor processors.
    #[cfg(loom)]
    fn model(&self, _: String, _: Priority, body: impl FnOnce() + Send + 'static) -> Worker {
        isorb_rt::sync::thread::spawn(body)
    }

    #[cfg(not(loom))]
    fn start(
        &self,
        name: String,
        priority: Priority,
        body: impl FnMut() + Send + 'static,
    ) -> Result<Worker, SpawnError> {
        let native = self.mapping.as_ref().and_then(|mapping| mapping.to_native(priority));
        let class = native.map_or(SchedClass::Other, SchedClass::Fifo);
        let mut spec = ThreadSpec::new(name).class(class).stack_size(self.stack).prefault(self.prefault);
        if let Some(cpus) = &self.cpus {
            spec = spec.cpus(*cpus);
        }
        spec.spawn_supervised(body)
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

    /// Maps priorities from 1,000 on to real-time threads.
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
    fn levels_with_the_same_native_priority_get_different_ones() {
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
        // Levels that the mapping leaves to ordinary threads stay there, even if others collide.
        let upper = || ThreadSetup { mapping: Some(Arc::new(Upper)), ..ThreadSetup::default() };
        assert_eq!(natives(upper(), &[0, 100, 1_000]), [None, None, Some(7)]);
    }
}

//! Earliest deadline first, on native priorities: among the threads in segments of this process,
//! the thread with the earliest deadline has the highest priority of a band, the next one the next.
//!
//! Ranks are assigned again when a segment begins, changes or ends: one system call for each thread
//! with a new rank. If there are more threads than native priorities in the band, those with the
//! latest deadlines share the lowest. Processes do not know each other's threads, so each needs a
//! band of its own.

use super::Parameter;
use super::scheduler::Scheduler;
use crate::sched::thread;
use crate::{Orb, Result};
use isorb_rt::priority::Priority;
use isorb_rt::sched::{SchedClass, ThreadId};
use isorb_rt::sync::PiMutex;

/// Earliest deadline first.
#[derive(Debug)]
pub struct EarliestDeadline {
    low: Priority,
    high: Priority,
    ranked: PiMutex<Vec<Ranked>>,
}

#[derive(Debug)]
struct Ranked {
    thread: ThreadId,
    at_ns: u64,
    importance: i16,
    class: Option<SchedClass>,
}

impl EarliestDeadline {
    /// Within the native priorities that these CORBA priorities map to.
    pub fn within(low: Priority, high: Priority) -> EarliestDeadline {
        EarliestDeadline { low: low.min(high), high: high.max(low), ranked: PiMutex::default() }
    }

    /// Gives every thread the class of its rank.
    fn rank(&self, orb: &Orb, ranked: &mut [Ranked]) -> Result<()> {
        ranked.sort_by_key(|entry| (entry.at_ns, std::cmp::Reverse(entry.importance)));
        let priorities = &orb.sched().priorities;
        let (low, high) = (priorities.class(self.low)?, priorities.class(self.high)?);
        let (Some(low), Some(high)) = (low.native_priority(), high.native_priority()) else { return Ok(()) };
        if !priorities.are_schedulable() {
            return Ok(());
        }
        for (rank, entry) in ranked.iter_mut().enumerate() {
            let below = u8::try_from(rank).unwrap_or(u8::MAX);
            let class = SchedClass::Fifo(high.saturating_sub(below).max(low));
            // A thread that has ended meanwhile has no rank to lose.
            if entry.class != Some(class) && entry.thread.set_class(class).is_ok() {
                entry.class = Some(class);
            }
        }
        Ok(())
    }
}

impl Scheduler for EarliestDeadline {
    fn discipline(&self) -> &'static str {
        "EARLIEST_DEADLINE_FIRST"
    }

    fn supports(&self, parameter: &Parameter) -> bool {
        matches!(parameter, Parameter::Deadline { .. })
    }

    fn apply(&self, orb: &Orb, parameter: Option<&Parameter>) -> Result<()> {
        let thread = ThreadId::current();
        // Ranks change behind the thread's back.
        thread::forget_class();
        let mut ranked = self.ranked.lock();
        let place = ranked.iter().position(|entry| entry.thread == thread);
        match (parameter, place) {
            (Some(&Parameter::Deadline { at_ns, importance }), Some(place)) => {
                ranked[place].at_ns = at_ns;
                ranked[place].importance = importance;
            }
            (Some(&Parameter::Deadline { at_ns, importance }), None) => {
                ranked.push(Ranked { thread, at_ns, importance, class: None });
            }
            (_, Some(place)) => _ = ranked.remove(place),
            (_, None) => return Ok(()),
        }
        self.rank(orb, &mut ranked)
    }
}

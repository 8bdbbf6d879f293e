//! The scheduler: told of every segment and request of distributable threads, on the thread that they concern.

use super::Parameter;
use super::threads::{DistributableThread, Guid};
use crate::sched::thread;
use crate::{Orb, Result};

/// What a scheduler is told about.
#[derive(Clone, Copy, Debug)]
pub struct Scheduled<'s> {
    /// The ORB.
    pub orb: &'s Orb,
    /// The distributable thread.
    pub id: Guid,
    /// The segment's name.
    pub name: &'s str,
    /// What it is scheduled by.
    pub parameter: Parameter,
    /// What segments and spawned threads that say nothing are scheduled by.
    pub implicit: Option<Parameter>,
}

/// A scheduling discipline (`RTScheduling::Scheduler`). All functions run on the thread that they are about, before what they tell of takes
/// effect for the program; an error is the operation's.
///
/// A simple discipline says what it [supports](Self::supports) and how it is [applied](Self::apply); one that wants to know more takes the
/// call-backs themselves.
pub trait Scheduler: Send + Sync {
    /// Its name (`scheduling_discipline_name`).
    fn discipline(&self) -> &'static str;

    /// Whether it knows such parameters.
    fn supports(&self, parameter: &Parameter) -> bool;

    /// Schedules the calling thread by `parameter` from now on; `None` when it is in no segment any more.
    ///
    /// # Errors
    /// What keeps it from that; the operation fails with it.
    fn apply(&self, orb: &Orb, parameter: Option<&Parameter>) -> Result<()>;

    /// A distributable thread begins, with its outermost segment.
    ///
    /// # Errors
    /// As [`apply`](Self::apply), for all of these.
    fn begin_new_scheduling_segment(&self, at: &Scheduled<'_>) -> Result<()> {
        self.apply(at.orb, Some(&at.parameter))
    }

    /// A segment begins inside another one.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    fn begin_nested_scheduling_segment(&self, at: &Scheduled<'_>) -> Result<()> {
        self.apply(at.orb, Some(&at.parameter))
    }

    /// The innermost segment has other parameters from now on.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    fn update_scheduling_segment(&self, at: &Scheduled<'_>) -> Result<()> {
        self.apply(at.orb, Some(&at.parameter))
    }

    /// The segment inside of `outer` has ended.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    fn end_nested_scheduling_segment(&self, outer: &Scheduled<'_>, name: &str) -> Result<()> {
        let _ = name;
        self.apply(outer.orb, Some(&outer.parameter))
    }

    /// The outermost segment of a distributable thread has ended, and the thread with it. `outer` is what the calling thread is
    /// scheduled by besides: it may serve a request of another one in between.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    fn end_scheduling_segment(&self, orb: &Orb, id: Guid, outer: Option<&Parameter>) -> Result<()> {
        let _ = id;
        self.apply(orb, outer)
    }

    /// A distributable thread calls out.
    ///
    /// # Errors
    /// What the caller gets instead of a call.
    fn send_request(&self, at: &Scheduled<'_>) -> Result<()> {
        let _ = at;
        Ok(())
    }

    /// A distributable thread has come in with a request; it is served on the calling thread.
    ///
    /// # Errors
    /// What the caller gets.
    fn receive_request(&self, at: &Scheduled<'_>) -> Result<()> {
        self.apply(at.orb, Some(&at.parameter))
    }

    /// The request is served, and the distributable thread leaves with the reply. As
    /// [`end_scheduling_segment`](Self::end_scheduling_segment).
    ///
    /// # Errors
    /// What the caller gets.
    fn send_reply(&self, orb: &Orb, id: Guid, outer: Option<&Parameter>) -> Result<()> {
        let _ = id;
        self.apply(orb, outer)
    }

    /// A distributable thread is back from a call, whatever came of it.
    fn receive_reply(&self, id: Guid) {
        let _ = id;
    }

    /// A distributable thread was cancelled.
    fn cancel(&self, thread: &DistributableThread) {
        let _ = thread;
    }
}

/// Segments run at the CORBA priority that they say, which is `RTCORBA::Current`'s too, and so travels to client-propagated objects.
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedPriority;

impl Scheduler for FixedPriority {
    fn discipline(&self) -> &'static str {
        "FIXED_PRIORITY"
    }

    fn supports(&self, parameter: &Parameter) -> bool {
        matches!(parameter, Parameter::Priority(_))
    }

    fn apply(&self, orb: &Orb, parameter: Option<&Parameter>) -> Result<()> {
        match parameter {
            Some(Parameter::Priority(priority)) => thread::set_priority(&orb.sched().priorities, *priority),
            // Without a segment the thread goes back to what it was by itself.
            _ => Ok(()),
        }
    }
}

//! The scheduler: notified of every segment and request of distributable threads, on the thread
//! concerned.

use super::Parameter;
use super::threads::{DistributableThread, Guid};
use crate::sched::thread;
use crate::{Orb, Result};

/// The subject of a notification.
#[derive(Clone, Copy, Debug)]
pub struct Scheduled<'s> {
    /// The ORB.
    pub orb: &'s Orb,
    /// The distributable thread.
    pub id: Guid,
    /// The segment's name.
    pub name: &'s str,
    /// The scheduling parameter.
    pub parameter: Parameter,
    /// The implicit parameter of segments and spawned threads without one.
    pub implicit: Option<Parameter>,
}

/// A scheduling discipline (`RTScheduling::Scheduler`). All functions run on the thread that they
/// are about, before the event takes effect for the program; an error is the operation's.
///
/// A simple discipline implements [`supports`](Self::supports) and [`apply`](Self::apply); a
/// discipline that needs more detail implements the other call-backs.
pub trait Scheduler: Send + Sync {
    /// Its name (`scheduling_discipline_name`).
    fn discipline(&self) -> &'static str;

    /// Whether it knows such parameters.
    fn supports(&self, parameter: &Parameter) -> bool;

    /// Schedules the calling thread by `parameter` from now on; `None` when it is in no segment any
    /// more.
    ///
    /// # Errors
    /// The reason why it cannot; the operation fails with it.
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

    /// The outermost segment of a distributable thread has ended, and the thread with it. `outer`
    /// is what the calling thread is scheduled by besides: it may serve a request of another one in
    /// between.
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
    /// The caller gets this error instead of a call.
    fn send_request(&self, at: &Scheduled<'_>) -> Result<()> {
        let _ = at;
        Ok(())
    }

    /// A distributable thread has arrived with a request, which the calling thread serves.
    ///
    /// # Errors
    /// The caller gets this error.
    fn receive_request(&self, at: &Scheduled<'_>) -> Result<()> {
        self.apply(at.orb, Some(&at.parameter))
    }

    /// The request is served, and the distributable thread leaves with the reply. As
    /// [`end_scheduling_segment`](Self::end_scheduling_segment).
    ///
    /// # Errors
    /// The caller gets this error.
    fn send_reply(&self, orb: &Orb, id: Guid, outer: Option<&Parameter>) -> Result<()> {
        let _ = id;
        self.apply(orb, outer)
    }

    /// A distributable thread has returned from a call, with any result.
    fn receive_reply(&self, id: Guid) {
        let _ = id;
    }

    /// A distributable thread was cancelled.
    fn cancel(&self, thread: &DistributableThread) {
        let _ = thread;
    }
}

/// A segment runs at its CORBA priority. `RTCORBA::Current` shows it, and it travels to
/// client-propagated objects.
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
            // Without a segment the thread's own priority is restored elsewhere.
            _ => Ok(()),
        }
    }
}

//! Dynamic scheduling (RT-CORBA 2.0, clause 3): a distributable thread, its scheduling segments,
//! and the scheduler that is notified of all of them.
//!
//! ```text
//!   process A                                        process B
//!   begin_scheduling_segment("track", deadline)
//!     └ call ── id, segment, parameters ─────────►   the same distributable thread and
//!            ◄───────────────── reply ───────────    parameters, until the reply
//!   end_scheduling_segment("track")
//! ```
//!
//! A thread becomes a distributable one when it begins its first segment. Its identity and its
//! scheduling parameters travel with its calls in a service context, so that a servant in another
//! process runs under them. The [`Scheduler`] interprets the parameters; two are supplied,
//! [`FixedPriority`] and [`EarliestDeadline`].
//!
//! It is not a scheduler beside the kernel's: the disciplines set native priorities of threads.
//!
//! ```
//! use isorb::rt::dynamic::{FixedPriority, Parameter, Scheduling};
//! use isorb::{Config, Orb, rt::Priority};
//! use std::sync::Arc;
//!
//! let scheduling = Scheduling::new(Arc::new(FixedPriority));
//! let builder = Orb::builder().config(Config::default());
//! let orb = builder.register(|info| Ok(scheduling.register(info)?)).build()?;
//! let current = scheduling.current(&orb);
//! current.begin_scheduling_segment("track", Some(Parameter::Priority(Priority::MIN)), None)?;
//! assert_eq!(current.current_scheduling_segment_names(), ["track"]);
//! // Calls go out as this distributable thread's.
//! current.end_scheduling_segment("track")?;
//! # Ok::<(), isorb::rt::dynamic::SchedulingError>(())
//! ```
//!
//! # Real-time
//! Beginning and ending segments allocates the segment's name; a call of a distributable thread
//! allocates its context, and is served with one search in the table of threads. Use it where a
//! segment is worth more than a microsecond.

mod context;
mod current;
mod deadline;
mod flow;
mod scheduler;
mod stack;
#[cfg(test)]
mod tests;
mod threads;

pub use current::Current;
pub use deadline::EarliestDeadline;
pub use scheduler::{FixedPriority, Scheduled, Scheduler};
pub use threads::{DistributableThread, Guid, State};

use crate::interceptor::{InitError, OrbInitInfo};
use crate::{Orb, SystemException};
use isorb_giop::{Completion, Kind};
use isorb_rt::priority::Priority;
use std::fmt;
use std::sync::Arc;
use threads::Threads;

/// The scheduling parameter of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Parameter {
    /// At this CORBA priority.
    Priority(Priority),
    /// To be done by a time.
    Deadline {
        /// On the monotonic clock of this machine ([`isorb_rt::time::now_ns`]), in nanoseconds. The
        /// remaining time travels, so that no clocks need to agree; the time of the message itself
        /// is not counted.
        at_ns: u64,
        /// Decides between equal deadlines; the higher one goes first.
        importance: i16,
    },
}

/// Why a scheduling operation failed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SchedulingError {
    /// `UNSUPPORTED_SCHEDULING_DISCIPLINE`: the scheduler does not know parameters of this kind.
    UnsupportedDiscipline,
    /// BAD_INV_ORDER for calls in the wrong order, THREAD_CANCELLED, and the errors of the
    /// scheduler.
    System(SystemException),
}

impl From<SystemException> for SchedulingError {
    fn from(exception: SystemException) -> SchedulingError {
        SchedulingError::System(exception)
    }
}

impl fmt::Display for SchedulingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchedulingError::UnsupportedDiscipline => {
                f.write_str("UNSUPPORTED_SCHEDULING_DISCIPLINE: the scheduler knows no such parameter")
            }
            SchedulingError::System(exception) => exception.fmt(f),
        }
    }
}

impl std::error::Error for SchedulingError {}

/// Dynamic scheduling of an ORB: a scheduler, and its distributable threads.
#[derive(Clone)]
pub struct Scheduling(Arc<Inner>);

struct Inner {
    scheduler: Arc<dyn Scheduler>,
    threads: Threads,
}

impl Scheduling {
    /// With this scheduler.
    pub fn new(scheduler: Arc<dyn Scheduler>) -> Scheduling {
        Scheduling(Arc::new(Inner { scheduler, threads: Threads::default() }))
    }

    /// Registers what carries distributable threads from process to process. Once, before the ORB
    /// is made; register it before interceptors that call out themselves.
    ///
    /// # Errors
    /// DuplicateName when it is registered already.
    pub fn register(&self, info: &mut OrbInitInfo) -> Result<(), InitError> {
        let flow = Arc::new(flow::Flow(self.clone()));
        info.add_client_request_interceptor(flow.clone())?;
        info.add_server_request_interceptor(flow)
    }

    /// The calling thread's face of it, in an ORB that it was registered with.
    pub fn current(&self, orb: &Orb) -> Current {
        Current::new(self.clone(), orb.clone())
    }

    /// The scheduler.
    pub fn scheduler(&self) -> &Arc<dyn Scheduler> {
        &self.0.scheduler
    }

    fn threads(&self) -> &Threads {
        &self.0.threads
    }
}

impl fmt::Debug for Scheduling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduling")
            .field("discipline", &self.0.scheduler.discipline())
            .finish_non_exhaustive()
    }
}

#[cold]
fn out_of_order(sentence: &'static str) -> SystemException {
    SystemException::from(Kind::BadInvOrder).detail(sentence)
}

#[cold]
fn cancelled() -> SystemException {
    SystemException::new(Kind::ThreadCancelled, 0, Completion::Maybe)
        .detail("the distributable thread was cancelled")
}

//! Errors of making and changing a channel.

use crate::filter::Malformed;
use crate::placement::NotAdmitted;
use isorb_rt::sched::SpawnError;
use isorb_sched::Preemption;
use std::fmt;

/// A channel was not made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StartError {
    /// No priority level, more than 64, or not in ascending order.
    Levels {
        /// The number of levels given.
        count: usize,
    },
    /// There is no memory for [`Limits::events`](crate::Limits::events) times
    /// [`payload`](crate::Limits::payload).
    Memory,
    /// There is no memory for [`HistoryQos::streams`](crate::HistoryQos::streams) times
    /// [`depth`](crate::HistoryQos::depth) times [`payload`](crate::HistoryQos::payload).
    HistoryMemory,
    /// A thread could not be started.
    Thread(SpawnError),
    /// The scheduler's promises are for another dispatching.
    Preemption(OtherPreemption),
}

/// The scheduler's analysis assumes another kind of pre-emption than the dispatching has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OtherPreemption {
    /// The pre-emption that the promises assume
    /// ([`Plan::preemption`](isorb_sched::Plan::preemption)).
    pub promised: Preemption,
    /// The pre-emption of the dispatching ([`Strategy::preemption`](crate::Strategy::preemption));
    /// `None` if it does not order consumers.
    pub dispatching: Option<Preemption>,
}

/// A consumer, supplier or observer was not connected.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// A filter is malformed.
    Filter(Malformed),
    /// The scheduler refused it.
    NotAdmitted(NotAdmitted),
    /// The channel is full.
    TooMany,
    /// All observers of [`Limits::observers`](crate::Limits::observers) are in use.
    TooManyObservers,
    /// It declares more than [`MAX_PUBLICATIONS`](crate::MAX_PUBLICATIONS).
    TooManyPublications,
    /// Its filters need more masks than [`Limits::masks`](crate::Limits::masks).
    TooManyMasks,
    /// Its time-outs need more timers than are free.
    TooManyTimers,
    /// There is no memory for its queue ([`Quality::queue`](crate::Quality::queue)).
    Memory,
    /// It asks for events of the history, and the channel keeps none
    /// ([`ChannelBuilder::history`](crate::ChannelBuilder::history)).
    NoHistory,
    /// A timer thread did not start.
    Thread(SpawnError),
    /// Readers hold all versions of the tables: consumers run while others connect.
    Busy,
    /// The channel is destroyed.
    Destroyed,
}

/// The modules were not replaced, or the old ones still run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SwapError {
    /// A thread of the new dispatcher did not start. Nothing has changed.
    Thread(SpawnError),
    /// Readers hold all versions. Nothing has changed.
    Busy,
    /// The new modules are in place, but an event is still in the old ones.
    Unfinished,
    /// The scheduler's promises are for another dispatching. Nothing has changed.
    Preemption(OtherPreemption),
    /// The channel is destroyed.
    Destroyed,
}

impl From<SpawnError> for StartError {
    fn from(error: SpawnError) -> Self {
        StartError::Thread(error)
    }
}

impl From<OtherPreemption> for StartError {
    fn from(error: OtherPreemption) -> Self {
        StartError::Preemption(error)
    }
}

impl From<OtherPreemption> for SwapError {
    fn from(error: OtherPreemption) -> Self {
        SwapError::Preemption(error)
    }
}

impl From<Malformed> for ConnectError {
    fn from(error: Malformed) -> Self {
        ConnectError::Filter(error)
    }
}

impl From<NotAdmitted> for ConnectError {
    fn from(error: NotAdmitted) -> Self {
        ConnectError::NotAdmitted(error)
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Levels { count } => write!(
                f,
                "a channel has 1 to 64 levels of priority, in ascending order, and {count} were given; a schedule has one for each period, \
                 deadline or priority that is different, under edf and mlf one"
            ),
            StartError::Memory => f.write_str(
                "the events that may wait take more memory than there is: fewer of them, or less data in each",
            ),
            StartError::HistoryMemory => f.write_str(
                "the history takes more memory than there is: keep fewer events (HistoryQos::depth, streams), or less \
                 data in each (payload)",
            ),
            StartError::Thread(error) => error.fmt(f),
            StartError::Preemption(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for OtherPreemption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (when, strategy) = match self.promised {
            Preemption::Full => ("at once", "Threads"),
            Preemption::Deferred => ("where they call yield_now", "Upcalls"),
            Preemption::None => ("when they return", "SingleThreaded"),
        };
        write!(f, "the scheduler assumes that consumers yield {when}, but this dispatching ")?;
        match self.dispatching {
            Some(Preemption::Full) => {
                f.write_str("pre-empts them at once: use a plan with Preemption::Full")?
            }
            Some(Preemption::Deferred) => {
                f.write_str(
                    "lets them yield where they call yield_now: use a plan with Preemption::Deferred",
                )?;
            }
            Some(Preemption::None) => {
                f.write_str("runs each to its end: use a plan with Preemption::None")?;
            }
            None => f.write_str(
                "runs them on the supplier's thread, or in an unknown order: no plan assumes that",
            )?,
        }
        write!(f, ", or the configuration Full with Strategy::{strategy}")
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConnectError::Filter(error) => return error.fmt(f),
            ConnectError::NotAdmitted(error) => return error.fmt(f),
            ConnectError::Thread(error) => return error.fmt(f),
            ConnectError::TooMany => "the channel is full: raise Limits::consumers or Limits::suppliers",
            ConnectError::TooManyObservers => {
                "the channel has no room for another observer: remove one, or raise Limits::observers"
            }
            ConnectError::TooManyPublications => {
                "a supplier declares at most 4096 publications; leave some open (0 is any)"
            }
            ConnectError::TooManyMasks => "the filters need more different masks than the channel allows",
            ConnectError::TooManyTimers => "the time-outs need more timers than are free",
            ConnectError::NoHistory => {
                "it asks for events of the history, and the channel keeps none: ChannelBuilder::history, or the option \
                 --keep-last of `isorb event-channel`"
            }
            ConnectError::Memory => "its queue takes more memory than there is",
            ConnectError::Busy => "the tables cannot be changed while consumers hold all versions of them",
            ConnectError::Destroyed => "the channel is destroyed",
        })
    }
}

impl fmt::Display for SwapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SwapError::Thread(error) => return error.fmt(f),
            SwapError::Preemption(error) => return error.fmt(f),
            SwapError::Busy => "the modules cannot be replaced while consumers hold all versions of them",
            SwapError::Unfinished => "the modules are replaced; an event is still under way in the old ones",
            SwapError::Destroyed => "the channel is destroyed",
        })
    }
}

impl std::error::Error for StartError {}
impl std::error::Error for ConnectError {}
impl std::error::Error for SwapError {}
impl std::error::Error for OtherPreemption {}

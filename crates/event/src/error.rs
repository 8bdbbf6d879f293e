//! What can go wrong when a channel is made or changed.

use crate::filter::Malformed;
use crate::placement::NotAdmitted;
use isorb_rt::sched::SpawnError;
use std::fmt;

/// A channel was not made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StartError {
    /// No level of priority, more than 64, or not in ascending order.
    Levels {
        /// So many were given.
        count: usize,
    },
    /// The events that may wait take more memory than there is: [`Limits::events`](crate::Limits::events) times
    /// [`payload`](crate::Limits::payload).
    Memory,
    /// A thread could not be started.
    Thread(SpawnError),
}

/// A consumer or supplier was not connected.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// A filter is none.
    Filter(Malformed),
    /// The scheduler does not admit it.
    NotAdmitted(NotAdmitted),
    /// As many are connected as the channel can hold.
    TooMany,
    /// It declares more than [`MAX_PUBLICATIONS`](crate::MAX_PUBLICATIONS).
    TooManyPublications,
    /// Its filters need more different masks than the channel allows.
    TooManyMasks,
    /// Its time-outs need more timers than are free.
    TooManyTimers,
    /// Its queue takes more memory than there is ([`Quality::queue`](crate::Quality::queue)).
    Memory,
    /// A thread for its time-outs could not be started.
    Thread(SpawnError),
    /// Readers hold all versions of the tables: consumers that run on and on while others connect.
    Busy,
    /// The channel is destroyed.
    Destroyed,
}

/// Modules were not replaced, or not to the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SwapError {
    /// A thread of the new dispatcher could not be started. Nothing has changed.
    Thread(SpawnError),
    /// Readers hold all versions. Nothing has changed.
    Busy,
    /// The new modules are in place, but an event is still under way in the old ones.
    Unfinished,
    /// The channel is destroyed.
    Destroyed,
}

impl From<SpawnError> for StartError {
    fn from(error: SpawnError) -> Self {
        StartError::Thread(error)
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
            StartError::Thread(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConnectError::Filter(error) => return error.fmt(f),
            ConnectError::NotAdmitted(error) => return error.fmt(f),
            ConnectError::Thread(error) => return error.fmt(f),
            ConnectError::TooMany => "as many are connected as the channel can hold",
            ConnectError::TooManyPublications => {
                "a supplier declares at most 4096 publications; leave some open (0 is any)"
            }
            ConnectError::TooManyMasks => "the filters need more different masks than the channel allows",
            ConnectError::TooManyTimers => "the time-outs need more timers than are free",
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
            SwapError::Busy => "the modules cannot be replaced while consumers hold all versions of them",
            SwapError::Unfinished => "the modules are replaced; an event is still under way in the old ones",
            SwapError::Destroyed => "the channel is destroyed",
        })
    }
}

impl std::error::Error for StartError {}
impl std::error::Error for ConnectError {}
impl std::error::Error for SwapError {}

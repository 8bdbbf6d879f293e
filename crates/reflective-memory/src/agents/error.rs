//! The errors of a scheduler.

use crate::wire::ChannelError;
use core::fmt;

/// Why an agent cannot be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SchedulerError {
    /// The limit is reached.
    Full {
        /// The limit.
        capacity: usize,
    },
    /// The channel is invalid.
    Channel(ChannelError),
}

impl fmt::Display for SchedulerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchedulerError::Full { capacity } => write!(f, "there are {capacity} agents, and no more may be"),
            SchedulerError::Channel(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for SchedulerError {}

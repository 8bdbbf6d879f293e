//! Why a plane refuses.

use crate::wire::ChannelError;
use core::fmt;

/// Why an agent cannot be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlaneError {
    /// There are as many as there may be.
    Full {
        /// So many.
        capacity: usize,
    },
    /// The channel cannot be.
    Channel(ChannelError),
}

impl fmt::Display for PlaneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlaneError::Full { capacity } => write!(f, "there are {capacity} agents, and no more may be"),
            PlaneError::Channel(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for PlaneError {}

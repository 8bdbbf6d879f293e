//! Errors of stores.

pub use isorb_store::{Fault, OpenError};

use std::fmt;

/// Why an operation was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The log is locked.
    Locked,
    /// The log halts, and has no space for the record.
    Full {
        /// The most octets of the log.
        max_size: u64,
    },
    /// The record alone is larger than the log may be.
    LargerThanLog {
        /// Octets of the record.
        octets: u64,
        /// The most octets of the log.
        max_size: u64,
    },
    /// The greatest size would be below the current one, or 0.
    BelowCurrentSize {
        /// The size that was asked for.
        size: u64,
        /// The current size.
        current: u64,
    },
    /// The store is broken.
    Failed(Fault),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Locked => f.write_str("the log is locked; an administrator can unlock it"),
            Refusal::Full { max_size } => write!(f, "the log is full with {max_size} octets"),
            Refusal::LargerThanLog { octets, max_size } => {
                write!(f, "the record has {octets} octets, and the log may have {max_size} in all")
            }
            Refusal::BelowCurrentSize { size, current } => {
                write!(f, "{size} octets are less than the log has ({current}, at least 1); clear it first")
            }
            Refusal::Failed(fault) => write!(f, "{fault}"),
        }
    }
}

impl std::error::Error for Refusal {}

isorb_store::store_error! { Refusal }

//! What can go wrong with an area, sorted by operation.

use crate::head::State;
use core::fmt;
use isorb_rt::Errno;

/// Why a segment cannot be made or attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttachError {
    /// The system refused a call.
    System(Errno),
    /// The descriptor is no memory file that is sealed against shrinking and growing, so its owner
    /// could take the memory away from under its readers.
    NotSealed,
    /// The segment was not made by this version of this crate.
    NotAnArea,
    /// The head does not describe the segment.
    Damaged,
}

/// Why a process cannot become an area's writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClaimError {
    /// The area has a writer, which lives.
    Taken,
    /// The segment cannot be attached.
    Attach(AttachError),
}

/// A value that is larger than the area takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLarge {
    /// Bytes of the value.
    pub len: usize,
    /// Bytes of the largest value.
    pub limit: usize,
}

/// Why there is no value to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadError {
    /// Nothing has been written yet.
    Empty,
    /// The value was overwritten: it is older than what the area keeps.
    Gone,
    /// The writer overtook the reader in every attempt. The reader is too slow for this rate and
    /// number of histories.
    Lapped,
    /// The value does not fit into the caller's memory.
    BufferTooSmall {
        /// Bytes of the value.
        needed: usize,
    },
    /// What stands in the segment cannot come from a writer that keeps the protocol.
    Damaged,
}

/// Why a wait ended without a new value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitError {
    /// The deadline passed.
    TimedOut,
    /// The area's state changed to this. Reported once, except for states after which no value
    /// arrives.
    Changed(State),
    /// What stands in the segment cannot come from a writer that keeps the protocol.
    Damaged,
}

impl From<Errno> for AttachError {
    fn from(error: Errno) -> Self {
        AttachError::System(error)
    }
}

impl From<AttachError> for ClaimError {
    fn from(error: AttachError) -> Self {
        ClaimError::Attach(error)
    }
}

impl From<Errno> for ClaimError {
    fn from(error: Errno) -> Self {
        ClaimError::Attach(AttachError::System(error))
    }
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttachError::System(errno) => write!(f, "a segment cannot be mapped: {errno}"),
            AttachError::NotSealed => f.write_str("the descriptor is no sealed memory file"),
            AttachError::NotAnArea => f.write_str("the segment holds no memory area of this version"),
            AttachError::Damaged => f.write_str("the head of the segment does not describe it"),
        }
    }
}

impl fmt::Display for ClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClaimError::Taken => f.write_str("the area has a writer"),
            ClaimError::Attach(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a value of {} bytes: the area takes up to {}", self.len, self.limit)
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Empty => f.write_str("nothing has been written yet"),
            ReadError::Gone => f.write_str("the value has been overwritten"),
            ReadError::Lapped => f.write_str("the writer overtook the reader in every attempt"),
            ReadError::BufferTooSmall { needed } => write!(f, "the value needs {needed} bytes"),
            ReadError::Damaged => f.write_str("the segment is damaged"),
        }
    }
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitError::TimedOut => f.write_str("no new value in time"),
            WaitError::Changed(state) => write!(f, "the area is {state}"),
            WaitError::Damaged => f.write_str("the segment is damaged"),
        }
    }
}

impl core::error::Error for AttachError {}
impl core::error::Error for ClaimError {}
impl core::error::Error for TooLarge {}
impl core::error::Error for ReadError {}
impl core::error::Error for WaitError {}

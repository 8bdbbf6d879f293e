//! Memory without torn values: an area that one process writes and any number of processes read.
//!
//! A value is written as a whole and read as a whole. A reader never sees half of one value and
//! half of the next, never holds the writer up, and pays one load when there is nothing new. Each
//! value has a sequence number and the time at which it was written. It is not a queue: a reader
//! that is slower than the writer misses values, and is told how many.
//!
//! ```text
//!   sealed memfd:  head │ buffer 0 │ buffer 1 │ … │ buffer histories+1
//!                   │ latest = n        value n lies in buffer n mod (histories + 2)
//!                   │ signal: a futex that readers sleep on
//! ```
//!
//! The writer marks a buffer as under way, fills it, marks it complete, then names it in `latest`.
//! A reader copies the buffer and compares its mark before and after. With histories + 2 buffers
//! (CReMeS, MidART) the writer returns to the buffer that is being read only after at least two
//! more values, so a reader's copy fails only when it takes that long. There are no locks, so a
//! killed process holds none: a writer killed between any two of its steps leaves the last complete
//! value in place, and the next writer continues from there.
//!
//! # Hostile processes
//! Readers get a descriptor that cannot be mapped for writing. Only the writer's process, and the
//! server that owns the segment, can change an area, and they can write anything into it at any
//! time. Therefore:
//! - all access is by atomic words; no Rust reference to bytes of the segment exists;
//! - values are copied out before they are used ([`View`] and [`Lease`] are the exceptions, and say
//!   so);
//! - each number is checked before it is used, and the geometry is read once;
//! - the segment is sealed so that it cannot shrink under its readers.
//!
//! Readers of a corrupted area get wrong values or [`ReadError::Damaged`], and nothing worse.
//!
//! ```
//! use isorb_memory_area::{Geometry, Segment};
//!
//! let segment = Segment::create("reactor/temperature", Geometry::new(64, 3)?)?;
//! let mut writer = segment.writer()?;
//! let mut reader = segment.reader()?;
//!
//! writer.write(b"21.5")?;
//! writer.write(b"21.6")?;
//!
//! let mut value = [0; 64];
//! let sample = reader.latest(&mut value)?;
//! assert_eq!(&value[..sample.len], b"21.6");
//! assert_eq!((sample.sequence, sample.missed), (2, 1));
//! assert!(!reader.has_new());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `unsafe` is in the module `mapping` alone: mapping the segment, and seeing it as atomic words.
#![deny(unsafe_code)]
// Under loom there are no segments, and so no users of some parts.
#![cfg_attr(loom, allow(dead_code))]

mod error;
mod fail_points;
mod geometry;
mod head;
#[cfg(all(test, not(loom)))]
mod kill_tests;
#[cfg(not(loom))]
mod lease;
#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(not(loom))]
#[allow(unsafe_code)]
mod mapping;
#[cfg(not(loom))]
mod reader;
mod ring;
#[cfg(not(loom))]
mod segment;
#[cfg(not(loom))]
mod signals;
mod words;
#[cfg(not(loom))]
mod writer;

pub use error::{AttachError, ClaimError, ReadError, TooLarge, WaitError};
pub use geometry::{Geometry, GeometryError, MAX_HISTORIES, MAX_SIZE};
pub use head::State;
#[cfg(not(loom))]
pub use lease::Lease;
#[cfg(not(loom))]
pub use reader::{Reader, Sample};
#[cfg(not(loom))]
pub use segment::Segment;
#[cfg(not(loom))]
pub use signals::Signals;
pub use words::{Cells, OutOfBounds, View};
#[cfg(not(loom))]
pub use writer::{Source, Writer};

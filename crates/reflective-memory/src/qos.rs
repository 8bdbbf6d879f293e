//! Constructors of the IDL's structures. Each method sets one field and returns the structure.

use crate::Error;
use crate::data_type::largest_value;
use crate::idl::{Area, DataType, Mode, Path, ReaderQoS, WriterQoS};
use isorb_any::AnyValue;
use std::time::Duration;

impl Area {
    /// An area for values of at most `size` bytes, which keeps the last `histories` of them.
    pub fn new(name: impl Into<String>, size: u32, histories: u32) -> Area {
        Area { name: name.into(), size, histories, data: DataType::default() }
    }

    /// An area for values of `T`. A type with unbounded strings or sequences has no largest value:
    /// [`Area::new`] and [`typed`](Self::typed) take the size.
    ///
    /// # Errors
    /// `WrongSize` where `T` has no largest value, or it is larger than an area takes.
    pub fn of<T: AnyValue>(name: impl Into<String>, histories: u32) -> Result<Area, Error> {
        let largest = largest_value(&T::type_code()).and_then(|octets| u32::try_from(octets).ok());
        let what = "the largest value of an unbounded type";
        let size = largest.ok_or_else(|| Error::wrong_size(what, usize::MAX, crate::memory::MAX_SIZE))?;
        Ok(Area::new(name, size, histories).typed(DataType::of::<T>()))
    }

    /// With a type of values. Without it they are octets.
    pub fn typed(self, data: DataType) -> Area {
        Area { data, ..self }
    }
}

impl WriterQoS {
    /// A writer that promises a value each `period`. Guaranteed readers need that.
    pub fn every(period: Duration) -> WriterQoS {
        WriterQoS { period: nanoseconds(period), size: 0, type_hash: 0 }
    }

    /// Promises values of at most this many bytes, less than the area's size.
    pub fn size(self, bytes: u32) -> WriterQoS {
        WriterQoS { size: bytes, ..self }
    }
}

impl ReaderQoS {
    /// A reader that gets each value when it is written: best effort, by UDP, without a deadline.
    pub fn on_write() -> ReaderQoS {
        ReaderQoS {
            how: Mode::PushOnWrite,
            period: 0,
            deadline: 0,
            histories: 1,
            guaranteed: false,
            soft: false,
            through: Path::PathUdp,
            parity: 0,
            type_hash: 0,
        }
    }

    /// A reader that gets the latest value once a period.
    pub fn periodic(period: Duration) -> ReaderQoS {
        ReaderQoS { how: Mode::PeriodicPush, period: nanoseconds(period), ..ReaderQoS::on_write() }
    }

    /// Reports values as stale that are older than the deadline and the writer's period together.
    pub fn deadline(self, deadline: Duration) -> ReaderQoS {
        ReaderQoS { deadline: nanoseconds(deadline), ..self }
    }

    /// Asks for admission: each value arrives within this deadline, or the reader is refused.
    pub fn guaranteed(self, deadline: Duration) -> ReaderQoS {
        ReaderQoS { guaranteed: true, ..self.deadline(deadline) }
    }

    /// Accepts a guarantee that a node computes from guessed costs, or gives on ordinary threads.
    pub fn soft(self) -> ReaderQoS {
        ReaderQoS { soft: true, ..self }
    }

    /// Keeps this many values.
    pub fn histories(self, histories: u32) -> ReaderQoS {
        ReaderQoS { histories, ..self }
    }

    /// Gets the values by this path.
    pub fn through(self, path: Path) -> ReaderQoS {
        ReaderQoS { through: path, ..self }
    }

    /// Requests a parity datagram after this many fragments; 0 for none.
    pub fn parity(self, fragments: u8) -> ReaderQoS {
        ReaderQoS { parity: fragments, ..self }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

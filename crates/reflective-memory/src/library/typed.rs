//! Writers and readers of values with a type: generated from IDL, or defined by
//! [`area_type!`](crate::area_type).

use super::attached::Attachment;
use super::follow::FollowingReader;
use super::{AreaReader, AreaWriter, Library};
use crate::Error;
use crate::idl::{DataType, ReaderQoS, WriterQoS, WrongType};
use crate::memory::{ReadError, Sample, TooLarge};
use isorb::Region;
use isorb_any::AnyValue;
use isorb_cdr::{Decode, Decoder, Encoder, Error as CdrError, Order, Text};
use std::fmt;
use std::marker::PhantomData;
use zerocopy::IntoBytes;

/// Octets of the scope for the views of a value, beside four times the value's own.
const VIEWS: usize = 1024;

/// Why a value cannot be written or read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueError {
    /// It is larger than the writer promised, or than the area takes.
    TooLarge(TooLarge),
    /// There is no value to read.
    Read(ReadError),
    /// It has no form in CDR, or the octets of the area are not a value of the type.
    Value(CdrError),
    /// So many octets follow the value: the area's writer has another type.
    Trailing(usize),
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueError::TooLarge(error) => error.fmt(f),
            ValueError::Read(error) => error.fmt(f),
            ValueError::Value(error) => write!(f, "no value of this type: {error}"),
            ValueError::Trailing(octets) => write!(f, "{octets} octets follow the value"),
        }
    }
}

impl std::error::Error for ValueError {}

impl From<TooLarge> for ValueError {
    fn from(error: TooLarge) -> ValueError {
        ValueError::TooLarge(error)
    }
}

impl From<ReadError> for ValueError {
    fn from(error: ReadError) -> ValueError {
        ValueError::Read(error)
    }
}

impl Library {
    /// As [`map_writer`](Self::map_writer), for values of `T`.
    ///
    /// # Errors
    /// As [`map_writer`](Self::map_writer). `WrongType` names the difference where the area has
    /// another type or none, or its values have another byte order than this machine's.
    pub fn typed_writer<T: AnyValue>(&self, name: &str, qos: WriterQoS) -> Result<AreaWriter<T>, Error> {
        let expected = DataType::of::<T>();
        let writer =
            self.map_writer(name, qos.of::<T>()).map_err(|error| error.naming_difference(&expected))?;
        let data = &writer.attachment.data;
        if data.little_endian != expected.little_endian {
            let reason = "its values have another byte order than this machine's; a writer on such a machine has to create the area";
            let (name, has, reason) = (name.into(), data.clone(), reason.into());
            return Err(Error::WrongType(WrongType { name, has, reason }));
        }
        let AreaWriter { writer, largest, attachment, .. } = writer;
        Ok(AreaWriter {
            buffer: Vec::with_capacity(largest),
            writer,
            largest,
            attachment,
            values: PhantomData,
        })
    }

    /// As [`attach_reader`](Self::attach_reader), for values of `T`. Values of the other byte order
    /// are converted.
    ///
    /// # Errors
    /// As [`attach_reader`](Self::attach_reader). `WrongType` names the difference where the area
    /// has another type or none.
    pub fn typed_reader<T: AnyValue>(&self, name: &str, qos: ReaderQoS) -> Result<AreaReader<T>, Error> {
        let expected = DataType::of::<T>();
        let reader =
            self.attach_reader(name, qos.of::<T>()).map_err(|error| error.naming_difference(&expected))?;
        let AreaReader { place, attachment, reported_stale, .. } = reader;
        let decoding = Some(Box::new(Decoding::new(place.size(), attachment.data.little_endian)));
        Ok(AreaReader { place, attachment, reported_stale, decoding, values: PhantomData })
    }
}

impl Error {
    /// Where it is `WrongType`: names the difference between the area's type and `expected`.
    pub fn naming_difference(self, expected: &DataType) -> Error {
        match self {
            Error::WrongType(WrongType { name, has, .. }) => {
                let reason = has.difference(expected);
                Error::WrongType(WrongType { name, has, reason })
            }
            other => other,
        }
    }
}

impl<T: AnyValue> AreaWriter<T> {
    /// Writes a value. Readers of this node can read it when this returns. Gives its number.
    ///
    /// # Errors
    /// When it is larger than was promised or than the area takes, or has no form in CDR.
    ///
    /// # Real-time
    /// As [`AreaWriter::write`] of octets, and the encoding, into memory that was reserved at
    /// attach.
    pub fn write(&mut self, value: &T) -> Result<u64, ValueError> {
        let mut encoder = Encoder::new(std::mem::take(&mut self.buffer), Text::DEFAULT);
        value.put_value(&mut encoder);
        let message = encoder.finish().map_err(|(error, buffer)| {
            self.buffer = buffer;
            ValueError::Value(error)
        })?;
        let len = message.len();
        let result = self.check(len).and_then(|()| {
            let (cells, mut at) = (self.writer.draft(), 0);
            for piece in message.pieces() {
                cells.put(at, piece).map_err(|_| TooLarge { len, limit: cells.len() })?;
                at += piece.len();
            }
            self.writer.publish(len, isorb_rt::time::now_ns())
        });
        self.buffer = message.into_buffer();
        let number = result?;
        self.ring();
        Ok(number)
    }
}

/// Memory for one value, and for the views of it.
pub(super) struct Decoding {
    /// Octets of CDR are read at an address that is aligned.
    octets: Vec<u64>,
    region: Region,
    order: Order,
}

impl Decoding {
    fn new(size: usize, little_endian: bool) -> Decoding {
        Decoding {
            octets: vec![0; size.div_ceil(8)],
            region: Region::new(VIEWS + size.saturating_mul(4)),
            order: if little_endian { Order::Little } else { Order::Big },
        }
    }

    fn decode<T: AnyValue, R>(
        &mut self,
        len: usize,
        look: impl FnOnce(T::View<'_>) -> R,
    ) -> Result<R, ValueError> {
        let Decoding { octets, region, order } = self;
        let octets = octets.as_mut_bytes().get_mut(..len).ok_or(ReadError::Damaged)?;
        let scope = region.enter();
        let mut decoder = Decoder::new(octets, *order, Text::DEFAULT, &scope);
        let view = T::View::decode(&mut decoder).map_err(ValueError::Value)?;
        match decoder.remaining() {
            0 => Ok(look(view)),
            trailing => Err(ValueError::Trailing(trailing)),
        }
    }
}

impl<T: AnyValue> AreaReader<T> {
    /// The latest value, new or not.
    ///
    /// # Errors
    /// As for octets, and where the octets are not a value of `T`: another process wrote octets.
    ///
    /// # Real-time
    /// As [`AreaReader::latest`] of octets, and the decoding. Allocates for the strings and
    /// sequences of a value; [`latest_view`](Self::latest_view) does not.
    pub fn latest(&mut self) -> Result<(T, Sample), ValueError> {
        self.latest_view(|view, _| T::from_view(view))
    }

    /// Lets `look` see a view of the latest value. The view lies in memory of this reader, so the
    /// writer does not change it meanwhile.
    ///
    /// # Errors
    /// As [`latest`](Self::latest).
    ///
    /// # Real-time
    /// Does not allocate.
    pub fn latest_view<R>(
        &mut self,
        look: impl FnOnce(T::View<'_>, &Sample) -> R,
    ) -> Result<(R, Sample), ValueError> {
        self.read(|place, attachment, octets| place.latest(attachment, octets).map(Some), look)?
            .ok_or(ValueError::Read(ReadError::Empty))
    }

    /// The oldest unread value that the area still keeps.
    ///
    /// # Errors
    /// As [`latest`](Self::latest).
    #[expect(clippy::should_implement_trait, reason = "named as for areas of octets; it may fail")]
    pub fn next(&mut self) -> Result<Option<(T, Sample)>, ValueError> {
        self.read(|place, attachment, octets| place.next(attachment, octets), |view, _| T::from_view(view))
    }

    /// The value that came `back` values before the latest.
    ///
    /// # Errors
    /// As [`latest`](Self::latest).
    pub fn history(&mut self, back: usize) -> Result<(T, Sample), ValueError> {
        self.read(
            |place, attachment, octets| place.follow(attachment).history(back, octets).map(Some),
            |view, _| T::from_view(view),
        )?
        .ok_or(ValueError::Read(ReadError::Empty))
    }

    fn read<R>(
        &mut self,
        get: impl FnOnce(&mut FollowingReader, &Attachment, &mut [u8]) -> Result<Option<Sample>, ReadError>,
        look: impl FnOnce(T::View<'_>, &Sample) -> R,
    ) -> Result<Option<(R, Sample)>, ValueError> {
        let AreaReader { place, attachment, decoding: Some(decoding), .. } = self else {
            return Err(ReadError::Damaged.into());
        };
        let Some(sample) = get(place, attachment, decoding.octets.as_mut_bytes())? else { return Ok(None) };
        let seen = decoding.decode::<T, R>(sample.len, |view| look(view, &sample))?;
        Ok(Some((seen, sample)))
    }
}

//! The octets of an event, as its program reads them: in place, and checked at each step.

use super::layout::{Layouts, Shape, pass};
use isorb_cdr::LongDouble;
use std::fmt;

/// Why the payload of an event cannot be judged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum PayloadError {
    /// The octets are no value of the filter's type.
    Malformed,
    /// Its members are behind more values of varying size than
    /// [`ContentLimits::steps`](super::ContentLimits::steps).
    Steps,
}

impl fmt::Display for PayloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PayloadError::Malformed => "its octets are no value of the content filter's type",
            PayloadError::Steps => {
                "the content filter passes more values than ContentLimits::steps allows to find its members"
            }
        })
    }
}

impl std::error::Error for PayloadError {}

/// A value of a member or of a part of an expression. Booleans, characters and enumerators are
/// numbers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    /// The member of another branch of a union, an element behind the end, or a number that cannot
    /// be computed.
    Absent,
    Int(i128),
    Float(f64),
    Text(Text<'a>),
}

/// Text in the payload or in the expression.
#[derive(Clone, Copy, Debug)]
pub(super) enum Text<'a> {
    Utf8(&'a [u8]),
    Utf16(&'a [u8]),
}

impl<'a> Text<'a> {
    /// Its characters, with U+FFFD for what is none.
    pub fn chars(self) -> impl Iterator<Item = char> + 'a {
        let (narrow, wide): (&[u8], &[u8]) = match self {
            Text::Utf8(octets) => (octets, &[]),
            Text::Utf16(octets) => (&[], octets),
        };
        let (little, wide) = match wide {
            [0xfe, 0xff, rest @ ..] => (false, rest),
            [0xff, 0xfe, rest @ ..] => (true, rest),
            all => (false, all),
        };
        let units = wide.as_chunks::<2>().0.iter();
        let units = units.map(move |unit| match little {
            true => u16::from_le_bytes(*unit),
            false => u16::from_be_bytes(*unit),
        });
        let narrow = narrow.utf8_chunks().flat_map(|chunk| {
            let invalid = (!chunk.invalid().is_empty()).then_some(char::REPLACEMENT_CHARACTER);
            chunk.valid().chars().chain(invalid)
        });
        narrow.chain(char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)))
    }
}

/// A plain value on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scalar {
    Boolean,
    Octet,
    Char,
    Short,
    UShort,
    Long,
    ULong,
    LongLong,
    ULongLong,
    Float,
    Double,
    LongDouble,
    /// With the number of its enumerators.
    Enum(u32),
}

impl Scalar {
    /// Its alignment, and its size.
    pub const fn layout(self) -> (u32, u32) {
        match self {
            Scalar::Boolean | Scalar::Octet | Scalar::Char => (1, 1),
            Scalar::Short | Scalar::UShort => (2, 2),
            Scalar::Long | Scalar::ULong | Scalar::Float | Scalar::Enum(_) => (4, 4),
            Scalar::LongLong | Scalar::ULongLong | Scalar::Double => (8, 8),
            Scalar::LongDouble => (8, 16),
        }
    }
}

/// Reads a payload from front to back. The octet of the byte order is at 0.
pub(super) struct Payload<'a> {
    octets: &'a [u8],
    little: bool,
    at: usize,
    steps: u32,
}

/// The deepest nesting of values that are passed; as the decoder's for recursive types.
const MAX_NESTING: u32 = 128;

impl<'a> Payload<'a> {
    pub fn new(octets: &'a [u8], steps: u32) -> Result<Payload<'a>, PayloadError> {
        let order = octets.first().ok_or(PayloadError::Malformed)?;
        Ok(Payload { octets, little: order & 1 == 1, at: 1, steps })
    }

    pub fn go_to(&mut self, at: u32) {
        self.at = at as usize;
    }

    #[inline]
    fn take<const N: usize>(&mut self, align: usize) -> Result<[u8; N], PayloadError> {
        let at = self.at.checked_next_multiple_of(align).ok_or(PayloadError::Malformed)?;
        let rest = self.octets.get(at..).ok_or(PayloadError::Malformed)?;
        let octets = rest.first_chunk().ok_or(PayloadError::Malformed)?;
        self.at = at + N;
        Ok(*octets)
    }

    fn run(&mut self, length: usize) -> Result<&'a [u8], PayloadError> {
        let end = self.at.checked_add(length).ok_or(PayloadError::Malformed)?;
        let octets = self.octets.get(self.at..end).ok_or(PayloadError::Malformed)?;
        self.at = end;
        Ok(octets)
    }

    /// A count, as of elements or octets.
    #[inline]
    pub fn count(&mut self) -> Result<u32, PayloadError> {
        let octets = self.take(4)?;
        Ok(if self.little { u32::from_le_bytes(octets) } else { u32::from_be_bytes(octets) })
    }

    #[inline]
    pub fn scalar(&mut self, scalar: Scalar) -> Result<Value<'a>, PayloadError> {
        macro_rules! number {
            ($t:ty, $align:literal) => {{
                let octets = self.take($align)?;
                if self.little { <$t>::from_le_bytes(octets) } else { <$t>::from_be_bytes(octets) }
            }};
        }
        Ok(match scalar {
            Scalar::Boolean => match self.take(1)? {
                [truth @ (0 | 1)] => Value::Int(truth.into()),
                _ => return Err(PayloadError::Malformed),
            },
            Scalar::Octet => Value::Int(self.take::<1>(1)?[0].into()),
            Scalar::Char => match self.take(1)? {
                [c] if c.is_ascii() => Value::Int(c.into()),
                _ => return Err(PayloadError::Malformed),
            },
            Scalar::Short => Value::Int(number!(i16, 2).into()),
            Scalar::UShort => Value::Int(number!(u16, 2).into()),
            Scalar::Long => Value::Int(number!(i32, 4).into()),
            Scalar::ULong => Value::Int(number!(u32, 4).into()),
            Scalar::LongLong => Value::Int(number!(i64, 8).into()),
            Scalar::ULongLong => Value::Int(number!(u64, 8).into()),
            Scalar::Float => Value::Float(number!(f32, 4).into()),
            Scalar::Double => Value::Float(number!(f64, 8)),
            Scalar::LongDouble => Value::Float(LongDouble(number!(u128, 8)).into()),
            Scalar::Enum(enumerators) => match self.count()? {
                index if index < enumerators => Value::Int(index.into()),
                _ => return Err(PayloadError::Malformed),
            },
        })
    }

    pub fn text(&mut self, wide: bool) -> Result<Text<'a>, PayloadError> {
        let length = self.count()? as usize;
        let octets = self.run(length)?;
        match octets {
            _ if wide && length.is_multiple_of(2) => Ok(Text::Utf16(octets)),
            // Some peers send an empty string without its terminator.
            [] => Ok(Text::Utf8(octets)),
            [text @ .., 0] if !wide => Ok(Text::Utf8(text)),
            _ => Err(PayloadError::Malformed),
        }
    }

    fn step(&mut self) -> Result<(), PayloadError> {
        self.steps = self.steps.checked_sub(1).ok_or(PayloadError::Steps)?;
        Ok(())
    }

    /// Passes `n` values.
    pub fn pass(&mut self, layouts: &Layouts, shape: u32, n: u32) -> Result<(), PayloadError> {
        self.pass_each(layouts, shape, n, 0)
    }

    fn pass_each(&mut self, layouts: &Layouts, shape: u32, n: u32, depth: u32) -> Result<(), PayloadError> {
        if let Shape::Fixed(sizes) = layouts.shape(shape) {
            self.step()?;
            let at = usize::try_from(pass(sizes, self.at as u64, n)).map_err(|_| PayloadError::Malformed)?;
            self.at = at;
            return if at <= self.octets.len() { Ok(()) } else { Err(PayloadError::Malformed) };
        }
        // Each of them has an octet at least.
        if n as usize > self.octets.len().saturating_sub(self.at) {
            return Err(PayloadError::Malformed);
        }
        (0..n).try_for_each(|_| self.pass_one(layouts, shape, depth))
    }

    /// Passes a value. Recursive types are passed to a depth of [`MAX_NESTING`].
    fn pass_one(&mut self, layouts: &Layouts, shape: u32, depth: u32) -> Result<(), PayloadError> {
        if depth == MAX_NESTING {
            return Err(PayloadError::Malformed);
        }
        self.step()?;
        match layouts.shape(shape) {
            Shape::Fixed(_) => self.pass_each(layouts, shape, 1, depth),
            Shape::Text => {
                let length = self.count()? as usize;
                self.run(length).map(drop)
            }
            Shape::WideChar => {
                let [length] = self.take(1)?;
                self.run(length.into()).map(drop)
            }
            Shape::Sequence { element } => {
                let n = self.count()?;
                self.pass_each(layouts, *element, n, depth + 1)
            }
            Shape::Array { element, length } => self.pass_each(layouts, *element, *length, depth + 1),
            Shape::Struct { first, last } => {
                let members = layouts.members(*first, *last);
                members.iter().try_for_each(|member| self.pass_each(layouts, *member, 1, depth + 1))
            }
            Shape::Union { choice, first, last } => {
                match self.case(layouts, *choice)?.and_then(|case| layouts.members(*first, *last).get(case)) {
                    Some(case) => self.pass_each(layouts, *case, 1, depth + 1),
                    None => Ok(()),
                }
            }
            Shape::Reference => {
                let id = self.count()? as usize;
                self.run(id)?;
                for _ in 0..self.count()? {
                    self.step()?;
                    self.count()?;
                    let length = self.count()? as usize;
                    self.run(length)?;
                }
                Ok(())
            }
            // Types are complete before they are passed.
            Shape::Open => Err(PayloadError::Malformed),
        }
    }

    /// The active case of a union, of which the discriminator is read.
    pub fn case(&mut self, layouts: &Layouts, choice: u32) -> Result<Option<usize>, PayloadError> {
        let choice = layouts.choice(choice).ok_or(PayloadError::Malformed)?;
        match self.scalar(choice.discriminator)? {
            Value::Int(label) => Ok(choice.case(label)),
            _ => Err(PayloadError::Malformed),
        }
    }
}

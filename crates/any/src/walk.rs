//! Reading a value by its type code as a sequence of events.

use crate::copy::{MAX_LEVELS, check_text, discriminator_bits, take_fixed};
use crate::graph::TcRef;
use crate::typecode::label_value;
use crate::value_types::{self, Start};
use crate::{Any, Kind, Label, TypeCode};
use isorb_cdr::{Decode, Decoder, Error, ErrorKind, LongDouble, Result};

/// An event of a walk, in the order of the wire. Borrowed parts live as long as the call.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// No value: `null`, `void`, a nil value type, an abstract interface that holds none.
    Null,
    /// A value (of a valuetype) that began before, by its number in the order of beginning.
    Again(usize),
    /// A boolean.
    Boolean(bool),
    /// A `char` or `wchar`.
    Char(char),
    /// Any integer, an octet too.
    Integer(i128),
    /// A `float`.
    Float(f32),
    /// A `double`.
    Double(f64),
    /// A `long double`.
    LongDouble(LongDouble),
    /// A `fixed`: the number without its point, and how many digits are after the point.
    Fixed(i128, i16),
    /// A `string` or `wstring`.
    Text(&'a str),
    /// An enumerator: its name, which may be empty, and its index.
    Enumerator(&'a str, u32),
    /// A sequence or array of octets, or a principal.
    Octets(&'a [u8]),
    /// A reference: type id and number of profiles; nil if there are none.
    Reference(&'a str, usize),
    /// A type code.
    TypeCode(&'a TypeCode),
    /// A structure, exception or value begins: its kind and name, which may be empty. A
    /// [`Event::Member`] comes before each member.
    BeginStruct(Kind, &'a str),
    /// A member of a structure, by name (which may be empty) and index.
    Member(&'a str, usize),
    /// A structure ends.
    EndStruct,
    /// A union begins: its name, the discriminator as a label value, and the name of its enumerator
    /// if it is one. At most one [`Event::Member`] with its value follows.
    BeginUnion(&'a str, Label, &'a str),
    /// A union ends.
    EndUnion,
    /// A sequence or array of that many elements begins; its elements follow.
    BeginList(usize),
    /// A sequence or array ends.
    EndList,
    /// An `any` begins, with this type; its value follows.
    BeginAny(&'a TypeCode),
    /// An `any` ends.
    EndAny,
}

/// Receives the events of a walk.
pub trait Visitor {
    /// Receives an event.
    ///
    /// # Errors
    /// [`Stopped`] ends the walk.
    fn event(&mut self, event: Event<'_>) -> Result<(), Stopped>;
}

/// The visitor stopped the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

impl From<core::fmt::Error> for Stopped {
    fn from(_: core::fmt::Error) -> Stopped {
        Stopped
    }
}

/// The reason why a walk ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkError {
    /// The bytes are not a value of the type.
    Value(Error),
    /// The visitor stopped it.
    Stopped,
}

impl From<Error> for WalkError {
    fn from(error: Error) -> WalkError {
        WalkError::Value(error)
    }
}

impl From<Stopped> for WalkError {
    fn from(_: Stopped) -> WalkError {
        WalkError::Stopped
    }
}

impl core::fmt::Display for WalkError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            WalkError::Value(error) => error.fmt(f),
            WalkError::Stopped => f.write_str("the visitor ended the walk"),
        }
    }
}

impl core::error::Error for WalkError {}

/// Reads a value of type `tc` and passes its events to `visitor`.
///
/// # Errors
/// As [`copy_value`](crate::copy_value); [`WalkError::Stopped`] when the visitor stops it.
///
/// # Real-time
/// Allocates for text and type codes; the number of events is proportional to the octets read.
pub fn walk(tc: &TypeCode, d: &mut Decoder<'_>, visitor: &mut dyn Visitor) -> Result<(), WalkError> {
    value(tc.borrow(), d, visitor, 0)
}

impl Any {
    /// Passes the events of the value to `visitor`.
    ///
    /// # Errors
    /// [`WalkError::Stopped`] when the visitor stops it.
    pub fn walk(&self, visitor: &mut dyn Visitor) -> Result<(), WalkError> {
        self.reading(|d| walk(self.type_code(), d, visitor))
    }
}

type Walked = Result<(), WalkError>;

fn value(tc: TcRef<'_>, d: &mut Decoder<'_>, v: &mut dyn Visitor, level: u16) -> Walked {
    if level == MAX_LEVELS {
        return Err(d.error(ErrorKind::Depth).into());
    }
    let tc = tc.strip();
    match tc.kind() {
        Kind::Null | Kind::Void => v.event(Event::Null)?,
        Kind::Short => v.event(Event::Integer(d.get::<i16>()?.into()))?,
        Kind::UShort => v.event(Event::Integer(d.get::<u16>()?.into()))?,
        Kind::Long => v.event(Event::Integer(d.get::<i32>()?.into()))?,
        Kind::ULong => v.event(Event::Integer(d.get::<u32>()?.into()))?,
        Kind::LongLong => v.event(Event::Integer(d.get::<i64>()?.into()))?,
        Kind::ULongLong => v.event(Event::Integer(d.get::<u64>()?.into()))?,
        Kind::Octet => v.event(Event::Integer(d.get::<u8>()?.into()))?,
        Kind::Float => v.event(Event::Float(d.get()?))?,
        Kind::Double => v.event(Event::Double(d.get()?))?,
        Kind::LongDouble => v.event(Event::LongDouble(LongDouble::decode(d)?))?,
        Kind::Boolean => v.event(Event::Boolean(d.boolean()?))?,
        Kind::Char => v.event(Event::Char(d.char()?))?,
        Kind::WChar => v.event(Event::Char(d.wchar()?))?,
        kind @ (Kind::String | Kind::WString) => {
            let text = if kind == Kind::String { d.string_owned()? } else { d.wstring_owned()? };
            check_text(tc.number(), &text, d)?;
            v.event(Event::Text(&text))?;
        }
        Kind::Any => {
            let inner = TypeCode::read(d)?;
            v.event(Event::BeginAny(&inner))?;
            nested(d, |d| value(inner.borrow(), d, v, level + 1))?;
            v.event(Event::EndAny)?;
        }
        Kind::TypeCode => v.event(Event::TypeCode(&TypeCode::read(d)?))?,
        Kind::Principal => {
            let n = d.count(1)?;
            v.event(Event::Octets(d.take(n)?))?;
        }
        Kind::Fixed => v.event(fixed(tc, d)?)?,
        Kind::Enum => {
            let ordinal = d.get::<u32>()?;
            let wrong = d.error(ErrorKind::Value);
            let member = tc.members().get(ordinal as usize).ok_or(wrong)?;
            v.event(Event::Enumerator(&member.name, ordinal))?;
        }
        Kind::Sequence => {
            let element = content(tc, d)?;
            let n = d.count(element.kind().plain_width().unwrap_or(1))?;
            if tc.number() != 0 && n as i64 > tc.number() {
                return Err(d.error(ErrorKind::Bound).into());
            }
            list(element, n, d, v, level)?;
        }
        Kind::Array => list(content(tc, d)?, tc.number() as usize, d, v, level)?,
        Kind::Struct => structure(tc, d, v, level)?,
        Kind::Except => {
            d.string_owned()?;
            structure(tc, d, v, level)?;
        }
        Kind::Union => union(tc, d, v, level)?,
        Kind::ObjRef | Kind::Component | Kind::Home => reference(d, v)?,
        Kind::AbstractInterface if d.boolean()? => reference(d, v)?,
        Kind::Value | Kind::ValueBox | Kind::Event | Kind::AbstractInterface => {
            value_type(tc, d, v, level)?;
        }
        Kind::Native | Kind::LocalInterface => return Err(d.error(ErrorKind::NotRemotable).into()),
        Kind::Alias | Kind::Recursive => return Err(d.error(ErrorKind::TypeCode).into()),
    }
    Ok(())
}

/// A value of a valuetype: as a structure with all of its members, a boxed one with one member.
fn value_type(tc: TcRef<'_>, d: &mut Decoder<'_>, v: &mut dyn Visitor, level: u16) -> Walked {
    let (open, known) = match value_types::begin(tc, d)? {
        Start::Null => return Ok(v.event(Event::Null)?),
        Start::Again(number) => return Ok(v.event(Event::Again(number))?),
        Start::New { open, known } => (open, known),
    };
    v.event(Event::BeginStruct(tc.kind(), tc.name()))?;
    if tc.kind() == Kind::ValueBox {
        v.event(Event::Member("value", 0))?;
        value(content(tc, d)?, d, v, level + 1)?;
    }
    let mut index = 0;
    for base in value_types::levels(tc) {
        for member in base.members() {
            v.event(Event::Member(&member.name, index))?;
            value(base.follow(&member.link), d, v, level + 1)?;
            index += 1;
        }
    }
    d.end_value_octets(&open, known == 0)?;
    Ok(v.event(Event::EndStruct)?)
}

/// The element type without aliases.
fn content<'a>(tc: TcRef<'a>, d: &Decoder<'_>) -> Result<TcRef<'a>> {
    tc.content().map(TcRef::strip).ok_or(d.error(ErrorKind::TypeCode))
}

/// As [`Decoder::nested`], for a walk's errors.
fn nested(d: &mut Decoder<'_>, walk: impl FnOnce(&mut Decoder<'_>) -> Walked) -> Walked {
    let mut walked = Ok(());
    d.nested(|d| {
        walked = walk(d);
        Ok(())
    })?;
    walked
}

fn list(element: TcRef<'_>, n: usize, d: &mut Decoder<'_>, v: &mut dyn Visitor, level: u16) -> Walked {
    if element.kind() == Kind::Octet {
        return Ok(v.event(Event::Octets(d.take(n)?))?);
    }
    v.event(Event::BeginList(n))?;
    nested(d, |d| (0..n).try_for_each(|_| value(element, d, v, level + 1)))?;
    Ok(v.event(Event::EndList)?)
}

fn structure(tc: TcRef<'_>, d: &mut Decoder<'_>, v: &mut dyn Visitor, level: u16) -> Walked {
    v.event(Event::BeginStruct(tc.kind(), tc.name()))?;
    for (i, member) in tc.members().iter().enumerate() {
        v.event(Event::Member(&member.name, i))?;
        value(tc.follow(&member.link), d, v, level + 1)?;
    }
    Ok(v.event(Event::EndStruct)?)
}

fn union(tc: TcRef<'_>, d: &mut Decoder<'_>, v: &mut dyn Visitor, level: u16) -> Walked {
    let discriminator = content(tc, d)?;
    let bits = discriminator_bits(discriminator, d)?;
    let label = Label::Value(label_value(Some(discriminator.kind()), bits));
    let enumerator = discriminator.members().get(bits as usize).map_or("", |member| &member.name);
    v.event(Event::BeginUnion(tc.name(), label, enumerator))?;
    if let Some(case) = tc.node().and_then(|node| node.case(bits))
        && let (Some(member), Some(member_type)) = (tc.members().get(case), tc.member_type(case))
    {
        v.event(Event::Member(&member.name, case))?;
        value(member_type, d, v, level + 1)?;
    }
    Ok(v.event(Event::EndUnion)?)
}

fn fixed(tc: TcRef<'_>, d: &mut Decoder<'_>) -> Result<Event<'static>> {
    let octets = take_fixed(tc, d)?;
    let mut unscaled = 0i128;
    let mut halves = octets.iter().flat_map(|octet| [octet >> 4, octet & 15]).peekable();
    while let Some(half) = halves.next() {
        if halves.peek().is_some() {
            unscaled = unscaled * 10 + i128::from(half);
        } else if half == 0x0d {
            unscaled = -unscaled;
        }
    }
    Ok(Event::Fixed(unscaled, tc.node().map_or(0, |node| node.scale)))
}

fn reference(d: &mut Decoder<'_>, v: &mut dyn Visitor) -> Walked {
    let id = d.string_owned()?;
    let profiles = d.count(8)?;
    for _ in 0..profiles {
        d.get::<u32>()?;
        let n = d.count(1)?;
        d.take(n)?;
    }
    Ok(v.event(Event::Reference(&id, profiles))?)
}

//! Components from octets, and default values.

use super::{Content, DynAny, DynAnyError, MAX_COMPONENTS, State, union};
use crate::copy::{MAX_LEVELS, discriminator_bits};
use crate::graph::TcRef;
use crate::value_types::{self, Start};
use crate::write::put_label;
use crate::{Any, Kind, TypeCode, modifier};
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use isorb_cdr::{Decoder, Encoder, ErrorKind, Text};

type Made = Result<DynAny, DynAnyError>;

/// How many components may still be made.
pub(super) struct Budget(usize);

impl Budget {
    pub fn new() -> Budget {
        Budget(MAX_COMPONENTS)
    }

    fn take(&mut self, count: usize) -> Result<(), DynAnyError> {
        self.0 = self.0.checked_sub(count).ok_or(DynAnyError::TooLarge)?;
        Ok(())
    }
}

impl DynAny {
    pub(super) fn made(tc: &TypeCode, content: Content) -> DynAny {
        let mut made = DynAny { tc: tc.clone(), content, position: None };
        made.position = made.first();
        made
    }
}

/// Whether values of the kind have no components.
fn is_basic(kind: Kind) -> bool {
    use Kind::*;
    !matches!(kind, Struct | Except | Union | Sequence | Array | Value | ValueBox | Event)
}

/// Reads the components of a value.
pub(super) fn read(tc: &TypeCode, d: &mut Decoder<'_>, level: u16, budget: &mut Budget) -> Made {
    if level == MAX_LEVELS {
        return Err(d.error(ErrorKind::Depth).into());
    }
    budget.take(1)?;
    let plain = tc.borrow().strip();
    let content = match plain.kind() {
        kind if is_basic(kind) => Content::Basic(Any::take(tc.clone(), d)?),
        Kind::Struct => Content::List(members(plain, d, level, budget)?),
        Kind::Except => {
            // Written again it would be that of the type.
            if d.string_owned()? != plain.id() {
                return Err(d.error(ErrorKind::TypeCode).into());
            }
            Content::List(members(plain, d, level, budget)?)
        }
        Kind::Sequence => {
            let element = content(plain, d)?;
            let count = d.count(element.borrow().strip().kind().plain_width().unwrap_or(1))?;
            if plain.number() != 0 && count as i64 > plain.number() {
                return Err(d.error(ErrorKind::Bound).into());
            }
            Content::List(elements(&element, count, d, level, budget)?)
        }
        Kind::Array => {
            let element = content(plain, d)?;
            Content::List(elements(&element, plain.number() as usize, d, level, budget)?)
        }
        Kind::Union => read_union(plain, d, level, budget)?,
        _ => match value_types::begin(plain, d)? {
            Start::Null => Content::Value(None),
            Start::Again(number) => Content::Again(d.value_identity(number)),
            Start::New { open, known } => {
                let identity = d.value_identity(open.number);
                let ids = open.ids();
                let ids = ids.get(known..).unwrap_or(ids).iter().map(|id| id.to_string()).collect();
                let mut parts = Vec::new();
                if plain.kind() == Kind::ValueBox {
                    parts.push(read(&content(plain, d)?, d, level + 1, budget)?);
                }
                for base in value_types::levels(plain) {
                    parts.append(&mut members(base, d, level, budget)?);
                }
                d.end_value_octets(&open, known == 0)?;
                Content::Value(Some(State { identity, ids, chunked: open.is_chunked(), parts }))
            }
        },
    };
    Ok(DynAny::made(tc, content))
}

fn members(
    tc: TcRef<'_>,
    d: &mut Decoder<'_>,
    level: u16,
    budget: &mut Budget,
) -> Result<Vec<DynAny>, DynAnyError> {
    let types = tc.members().iter().map(|member| tc.follow(&member.link).to_owned());
    types.map(|tc| read(&tc, d, level + 1, budget)).collect()
}

fn elements(
    element: &TypeCode,
    count: usize,
    d: &mut Decoder<'_>,
    level: u16,
    budget: &mut Budget,
) -> Result<Vec<DynAny>, DynAnyError> {
    if count > budget.0 {
        return Err(DynAnyError::TooLarge);
    }
    let mut parts = Ok(Vec::new());
    // As the walk of a value does, so that sequences nest no deeper here.
    d.nested(|d| {
        parts = (0..count).map(|_| read(element, d, level + 1, budget)).collect();
        Ok(())
    })?;
    parts
}

fn read_union(
    tc: TcRef<'_>,
    d: &mut Decoder<'_>,
    level: u16,
    budget: &mut Budget,
) -> Result<Content, DynAnyError> {
    let discriminator_type = content(tc, d)?;
    let bits = discriminator_bits(discriminator_type.borrow().strip(), d)?;
    let case = tc.node().and_then(|node| node.case(bits));
    let discriminator = Box::new(label(&discriminator_type, bits));
    let member = match case.and_then(|case| Some((case, tc.member_type(case)?.to_owned()))) {
        Some((case, tc)) => Some((case, Box::new(read(&tc, d, level + 1, budget)?))),
        None => None,
    };
    Ok(Content::Union { discriminator, member })
}

/// A discriminator from the bits of its value.
pub(super) fn label(tc: &TypeCode, bits: i64) -> DynAny {
    DynAny::made(tc, Content::Basic(basic(tc, |e| put_label(tc.borrow().strip().kind(), bits, e))))
}

/// The element type, discriminator or boxed type.
fn content(tc: TcRef<'_>, d: &Decoder<'_>) -> Result<TypeCode, DynAnyError> {
    Ok(tc.content().ok_or(d.error(ErrorKind::TypeCode))?.to_owned())
}

/// A value without components from what `write` writes, which is known to be of the type.
pub(super) fn basic(tc: &TypeCode, write: impl FnOnce(&mut Encoder<'_>)) -> Any {
    let mut e = Encoder::new(Vec::new(), Text::HELD);
    write(&mut e);
    Any::trusted(tc.clone(), e)
}

/// The default value of a type.
pub(super) fn default(tc: &TypeCode, level: u16, budget: &mut Budget) -> Made {
    if level == MAX_LEVELS || !tc.is_complete() {
        return Err(DynAnyError::InconsistentTypeCode);
    }
    budget.take(1)?;
    let plain = tc.borrow().strip();
    let element = |tc: TcRef<'_>| tc.content().map(TcRef::to_owned).ok_or(DynAnyError::InconsistentTypeCode);
    let content = match plain.kind() {
        Kind::Native | Kind::LocalInterface | Kind::Alias | Kind::Recursive => {
            return Err(DynAnyError::InconsistentTypeCode);
        }
        Kind::Enum if plain.members().is_empty() => return Err(DynAnyError::InconsistentTypeCode),
        Kind::Struct | Kind::Except => Content::List(default_members(plain, level, budget)?),
        Kind::Sequence => Content::List(Vec::new()),
        Kind::Array => {
            let (element, count) = (element(plain)?, plain.number() as usize);
            if count > budget.0 {
                return Err(DynAnyError::TooLarge);
            }
            let parts = (0..count).map(|_| default(&element, level + 1, budget));
            Content::List(parts.collect::<Result<_, _>>()?)
        }
        Kind::Union => {
            let discriminator_type = element(plain)?;
            // The first member; nothing for a union without members.
            let bits = match plain.members().first() {
                Some(_) if plain.number() == 0 => union::free_label(plain),
                Some(first) => Some(first.number),
                None => Some(0),
            };
            let bits = bits.ok_or(DynAnyError::InconsistentTypeCode)?;
            let case = plain.node().and_then(|node| node.case(bits));
            let member = match case.and_then(|case| Some((case, plain.member_type(case)?.to_owned()))) {
                Some((case, tc)) => Some((case, Box::new(default(&tc, level + 1, budget)?))),
                None => None,
            };
            Content::Union { discriminator: Box::new(label(&discriminator_type, bits)), member }
        }
        Kind::Value | Kind::ValueBox | Kind::Event => Content::Value(None),
        kind => Content::Basic(basic(tc, |e| default_basic(plain, kind, e))),
    };
    Ok(DynAny::made(tc, content))
}

fn default_members(tc: TcRef<'_>, level: u16, budget: &mut Budget) -> Result<Vec<DynAny>, DynAnyError> {
    let types = tc.members().iter().map(|member| tc.follow(&member.link).to_owned());
    types.map(|tc| default(&tc, level + 1, budget)).collect()
}

fn default_basic(tc: TcRef<'_>, kind: Kind, e: &mut Encoder<'_>) {
    match kind {
        Kind::Null | Kind::Void => {}
        Kind::Boolean => e.put(0u8),
        Kind::Char => e.char('\0'),
        Kind::WChar => e.wchar('\0'),
        Kind::String => e.string(""),
        Kind::WString => e.wstring(""),
        Kind::Any | Kind::TypeCode => TypeCode::NULL.write(e),
        Kind::Enum | Kind::Principal => e.put(0u32),
        Kind::Fixed => super::numbers::put_fixed(tc.number() as usize, 0, e),
        Kind::LongDouble => {
            e.align(8);
            e.raw(&[0; 16]);
        }
        Kind::AbstractInterface => {
            e.put(0u8);
            e.value(None);
        }
        Kind::ObjRef | Kind::Component | Kind::Home => {
            e.string("");
            e.count(0);
        }
        kind => {
            let width = kind.plain_width().unwrap_or(1);
            e.align(width);
            e.raw(&[0; 8][..width]);
        }
    }
}

impl State {
    /// The state of a new value, with default members.
    pub fn new(tc: TcRef<'_>) -> Result<State, DynAnyError> {
        // An identity of a message has its highest bit set.
        static MADE: AtomicU32 = AtomicU32::new(0);
        let identity = MADE.fetch_add(1, Ordering::Relaxed).into();
        let mut budget = Budget::new();
        if tc.kind() == Kind::ValueBox {
            let boxed = tc.content().ok_or(DynAnyError::InconsistentTypeCode)?.to_owned();
            let parts = vec![default(&boxed, 1, &mut budget)?];
            return Ok(State { identity, ids: vec![tc.id().to_string()], chunked: false, parts });
        }
        let modified = |tc: TcRef<'_>, by: i16| tc.number() == i64::from(by);
        if modified(tc, modifier::ABSTRACT) || modified(tc, modifier::CUSTOM) {
            return Err(DynAnyError::InconsistentTypeCode);
        }
        let mut levels = value_types::levels(tc);
        let mut parts = Vec::new();
        for base in &levels {
            parts.append(&mut default_members(*base, 0, &mut budget)?);
        }
        levels.reverse();
        // A type that may be truncated to its base is followed by it.
        let truncatable = levels.iter().take_while(|tc| modified(**tc, modifier::TRUNCATABLE)).count();
        let ids: Vec<_> = levels.iter().take(truncatable + 1).map(|tc| tc.id().to_string()).collect();
        Ok(State { identity, chunked: ids.len() > 1, ids, parts })
    }
}

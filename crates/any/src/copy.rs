//! Copying a value from one stream to another by its type code.

use crate::graph::TcRef;
use crate::read::label;
use crate::value_types::{self, Start};
use crate::write::put_label;
use crate::{Kind, TypeCode};
use isorb_cdr::{Decode, Decoder, Encode, Encoder, ErrorKind, LongDouble, MAX_DEPTH, Narrow, Result};

/// The nesting limit of values, structures and unions included: twice that of sequences alone,
/// because recursion takes a structure and a sequence for each level.
pub(crate) const MAX_LEVELS: u16 = 2 * MAX_DEPTH as u16;

/// Reads a value of type `tc` from `d` and writes it to `e`, in the byte order, alignment and code
/// sets of `e`. It checks bounds, enumerators, discriminators and text on the way.
///
/// # Errors
/// The error in the bytes; [`ErrorKind::ValueType`] for a value that is not of the type code's
/// type, nor truncatable to it; [`ErrorKind::NotRemotable`] for one that began before this value,
/// and for local and native types; [`ErrorKind::TypeCode`] for an incomplete type code. An error in
/// *writing*, such as text outside the code set of `e`, is a sticky error of `e`.
///
/// # Real-time
/// Time and written octets are proportional to the octets read. Allocates for wide text, for
/// transcoded text, for nested type codes, and when the buffer of `e` grows; uses no memory of the
/// scope of `d`.
pub fn copy_value(tc: &TypeCode, d: &mut Decoder<'_>, e: &mut Encoder<'_>) -> Result<()> {
    copy(tc.borrow(), d, e, 0)
}

fn copy(tc: TcRef<'_>, d: &mut Decoder<'_>, e: &mut Encoder<'_>, level: u16) -> Result<()> {
    if level == MAX_LEVELS {
        return Err(d.error(ErrorKind::Depth));
    }
    let tc = tc.strip();
    match tc.kind() {
        Kind::Null | Kind::Void => {}
        kind @ (Kind::Short
        | Kind::UShort
        | Kind::Long
        | Kind::ULong
        | Kind::Float
        | Kind::Double
        | Kind::LongLong
        | Kind::ULongLong
        | Kind::Octet) => copy_plain(kind.plain_width().unwrap_or(1), 1, d, e)?,
        Kind::Boolean => d.boolean()?.encode(e),
        Kind::Char => e.char(d.char()?),
        Kind::WChar => e.wchar(d.wchar()?),
        Kind::LongDouble => LongDouble::decode(d)?.encode(e),
        Kind::String => copy_string(tc.number(), d, e)?,
        Kind::WString => {
            let text = d.wstring_owned()?;
            check_text(tc.number(), &text, d)?;
            e.wstring(&text);
        }
        Kind::Any => {
            let inner = TypeCode::read(d)?;
            inner.write(e);
            d.nested(|d| copy(inner.borrow(), d, e, level + 1))?;
        }
        Kind::TypeCode => TypeCode::read(d)?.write(e),
        Kind::Principal => copy_octets(d, e)?,
        Kind::Fixed => copy_fixed(tc, d, e)?,
        Kind::Enum => {
            let ordinal = d.get::<u32>()?;
            if ordinal as usize >= tc.members().len() {
                return Err(d.error(ErrorKind::Value));
            }
            e.put(ordinal);
        }
        Kind::Sequence => {
            let Some(element) = tc.content() else { return Err(d.error(ErrorKind::TypeCode)) };
            let element = element.strip();
            let n = d.count(element.kind().plain_width().unwrap_or(1))?;
            if tc.number() != 0 && n as i64 > tc.number() {
                return Err(d.error(ErrorKind::Bound));
            }
            e.count(n);
            copy_elements(element, n, d, e, level)?;
        }
        Kind::Array => {
            let Some(element) = tc.content() else { return Err(d.error(ErrorKind::TypeCode)) };
            copy_elements(element.strip(), tc.number() as usize, d, e, level)?;
        }
        Kind::Struct => copy_members(tc, d, e, level)?,
        Kind::Except => {
            copy_string(0, d, e)?;
            copy_members(tc, d, e, level)?;
        }
        Kind::Union => {
            let (Some(node), Some(discriminator)) = (tc.node(), tc.content()) else {
                return Err(d.error(ErrorKind::TypeCode));
            };
            let bits = discriminator_bits(discriminator.strip(), d)?;
            put_label(discriminator.strip().kind(), bits, e);
            if let Some(member) = node.case(bits).and_then(|case| tc.member_type(case)) {
                copy(member, d, e, level + 1)?;
            }
        }
        Kind::ObjRef | Kind::Component | Kind::Home => copy_reference(d, e)?,
        Kind::AbstractInterface => {
            let is_object = d.boolean()?;
            is_object.encode(e);
            if is_object { copy_reference(d, e)? } else { copy_value_type(tc, d, e, level)? }
        }
        Kind::Value | Kind::ValueBox | Kind::Event => copy_value_type(tc, d, e, level)?,
        Kind::Native | Kind::LocalInterface => return Err(d.error(ErrorKind::NotRemotable)),
        // `strip` removed it; the rest is an alias of nothing.
        Kind::Alias | Kind::Recursive => return Err(d.error(ErrorKind::TypeCode)),
    }
    Ok(())
}

fn copy_elements(
    element: TcRef<'_>,
    n: usize,
    d: &mut Decoder<'_>,
    e: &mut Encoder<'_>,
    level: u16,
) -> Result<()> {
    if let Some(width) = element.kind().plain_width() {
        return copy_plain(width, n, d, e);
    }
    d.nested(|d| (0..n).try_for_each(|_| copy(element, d, e, level + 1)))
}

fn copy_members(tc: TcRef<'_>, d: &mut Decoder<'_>, e: &mut Encoder<'_>, level: u16) -> Result<()> {
    tc.members().iter().try_for_each(|member| copy(tc.follow(&member.link), d, e, level + 1))
}

/// Copies `n` elements of `width` octets, swapped together if the order differs.
fn copy_plain(width: usize, n: usize, d: &mut Decoder<'_>, e: &mut Encoder<'_>) -> Result<()> {
    if n == 0 {
        return Ok(());
    }
    d.align(width)?;
    let foreign = d.order().is_foreign();
    let Some(octets) = n.checked_mul(width) else { return Err(d.error(ErrorKind::Length)) };
    let bytes = d.take(octets)?;
    if foreign && width > 1 {
        bytes.chunks_exact_mut(width).for_each(<[u8]>::reverse);
    }
    e.align(width);
    e.raw(bytes);
    Ok(())
}

fn copy_octets(d: &mut Decoder<'_>, e: &mut Encoder<'_>) -> Result<()> {
    let n = d.count(1)?;
    e.count(n);
    e.raw(d.take(n)?);
    Ok(())
}

fn copy_string(bound: i64, d: &mut Decoder<'_>, e: &mut Encoder<'_>) -> Result<()> {
    if d.text().narrow != Narrow::Latin1 {
        let text = d.string()?;
        check_text(bound, text, d)?;
        e.string(text);
    } else {
        let text = d.string_owned()?;
        check_text(bound, &text, d)?;
        e.string(&text);
    }
    Ok(())
}

/// Bounds count characters, not their octets in a code set.
pub(crate) fn check_text(bound: i64, text: &str, d: &Decoder<'_>) -> Result<()> {
    if bound != 0 && text.len() as i64 > bound && text.chars().count() as i64 > bound {
        return Err(d.error(ErrorKind::Bound));
    }
    Ok(())
}

/// Takes the octets of a `fixed` (clause 9.3.2.8): digits in half octets, the sign in the last, a
/// leading zero when the number of digits is even.
pub(crate) fn take_fixed<'m>(tc: TcRef<'_>, d: &mut Decoder<'m>) -> Result<&'m [u8]> {
    let digits = tc.number() as usize;
    let octets: &[u8] = d.take(digits / 2 + 1)?;
    let halves = octets.iter().flat_map(|octet| [octet >> 4, octet & 15]);
    let last = 2 * octets.len() - 1;
    let sound = halves.enumerate().all(|(i, half)| match i {
        0 if digits.is_multiple_of(2) => half == 0,
        i if i == last => half == 0x0c || half == 0x0d,
        _ => half <= 9,
    });
    if sound { Ok(octets) } else { Err(d.error(ErrorKind::Value)) }
}

fn copy_fixed(tc: TcRef<'_>, d: &mut Decoder<'_>, e: &mut Encoder<'_>) -> Result<()> {
    e.raw(take_fixed(tc, d)?);
    Ok(())
}

/// Reads a discriminator; `discriminator` is its type without aliases.
pub(crate) fn discriminator_bits(discriminator: TcRef<'_>, d: &mut Decoder<'_>) -> Result<i64> {
    let bits = label(discriminator.kind(), d)?;
    if discriminator.kind() == Kind::Enum && bits >= discriminator.members().len() as i64 {
        return Err(d.error(ErrorKind::Value));
    }
    Ok(bits)
}

/// Copies a reference as its structure on the wire (clause 7.6.2): type id, tagged profiles.
fn copy_reference(d: &mut Decoder<'_>, e: &mut Encoder<'_>) -> Result<()> {
    copy_string(0, d, e)?;
    let n = d.count(8)?;
    e.count(n);
    for _ in 0..n {
        e.put(d.get::<u32>()?);
        copy_octets(d, e)?;
    }
    Ok(())
}

/// Copies a value type (clause 9.3.4).
fn copy_value_type(tc: TcRef<'_>, d: &mut Decoder<'_>, e: &mut Encoder<'_>, level: u16) -> Result<()> {
    let (open, known) = match value_types::begin(tc, d)? {
        Start::Null => {
            e.value(None);
            return Ok(());
        }
        Start::Again(number) => {
            // A value outside of what is copied is out of reach.
            let copied = e.value_again(d.value_identity(number));
            return if copied { Ok(()) } else { Err(d.error(ErrorKind::NotRemotable)) };
        }
        Start::New { open, known } => (open, known),
    };
    let identity = d.value_identity(open.number);
    let ids = open.ids();
    let written = e.begin_value(identity, ids.get(known..).unwrap_or(ids), open.is_chunked());
    if tc.kind() == Kind::ValueBox {
        let Some(content) = tc.content() else { return Err(d.error(ErrorKind::TypeCode)) };
        copy(content, d, e, level + 1)?;
    }
    value_types::levels(tc).into_iter().try_for_each(|base| copy_members(base, d, e, level))?;
    e.end_value(written);
    d.end_value_octets(&open, known == 0)
}

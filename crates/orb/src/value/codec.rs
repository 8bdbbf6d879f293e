//! Reading values: which type, which factory, which value.

use super::Value;
use crate::orb_core::Orb;
use crate::value_type::ValueType;
use isorb_cdr::{Decoder, ErrorKind, OpenValue, Result, ValueLimits, ValueObject, ValueStart};
use std::sync::Arc;

/// What stands where a value is expected.
pub(super) enum Lookup {
    Null,
    Read(Arc<dyn ValueObject>),
    /// The value with this number, which is still being read.
    Open(usize),
}

/// Reads a value; `None` is null.
///
/// # Errors
/// [`ErrorKind::ValueType`] for a type that is unknown and cannot be truncated,
/// [`ErrorKind::Value`] for a value of another type, and where a value leads back to one that is
/// still being read, which only a [`Link`](super::Link) may; those of
/// [`Decoder::begin_value`] and of the value's members.
///
/// # Real-time
/// Allocates.
pub fn decode_value<V: Value>(d: &mut Decoder<'_>) -> Result<Option<V>> {
    match find(d, V::value_type())? {
        Lookup::Null => Ok(None),
        Lookup::Read(object) => match V::from_object(object) {
            Some(value) => Ok(Some(value)),
            None => Err(d.error(ErrorKind::Value)),
        },
        Lookup::Open(_) => Err(d.error(ErrorKind::Value)),
    }
}

/// Reads what stands where a value of the type `expected` is expected.
pub(super) fn find(d: &mut Decoder<'_>, expected: &'static ValueType) -> Result<Lookup> {
    let orb = d.context().and_then(|context| context.downcast_ref::<Orb>());
    let limits = orb.map_or(ValueLimits::DEFAULT, |orb| orb.config().value_limits());
    match d.begin_value(limits)? {
        ValueStart::Null => Ok(Lookup::Null),
        ValueStart::Again(number) => Ok(match d.value_read(number)? {
            Some(object) => Lookup::Read(object),
            None => Lookup::Open(number),
        }),
        ValueStart::New(open) => {
            let known = known_type(&open, expected, orb);
            let Some((value_type, complete)) = known else { return Err(d.error(ErrorKind::ValueType)) };
            let Some(read) = value_type.read else { return Err(d.error(ErrorKind::ValueType)) };
            let object = read(d)?;
            d.end_value(&open, complete && !value_type.custom, &object)?;
            Ok(Lookup::Read(object))
        }
    }
}

/// The type of a value, and whether it is its own rather than a base to which it is truncated.
/// Types that the program registered come before generated ones.
fn known_type(
    open: &OpenValue<'_>,
    expected: &'static ValueType,
    orb: Option<&Orb>,
) -> Option<(&'static ValueType, bool)> {
    let find = |id: &str| orb.and_then(|orb| orb.value_types().find(id)).or_else(|| expected.find(id));
    if open.ids().is_empty() {
        return Some((find(expected.id()).unwrap_or(expected), true));
    }
    open.ids().iter().enumerate().find_map(|(at, id)| Some((find(id)?, at == 0)))
}

/// Reads the elements of an array that is a member of a value's state.
///
/// # Errors
/// Those of `read`.
pub fn read_array<T, const N: usize>(
    d: &mut Decoder<'_>,
    mut read: impl FnMut(&mut Decoder<'_>) -> Result<T>,
) -> Result<[T; N]> {
    let items = (0..N).map(|_| read(d)).collect::<Result<Vec<T>>>()?;
    items.try_into().map_err(|_| d.error(ErrorKind::Length))
}

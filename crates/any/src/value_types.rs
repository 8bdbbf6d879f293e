//! Values (of valuetypes) behind a type code.

use crate::Kind;
use crate::copy::MAX_LEVELS;
use crate::graph::TcRef;
use crate::modifier;
use alloc::vec::Vec;
use isorb_cdr::{Decoder, ErrorKind, OpenValue, Result, ValueLimits, ValueStart};

/// What stands where a value is expected.
pub(crate) enum Start<'m> {
    Null,
    /// The value with this number, which began before.
    Again(usize),
    /// A value; `known` is the place of its type code's type among its repository ids.
    New {
        open: OpenValue<'m>,
        known: usize,
    },
}

/// Reads the beginning of a value of type `tc`.
///
/// # Errors
/// Those of [`Decoder::begin_value`]; [`ErrorKind::ValueType`] for a value of another type that
/// cannot be truncated to this one, and where the form of the state is the program's (`custom`).
pub(crate) fn begin<'m>(tc: TcRef<'_>, d: &mut Decoder<'m>) -> Result<Start<'m>> {
    Ok(match d.begin_value(ValueLimits::DEFAULT)? {
        ValueStart::Null => Start::Null,
        ValueStart::Again(number) => Start::Again(number),
        ValueStart::New(open) => {
            let custom = tc.kind() != Kind::ValueBox && tc.number() == i64::from(modifier::CUSTOM);
            let ids = open.ids();
            let known = if ids.is_empty() { Some(0) } else { ids.iter().position(|id| *id == tc.id()) };
            match known {
                Some(known) if !custom => Start::New { open, known },
                _ => return Err(d.error(ErrorKind::ValueType)),
            }
        }
    })
}

/// The types of a value's state, the innermost base first; none for a boxed value.
pub(crate) fn levels(tc: TcRef<'_>) -> Vec<TcRef<'_>> {
    let mut levels = Vec::new();
    let mut next = (tc.kind() != Kind::ValueBox).then_some(tc);
    while let Some(tc) = next.filter(|_| levels.len() < usize::from(MAX_LEVELS)) {
        levels.push(tc);
        next = tc.content().map(TcRef::strip).filter(|base| base.kind() != Kind::Null);
    }
    levels.reverse();
    levels
}

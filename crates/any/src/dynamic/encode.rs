//! The value as octets.

use super::{Content, DynAny, DynAnyError};
use crate::{Any, Kind, copy_value};
use alloc::vec::Vec;
use isorb_cdr::{Encoder, Text};

pub(super) fn to_any(of: &DynAny) -> Result<Any, DynAnyError> {
    if let Content::Basic(any) = &of.content {
        return Ok(any.clone());
    }
    let mut e = Encoder::new(Vec::new(), Text::HELD);
    write(of, &mut e)?;
    Ok(Any::of_encoder(of.tc.clone(), e)?)
}

fn write(of: &DynAny, e: &mut Encoder<'_>) -> Result<(), DynAnyError> {
    match &of.content {
        Content::Basic(any) => write_basic(any, of.kind(), e),
        Content::List(parts) => {
            match of.kind() {
                Kind::Except => e.string(of.tc.borrow().strip().id()),
                Kind::Sequence => e.count(parts.len()),
                _ => {}
            }
            parts.iter().try_for_each(|part| write(part, e))?;
        }
        Content::Union { discriminator, .. } => {
            write(discriminator, e)?;
            match of.active_member()? {
                Some(Ok(member)) => write(member, e)?,
                Some(Err(made)) => write(&made, e)?,
                None => {}
            }
        }
        Content::Value(None) => e.value(None),
        Content::Value(Some(state)) => {
            let ids: Vec<&str> = state.ids.iter().map(|id| &**id).collect();
            let open = e.begin_value(state.identity, &ids, state.chunked);
            let written = state.parts.iter().try_for_each(|part| write(part, e));
            e.end_value(open);
            written?;
        }
        Content::Again(identity) => {
            if !e.value_again(*identity) {
                return Err(DynAnyError::InvalidValue);
            }
        }
    }
    match e.error() {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

fn write_basic(any: &Any, kind: Kind, e: &mut Encoder<'_>) {
    if let Some(width) = kind.plain_width() {
        e.align(width);
        return e.raw(any.value());
    }
    if let Err(error) = any.reading(|d| copy_value(any.type_code(), d, e)) {
        e.fail(error.kind);
    }
}

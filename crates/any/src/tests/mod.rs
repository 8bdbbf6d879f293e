//! Tests of the whole crate: octets of an independent writer, recursion, hostile input.

mod any;
mod attacks;
mod codec;
mod dynamic;
mod golden;
mod model;
mod omniorb;
mod random;
mod recursive;
mod types;

use crate::{Any, TypeCode};
use alloc::vec::Vec;
use isorb_cdr::{Decoder, Encoder, Order, Result, Text};
use isorb_scope::Region;

/// Reads from a copy of `bytes`.
fn reading<R>(bytes: &[u8], order: Order, text: Text, read: impl FnOnce(&mut Decoder<'_>) -> R) -> R {
    let mut bytes = bytes.to_vec();
    let mut region = Region::new(1 << 16);
    let scope = region.enter();
    read(&mut Decoder::new(&mut bytes, order, text, &scope))
}

fn read_tc(bytes: &[u8], order: Order) -> Result<TypeCode> {
    reading(bytes, order, Text::DEFAULT, TypeCode::read)
}

fn read_any(bytes: &[u8], order: Order) -> Result<Any> {
    reading(bytes, order, Text::DEFAULT, Any::read)
}

fn write_tc(tc: &TypeCode) -> Vec<u8> {
    let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
    tc.write(&mut e);
    e.flatten().unwrap()
}

fn write_any(any: &Any) -> Vec<u8> {
    let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
    any.write(&mut e);
    e.flatten().unwrap()
}

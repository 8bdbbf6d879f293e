//! Writing octets and names.

use alloc::vec::Vec;
use isorb_cdr::{Encoder, ErrorKind, Order, Text};

/// A sequence of octets.
#[inline]
pub(crate) fn put_octets(e: &mut Encoder<'_>, octets: &[u8]) {
    e.count(octets.len());
    e.raw(octets);
}

/// A string that is ASCII by its nature (an operation, a host, a repository id) in whatever code set.
#[inline]
pub(crate) fn put_name(e: &mut Encoder<'_>, name: &str) {
    // Names are short: octet by octet is faster than a search that is made for long texts.
    if name.bytes().any(|octet| octet == 0) {
        return e.fail(ErrorKind::Text);
    }
    e.terminated(name.as_bytes());
}

/// The octets of an encapsulation, byte-order octet first.
///
/// # Errors
/// What `write` made the encoder fail with.
pub(crate) fn encapsulated(write: impl FnOnce(&mut Encoder<'_>)) -> isorb_cdr::Result<Vec<u8>> {
    let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
    e.raw(&[Order::NATIVE.flag()]);
    write(&mut e);
    e.flatten()
}

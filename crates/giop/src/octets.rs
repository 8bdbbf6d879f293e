//! Writing octets and names.

use alloc::vec::Vec;
use isorb_cdr::{Encoder, ErrorKind, Order, Text};

/// A sequence of octets.
#[inline]
pub(crate) fn put_octets(e: &mut Encoder<'_>, octets: &[u8]) {
    e.count(octets.len());
    e.raw(octets);
}

/// A string of ASCII characters by its nature (an operation, a host, a repository id), the same in
/// every code set.
#[inline]
pub(crate) fn put_name(e: &mut Encoder<'_>, name: &str) {
    if has_zero(name.as_bytes()) {
        return e.fail(ErrorKind::Text);
    }
    e.terminated(name.as_bytes());
}

/// Whether a name contains a zero octet. Names are short, so overlapping words need fewer steps
/// than a search made for long texts.
#[inline(always)]
pub(crate) fn has_zero(octets: &[u8]) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    // A zero octet borrows from its high bit; where none is zero, no high bit is set anew.
    let zero_in = |eight: u64| eight.wrapping_sub(ONES) & !eight & (ONES << 7) != 0;
    if let (Some(first), Some(last)) = (octets.first_chunk(), octets.last_chunk()) {
        let (first, last) = (u32::from_ne_bytes(*first), u32::from_ne_bytes(*last));
        if octets.len() <= 8 {
            return zero_in(u64::from(first) << 32 | u64::from(last));
        }
        let (eights, _) = octets.as_chunks::<8>();
        return eights.iter().any(|eight| zero_in(u64::from_ne_bytes(*eight)))
            || octets.last_chunk().is_some_and(|eight| zero_in(u64::from_ne_bytes(*eight)));
    }
    match *octets {
        [a, b, c] => a == 0 || b == 0 || c == 0,
        [a, b] => a == 0 || b == 0,
        [a] => a == 0,
        _ => false,
    }
}

/// The octets of an encapsulation, byte-order octet first.
///
/// # Errors
/// The encoder's error.
pub(crate) fn encapsulated(write: impl FnOnce(&mut Encoder<'_>)) -> isorb_cdr::Result<Vec<u8>> {
    let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
    e.raw(&[Order::NATIVE.flag()]);
    write(&mut e);
    e.flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn a_zero_is_found_wherever_it_lies() {
        for length in 0..40 {
            for filler in [1, 0x7f, 0x80, 0x81, 0xff] {
                let mut octets = vec![filler; length];
                assert!(!has_zero(&octets));
                for at in 0..length {
                    octets[at] = 0;
                    assert!(has_zero(&octets), "{at} of {length}");
                    octets[at] = filler;
                }
            }
        }
    }
}

//! The service context: an encapsulation of one string.

use crate::parent::TEXT;
use crate::{Malformed, TraceParent};
use std::io::Write;

/// The id of the service context with the `traceparent`. Numbers from 0x49530000 on are isorb's.
pub const SERVICE_CONTEXT: u32 = 0x4953_0300;

/// Octets of the encapsulation: byte order and padding, length, text and its end.
const LENGTH: usize = 4 + 4 + TEXT + 1;
/// The longest text of a later version that is looked at.
const LONGEST: usize = 1024;

/// Big-endian.
pub(crate) fn write(parent: &TraceParent) -> [u8; LENGTH] {
    let mut octets = [0; LENGTH];
    octets[4..8].copy_from_slice(&(TEXT as u32 + 1).to_be_bytes());
    // The text has this length, and there is room for it.
    let _ = write!(&mut octets[8..], "{parent}");
    octets
}

pub(crate) fn read(octets: &[u8]) -> Result<TraceParent, Malformed> {
    let (order, rest) = octets.split_first_chunk::<4>().ok_or(Malformed)?;
    let (length, rest) = rest.split_first_chunk().ok_or(Malformed)?;
    let length = match order[0] {
        0 => u32::from_be_bytes(*length),
        1 => u32::from_le_bytes(*length),
        _ => return Err(Malformed),
    };
    let text = rest.get(..length as usize).filter(|text| text.len() <= LONGEST).ok_or(Malformed)?;
    let text = text.strip_suffix(b"\0").ok_or(Malformed)?;
    std::str::from_utf8(text).map_err(|_| Malformed)?.parse()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_byte_orders_are_read() {
        let parent = TraceParent::begin();
        let mut octets = write(&parent);
        assert_eq!(read(&octets), Ok(parent));
        octets[0] = 1;
        assert_eq!(read(&octets), Err(Malformed), "the length is too large");
        octets[4..8].reverse();
        assert_eq!(read(&octets), Ok(parent));
        octets[0] = 2;
        assert_eq!(read(&octets), Err(Malformed));
    }

    #[test]
    fn no_part_of_it_is_read() {
        let octets = write(&TraceParent::begin());
        for length in 0..octets.len() {
            assert_eq!(read(&octets[..length]), Err(Malformed), "{length}");
        }
    }

    proptest! {
        #[test]
        fn any_octets_are_read_or_refused(octets in any::<Vec<u8>>()) {
            let _ = read(&octets);
        }
    }
}

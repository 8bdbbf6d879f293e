//! Values of type `any` as the channel carries them: an encapsulation, or nothing.

use isorb::Any;
use isorb_cdr::{Decoder, Encoder, Order, Text};
use isorb_scope::Region;

/// Room for values that are not read in place. An any is copied out at once.
const SCRATCH: usize = 4096;

/// The encapsulation of a value; empty for null, and for a value that cannot be encoded.
///
/// # Real-time
/// Allocates, unless there is no value.
pub(crate) fn pack(any: &Any) -> Vec<u8> {
    if any.is_null() { Vec::new() } else { pack_value(any) }
}

/// The encapsulation of a value, null included: an event of the OMG's service is its any.
///
/// # Real-time
/// Allocates.
pub(super) fn pack_value(any: &Any) -> Vec<u8> {
    let mut e = Encoder::new(Vec::new(), Text::HELD);
    e.put(u8::from(cfg!(target_endian = "little")));
    any.write(&mut e);
    e.flatten().unwrap_or_default()
}

/// The value of an encapsulation; null if it is malformed.
///
/// # Real-time
/// Allocates, unless there is no value.
pub(crate) fn unpack(packed: &[u8]) -> Any {
    let Some(flag) = packed.first() else {
        return Any::default();
    };
    let order = if flag & 1 == 1 { Order::Little } else { Order::Big };
    let mut bytes = packed.to_vec();
    let mut region = Region::new(SCRATCH);
    let scope = region.enter();
    let mut d = Decoder::new(&mut bytes, order, Text::HELD, &scope);
    d.skip(1);
    Any::read(&mut d).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        for any in [Any::default(), Any::new(&7i32).unwrap(), Any::new(&"text".to_owned()).unwrap()] {
            assert_eq!(unpack(&pack(&any)), any);
        }
        assert!(pack(&Any::default()).is_empty());
        assert!(!pack_value(&Any::default()).is_empty() && unpack(&pack_value(&Any::default())).is_null());
        assert!(unpack(&[1, 2, 3]).is_null());
    }
}

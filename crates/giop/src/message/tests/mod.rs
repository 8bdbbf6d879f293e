//! Messages derived by hand from the clauses, in both byte orders and all versions.

use super::*;
mod hostile;
mod ordinary;
mod replies;
mod requests;

use alloc::vec::Vec;
use isorb_cdr::{Order, Version};
use isorb_scope::Region;

/// Builds a message with explicit integers of either byte order; padding is written out by the
/// caller.
struct Hand(Vec<u8>, Order);

impl Hand {
    fn new(minor: u8, order: Order, kind: u8) -> Hand {
        let mut bytes = Vec::from(*b"GIOP\x01");
        bytes.extend([minor, order.flag(), kind, 0, 0, 0, 0]);
        Hand(bytes, order)
    }
    fn u16(mut self, v: u16) -> Hand {
        self.0.extend(if self.1 == Order::Big { v.to_be_bytes() } else { v.to_le_bytes() });
        self
    }
    fn u32(mut self, v: u32) -> Hand {
        self.0.extend(if self.1 == Order::Big { v.to_be_bytes() } else { v.to_le_bytes() });
        self
    }
    fn raw(mut self, bytes: &[u8]) -> Hand {
        self.0.extend(bytes);
        self
    }
    fn done(mut self) -> Vec<u8> {
        let size = self.0.len() as u32 - 12;
        let size = if self.1 == Order::Big { size.to_be_bytes() } else { size.to_le_bytes() };
        self.0[8..12].copy_from_slice(&size);
        self.0
    }
}

const ORDERS: [Order; 2] = [Order::Big, Order::Little];

/// RTCorbaPriority 5 as a big-endian encapsulation, four octets, so that nothing after it needs
/// padding.
const PRIORITY: ServiceContext<'static> = ServiceContext { id: 10, data: &[0, 0, 0, 5] };

/// Clause 9.4.2: the request headers; operation "sum" is 4 octets with its terminator.
fn request(minor: u8, order: Order) -> Vec<u8> {
    let hand = Hand::new(minor, order, 0);
    match minor {
        // Contexts, id, response_expected, padding, key, operation, principal; the body follows at
        // 60. What 1.0 pads, 1.1 reserves.
        0 | 1 => hand
            .u32(1)
            .u32(10)
            .u32(4)
            .raw(&[0, 0, 0, 5])
            .u32(7)
            .raw(&[1, 0, 0, 0])
            .u32(5)
            .raw(b"tower\0\0\0")
            .u32(4)
            .raw(b"sum\0")
            .u32(0)
            .u32(99)
            .done(),
        // Id, flags, reserved, disposition 0 padded to 4, key, operation, contexts: ends at 60,
        // padded to 64.
        _ => hand
            .u32(7)
            .raw(&[3, 0, 0, 0])
            .u16(0)
            .raw(&[0, 0])
            .u32(5)
            .raw(b"tower\0\0\0")
            .u32(4)
            .raw(b"sum\0")
            .u32(1)
            .u32(10)
            .u32(4)
            .raw(&[0, 0, 0, 5])
            .raw(&[0; 4])
            .u32(99)
            .done(),
    }
}

/// Clause 9.4.3: 1.0 and 1.1 are contexts, id, status; 1.2 is id, status, contexts and an aligned
/// body.
fn reply(minor: u8, order: Order) -> Vec<u8> {
    let hand = Hand::new(minor, order, 1);
    match minor {
        0 | 1 => hand.u32(0).u32(7).u32(1).u32(99).done(),
        // Ends at 24, which is aligned.
        _ => hand.u32(7).u32(1).u32(0).u32(99).done(),
    }
}

fn version(minor: u8) -> Version {
    [Version::V1_0, Version::V1_1, Version::V1_2][usize::from(minor)]
}

fn with<T>(mut bytes: Vec<u8>, read: impl FnOnce(&Header, &mut Decoder<'_>) -> T) -> T {
    let header = Header::parse(bytes.first_chunk().unwrap()).unwrap();
    assert_eq!(header.total(), bytes.len());
    let mut region = Region::new(0);
    let scope = region.enter();
    let mut d = start(&mut bytes, &header, &scope).unwrap();
    read(&header, &mut d)
}

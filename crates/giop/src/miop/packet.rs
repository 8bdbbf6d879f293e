//! One packet of a collection (clause 11, PacketHeader_1_0).

use crate::cursor::Cursor;
use core::fmt;
use isorb_cdr::Order;

/// The longest id of a collection, in octets.
pub const MAX_ID: usize = 252;

/// Length of the ids of this ORB's collections. With it, the header ends at a multiple of eight
/// octets.
pub const ID_LEN: usize = 12;

const MAGIC: [u8; 4] = *b"MIOP";
/// Version 1.0, a number in each half.
const VERSION: u8 = 0x10;
/// The collection's last packet.
const STOP: u8 = 2;
/// Before the id: magic, version, flags, length, number, number of packets, length of the id.
const FIXED: usize = 20;
/// The piece of the message begins at a multiple of this.
const BOUNDARY: usize = 8;

/// A packet, read in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Its number in the collection, from 0.
    pub number: u32,
    /// The number of packets in the collection; 0 if the sender does not announce it.
    pub count: u32,
    /// Whether it is the last one.
    pub last: bool,
    /// Distinguishes the collection from others of its sender.
    pub id: &'a [u8],
    /// Its piece of the message, never empty.
    pub data: &'a [u8],
}

/// The reason why a datagram is not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketError {
    /// The datagram does not begin with `MIOP`.
    Magic,
    /// Another version than 1.0.
    Version(u8),
    /// The datagram ends inside the header.
    Short,
    /// The id is longer than 252 octets.
    Id(u32),
    /// The announced length of the piece is not the actual one.
    Length {
        /// Announced in the header.
        declared: u16,
        /// Received.
        came: usize,
    },
    /// The number does not belong to a collection of this many packets, or the last-packet flag is
    /// wrong.
    Number {
        /// The packet's number.
        number: u32,
        /// The number of packets.
        count: u32,
    },
}

impl fmt::Display for PacketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PacketError::Magic => f.write_str("a datagram that is no MIOP packet"),
            PacketError::Version(version) => {
                write!(f, "a packet of MIOP {}.{}, where 1.0 is known", version >> 4, version & 15)
            }
            PacketError::Short => f.write_str("a packet that ends inside its header"),
            PacketError::Id(length) => write!(f, "a collection's id of {length} octets, more than {MAX_ID}"),
            PacketError::Length { declared, came } => {
                write!(f, "a packet that says that it has {declared} octets and has {came}")
            }
            PacketError::Number { number, count } => write!(f, "packet {number} (from 0) of {count}"),
        }
    }
}

impl core::error::Error for PacketError {}

impl<'a> Packet<'a> {
    /// Reads a datagram. Octets behind the piece are an error; so is an empty piece.
    ///
    /// # Errors
    /// [`PacketError`].
    ///
    /// # Real-time
    /// O(1), allocates nothing.
    pub fn parse(datagram: &'a [u8]) -> Result<Packet<'a>, PacketError> {
        let (magic, rest) = datagram.split_first_chunk::<4>().ok_or(PacketError::Magic)?;
        if *magic != MAGIC {
            return Err(PacketError::Magic);
        }
        let [version, flags, ..] = *rest else { return Err(PacketError::Short) };
        if version != VERSION {
            return Err(PacketError::Version(version));
        }
        let c = &mut Cursor::at_offset(datagram, 0, Order::from_flag(flags));
        let (declared, number, count, id) = fixed(c).ok_or(PacketError::Short)?;
        if id as usize > MAX_ID {
            return Err(PacketError::Id(id));
        }
        let id = c.take(id as usize).map_err(|_| PacketError::Short)?;
        let begins = c.position().next_multiple_of(BOUNDARY);
        let data = datagram.get(begins..).unwrap_or_default();
        if data.is_empty() || data.len() != usize::from(declared) {
            return Err(PacketError::Length { declared, came: data.len() });
        }
        let stop = flags & STOP != 0;
        if count != 0 && (number >= count || stop && number + 1 != count) {
            return Err(PacketError::Number { number, count });
        }
        let last = stop || number.checked_add(1) == Some(count);
        Ok(Packet { number, count, last, id, data })
    }
}

/// The header's numbers: length, number, number of packets, length of the id.
fn fixed(c: &mut Cursor<'_>) -> Option<(u16, u32, u32, u32)> {
    c.take(6).ok()?;
    Some((c.u16().ok()?, c.u32().ok()?, c.u32().ok()?, c.u32().ok()?))
}

/// The header of a packet that this ORB sends, in this machine's byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHead {
    /// The packet's number in its collection, from 0.
    pub number: u32,
    /// The number of packets in the collection.
    pub count: u32,
    /// The collection's id.
    pub id: [u8; ID_LEN],
    /// Octets of its piece of the message.
    pub length: u16,
}

impl PacketHead {
    /// Octets of the header; the piece follows at once.
    pub const LEN: usize = FIXED + ID_LEN;

    /// The header's octets.
    ///
    /// # Real-time
    /// O(1), allocates nothing.
    pub fn write(&self) -> [u8; PacketHead::LEN] {
        let last = self.number.checked_add(1) == Some(self.count);
        let mut head = [0; PacketHead::LEN];
        head[..4].copy_from_slice(&MAGIC);
        head[4] = VERSION;
        head[5] = Order::NATIVE.flag() | if last { STOP } else { 0 };
        head[6..8].copy_from_slice(&self.length.to_ne_bytes());
        head[8..12].copy_from_slice(&self.number.to_ne_bytes());
        head[12..16].copy_from_slice(&self.count.to_ne_bytes());
        head[16..20].copy_from_slice(&(ID_LEN as u32).to_ne_bytes());
        head[20..].copy_from_slice(&self.id);
        head
    }
}

const _: () = assert!(PacketHead::LEN.is_multiple_of(BOUNDARY));

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// Clause 11 by hand, big endian: magic, version 1.0, stop bit, 3 octets, packet 1 of 2, id
    /// "id" and its padding.
    const BIG: &[u8] = b"MIOP\x10\x02\0\x03\0\0\0\x01\0\0\0\x02\0\0\0\x02id\0\0xyz";

    #[test]
    fn golden() {
        let packet = Packet { number: 1, count: 2, last: true, id: b"id", data: b"xyz" };
        assert_eq!(Packet::parse(BIG), Ok(packet));
        // The same, little endian.
        let little = b"MIOP\x10\x03\x03\0\x01\0\0\0\x02\0\0\0\x02\0\0\0id\0\0xyz";
        assert_eq!(Packet::parse(little), Ok(packet));
        // A sender that does not know the number of packets announces 0, and marks the last one.
        let open = b"MIOP\x10\0\0\x01\0\0\0\x07\0\0\0\0\0\0\0\0\0\0\0\0x";
        assert_eq!(Packet::parse(open), Ok(Packet { number: 7, count: 0, last: false, id: b"", data: b"x" }));
        // As written here, in any byte order of the machine.
        let head = PacketHead { number: 0, count: 1, id: *b"twelve octet", length: 2 }.write();
        let big = b"MIOP\x10\x02\0\x02\0\0\0\0\0\0\0\x01\0\0\0\x0ctwelve octet";
        let little = b"MIOP\x10\x03\x02\0\0\0\0\0\x01\0\0\0\x0c\0\0\0twelve octet";
        assert_eq!(&head, if Order::NATIVE == Order::Big { big } else { little });
        let first = PacketHead { number: 0, count: 2, id: *b"twelve octet", length: 2 }.write();
        assert_eq!(first[5] & STOP, 0);
    }

    #[test]
    fn lies_are_named() {
        let changed = |at: usize, octet: u8| {
            let mut bytes = BIG.to_vec();
            bytes[at] = octet;
            Packet::parse(&bytes).map(|_| ())
        };
        assert_eq!(changed(0, b'm'), Err(PacketError::Magic));
        assert_eq!(changed(4, 0x11), Err(PacketError::Version(0x11)));
        assert_eq!(changed(7, 4), Err(PacketError::Length { declared: 4, came: 3 }));
        assert_eq!(changed(7, 2), Err(PacketError::Length { declared: 2, came: 3 }));
        assert_eq!(changed(11, 2), Err(PacketError::Number { number: 2, count: 2 }));
        assert_eq!(changed(11, 0), Err(PacketError::Number { number: 0, count: 2 }));
        assert_eq!(changed(19, 253), Err(PacketError::Id(253)));
        assert_eq!(changed(16, 255), Err(PacketError::Id(0xff00_0002)));
        assert_eq!(changed(19, 99), Err(PacketError::Short));
        for length in 0..BIG.len() {
            assert!(Packet::parse(&BIG[..length]).is_err(), "{length}");
        }
        assert!(Packet::parse(&[BIG, b"?"].concat()).is_err(), "more than it says");
        // The last packet by its number, without the flag.
        assert!(Packet::parse(&[&BIG[..5], b"\0", &BIG[6..]].concat()).unwrap().last);
    }

    proptest! {
        #[test]
        fn any_bytes(mut bytes: Vec<u8>, head in 0usize..6) {
            bytes.splice(..head.min(bytes.len()), BIG[..head].iter().copied());
            if let Ok(packet) = Packet::parse(&bytes) {
                prop_assert!(packet.id.len() <= MAX_ID && !packet.data.is_empty());
                prop_assert!(packet.count == 0 || packet.number < packet.count);
            }
        }

        #[test]
        fn comes_back(number in 0u32..9, more in 1u32..9, id: [u8; ID_LEN], data in proptest::collection::vec(0u8.., 1..99)) {
            let count = number + more;
            let head = PacketHead { number, count, id, length: data.len() as u16 };
            let datagram = [&head.write()[..], &data].concat();
            let packet = Packet { number, count, last: more == 1, id: &id, data: &data };
            prop_assert_eq!(Packet::parse(&datagram), Ok(packet));
        }
    }
}

//! The twelve octets before every message (clause 9.4.1).

use crate::ProtocolError;
use core::fmt;
use isorb_cdr::{Order, Version};

/// Type of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MessageKind {
    /// A call.
    Request = 0,
    /// The answer to a call.
    Reply = 1,
    /// The caller no longer waits for a reply.
    CancelRequest = 2,
    /// Asks for the location of an object.
    LocateRequest = 3,
    /// The location of an object.
    LocateReply = 4,
    /// Orderly end of a connection.
    CloseConnection = 5,
    /// A message could not be understood.
    MessageError = 6,
    /// More of an earlier message (GIOP 1.1 on).
    Fragment = 7,
}

impl MessageKind {
    const ALL: [MessageKind; 8] = [
        MessageKind::Request,
        MessageKind::Reply,
        MessageKind::CancelRequest,
        MessageKind::LocateRequest,
        MessageKind::LocateReply,
        MessageKind::CloseConnection,
        MessageKind::MessageError,
        MessageKind::Fragment,
    ];

    /// Name in the standard.
    pub const fn name(self) -> &'static str {
        match self {
            MessageKind::Request => "Request",
            MessageKind::Reply => "Reply",
            MessageKind::CancelRequest => "CancelRequest",
            MessageKind::LocateRequest => "LocateRequest",
            MessageKind::LocateReply => "LocateReply",
            MessageKind::CloseConnection => "CloseConnection",
            MessageKind::MessageError => "MessageError",
            MessageKind::Fragment => "Fragment",
        }
    }

    /// Whether fragments may follow (clause 9.4.9): in 1.1 requests and replies, in 1.2 also their
    /// locating forms.
    const fn may_have_fragments(self, version: Version) -> bool {
        match (version, self) {
            (Version::V1_0, _) => false,
            (_, MessageKind::Request | MessageKind::Reply | MessageKind::Fragment) => true,
            (Version::V1_2, MessageKind::LocateRequest | MessageKind::LocateReply) => true,
            _ => false,
        }
    }
}

impl fmt::Display for MessageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The minor number of a GIOP version.
pub const fn minor_version(version: Version) -> u8 {
    match version {
        Version::V1_0 => 0,
        Version::V1_1 => 1,
        Version::V1_2 => 2,
    }
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// GIOP version.
    pub version: Version,
    /// Byte order of the message.
    pub order: Order,
    /// Whether fragments follow.
    pub more_fragments: bool,
    /// Type of the message.
    pub kind: MessageKind,
    /// Length of what follows the header, in bytes.
    pub size: u32,
    /// Fragment boundaries of a message that came in fragments of GIOP 1.1: their offsets follow
    /// the message, four octets each, and [`Header::size`] counts them. Octets from the wire never
    /// set this.
    pub fragment_boundaries: u32,
}

impl Header {
    /// Length of a header in bytes.
    pub const LEN: usize = 12;

    /// Offset of the size in a header.
    pub const SIZE_AT: usize = 8;

    /// The header of an unfragmented message in this machine's byte order; its size is not known
    /// yet.
    pub const fn new(version: Version, kind: MessageKind) -> Header {
        Header { version, order: Order::NATIVE, more_fragments: false, kind, size: 0, fragment_boundaries: 0 }
    }

    /// Reads a header.
    ///
    /// # Errors
    /// [`ProtocolError::Magic`], [`ProtocolError::Version`], [`ProtocolError::Kind`],
    /// [`ProtocolError::NotFragmentable`].
    ///
    /// # Real-time
    /// A few compares; allocates nothing.
    #[inline]
    pub fn parse(bytes: &[u8; Header::LEN]) -> Result<Header, ProtocolError> {
        match Header::ordinary(bytes) {
            Some(header) => Ok(header),
            None => Header::parse_any(bytes),
        }
    }

    /// Reads the header of an unfragmented Request or Reply of GIOP 1.2, as nearly all messages
    /// are. `None` for any other header and for malformed ones.
    ///
    /// # Real-time
    /// One compare; allocates nothing.
    #[inline]
    pub fn ordinary(bytes: &[u8; Header::LEN]) -> Option<Header> {
        // Magic, version, flags and kind in one word. Byte order, and Request (0) or Reply (1), may
        // differ.
        const SAME: u64 = u64::from_le_bytes(*b"GIOP\x01\x02\0\0");
        const DIFFERS: u64 = u64::from_le_bytes([0, 0, 0, 0, 0, 0, 1, 1]);
        let (first, size) = bytes.split_first_chunk::<8>()?;
        let size = *size.first_chunk::<4>()?;
        let first = u64::from_le_bytes(*first);
        if first & !DIFFERS != SAME {
            return None;
        }
        let order = if first & 1 << 48 != 0 { Order::Little } else { Order::Big };
        let kind = if first & 1 << 56 != 0 { MessageKind::Reply } else { MessageKind::Request };
        let size = if order == Order::Little { u32::from_le_bytes(size) } else { u32::from_be_bytes(size) };
        Some(Header {
            version: Version::V1_2,
            order,
            more_fragments: false,
            kind,
            size,
            fragment_boundaries: 0,
        })
    }

    fn parse_any(bytes: &[u8; Header::LEN]) -> Result<Header, ProtocolError> {
        let [g, i, o, p, major, minor, flags, kind, size @ ..] = *bytes;
        if [g, i, o, p] != *b"GIOP" {
            return Err(ProtocolError::Magic([g, i, o, p]));
        }
        let version = match (major, minor) {
            (1, 0) => Version::V1_0,
            (1, 1) => Version::V1_1,
            (1, 2) => Version::V1_2,
            _ => return Err(ProtocolError::Version { major, minor }),
        };
        let Some(&message) = MessageKind::ALL.get(usize::from(kind)) else {
            return Err(ProtocolError::Kind(kind));
        };
        if message == MessageKind::Fragment && version == Version::V1_0 {
            return Err(ProtocolError::Kind(kind));
        }
        let order = Order::from_flag(flags);
        // In GIOP 1.0 the octet is a boolean: no other bit has a meaning.
        let more_fragments = flags & 2 != 0 && version != Version::V1_0;
        if more_fragments && !message.may_have_fragments(version) {
            return Err(ProtocolError::NotFragmentable(message));
        }
        let size = if order == Order::Little { u32::from_le_bytes(size) } else { u32::from_be_bytes(size) };
        Ok(Header { version, order, more_fragments, kind: message, size, fragment_boundaries: 0 })
    }

    /// Refuses a message that is larger than `limit` bytes, header included.
    ///
    /// # Errors
    /// [`ProtocolError::TooLarge`].
    #[inline]
    pub fn check_limit(&self, limit: usize) -> Result<(), ProtocolError> {
        if self.total() > limit { Err(ProtocolError::TooLarge { size: self.size }) } else { Ok(()) }
    }

    /// Length of the whole message, header included, in bytes.
    pub const fn total(&self) -> usize {
        Header::LEN.saturating_add(self.size as usize)
    }

    /// The header's octets.
    pub const fn write(&self) -> [u8; Header::LEN] {
        let size = match self.order {
            Order::Little => self.size.to_le_bytes(),
            Order::Big => self.size.to_be_bytes(),
        };
        let flags = self.order.flag() | (self.more_fragments as u8) << 1;
        let minor = minor_version(self.version);
        let [a, b, c, d] = size;
        [b'G', b'I', b'O', b'P', 1, minor, flags, self.kind as u8, a, b, c, d]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden() {
        // Clause 9.4.1: magic, version 1.2, flags (bit 0 little endian, bit 1 more fragments),
        // type, size.
        let little = *b"GIOP\x01\x02\x03\x00\x10\x02\x00\x00";
        let header = Header::parse(&little).unwrap();
        assert_eq!(
            header,
            Header {
                version: Version::V1_2,
                order: Order::Little,
                more_fragments: true,
                kind: MessageKind::Request,
                size: 0x210,
                fragment_boundaries: 0
            }
        );
        assert_eq!(header.write(), little);
        let big = *b"GIOP\x01\x00\x00\x04\x00\x00\x02\x10";
        let header = Header::parse(&big).unwrap();
        assert_eq!(
            (header.version, header.order, header.kind),
            (Version::V1_0, Order::Big, MessageKind::LocateReply)
        );
        assert_eq!((header.size, header.total(), header.write()), (0x210, 0x21c, big));
        assert!(header.check_limit(0x21c).is_ok());
        assert_eq!(header.check_limit(0x21b), Err(ProtocolError::TooLarge { size: 0x210 }));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let parse = |bytes: &[u8; 12]| Header::parse(bytes).unwrap_err();
        assert_eq!(parse(b"GET / HTTP/1"), ProtocolError::Magic(*b"GET "));
        assert_eq!(
            parse(b"GIOP\x01\x03\0\0\0\0\0\0"),
            ProtocolError::Version { major: 1, minor: 3 },
            "1.3 is answered with the highest version that is spoken here"
        );
        assert_eq!(parse(b"GIOP\x02\x00\0\0\0\0\0\0"), ProtocolError::Version { major: 2, minor: 0 });
        assert_eq!(parse(b"GIOP\x01\x02\0\x08\0\0\0\0"), ProtocolError::Kind(8));
        assert_eq!(parse(b"GIOP\x01\x00\0\x07\0\0\0\0"), ProtocolError::Kind(7));
        assert_eq!(
            parse(b"GIOP\x01\x01\x02\x03\0\0\0\0"),
            ProtocolError::NotFragmentable(MessageKind::LocateRequest)
        );
        assert!(Header::parse(b"GIOP\x01\x02\x02\x03\0\0\0\0").is_ok());
        assert_eq!(
            parse(b"GIOP\x01\x02\x02\x02\0\0\0\0"),
            ProtocolError::NotFragmentable(MessageKind::CancelRequest)
        );
        assert!(!Header::parse(b"GIOP\x01\x00\x02\x00\0\0\0\0").unwrap().more_fragments, "a boolean in 1.0");
    }

    proptest! {
        #[test]
        fn any_bytes(bytes: [u8; 12]) {
            let _ = Header::parse(&bytes);
        }

        #[test]
        fn the_ordinary_case_is_no_other(flags: u8, kind in 0..3u8, minor in 0..4u8, size: [u8; 4]) {
            let mut bytes = *b"GIOP\x01\0\0\0\0\0\0\0";
            (bytes[5], bytes[6], bytes[7]) = (minor, flags, kind);
            bytes[8..].copy_from_slice(&size);
            prop_assert_eq!(Header::parse(&bytes), Header::parse_any(&bytes));
            prop_assert_eq!(Header::ordinary(&bytes).is_some(), minor == 2 && flags < 2 && kind < 2);
        }

        #[test]
        fn any_tail(tail: [u8; 7]) {
            let mut bytes = *b"GIOP\x01\0\0\0\0\0\0\0";
            bytes[5..].copy_from_slice(&tail);
            if let Ok(header) = Header::parse(&bytes) {
                prop_assert_eq!(Header::parse(&header.write()), Ok(header));
            }
        }
    }
}

//! Byte order, GIOP version and code sets, on which the wire form of values depends.

use alloc::string::String;

/// Byte order of a message or encapsulation; the flag's bit is 1 for little endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Most significant byte first.
    Big,
    /// Least significant byte first.
    Little,
}

impl Order {
    /// This machine's order; everything is sent in it.
    pub const NATIVE: Order = if cfg!(target_endian = "big") { Order::Big } else { Order::Little };

    /// From the low bit of a flags or byte-order octet.
    pub const fn from_flag(flag: u8) -> Order {
        if flag & 1 == 0 { Order::Big } else { Order::Little }
    }

    /// The octet that announces this order.
    pub const fn flag(self) -> u8 {
        matches!(self, Order::Little) as u8
    }

    /// Whether bytes in this order must be swapped here.
    pub const fn is_foreign(self) -> bool {
        self.flag() != Order::NATIVE.flag()
    }
}

/// GIOP version, on which the form of wide text depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// GIOP 1.0: no wide text, no fragments.
    V1_0,
    /// GIOP 1.1: wide characters of a fixed width.
    V1_1,
    /// GIOP 1.2: wide text as counted octets.
    V1_2,
}

/// Transmission code set of `char` and `string`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Narrow {
    /// ISO 8859-1 (0x00010001), the code set when none was negotiated.
    Latin1,
    /// UTF-8 (0x05010001), the form of text in memory: no conversion.
    Utf8,
    /// Of values that stay in the process, as in an `Any`: strings in UTF-8, a `char` as one octet
    /// of ISO 8859-1. No peer is sent it.
    Held,
    /// What [`Narrow::Held`] becomes in an encoder that has written a `char` above U+007F: the
    /// octets are none of UTF-8 any more.
    HeldLatin1,
}

/// Transmission code set of `wchar` and `wstring`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wide {
    /// None negotiated: wide text is rejected.
    None,
    /// UTF-16 (0x00010109).
    Utf16,
    /// UTF-16 with units that are no characters, which some peers send: the unpaired surrogate
    /// 0xD800 + n is the private character U+10F800 + n in memory.
    Utf16Units,
}

/// Everything that the form of text depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    /// Version of the message.
    pub version: Version,
    /// Code set of narrow text.
    pub narrow: Narrow,
    /// Code set of wide text.
    pub wide: Wide,
}

impl Text {
    /// GIOP 1.2 with UTF-8 and UTF-16: the agreement of two peers of this ORB.
    pub const DEFAULT: Text = Text { version: Version::V1_2, narrow: Narrow::Utf8, wide: Wide::Utf16 };

    /// Of values that stay in the process: as [`Text::DEFAULT`], but a `char` may be above U+007F.
    pub const HELD: Text = Text { narrow: Narrow::Held, ..Text::DEFAULT };

    /// Whether octets of [`Text::DEFAULT`] are octets of this, too.
    #[inline]
    pub fn takes_default(self) -> bool {
        self.version == Version::V1_2 && self.narrow != Narrow::Latin1 && self.wide == Wide::Utf16
    }

    /// The text of a connection of `version` before code sets are negotiated (clause 7.10.2.6: ISO
    /// 8859-1, no wide text).
    pub const fn fallback(version: Version) -> Text {
        Text { version, narrow: Narrow::Latin1, wide: Wide::None }
    }
}

/// IDL `wstring` as a value of its own, where its type must differ from `string`, as in an `Any`.
/// In structures and operations a `wstring` is a plain `&str` or `String`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct WString(pub String);

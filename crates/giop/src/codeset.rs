//! Code sets: which there are, what this ORB offers, and how two peers agree (clause 7.10.2).

use crate::cursor::Cursor;
use crate::{Kind, SystemException, minor};
use alloc::vec;
use alloc::vec::Vec;
use isorb_cdr::{Encoder, Narrow, Result, Text, Version, Wide};

/// ISO 8859-1, eight bits.
pub const ISO_8859_1: u32 = 0x0001_0001;
/// ISO 8859-15.
pub const ISO_8859_15: u32 = 0x0001_000f;
/// ISO 646, seven bits: ASCII.
pub const ISO_646: u32 = 0x0001_0020;
/// UCS-2, level 1.
pub const UCS_2: u32 = 0x0001_0100;
/// UCS-4, level 1.
pub const UCS_4: u32 = 0x0001_0104;
/// UTF-16.
pub const UTF_16: u32 = 0x0001_0109;
/// UTF-8.
pub const UTF_8: u32 = 0x0501_0001;

/// The name of a code set in the OSF registry; `None` when it is not known here.
pub fn name(id: u32) -> Option<&'static str> {
    Some(match id {
        0 => "none",
        0x0001_0001 => "ISO 8859-1",
        0x0001_0002 => "ISO 8859-2",
        0x0001_0003 => "ISO 8859-3",
        0x0001_0004 => "ISO 8859-4",
        0x0001_0005 => "ISO 8859-5",
        0x0001_0006 => "ISO 8859-6",
        0x0001_0007 => "ISO 8859-7",
        0x0001_0008 => "ISO 8859-8",
        0x0001_0009 => "ISO 8859-9",
        0x0001_000a => "ISO 8859-10",
        0x0001_000f => "ISO 8859-15",
        0x0001_0020 => "ISO 646 (ASCII)",
        0x0001_0100 => "UCS-2 level 1",
        0x0001_0101 => "UCS-2 level 2",
        0x0001_0102 => "UCS-2 level 3",
        0x0001_0104 => "UCS-4 level 1",
        0x0001_0105 => "UCS-4 level 2",
        0x0001_0106 => "UCS-4 level 3",
        0x0001_0109 => "UTF-16",
        0x0501_0001 => "UTF-8",
        0x1002_04e4 => "Windows-1252",
        _ => return None,
    })
}

/// The code sets of one kind of text that a side can process.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CodeSetComponent {
    /// The code set in memory; 0 for none.
    pub native: u32,
    /// The code sets that the side can convert to and from, preferred ones first.
    pub conversion: Vec<u32>,
}

impl CodeSetComponent {
    fn read(c: &mut Cursor<'_>) -> Result<CodeSetComponent> {
        let native = c.u32()?;
        let n = c.count(4)?;
        let conversion = (0..n).map(|_| c.u32()).collect::<Result<_>>()?;
        Ok(CodeSetComponent { native, conversion })
    }

    fn write(&self, e: &mut Encoder<'_>) {
        e.put(self.native);
        e.count(self.conversion.len());
        self.conversion.iter().for_each(|id| e.put(*id));
    }
}

/// What a server offers in TAG_CODE_SETS.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CodeSetComponentInfo {
    /// For `char` and `string`.
    pub char_data: CodeSetComponent,
    /// For `wchar` and `wstring`.
    pub wchar_data: CodeSetComponent,
}

impl CodeSetComponentInfo {
    /// What this ORB offers and uses: UTF-8 in memory, ISO 8859-1 by conversion; UTF-16.
    pub fn ours() -> CodeSetComponentInfo {
        CodeSetComponentInfo::ours_preferring(Narrow::Utf8)
    }

    /// As [`ours`](Self::ours), with a preferred narrow code set, which peers use where they can. A
    /// `char` beyond ASCII travels in ISO 8859-1 only, most texts in UTF-8 only.
    pub fn ours_preferring(narrow: Narrow) -> CodeSetComponentInfo {
        let (native, other) = match narrow {
            Narrow::Utf8 | Narrow::Held | Narrow::HeldLatin1 => (UTF_8, ISO_8859_1),
            Narrow::Latin1 => (ISO_8859_1, UTF_8),
        };
        CodeSetComponentInfo {
            char_data: CodeSetComponent { native, conversion: vec![other] },
            wchar_data: CodeSetComponent { native: UTF_16, conversion: Vec::new() },
        }
    }

    pub(crate) fn read(c: &mut Cursor<'_>) -> Result<CodeSetComponentInfo> {
        Ok(CodeSetComponentInfo {
            char_data: CodeSetComponent::read(c)?,
            wchar_data: CodeSetComponent::read(c)?,
        })
    }

    pub(crate) fn write(&self, e: &mut Encoder<'_>) {
        self.char_data.write(e);
        self.wchar_data.write(e);
    }
}

/// The code set in which one kind of text travels; `None` when there is none in common (clause
/// 7.10.2.6).
///
/// The order: the native set of both sides; the server's native set (the client converts); the
/// client's (the server converts); the first conversion set of the server that the client also has.
/// Last comes `fallback`, if the text of one side is Unicode, which covers any other.
pub fn transmission(client: &CodeSetComponent, server: &CodeSetComponent, fallback: u32) -> Option<u32> {
    if client.native == server.native || client.conversion.contains(&server.native) {
        return Some(server.native);
    }
    if server.conversion.contains(&client.native) {
        return Some(client.native);
    }
    let common = server.conversion.iter().find(|id| client.conversion.contains(id));
    let unicode = is_unicode(client.native) || is_unicode(server.native);
    common.copied().or(unicode.then_some(fallback))
}

fn is_unicode(id: u32) -> bool {
    id == UTF_8 || (0x0001_0100..=0x0001_010a).contains(&id)
}

/// The code sets of a connection, as the client chooses them from its own and the server's.
///
/// A server that names no wide code set receives no wide text. That fails only when a call sends
/// some.
///
/// # Errors
/// CODESET_INCOMPATIBLE with the OMG's minor code 1.
pub fn negotiate(
    client: &CodeSetComponentInfo,
    server: &CodeSetComponentInfo,
) -> Result<(Narrow, Wide), SystemException> {
    let incompatible = || SystemException::from(Kind::CodesetIncompatible).minor(minor::CODESET_NEGOTIATION);
    let narrow = transmission(&client.char_data, &server.char_data, UTF_8).and_then(narrow);
    let wide = if server.wchar_data.native == 0 {
        Some(Wide::None)
    } else {
        transmission(&client.wchar_data, &server.wchar_data, UTF_16).and_then(wide)
    };
    Ok((narrow.ok_or_else(incompatible)?, wide.ok_or_else(incompatible)?))
}

/// The text of a connection after the client announced its choice (service context 1).
///
/// # Errors
/// CODESET_INCOMPATIBLE with the OMG's minor code 2 for a code set that this side did not offer.
pub fn chosen(version: Version, char_data: u32, wchar_data: u32) -> Result<Text, SystemException> {
    let unsupported = || SystemException::from(Kind::CodesetIncompatible).minor(minor::CODESET_UNSUPPORTED);
    Ok(Text {
        version,
        narrow: narrow(char_data).ok_or_else(unsupported)?,
        wide: if wchar_data == 0 { Wide::None } else { wide(wchar_data).ok_or_else(unsupported)? },
    })
}

/// The registered number of a narrow code set.
pub const fn narrow_id(narrow: Narrow) -> u32 {
    match narrow {
        Narrow::Latin1 => ISO_8859_1,
        // What the process holds is never sent as it is.
        Narrow::Utf8 | Narrow::Held | Narrow::HeldLatin1 => UTF_8,
    }
}

/// The registered number of a wide code set, 0 for none.
pub const fn wide_id(wide: Wide) -> u32 {
    match wide {
        Wide::None => 0,
        Wide::Utf16 | Wide::Utf16Units => UTF_16,
    }
}

fn narrow(id: u32) -> Option<Narrow> {
    match id {
        ISO_8859_1 => Some(Narrow::Latin1),
        UTF_8 => Some(Narrow::Utf8),
        _ => None,
    }
}

fn wide(id: u32) -> Option<Wide> {
    (id == UTF_16).then_some(Wide::Utf16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(native: u32, conversion: &[u32]) -> CodeSetComponent {
        CodeSetComponent { native, conversion: conversion.into() }
    }

    #[test]
    fn clause_7_10_2_6_in_order() {
        let ours = set(UTF_8, &[ISO_8859_1]);
        assert_eq!(transmission(&ours, &ours, UTF_8), Some(UTF_8));
        // omniORB's default: ISO 8859-1 native. The client converts.
        assert_eq!(transmission(&ours, &set(ISO_8859_1, &[UTF_8]), UTF_8), Some(ISO_8859_1));
        // The server converts from ours.
        assert_eq!(transmission(&ours, &set(ISO_8859_15, &[ISO_8859_1, UTF_8]), UTF_8), Some(UTF_8));
        // A code set that both convert to.
        assert_eq!(transmission(&ours, &set(ISO_8859_15, &[ISO_646, ISO_8859_1]), UTF_8), Some(ISO_8859_1));
        // Nothing but the fallback.
        assert_eq!(transmission(&ours, &set(ISO_8859_15, &[]), UTF_8), Some(UTF_8));
        assert_eq!(transmission(&set(ISO_8859_1, &[]), &set(0x0001_0002, &[]), UTF_8), None);
    }

    #[test]
    fn peers() {
        let ours = CodeSetComponentInfo::ours();
        assert_eq!(negotiate(&ours, &ours), Ok((Narrow::Utf8, Wide::Utf16)));
        let omni =
            CodeSetComponentInfo { char_data: set(ISO_8859_1, &[UTF_8]), wchar_data: set(UTF_16, &[UTF_16]) };
        assert_eq!(negotiate(&ours, &omni), Ok((Narrow::Latin1, Wide::Utf16)));
        let narrow_only = CodeSetComponentInfo { char_data: set(UTF_8, &[]), wchar_data: set(0, &[]) };
        assert_eq!(negotiate(&ours, &narrow_only), Ok((Narrow::Utf8, Wide::None)));
        let ucs2 = CodeSetComponentInfo { char_data: set(UTF_8, &[]), wchar_data: set(UCS_2, &[]) };
        assert_eq!(negotiate(&ours, &ucs2), Ok((Narrow::Utf8, Wide::Utf16)));
        let strange = CodeSetComponentInfo { char_data: set(0x0001_0002, &[]), ..ours.clone() };
        let latin2 = CodeSetComponentInfo { char_data: set(0x0001_0003, &[]), ..ours };
        assert_eq!(negotiate(&strange, &latin2).unwrap_err().kind, Kind::CodesetIncompatible);
    }

    #[test]
    fn what_a_client_chose() {
        let text = chosen(Version::V1_2, ISO_8859_1, 0).unwrap();
        assert_eq!(text, Text::fallback(Version::V1_2));
        assert_eq!(chosen(Version::V1_2, UTF_8, UTF_16), Ok(Text::DEFAULT));
        assert_eq!(chosen(Version::V1_2, UTF_8, UCS_2).unwrap_err().minor, minor::CODESET_UNSUPPORTED);
        assert_eq!(chosen(Version::V1_2, 7, UTF_16).unwrap_err().minor, minor::CODESET_UNSUPPORTED);
    }
}

//! `wchar` and `wstring` as types of their own, where the Rust type alone determines the IDL type,
//! and the characters of wide text.

use crate::{Arg, Decode, Decoder, Encode, Encoder, Idl, Item, Result, WString, Wide, by_value};
use isorb_scope::{Full, Scope};

/// The private characters, to U+10FFFF, that stand for unpaired surrogates ([`Wide::Utf16Units`]).
const FIRST_ESCAPE: u32 = 0x10_f800;
const FIRST_SURROGATE: u32 = 0xd800;

/// The surrogate that a character stands for.
fn escaped(c: char, wide: Wide) -> Option<u16> {
    let at = u32::from(c).checked_sub(FIRST_ESCAPE).filter(|_| wide == Wide::Utf16Units)?;
    u16::try_from(FIRST_SURROGATE + at).ok()
}

/// The units of a character on the wire.
pub(crate) fn units_of(c: char, wide: Wide, units: &mut [u16; 2]) -> &[u16] {
    match escaped(c, wide) {
        Some(surrogate) => {
            units[0] = surrogate;
            &units[..1]
        }
        None => c.encode_utf16(units),
    }
}

/// Calls `put` with each unit of a text on the wire.
pub(crate) fn for_each_unit(s: &str, wide: Wide, mut put: impl FnMut(u16)) {
    match wide {
        Wide::Utf16Units => {
            s.chars().for_each(|c| units_of(c, wide, &mut [0; 2]).iter().for_each(|unit| put(*unit)));
        }
        _ => s.encode_utf16().for_each(put),
    }
}

/// The characters of units from the wire; `None` for a unit that is no character, and for a
/// character that would be sent on as a surrogate.
pub(crate) fn chars(units: impl Iterator<Item = u16>, wide: Wide) -> impl Iterator<Item = Option<char>> {
    char::decode_utf16(units).map(move |c| match c {
        Ok(c) => escaped(c, wide).is_none().then_some(c),
        Err(unpaired) if wide == Wide::Utf16Units => {
            char::from_u32(FIRST_ESCAPE + u32::from(unpaired.unpaired_surrogate()) - FIRST_SURROGATE)
        }
        Err(_) => None,
    })
}

/// IDL `wchar` where its type must differ from `char`, as in an `Any`. In structures and operations
/// a `wchar` is a plain `char`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct WChar(pub char);

/// The view of a [`WString`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct WStr<'a>(pub &'a str);

impl<'v> Encode<'v> for WChar {
    fn encode(self, e: &mut Encoder<'v>) {
        e.wchar(self.0);
    }
}
impl Item<'_> for WChar {}
impl<'m> Decode<'m> for WChar {
    const MIN_WIRE: usize = 1;
    fn decode(d: &mut Decoder<'m>) -> Result<WChar> {
        d.wchar().map(WChar)
    }
}
by_value!(WChar);

impl<'v> Encode<'v> for WStr<'v> {
    fn encode(self, e: &mut Encoder<'v>) {
        e.wstring(self.0);
    }
}
impl<'v> Item<'v> for WStr<'v> {}
impl<'m> Decode<'m> for WStr<'m> {
    const MIN_WIRE: usize = 4;
    fn decode(d: &mut Decoder<'m>) -> Result<WStr<'m>> {
        d.wstring().map(WStr)
    }
}
impl<'v> Encode<'v> for &'v WString {
    fn encode(self, e: &mut Encoder<'v>) {
        e.wstring(&self.0);
    }
}
impl<'v> Item<'v> for WString {}
impl Idl for WString {
    type View<'a> = WStr<'a>;
    fn from_view(view: WStr<'_>) -> WString {
        WString(view.0.into())
    }
    fn view_in<'a>(&'a self, _: &'a Scope<'a>) -> Result<WStr<'a>, Full> {
        Ok(WStr(&self.0))
    }
}
impl<'v> Arg<'v, WString> for WStr<'v> {}
impl<'v> Arg<'v, WString> for &'v WString {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Narrow, Order, Text, Version};
    use alloc::string::String;
    use alloc::vec::Vec;
    use isorb_scope::Region;
    use proptest::prelude::*;

    fn text(version: Version, wide: Wide) -> Text {
        Text { version, narrow: Narrow::Utf8, wide }
    }

    fn read(bytes: &[u8], text: Text) -> Result<String> {
        let (mut first, mut second) = (bytes.to_vec(), bytes.to_vec());
        let mut region = Region::new(1 << 12);
        let scope = region.enter();
        let order = if text.version == Version::V1_2 { Order::Big } else { Order::NATIVE };
        let lent = Decoder::new(&mut first, order, text, &scope).wstring().map(String::from);
        assert_eq!(Decoder::new(&mut second, order, text, &scope).wstring_owned().ok(), lent.clone().ok());
        lent
    }

    fn written(text: Text, s: &str) -> Vec<u8> {
        let mut e = Encoder::new(Vec::new(), text);
        e.wstring(s);
        e.finish().unwrap().into_buffer()
    }

    #[test]
    fn a_unit_that_is_no_character_passes_if_asked() {
        let octets = b"\0\0\0\x06\xdf\x77\0a\xd8\0";
        assert!(read(octets, text(Version::V1_2, Wide::Utf16)).is_err());
        let units = text(Version::V1_2, Wide::Utf16Units);
        let passed = read(octets, units).unwrap();
        assert_eq!(passed, "\u{10ff77}a\u{10f800}");
        assert_eq!(written(units, &passed)[4..], octets[4..]);
        // The private characters themselves would go on as something else.
        assert!(read(b"\0\0\0\x04\xdb\xfe\xdc\0", units).is_err());
        assert_eq!(
            read(b"\0\0\0\x04\xdb\xfe\xdc\0", text(Version::V1_2, Wide::Utf16)).unwrap(),
            "\u{10f800}"
        );
        let mut e = Encoder::new(Vec::new(), units);
        e.wchar('\u{10f801}');
        let mut octets = e.finish().unwrap().into_buffer();
        assert_eq!(octets, b"\x02\xd8\x01");
        let mut region = Region::new(64);
        let scope = region.enter();
        assert_eq!(Decoder::new(&mut octets, Order::Big, units, &scope).wchar(), Ok('\u{10f801}'));
    }

    proptest! {
        #[test]
        fn any_units_come_back(units: Vec<u16>) {
            // A pair that means a private character is refused, and a byte order mark is no text.
            prop_assume!(units.iter().all(|unit| !matches!(unit, 0 | 0xdbfe..0xdc00 | 0xfffe | 0xfeff)));
            let mut octets = (2 * units.len() as u32).to_be_bytes().to_vec();
            octets.extend(units.iter().flat_map(|unit| unit.to_be_bytes()));
            let form = text(Version::V1_2, Wide::Utf16Units);
            let passed = read(&octets, form).unwrap();
            prop_assert_eq!(&written(form, &passed)[4..], &octets[4..]);
            let form = text(Version::V1_1, Wide::Utf16Units);
            prop_assert_eq!(read(&written(form, &passed), form).unwrap(), passed);
        }
    }
}

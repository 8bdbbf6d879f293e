//! `wchar` and `wstring` as types of their own, where the Rust type alone determines the IDL type.

use crate::{Arg, Decode, Decoder, Encode, Encoder, Idl, Item, Result, WString};

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
impl Idl for WChar {
    type View<'a> = WChar;
    fn from_view(view: WChar) -> WChar {
        view
    }
}
impl<'v> Arg<'v, WChar> for WChar {}

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
}
impl<'v> Arg<'v, WString> for WStr<'v> {}
impl<'v> Arg<'v, WString> for &'v WString {}

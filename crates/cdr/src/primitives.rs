//! Primitive types of IDL.

use crate::{Arg, Decode, Decoder, Encode, Encoder, Idl, Item, Result, by_value};
use alloc::string::String;
use isorb_scope::{Full, Scope};

macro_rules! plain {
    ($($t:ty)*) => { $(
        impl<'v> Encode<'v> for $t {
            #[inline]
            fn encode(self, e: &mut Encoder<'v>) {
                e.put(self);
            }
        }
        impl<'v> Item<'v> for $t {
            fn encode_seq(items: &'v [$t], e: &mut Encoder<'v>) {
                e.plain_seq(items);
            }
            fn encode_array(items: &'v [$t], e: &mut Encoder<'v>) {
                e.plain_array(items);
            }
        }
        impl<'m> Decode<'m> for $t {
            const MIN_WIRE: usize = size_of::<$t>();
            #[inline]
            fn decode(d: &mut Decoder<'m>) -> Result<$t> {
                d.get()
            }
            fn decode_seq(d: &mut Decoder<'m>) -> Result<&'m [$t]> {
                d.plain_seq()
            }
        }
        by_value!($t);
    )* };
}

plain!(u8 i8 i16 u16 i32 u32 i64 u64 f32 f64);

impl<'v> Encode<'v> for bool {
    fn encode(self, e: &mut Encoder<'v>) {
        e.put(u8::from(self));
    }
}
impl Item<'_> for bool {}
impl<'m> Decode<'m> for bool {
    const MIN_WIRE: usize = 1;
    fn decode(d: &mut Decoder<'m>) -> Result<bool> {
        d.boolean()
    }
}
by_value!(bool);

impl<'v> Encode<'v> for char {
    fn encode(self, e: &mut Encoder<'v>) {
        e.char(self);
    }
}
impl Item<'_> for char {}
impl<'m> Decode<'m> for char {
    const MIN_WIRE: usize = 1;
    fn decode(d: &mut Decoder<'m>) -> Result<char> {
        d.char()
    }
}
by_value!(char);

impl<'v> Encode<'v> for () {
    #[inline]
    fn encode(self, _: &mut Encoder<'v>) {}
}
impl<'m> Decode<'m> for () {
    const MIN_WIRE: usize = 0;
    #[inline]
    fn decode(_: &mut Decoder<'m>) -> Result<()> {
        Ok(())
    }
}
by_value!(());

impl<'v> Encode<'v> for &'v str {
    fn encode(self, e: &mut Encoder<'v>) {
        e.string(self);
    }
}
impl<'v> Item<'v> for &'v str {}
impl<'m> Decode<'m> for &'m str {
    const MIN_WIRE: usize = 4;
    fn decode(d: &mut Decoder<'m>) -> Result<&'m str> {
        d.string()
    }
}
impl<'v> Encode<'v> for &'v String {
    fn encode(self, e: &mut Encoder<'v>) {
        e.string(self);
    }
}
impl<'v> Item<'v> for String {}
impl Idl for String {
    type View<'a> = &'a str;
    fn from_view(view: &str) -> String {
        view.into()
    }
    fn view_in<'a>(&'a self, _: &'a Scope<'a>) -> Result<&'a str, Full> {
        Ok(self)
    }
}
impl<'v> Arg<'v, String> for &'v str {}
impl<'v> Arg<'v, String> for &'v String {}

//! Sequences, arrays, references to values, tuples of results, references that may be nil.

use crate::{Arg, Decode, Decoder, Encode, Encoder, Handle, Idl, Item, Result, SeqArg};
use alloc::vec::Vec;
use isorb_scope::{Full, Scope};

// A reference to anything that is written by value.
impl<'v, T: Encode<'v>> Encode<'v> for &'v T {
    #[inline]
    fn encode(self, e: &mut Encoder<'v>) {
        (*self).encode(e);
    }
}
impl<'v, T: Arg<'v, M>, M> Arg<'v, M> for &'v T {}

// Sequences.
impl<'v, T: Item<'v>> Encode<'v> for &'v [T]
where
    &'v T: Encode<'v>,
{
    fn encode(self, e: &mut Encoder<'v>) {
        T::encode_seq(self, e);
    }
}
impl<'v, T: Item<'v>> Encode<'v> for &'v Vec<T>
where
    &'v T: Encode<'v>,
{
    fn encode(self, e: &mut Encoder<'v>) {
        T::encode_seq(self, e);
    }
}
impl<'v, T: Item<'v>> Item<'v> for &'v [T] where &'v T: Encode<'v> {}
impl<'v, T: Item<'v>> Item<'v> for Vec<T> where &'v T: Encode<'v> {}
impl<'m, T: Decode<'m>> Decode<'m> for &'m [T] {
    const MIN_WIRE: usize = 4;
    fn decode(d: &mut Decoder<'m>) -> Result<&'m [T]> {
        T::decode_seq(d)
    }
}
impl<T: Idl> Idl for Vec<T>
where
    for<'a> &'a [T::View<'a>]: Encode<'a>,
{
    type View<'a> = &'a [T::View<'a>];
    fn from_view(view: &[T::View<'_>]) -> Vec<T> {
        view.iter().map(|item| T::from_view(*item)).collect()
    }
    fn view_in<'a>(&'a self, scope: &'a Scope<'a>) -> Result<&'a [T::View<'a>], Full> {
        T::views_in(self, scope)
    }
}
impl<'v, T: Item<'v>, M> Arg<'v, Vec<M>> for &'v [T] where &'v T: Arg<'v, M> {}
impl<'v, T: Item<'v>, M> Arg<'v, Vec<M>> for &'v Vec<T> where &'v T: Arg<'v, M> {}
impl<'v, T: Item<'v>, M> SeqArg<'v, M> for &'v [T]
where
    &'v T: Arg<'v, M>,
{
    fn encode_arg(&self, e: &mut Encoder<'v>) {
        T::encode_seq(self, e);
    }
}
impl<'v, T: Item<'v>, M> SeqArg<'v, M> for &'v Vec<T>
where
    &'v T: Arg<'v, M>,
{
    fn encode_arg(&self, e: &mut Encoder<'v>) {
        T::encode_seq(self, e);
    }
}
impl<'v, T: Item<'v>, M, const N: usize> SeqArg<'v, M> for &'v [T; N]
where
    &'v T: Arg<'v, M>,
{
    fn encode_arg(&self, e: &mut Encoder<'v>) {
        T::encode_seq(*self, e);
    }
}

// Arrays: by value when small views, by reference when owned.
impl<'v, T: Encode<'v>, const N: usize> Encode<'v> for [T; N] {
    fn encode(self, e: &mut Encoder<'v>) {
        for item in self {
            item.encode(e);
        }
    }
}
impl<'v, T: Encode<'v> + 'v, const N: usize> Item<'v> for [T; N] {}
impl<'m, T: Decode<'m>, const N: usize> Decode<'m> for [T; N] {
    const MIN_WIRE: usize = N * T::MIN_WIRE;
    fn decode(d: &mut Decoder<'m>) -> Result<[T; N]> {
        let first = T::decode(d)?;
        let mut items = [first; N];
        for item in &mut items[1..] {
            *item = T::decode(d)?;
        }
        Ok(items)
    }
}
impl<T: Idl, const N: usize> Idl for [T; N] {
    type View<'a> = [T::View<'a>; N];
    fn from_view(view: [T::View<'_>; N]) -> [T; N] {
        view.map(T::from_view)
    }
    fn view_in<'a>(&'a self, scope: &'a Scope<'a>) -> Result<[T::View<'a>; N], Full> {
        const { assert!(N > 0, "an array of IDL has elements") };
        let mut views = [self[0].view_in(scope)?; N];
        for (view, item) in views.iter_mut().zip(self).skip(1) {
            *view = item.view_in(scope)?;
        }
        Ok(views)
    }
}
impl<'v, T: Arg<'v, M> + Encode<'v>, M, const N: usize> Arg<'v, [M; N]> for [T; N] {}

// References that may be nil. The owned `Option<R>` is not written itself (an impl for `&Option<R>`
// would overlap with the one for references to views): generated code writes `owned.as_ref()`.
impl<'v, R: Handle> Encode<'v> for Option<&'v R> {
    fn encode(self, e: &mut Encoder<'v>) {
        R::encode_handle(self, e);
    }
}
impl<'v, R: Handle> Item<'v> for Option<&'v R> {}
impl<'m, R: Handle> Decode<'m> for Option<&'m R> {
    const MIN_WIRE: usize = R::MIN_WIRE;
    fn decode(d: &mut Decoder<'m>) -> Result<Option<&'m R>> {
        match R::decode_handle(d)? {
            Some(handle) => Ok(Some(d.scope().keep(handle)?)),
            None => Ok(None),
        }
    }
}
impl<R: Handle> Idl for Option<R> {
    type View<'a> = Option<&'a R>;
    fn from_view(view: Option<&R>) -> Option<R> {
        view.cloned()
    }
    fn view_in<'a>(&'a self, _: &'a Scope<'a>) -> Result<Option<&'a R>, Full> {
        Ok(self.as_ref())
    }
}
impl<'v, R: Handle> Arg<'v, Option<R>> for Option<&'v R> {}

// Results of an operation with several.
macro_rules! tuple {
    ($($t:ident $i:tt)*) => {
        impl<'v, $($t: Encode<'v>),*> Encode<'v> for ($($t,)*) {
            fn encode(self, e: &mut Encoder<'v>) {
                $(self.$i.encode(e);)*
            }
        }
        impl<'m, $($t: Decode<'m>),*> Decode<'m> for ($($t,)*) {
            const MIN_WIRE: usize = 0 $(+ $t::MIN_WIRE)*;
            #[inline]
            fn decode(d: &mut Decoder<'m>) -> Result<Self> {
                Ok(($($t::decode(d)?,)*))
            }
        }
        impl<$($t: Idl),*> Idl for ($($t,)*) {
            type View<'a> = ($($t::View<'a>,)*);
            fn from_view(view: Self::View<'_>) -> Self {
                ($($t::from_view(view.$i),)*)
            }
            fn view_in<'a>(&'a self, scope: &'a Scope<'a>) -> Result<Self::View<'a>, Full> {
                Ok(($(self.$i.view_in(scope)?,)*))
            }
        }
    };
}
tuple!(A 0 B 1);
tuple!(A 0 B 1 C 2);
tuple!(A 0 B 1 C 2 D 3);
tuple!(A 0 B 1 C 2 D 3 E 4);
tuple!(A 0 B 1 C 2 D 3 E 4 F 5);
tuple!(A 0 B 1 C 2 D 3 E 4 F 5 G 6);
tuple!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7);
tuple!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8);
tuple!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9);
tuple!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10);
tuple!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11);

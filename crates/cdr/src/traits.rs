//! The traits of types on the wire, which generated code implements.

use crate::{Decoder, Encoder, Result};
use isorb_scope::{Full, Scope};

/// A value that can be written to a message. Views and plain values implement it themselves, owned
/// types by `&T`; `'v` is the lifetime of lent slices.
pub trait Encode<'v>: Copy {
    /// Writes the value. The encoder keeps an error and reports it once, when the message is
    /// finished.
    ///
    /// # Real-time
    /// Grows the encoder's buffer when it is too small; allocates nothing else.
    fn encode(self, e: &mut Encoder<'v>);
}

/// A type of sequence elements on the sending side.
pub trait Item<'v>: Sized + 'v
where
    &'v Self: Encode<'v>,
{
    /// Writes the count and the elements.
    fn encode_seq(items: &'v [Self], e: &mut Encoder<'v>) {
        e.count(items.len());
        for item in items {
            item.encode(e);
        }
    }

    /// Writes the elements alone, as in an array.
    fn encode_array(items: &'v [Self], e: &mut Encoder<'v>) {
        for item in items {
            item.encode(e);
        }
    }
}

/// A view that can be read from a message.
pub trait Decode<'m>: Copy {
    /// The least number of bytes of a value on the wire, at least 1 unless the type is empty.
    /// Counts are checked against it before any memory is reserved.
    const MIN_WIRE: usize;

    /// Reads a value.
    ///
    /// # Errors
    /// [`Error`](crate::Error) for bytes that are not a valid value.
    ///
    /// # Real-time
    /// Bounded by the bytes of the message; places views in the decoder's scope. Allocates only for
    /// object references, type codes, `Any` and value types.
    fn decode(d: &mut Decoder<'m>) -> Result<Self>;

    /// Reads a sequence of such values.
    ///
    /// # Errors
    /// As [`Decode::decode`].
    fn decode_seq(d: &mut Decoder<'m>) -> Result<&'m [Self]> {
        d.views(Self::MIN_WIRE, Self::decode)
    }
}

/// A type of IDL, by its owned Rust form.
pub trait Idl: Sized + 'static {
    /// The borrowed form, `Copy`; the type itself if nothing in it needs a heap.
    type View<'a>: Decode<'a> + Encode<'a>;

    /// Copies a view into an owned value.
    ///
    /// # Real-time
    /// Allocates for strings and sequences.
    fn from_view(view: Self::View<'_>) -> Self;

    /// Borrows the value as its view. Sequences of views, which an owned value does not have, are
    /// placed in `scope`.
    ///
    /// # Errors
    /// [`Full`] when the scope has no room for them.
    ///
    /// # Real-time
    /// Allocates nothing; linear in the elements of such sequences.
    fn view_in<'a>(&'a self, scope: &'a Scope<'a>) -> Result<Self::View<'a>, Full>;

    /// Borrows each of the values.
    ///
    /// # Errors
    /// As [`Idl::view_in`].
    ///
    /// # Real-time
    /// As [`Idl::view_in`].
    fn views_in<'a>(items: &'a [Self], scope: &'a Scope<'a>) -> Result<&'a [Self::View<'a>], Full> {
        Ok(scope.fill(items.len(), |at| items[at].view_in(scope))?)
    }
}

/// An argument for a parameter of the IDL type `T` (named by its owned form): `&T`, its view,
/// slices of either.
pub trait Arg<'v, T: ?Sized>: Encode<'v> {}

/// An argument for a parameter of type `sequence<M>` with elements that have views: slices, arrays
/// and vectors of either form, or [`each`] element of an iterator.
pub trait SeqArg<'v, M> {
    /// Writes the count and the elements.
    fn encode_arg(&self, e: &mut Encoder<'v>);
}

/// The elements of an iterator as a sequence argument: `each(tracks.iter().filter(|t| t.near))`.
///
/// The iterator is cloned and run twice for each attempt to send the call: to count, and to write.
///
/// # Real-time
/// Allocates nothing unless the iterator does.
pub fn each<I: IntoIterator<IntoIter: Clone>>(items: I) -> Each<I::IntoIter> {
    Each(items.into_iter())
}

/// The sequence argument that [`each`] makes.
#[derive(Clone, Debug)]
pub struct Each<I>(I);

impl<'v, M, I: Iterator<Item: Arg<'v, M>> + Clone> SeqArg<'v, M> for Each<I> {
    fn encode_arg(&self, e: &mut Encoder<'v>) {
        e.count(self.0.clone().count());
        self.0.clone().for_each(|item| item.encode(e));
    }
}

/// A reference that may be nil on the wire and owns a resource, such as an object reference. It
/// travels as `Option<&Self>`; the owned form is `Option<Self>`.
pub trait Handle: Clone + 'static {
    /// See [`Decode::MIN_WIRE`].
    const MIN_WIRE: usize;

    /// Reads a reference; `None` is nil.
    ///
    /// # Errors
    /// [`Error`](crate::Error) for malformed bytes.
    fn decode_handle(d: &mut Decoder<'_>) -> Result<Option<Self>>;

    /// Writes a reference or nil.
    fn encode_handle(this: Option<&Self>, e: &mut Encoder<'_>);
}

/// [`Idl`] and [`Arg`] for a type that is its own view.
#[doc(hidden)]
#[macro_export]
macro_rules! by_value {
    ($t:ty) => {
        impl $crate::Idl for $t {
            type View<'a> = $t;
            #[inline]
            fn from_view(view: $t) -> $t {
                view
            }
            #[inline]
            fn view_in<'a>(&'a self, _: &'a $crate::Scope<'a>) -> $crate::Result<$t, $crate::Full> {
                $crate::Result::Ok(*self)
            }
            #[inline]
            fn views_in<'a>(
                items: &'a [$t],
                _: &'a $crate::Scope<'a>,
            ) -> $crate::Result<&'a [$t], $crate::Full> {
                $crate::Result::Ok(items)
            }
        }
        impl<'v> $crate::Arg<'v, $t> for $t {}
    };
}

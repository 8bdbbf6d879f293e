//! Typed references: the traits of generated `…Ref` types.

use crate::{Interface, Object};

/// A typed object reference. Never nil: a nil of IDL is `None` of an `Option`.
pub trait Reference: Clone + Sized + Send + Sync + 'static {
    /// The interface it refers to.
    const INTERFACE: &'static Interface;
    /// A typed reference to an object of this interface, without a check.
    fn from_object(object: Object) -> Self;
    /// The untyped reference.
    fn object(&self) -> &Object;
}

/// 'Every object that this refers to is a `B`': generated for a reference, each of its bases, and
/// [`Object`].
pub trait IsA<B>: Reference {}

/// An argument for a parameter that takes a reference to a `B`: `&reference` of `B` or of anything
/// derived from it, or an `Option` of that.
pub trait RefArg<'v, B>: Copy {
    /// The object, or nil.
    fn object_arg(self) -> Option<&'v Object>;
}

impl<'v, B, R: IsA<B>> RefArg<'v, B> for &'v R {
    fn object_arg(self) -> Option<&'v Object> {
        Some(self.object())
    }
}

impl<'v, B, R: IsA<B>> RefArg<'v, B> for Option<&'v R> {
    fn object_arg(self) -> Option<&'v Object> {
        self.map(R::object)
    }
}

/// Makes a generated `struct ProbeRef(Object)` a [`Reference`]: `reference!(ProbeRef, interface,
/// [all bases])`.
#[macro_export]
macro_rules! reference {
    ($name:ident, $interface:expr, [$($base:ty),* $(,)?]) => {
        $crate::reference!(
            @ $name, $interface, $crate::generated::Object,
            $crate::generated::Handle::decode_handle, $crate::generated::Handle::encode_handle,
            [$crate::generated::Object $(, $base)*]
        );
    };
    (@ $name:ident, $interface:expr, $wire:ty, $decode:expr, $encode:expr, [$($base:ty),*]) => {
        impl $crate::generated::Reference for $name {
            const INTERFACE: &'static $crate::generated::Interface = &$interface;
            fn from_object(object: $crate::generated::Object) -> Self {
                $name(object)
            }
            fn object(&self) -> &$crate::generated::Object {
                &self.0
            }
        }
        impl $crate::generated::Handle for $name {
            const MIN_WIRE: usize = <$wire as $crate::generated::Handle>::MIN_WIRE;
            fn decode_handle(
                d: &mut $crate::generated::Decoder<'_>,
            ) -> $crate::generated::CdrResult<::core::option::Option<Self>> {
                ::core::result::Result::Ok($decode(d)?.map($name))
            }
            fn encode_handle(this: ::core::option::Option<&Self>, e: &mut $crate::generated::Encoder<'_>) {
                $encode(this.map(|this| &this.0), e)
            }
        }
        /// The stringified reference, `IOR:…`.
        impl ::core::fmt::Display for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(&self.0, f)
            }
        }
        impl $crate::generated::IsA<$name> for $name {}
        $(
            impl $crate::generated::IsA<$base> for $name {}
            impl ::core::convert::From<$name> for $base {
                fn from(reference: $name) -> Self {
                    <$base as $crate::generated::Reference>::from_object(reference.0)
                }
            }
        )*
    };
}

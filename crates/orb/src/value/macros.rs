//! The common parts of generated valuetypes.

/// Makes generated types a [`Value`](crate::Value): `value!(Leaf, LeafState, [id, truncatable
/// bases], kind, chunked, derived types, [(Base, BaseState, |state| part)])`.
#[macro_export]
macro_rules! value {
    (
        $name:ident, $state:ty, $ids:expr, $custom:expr, $chunked:expr, $derived:expr,
        [$(($base:ty, $base_state:ty, $part:expr)),* $(,)?]
    ) => {
        $crate::value!(@ $name, $state, $ids, $custom, $derived, ::core::option::Option::Some(|d| {
            let state = <$state as $crate::generated::ValueState>::decode_state(d)?;
            ::core::result::Result::Ok(::std::sync::Arc::new(state))
        }));
        impl ::core::convert::From<$state> for $name {
            fn from(state: $state) -> Self {
                $name($crate::generated::Shared::new(::std::sync::Arc::new(state)))
            }
        }
        impl $crate::generated::ValueObject for $state {
            fn ids(&self) -> &'static [&'static str] {
                $ids
            }
            fn is_chunked(&self) -> bool {
                $chunked
            }
            fn encode_object<'v>(&'v self, e: &mut $crate::generated::Encoder<'v>) {
                $crate::generated::ValueState::encode_state(self, e);
            }
            fn cast(self: ::std::sync::Arc<Self>, slot: &mut dyn ::core::any::Any) {
                type Slot<S> =
                    ::core::option::Option<::std::sync::Arc<dyn $crate::generated::Part<S>>>;
                $(
                    if let ::core::option::Option::Some(slot) = slot.downcast_mut::<Slot<$base_state>>() {
                        *slot = ::core::option::Option::Some(self);
                        return;
                    }
                )*
                if let ::core::option::Option::Some(slot) = slot.downcast_mut::<Slot<$state>>() {
                    *slot = ::core::option::Option::Some(self);
                }
            }
        }
        impl $crate::generated::Part<$state> for $state {
            fn part(&self) -> &$state {
                self
            }
        }
        $(
            impl $crate::generated::Part<$base_state> for $state {
                fn part(&self) -> &$base_state {
                    let part: fn(&$state) -> &$base_state = $part;
                    part(self)
                }
            }
            impl ::core::convert::From<$name> for $base {
                fn from(value: $name) -> Self {
                    $crate::generated::widen(&value)
                }
            }
        )*
    };
    // An abstract valuetype: a state without members, which no value has as its own.
    ($name:ident, $state:ty, $ids:expr, $derived:expr) => {
        $crate::value!(@ $name, $state, $ids, false, $derived, ::core::option::Option::None);
    };
    (@ $name:ident, $state:ty, $ids:expr, $custom:expr, $derived:expr, $read:expr) => {
        impl $crate::generated::Value for $name {
            fn value_type() -> &'static $crate::generated::ValueType {
                static TYPE: $crate::generated::ValueType = $crate::generated::ValueType {
                    ids: $ids,
                    custom: $custom,
                    read: $read,
                    derived: $derived,
                };
                &TYPE
            }
            fn from_object(
                object: ::std::sync::Arc<dyn $crate::generated::ValueObject>,
            ) -> ::core::option::Option<Self> {
                $crate::generated::Shared::from_object(object).map($name)
            }
            fn object(&self) -> ::std::sync::Arc<dyn $crate::generated::ValueObject> {
                self.0.object()
            }
        }
        impl $crate::generated::Handle for $name {
            const MIN_WIRE: usize = 4;
            fn decode_handle(
                d: &mut $crate::generated::Decoder<'_>,
            ) -> $crate::generated::CdrResult<::core::option::Option<Self>> {
                $crate::generated::decode_value(d)
            }
            fn encode_handle(this: ::core::option::Option<&Self>, e: &mut $crate::generated::Encoder<'_>) {
                e.value(match this {
                    ::core::option::Option::Some(this) => ::core::option::Option::Some(&*this.0),
                    ::core::option::Option::None => ::core::option::Option::None,
                });
            }
        }
        impl ::core::convert::From<$name> for $crate::generated::ValueBase {
            fn from(value: $name) -> Self {
                $crate::generated::ValueBase::new(value)
            }
        }
    };
}

/// The valuetypes of the examples in this crate's documentation.
#[doc(hidden)]
#[macro_export]
macro_rules! doc_value {
    () => {
        #[derive(Clone, Debug, PartialEq)]
        pub struct ShapeState {
            pub sides: i32,
        }
        #[derive(Clone, Debug, PartialEq)]
        pub struct Shape(isorb::generated::Shared<dyn isorb::generated::Part<ShapeState>>);
        isorb::value!(Shape, ShapeState, &["IDL:Shape:1.0"], false, false, |_| None, []);
        impl isorb::generated::ValueState for ShapeState {
            fn encode_state<'v>(&'v self, e: &mut isorb::generated::Encoder<'v>) {
                e.put(self.sides);
            }
            fn decode_state(d: &mut isorb::generated::Decoder<'_>) -> isorb::generated::CdrResult<Self> {
                Ok(ShapeState { sides: d.get()? })
            }
        }
        #[derive(Clone, Debug, PartialEq)]
        pub struct RingState {
            pub next: isorb::Link<Ring>,
        }
        #[derive(Clone, Debug, PartialEq)]
        pub struct Ring(isorb::generated::Shared<dyn isorb::generated::Part<RingState>>);
        impl core::ops::Deref for Ring {
            type Target = RingState;
            fn deref(&self) -> &RingState {
                self.0.part()
            }
        }
        isorb::value!(Ring, RingState, &["IDL:Ring:1.0"], false, false, |_| None, []);
        impl isorb::generated::ValueState for RingState {
            fn encode_state<'v>(&'v self, e: &mut isorb::generated::Encoder<'v>) {
                self.next.encode(e);
            }
            fn decode_state(d: &mut isorb::generated::Decoder<'_>) -> isorb::generated::CdrResult<Self> {
                Ok(RingState { next: isorb::Link::decode(d)? })
            }
        }
    };
}

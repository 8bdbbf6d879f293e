//! Values and abstract interfaces, as far as they travel: `CORBA::ValueBase`, `CORBA::AbstractBase`, and what generated types
//! share with them.
//!
//! A value is null or it does not travel yet: one that is not null is refused with [`ErrorKind::NotRemotable`] where it would
//! be sent, and where it arrives. An abstract interface is, on the wire, an object or a value (part 2, clause 9.3.4.6).

use crate::{Interface, IsA, Object, Operations, Reference};
use isorb_any::{HandleCode, Kind, TypeCode};
use isorb_cdr::{Decoder, Encoder, ErrorKind, Handle, Result};
use std::any::Any;
use std::fmt;
use std::sync::{Arc, LazyLock};

/// A valuetype: made by the IDL compiler, cheap to clone, shared between those who have it.
pub trait Value: Handle + Send + Sync {}

/// A value of any type, `CORBA::ValueBase`; null is `None`. Cheap to clone.
///
/// ```
/// use isorb::ValueBase;
/// # mod of_idl {
/// #     #[derive(Clone, Debug, PartialEq)]
/// #     pub struct Shape(std::sync::Arc<u32>);
/// #     isorb::value!(Shape);
/// #     impl From<u32> for Shape { fn from(state: u32) -> Self { Shape(state.into()) } }
/// # }
/// # use of_idl::Shape; // `valuetype Shape unsigned long;`
/// let value = ValueBase::from(Shape::from(4));
/// assert_eq!(value.downcast_ref(), Some(&Shape::from(4)));
/// ```
#[derive(Clone)]
pub struct ValueBase(Arc<dyn Any + Send + Sync>);

impl ValueBase {
    /// Holds a value.
    ///
    /// # Real-time
    /// Allocates.
    pub fn new<V: Value>(value: V) -> ValueBase {
        ValueBase(Arc::new(value))
    }

    /// The value, if it is a `V`; one of a type derived from `V` is not.
    pub fn downcast_ref<V: Value>(&self) -> Option<&V> {
        self.0.downcast_ref()
    }
}

/// Whether both are the same value: two that merely have equal state are not, since their type is not known.
impl PartialEq for ValueBase {
    fn eq(&self, other: &ValueBase) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ValueBase {}

impl fmt::Debug for ValueBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValueBase").finish_non_exhaustive()
    }
}

impl Handle for ValueBase {
    const MIN_WIRE: usize = 4;
    fn decode_handle(d: &mut Decoder<'_>) -> Result<Option<ValueBase>> {
        decode_null(d).map(|()| None)
    }
    fn encode_handle(this: Option<&ValueBase>, e: &mut Encoder<'_>) {
        encode_null(this.is_none(), e);
    }
}

impl HandleCode for ValueBase {
    fn type_code() -> TypeCode {
        static CODE: LazyLock<TypeCode> = LazyLock::new(|| {
            TypeCode::new_value("IDL:omg.org/CORBA/ValueBase:1.0", "ValueBase", 0, None, &[], false)
                .unwrap_or_default()
        });
        CODE.clone()
    }
}

/// An object seen through an abstract interface, `CORBA::AbstractBase`; nil and a null value are `None`.
///
/// References to abstract interfaces become one with `into`; back they come by [`Object::narrow`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AbstractBase(Object);

static ABSTRACT_BASE: Interface = Interface {
    id: "IDL:omg.org/CORBA/AbstractBase:1.0",
    bases: &[],
    operations: Operations::new(&[], 0, &[0xffff]),
};

impl Reference for AbstractBase {
    const INTERFACE: &'static Interface = &ABSTRACT_BASE;
    fn from_object(object: Object) -> AbstractBase {
        AbstractBase(object)
    }
    fn object(&self) -> &Object {
        &self.0
    }
}

impl IsA<AbstractBase> for AbstractBase {}

impl Handle for AbstractBase {
    const MIN_WIRE: usize = 5;
    fn decode_handle(d: &mut Decoder<'_>) -> Result<Option<AbstractBase>> {
        Ok(decode_abstract(d)?.map(AbstractBase))
    }
    fn encode_handle(this: Option<&AbstractBase>, e: &mut Encoder<'_>) {
        encode_abstract(this.map(|this| &this.0), e);
    }
}

impl HandleCode for AbstractBase {
    fn type_code() -> TypeCode {
        static CODE: LazyLock<TypeCode> = LazyLock::new(|| {
            TypeCode::opaque(Kind::AbstractInterface, ABSTRACT_BASE.id, "AbstractBase").unwrap_or_default()
        });
        CODE.clone()
    }
}

impl HandleCode for Object {
    fn type_code() -> TypeCode {
        TypeCode::object()
    }
}

/// Reads a value that is null.
///
/// # Errors
/// [`ErrorKind::NotRemotable`] for one that is not.
pub fn decode_null(d: &mut Decoder<'_>) -> Result<()> {
    match d.get::<u32>()? {
        0 => Ok(()),
        _ => Err(d.error(ErrorKind::NotRemotable)),
    }
}

/// Writes a value that is null; one that is not fails the encoder with [`ErrorKind::NotRemotable`].
pub fn encode_null(is_null: bool, e: &mut Encoder<'_>) {
    if is_null {
        e.put(0u32);
    } else {
        e.fail(ErrorKind::NotRemotable);
    }
}

/// Reads an object or a null value.
///
/// # Errors
/// [`ErrorKind::NotRemotable`] for a value that is not null; what is wrong with the reference.
pub fn decode_abstract(d: &mut Decoder<'_>) -> Result<Option<Object>> {
    if d.boolean()? { Object::decode_handle(d) } else { decode_null(d).map(|()| None) }
}

/// Writes an object, or a null value for `None`.
pub fn encode_abstract(this: Option<&Object>, e: &mut Encoder<'_>) {
    e.put(u8::from(this.is_some()));
    match this {
        Some(_) => Object::encode_handle(this, e),
        None => encode_null(true, e),
    }
}

/// Makes a generated value a [`Value`]: `value!(Shape)`.
#[macro_export]
macro_rules! value {
    ($name:ident) => {
        impl $crate::generated::Handle for $name {
            const MIN_WIRE: usize = 4;
            fn decode_handle(
                d: &mut $crate::generated::Decoder<'_>,
            ) -> $crate::generated::CdrResult<::core::option::Option<Self>> {
                $crate::generated::decode_null(d)?;
                ::core::result::Result::Ok(::core::option::Option::None)
            }
            fn encode_handle(this: ::core::option::Option<&Self>, e: &mut $crate::generated::Encoder<'_>) {
                $crate::generated::encode_null(this.is_none(), e);
            }
        }
        impl $crate::generated::Value for $name {}
        impl ::core::convert::From<$name> for $crate::generated::ValueBase {
            fn from(value: $name) -> Self {
                $crate::generated::ValueBase::new(value)
            }
        }
    };
}

/// [`reference!`](crate::reference) for an abstract interface: `abstract_reference!(DescribableRef, interface, [all bases])`.
#[macro_export]
macro_rules! abstract_reference {
    ($name:ident, $interface:expr, [$($base:ty),* $(,)?]) => {
        $crate::reference!(
            @ $name, $interface, $crate::generated::AbstractBase,
            $crate::generated::decode_abstract, $crate::generated::encode_abstract,
            [$crate::generated::AbstractBase $(, $base)*]
        );
    };
}

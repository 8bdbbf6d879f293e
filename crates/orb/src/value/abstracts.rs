//! Abstract interfaces: on the wire an object or a value (part 2, clause 9.3.4.6).
//!
//! A value is read as behind a `ValueBase`: its type must be registered.

use super::abstract_value::AbstractValue;
use super::{Value, ValueBase, decode_value};
use crate::{Interface, IsA, Object, Operations, Orb, Reference};
use isorb_any::{HandleCode, Kind, TypeCode};
use isorb_cdr::{Decoder, Encoder, ErrorKind, Handle, Result};
use isorb_rt::sync::PiOnceLock;

/// An object or a value behind an abstract interface, `CORBA::AbstractBase`; nil and a null value
/// are `None`.
///
/// References to abstract interfaces convert with `into`, and back by [`Object::narrow`]; one that
/// holds a value converts back by [`AbstractBase::into_reference`]. Calls through it reach the
/// value where [`AbstractBase::serve`] says what serves its operations; otherwise they are
/// NO_IMPLEMENT.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AbstractBase(Object);

static ABSTRACT_BASE: Interface = Interface {
    id: "IDL:omg.org/CORBA/AbstractBase:1.0",
    bases: &[],
    operations: Operations::new(&[], 0, &[0xffff]),
};

impl AbstractBase {
    /// Holds a value, which travels with its state. The orb is the one that sends it.
    ///
    /// # Real-time
    /// Allocates.
    pub fn of_value<V: Value>(orb: &Orb, value: &V) -> AbstractBase {
        AbstractBase(Object::of_value(orb, AbstractValue::new(ValueBase(super::Shared::new(value.object())))))
    }

    /// The value, if it is one and no object.
    ///
    /// # Real-time
    /// Allocates nothing.
    pub fn value(&self) -> Option<ValueBase> {
        held(&self.0).cloned()
    }

    /// The same as a reference to one of its abstract interfaces. Whether it has that interface is
    /// not checked.
    pub fn into_reference<R: IsA<AbstractBase> + Reference>(self) -> R {
        R::from_object(self.0)
    }
}

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
        static CODE: PiOnceLock<TypeCode> = PiOnceLock::new();
        let code = CODE.get_or_init(|| {
            TypeCode::opaque(Kind::AbstractInterface, ABSTRACT_BASE.id, "AbstractBase").unwrap_or_default()
        });
        code.clone()
    }
}

impl HandleCode for Object {
    fn type_code() -> TypeCode {
        TypeCode::object()
    }
}

/// Reads an object or a value.
///
/// # Errors
/// Those of [`decode_value`], and of reading a reference.
///
/// # Real-time
/// Allocates.
pub fn decode_abstract(d: &mut Decoder<'_>) -> Result<Option<Object>> {
    if d.boolean()? {
        return Object::decode_handle(d);
    }
    let Some(value) = decode_value::<ValueBase>(d)? else { return Ok(None) };
    let orb = d.context().and_then(|context| context.downcast_ref::<Orb>());
    let orb = orb.ok_or(d.error(ErrorKind::NotRemotable))?;
    Ok(Some(Object::of_value(orb, AbstractValue::new(value))))
}

/// The value that a reference holds.
fn held(object: &Object) -> Option<&ValueBase> {
    Some(object.value()?.downcast_ref::<AbstractValue>()?.value())
}

/// Writes an object or a value, a null value for `None`.
pub fn encode_abstract(this: Option<&Object>, e: &mut Encoder<'_>) {
    let value = this.and_then(held);
    match (this, value) {
        (Some(_), None) => {
            e.put(1u8);
            Object::encode_handle(this, e);
        }
        (_, value) => {
            e.put(0u8);
            ValueBase::encode_handle(value, e);
        }
    }
}

/// [`reference!`](crate::reference) for an abstract interface: `abstract_reference!(DescribableRef,
/// interface, [all bases])`.
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

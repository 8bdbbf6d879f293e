//! Abstract interfaces: on the wire an object or a value (part 2, clause 9.3.4.6).
//!
//! Objects and null travel: a value behind an abstract interface is rejected with
//! [`ErrorKind::NotRemotable`].

use crate::{Interface, IsA, Object, Operations, Reference};
use isorb_any::{HandleCode, Kind, TypeCode};
use isorb_cdr::{Decoder, Encoder, ErrorKind, Handle, Result};
use isorb_rt::sync::PiOnceLock;

/// An object behind an abstract interface, `CORBA::AbstractBase`; nil and a null value are `None`.
///
/// References to abstract interfaces convert with `into`, and back by [`Object::narrow`].
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

/// Reads an object or a null value.
///
/// # Errors
/// [`ErrorKind::NotRemotable`] for a value that is not null; the errors of reading a reference.
pub fn decode_abstract(d: &mut Decoder<'_>) -> Result<Option<Object>> {
    if d.boolean()? {
        return Object::decode_handle(d);
    }
    match d.get::<u32>()? {
        0 => Ok(None),
        _ => Err(d.error(ErrorKind::NotRemotable)),
    }
}

/// Writes an object, or a null value for `None`.
pub fn encode_abstract(this: Option<&Object>, e: &mut Encoder<'_>) {
    e.put(u8::from(this.is_some()));
    match this {
        Some(_) => Object::encode_handle(this, e),
        None => e.value(None),
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

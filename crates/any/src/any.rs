//! Values that carry their types.

use crate::{AnyValue, BuildError, Event, Kind, Stopped, TypeCode, Visitor, WalkError, copy_value, walk};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any as Context;
use isorb_cdr::{Arg, Decode, Decoder, Encode, Encoder, ErrorKind, Idl, Item, Narrow, Order, Result, Text};
use isorb_scope::{Full, Region, Scope};

/// A value of any IDL type, with its type. Cloning counts references.
///
/// The value is in CDR from its first octet on, in this machine's byte order, with [`Text::HELD`]
/// and zero padding, so that equal values have equal octets. It was checked against the type when
/// it was made.
#[derive(Clone, Default)]
pub struct Any {
    tc: TypeCode,
    /// `None` for a value without octets.
    value: Option<Arc<[u8]>>,
    /// Whether it has a `char` above U+007F, so that it is none in [`Text::DEFAULT`].
    is_latin1: bool,
}

/// What a message without a value is decoded to.
static NULL: Any = Any::null();

impl Any {
    /// An `Any` without a value, of type `null`.
    pub const fn null() -> Any {
        Any { tc: TypeCode::NULL, value: None, is_latin1: false }
    }

    /// Holds a copy of `value`.
    ///
    /// # Errors
    /// The encoder's error for a value that has no form on the wire, such as text with a zero
    /// octet. [`ErrorKind::ValueType`] for a value of a valuetype that is not of the type code's
    /// type: cast it to its own type first.
    ///
    /// # Real-time
    /// Allocates.
    pub fn new<T: AnyValue>(value: &T) -> Result<Any> {
        Any::typed(T::type_code(), |e| value.put_value(e))
    }

    /// Holds a copy of a value of the IDL type `T` in any form that an operation accepts: a view, a
    /// slice, a reference that may be nil.
    ///
    /// # Errors
    /// As [`Any::new`].
    pub fn of<'v, T: AnyValue>(value: impl Arg<'v, T>) -> Result<Any> {
        Any::typed(T::type_code(), |e| value.encode(e))
    }

    /// Holds a copy of `value` with type `tc`: an alias, or a type without a Rust form of its own.
    /// The octets are checked against the type.
    ///
    /// # Errors
    /// As [`Any::new`], and the error of `value` as one of `tc`.
    pub fn with_type<'v>(tc: TypeCode, value: impl Encode<'v>) -> Result<Any> {
        let mut e = Encoder::new(Vec::new(), Text::HELD);
        begin(&tc, &mut e);
        value.encode(&mut e);
        Any::from_cdr(tc, &e.flatten()?, Order::NATIVE, Text::HELD)
    }

    fn typed<'v>(tc: TypeCode, write: impl FnOnce(&mut Encoder<'v>)) -> Result<Any> {
        let mut e = Encoder::new(Vec::new(), Text::HELD);
        begin(&tc, &mut e);
        write(&mut e);
        let has_values = e.has_values();
        let any = Any::of_encoder(tc, e)?;
        if has_values {
            // The handle of a base may hold a value that the type code does not describe, or only
            // in part.
            let described = any.reading(|d| {
                let copy = Any::take(any.tc.clone(), d)?;
                if copy.value == any.value { Ok(()) } else { Err(d.error(ErrorKind::ValueType)) }
            });
            return described.map(|()| any);
        }
        debug_assert_eq!(any.reading(|d| skim(&any.tc, d)), Ok(()), "no value of {}", any.tc);
        Ok(any)
    }

    /// From an encoder of [`Text::HELD`] with a value that can always be written.
    pub(crate) fn trusted(tc: TypeCode, e: Encoder<'_>) -> Any {
        let is_latin1 = e.text().narrow == Narrow::HeldLatin1;
        Any { tc, value: octets(e.flatten().unwrap_or_default()), is_latin1 }
    }

    /// From an encoder of [`Text::HELD`] with what is known to be a value of `tc`.
    pub(crate) fn of_encoder(tc: TypeCode, e: Encoder<'_>) -> Result<Any> {
        let is_latin1 = e.text().narrow == Narrow::HeldLatin1;
        Ok(Any { tc, value: octets(e.flatten()?), is_latin1 })
    }

    /// The same value as one of `tc`, of which it is known to be.
    pub(crate) fn retyped(self, tc: TypeCode) -> Any {
        Any { tc, ..self }
    }

    /// From octets in CDR that hold the value and nothing else, as in a file.
    ///
    /// # Errors
    /// The error of the octets as a value of `tc`; [`ErrorKind::Length`] for octets left over.
    pub fn from_cdr(tc: TypeCode, bytes: &[u8], order: Order, text: Text) -> Result<Any> {
        with_decoder(bytes, 0, order, text, None, |d| {
            let any = Any::take(tc, d)?;
            if d.remaining() == 0 { Ok(any) } else { Err(d.error(ErrorKind::Length)) }
        })
    }

    /// Reads a value of a type that is already known.
    ///
    /// # Errors
    /// As [`copy_value`].
    pub fn take(tc: TypeCode, d: &mut Decoder<'_>) -> Result<Any> {
        let mut e = Encoder::new(Vec::new(), Text::HELD);
        copy_value(&tc, d, &mut e)?;
        Any::of_encoder(tc, e)
    }

    /// Reads type and value.
    ///
    /// # Errors
    /// As [`TypeCode::read`] and [`copy_value`].
    ///
    /// # Real-time
    /// Allocates, unless there is no value.
    pub fn read(d: &mut Decoder<'_>) -> Result<Any> {
        let tc = TypeCode::read(d)?;
        if matches!(tc.kind(), Kind::Null | Kind::Void) {
            return Ok(Any { tc, ..Any::null() });
        }
        d.nested(|d| Any::take(tc, d))
    }

    /// Writes type and value. Text that the code sets in use cannot express is a sticky error of
    /// the encoder.
    ///
    /// # Real-time
    /// The octets are copied unchanged if code sets and alignment agree; otherwise they are copied
    /// once more, through an allocation, while the type is walked. Without a value it does not
    /// allocate.
    pub fn write<'v>(&'v self, e: &mut Encoder<'v>) {
        self.tc.write(e);
        self.write_value(e);
    }

    /// Writes the value alone, for a reader that knows the type.
    ///
    /// # Real-time
    /// As [`Any::write`].
    pub fn write_value<'v>(&'v self, e: &mut Encoder<'v>) {
        let Some(value) = &self.value else { return };
        let agrees = e.text().takes_default() && !self.is_latin1;
        if agrees && e.offset().is_multiple_of(8) && !e.is_in_chunk() {
            return e.raw_lent(value);
        }
        if let Err(error) = self.reading(|d| copy_value(&self.tc, d, e)) {
            e.fail(error.kind);
        }
    }

    /// The type.
    pub fn type_code(&self) -> &TypeCode {
        &self.tc
    }

    /// The value in CDR, in this machine's byte order, from alignment 0 on.
    pub fn value(&self) -> &[u8] {
        self.value.as_deref().unwrap_or_default()
    }

    /// Whether there is no value.
    pub fn is_null(&self) -> bool {
        matches!(self.tc.kind(), Kind::Null | Kind::Void)
    }

    /// Gives the value another, equivalent type: an alias, or its compact form.
    ///
    /// # Errors
    /// [`BuildError::MemberType`] (`BAD_TYPECODE`) for a type that is not equivalent.
    pub fn set_type(&mut self, tc: TypeCode) -> Result<(), BuildError> {
        if !self.tc.equivalent(&tc) || !tc.is_complete() {
            return Err(BuildError::MemberType);
        }
        // Types with equal ids may still differ in their members.
        self.reading(|d| skim(&tc, d)).map_err(|_| BuildError::MemberType)?;
        self.tc = tc;
        Ok(())
    }

    /// The value, if it is a `T` or of a type equivalent to it. References are tied to no ORB; see
    /// [`Any::get_with`].
    ///
    /// # Real-time
    /// Allocates.
    pub fn get<T: AnyValue>(&self) -> Option<T> {
        self.get_with(None)
    }

    /// As [`Any::get`]; decoded references find `context` at [`Decoder::context`].
    pub fn get_with<T: AnyValue>(&self, context: Option<&dyn Context>) -> Option<T> {
        if !self.holds(&T::type_code()) {
            return None;
        }
        // Views take more memory than the wire form. The factor depends on the type: the scope
        // grows until they fit.
        let mut room = 4 * self.value().len() + 512;
        loop {
            let read = with_decoder(self.value(), room, Order::NATIVE, Text::HELD, context, |d| {
                if self.tc.borrow().strip().kind() == Kind::Except {
                    d.string_owned()?;
                }
                let value = T::from_view(<T::View<'_>>::decode(d)?);
                if d.remaining() == 0 { Ok(value) } else { Err(d.error(ErrorKind::Length)) }
            });
            match read {
                Ok(value) => return Some(value),
                Err(error) if error.kind == ErrorKind::Full && room < 256 * (self.value().len() + 512) => {
                    room *= 4
                }
                Err(_) => return None,
            }
        }
    }

    /// Whether the value is one of `tc`. Every reference is also an `Object`.
    pub fn holds(&self, tc: &TypeCode) -> bool {
        let (own, requested) = (self.tc.borrow().strip(), tc.borrow().strip());
        let references = own.kind() == Kind::ObjRef && requested.kind() == Kind::ObjRef;
        let object =
            references && (requested.id() == crate::construct::OBJECT_ID || requested.id().is_empty());
        object || self.tc.equivalent(tc)
    }

    /// Calls `read` with a decoder on the value, and a scope without room.
    pub(crate) fn reading<R>(&self, read: impl FnOnce(&mut Decoder<'_>) -> R) -> R {
        with_decoder(self.value(), 0, Order::NATIVE, Text::HELD, None, read)
    }
}

/// The octets before the members of an exception in an `Any`: its repository id (part 2, clause
/// 9.3.5.5).
fn begin(tc: &TypeCode, e: &mut Encoder<'_>) {
    let tc = tc.borrow().strip();
    if tc.kind() == Kind::Except {
        e.string(tc.id());
    }
}

/// The octets of a value, shared.
fn octets(value: Vec<u8>) -> Option<Arc<[u8]>> {
    (!value.is_empty()).then(|| value.into())
}

/// Whether the rest of a stream is a value of `tc` and nothing else.
fn skim(tc: &TypeCode, d: &mut Decoder<'_>) -> Result<(), WalkError> {
    struct NoVisitor;
    impl Visitor for NoVisitor {
        fn event(&mut self, _: Event<'_>) -> Result<(), Stopped> {
            Ok(())
        }
    }
    walk(tc, d, &mut NoVisitor)?;
    if d.remaining() == 0 { Ok(()) } else { Err(d.error(ErrorKind::Length).into()) }
}

/// Calls `read` with a decoder on a copy of `bytes`, and a scope of `room` octets.
fn with_decoder<R>(
    bytes: &[u8],
    room: usize,
    order: Order,
    text: Text,
    context: Option<&dyn Context>,
    read: impl FnOnce(&mut Decoder<'_>) -> R,
) -> R {
    let mut region = Region::new(bytes.len() + 8 + room);
    let scope = region.enter();
    // The region was made large enough for the copy.
    let bytes = scope.aligned_copy(bytes).unwrap_or(&mut []);
    let mut d = Decoder::new(bytes, order, text, &scope);
    if let Some(context) = context {
        d = d.with_context(context);
    }
    read(&mut d)
}

/// Equal types (see [`TypeCode::equal`]) and equal octets; a NaN equals itself.
impl PartialEq for Any {
    fn eq(&self, other: &Any) -> bool {
        self.value == other.value && self.tc.equal(&other.tc)
    }
}

impl Eq for Any {}

impl<'v> Encode<'v> for &'v Any {
    fn encode(self, e: &mut Encoder<'v>) {
        self.write(e);
    }
}
impl<'v> Item<'v> for Any {}
impl<'v> Item<'v> for &'v Any {}
impl<'m> Decode<'m> for &'m Any {
    const MIN_WIRE: usize = 4;
    fn decode(d: &mut Decoder<'m>) -> Result<&'m Any> {
        let any = Any::read(d)?;
        // Most events have none: nothing is kept and dropped for them.
        if any.tc.kind() == Kind::Null {
            return Ok(&NULL);
        }
        Ok(d.scope().keep(any)?)
    }
}
impl Idl for Any {
    type View<'a> = &'a Any;
    fn from_view(view: &Any) -> Any {
        view.clone()
    }
    fn view_in<'a>(&'a self, _: &'a Scope<'a>) -> Result<&'a Any, Full> {
        Ok(self)
    }
}
impl<'v> Arg<'v, Any> for &'v Any {}

impl<'v> Encode<'v> for &'v TypeCode {
    fn encode(self, e: &mut Encoder<'v>) {
        self.write(e);
    }
}
impl<'v> Item<'v> for TypeCode {}
impl<'v> Item<'v> for &'v TypeCode {}
impl<'m> Decode<'m> for &'m TypeCode {
    const MIN_WIRE: usize = 4;
    fn decode(d: &mut Decoder<'m>) -> Result<&'m TypeCode> {
        let tc = TypeCode::read(d)?;
        Ok(d.scope().keep(tc)?)
    }
}
impl Idl for TypeCode {
    type View<'a> = &'a TypeCode;
    fn from_view(view: &TypeCode) -> TypeCode {
        view.clone()
    }
    fn view_in<'a>(&'a self, _: &'a Scope<'a>) -> Result<&'a TypeCode, Full> {
        Ok(self)
    }
}
impl<'v> Arg<'v, TypeCode> for &'v TypeCode {}

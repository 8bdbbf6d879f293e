//! Rust types that an `Any` can hold.

use crate::{Any, TypeCode};
use alloc::string::String;
use alloc::vec::Vec;
use isorb_cdr::{Encode, Encoder, Fixed, Handle, Idl, LongDouble, Text, WChar, WString};

/// A type of IDL with a type code. Generated code implements it for structures, unions,
/// enumerations, exceptions and references.
///
/// `char` and `String` are the narrow types here; [`WChar`] and [`WString`] are the wide ones. An
/// exception writes its members alone; its repository id is added where the type code is that of an
/// exception.
pub trait AnyValue: Idl {
    /// The type code, which must describe what `Encode` writes.
    ///
    /// # Real-time
    /// May allocate; generated code makes each type code once.
    fn type_code() -> TypeCode;

    /// Writes the owned value by its `Encode`: `self.encode(e)`, or `self.as_ref().encode(e)` for
    /// references that may be nil.
    fn put_value<'v>(&'v self, e: &mut Encoder<'v>);

    /// Writes a sequence of such values.
    fn put_sequence<'v>(items: &'v [Self], e: &mut Encoder<'v>) {
        e.count(items.len());
        items.iter().for_each(|item| item.put_value(e));
    }
}

/// A reference or value type with a type code. Generated code implements it; it makes an `Option`
/// of the type, its owned form in Rust, an [`AnyValue`].
///
/// A separate trait, because a crate with generated code may not implement [`AnyValue`] for
/// `Option`.
pub trait HandleCode: Handle {
    /// The type code, which must describe what [`Handle::encode_handle`] writes.
    ///
    /// # Real-time
    /// May allocate; generated code makes each type code once.
    fn type_code() -> TypeCode;
}

/// References that may be nil, values that may be null.
///
/// An `Any` with a reference is read by [`Any::get_with`], because a reference belongs to an ORB:
/// [`Any::get`] finds only nil.
impl<H: HandleCode> AnyValue for Option<H> {
    fn type_code() -> TypeCode {
        H::type_code()
    }
    fn put_value<'v>(&'v self, e: &mut Encoder<'v>) {
        H::encode_handle(self.as_ref(), e);
    }
}

macro_rules! primitives {
    ($($t:ty, $tc:ident;)*) => { $(
        impl AnyValue for $t {
            fn type_code() -> TypeCode {
                TypeCode::$tc
            }
            fn put_value<'v>(&'v self, e: &mut Encoder<'v>) {
                self.encode(e);
            }
        }
    )* };
}

macro_rules! plain {
    ($($t:ty, $tc:ident;)*) => { $(
        impl AnyValue for $t {
            fn type_code() -> TypeCode {
                TypeCode::$tc
            }
            fn put_value<'v>(&'v self, e: &mut Encoder<'v>) {
                e.put(*self);
            }
            fn put_sequence<'v>(items: &'v [Self], e: &mut Encoder<'v>) {
                e.plain_seq(items);
            }
        }
    )* };
}

plain! {
    u8, OCTET;
    // CORBA has no kind for `int8` of IDL 4; it travels as an octet with the same bits.
    i8, OCTET;
    i16, SHORT;
    u16, USHORT;
    i32, LONG;
    u32, ULONG;
    i64, LONGLONG;
    u64, ULONGLONG;
    f32, FLOAT;
    f64, DOUBLE;
}

primitives! {
    LongDouble, LONGDOUBLE;
    bool, BOOLEAN;
    char, CHAR;
    WChar, WCHAR;
    String, STRING;
    WString, WSTRING;
    Any, ANY;
    TypeCode, TYPECODE;
    (), VOID;
}

macro_rules! from {
    ($($t:ty)*) => { $(
        impl From<$t> for Any {
            fn from(value: $t) -> Any {
                let mut e = Encoder::new(Vec::new(), Text::HELD);
                value.encode(&mut e);
                Any::trusted(<$t>::type_code(), e)
            }
        }
    )* };
}

// Values that can always be written.
from! { u8 i8 i16 u16 i32 u32 i64 u64 f32 f64 LongDouble bool }

impl From<TypeCode> for Any {
    /// Holds the type code as a value, or nothing if it is incomplete.
    fn from(value: TypeCode) -> Any {
        Any::new(&value).unwrap_or_default()
    }
}

impl<const DIGITS: u16, const SCALE: i16> AnyValue for Fixed<DIGITS, SCALE> {
    fn type_code() -> TypeCode {
        TypeCode::fixed(DIGITS, SCALE).unwrap_or_default()
    }
    fn put_value<'v>(&'v self, e: &mut Encoder<'v>) {
        self.encode(e);
    }
}

impl<T: AnyValue> AnyValue for Vec<T>
where
    for<'a> &'a [T::View<'a>]: Encode<'a>,
{
    fn type_code() -> TypeCode {
        TypeCode::sequence(&T::type_code(), 0).unwrap_or_default()
    }
    fn put_value<'v>(&'v self, e: &mut Encoder<'v>) {
        T::put_sequence(self, e);
    }
}

impl<T: AnyValue, const N: usize> AnyValue for [T; N] {
    fn type_code() -> TypeCode {
        TypeCode::array(&T::type_code(), N as u32).unwrap_or_default()
    }
    fn put_value<'v>(&'v self, e: &mut Encoder<'v>) {
        self.iter().for_each(|item| item.put_value(e));
    }
}

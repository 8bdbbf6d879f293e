//! Type expressions.

use super::DefId;

/// The type of a member, parameter, result, constant or typedef.
///
/// Types without a name of their own (sequences, arrays, bounded strings, fixed) are spelt out; all
/// else is [`Type::Named`]. Aliases are kept, since a back end wants to see them;
/// [`Spec::resolve`](super::Spec::resolve) looks through them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// No result; only as the result of an operation.
    Void,
    /// `boolean`
    Boolean,
    /// `char`: one octet in ISO 8859-1.
    Char,
    /// `wchar`
    WChar,
    /// `octet`, and `uint8` of IDL 4.
    Octet,
    /// `int8` of IDL 4: a signed number in one octet. CORBA has no such type; it travels as an
    /// octet.
    Int8,
    /// `short`, `int16`
    Short,
    /// `unsigned short`, `uint16`
    UShort,
    /// `long`, `int32`
    Long,
    /// `unsigned long`, `uint32`
    ULong,
    /// `long long`, `int64`
    LongLong,
    /// `unsigned long long`, `uint64`
    ULongLong,
    /// `float`
    Float,
    /// `double`
    Double,
    /// `long double`
    LongDouble,
    /// `string`, `string<N>`
    String {
        /// The most characters it may hold, not counting the terminator; at least 1.
        bound: Option<u32>,
    },
    /// `wstring`, `wstring<N>`
    WString {
        /// The most characters it may hold; at least 1.
        bound: Option<u32>,
    },
    /// `sequence<T>`, `sequence<T, N>`
    Sequence {
        /// The type of each element.
        element: Box<Type>,
        /// The most elements it may hold; at least 1.
        bound: Option<u32>,
    },
    /// `T name[d0][d1]`
    Array {
        /// The type of each element; never itself an anonymous array.
        element: Box<Type>,
        /// The dimensions, outermost first; not empty, each at least 1.
        dims: Vec<u32>,
    },
    /// `fixed<digits, scale>`. In a constant, where IDL writes bare `fixed`, digits and scale are
    /// those of the value.
    Fixed {
        /// Decimal digits in all, 1 to 31.
        digits: u16,
        /// Digits after the point, 0 to `digits`.
        scale: u16,
    },
    /// `any`
    Any,
    /// `Object`
    Object,
    /// `CORBA::TypeCode`
    TypeCode,
    /// `ValueBase`
    ValueBase,
    /// `CORBA::AbstractBase`
    AbstractBase,
    /// A struct, union, enum, typedef, interface, value, value box or native.
    Named(DefId),
}

impl Type {
    /// The definition that a [`Type::Named`] refers to.
    pub fn def(&self) -> Option<DefId> {
        match self {
            Type::Named(id) => Some(*id),
            _ => None,
        }
    }

    /// Whether this is an integer type, `octet` and `int8` included.
    pub fn is_integer(&self) -> bool {
        self.integer_range().is_some()
    }

    /// The least and greatest value of an integer type, `octet` and `int8` included.
    pub fn integer_range(&self) -> Option<(i128, i128)> {
        Some(match self {
            Type::Octet => (0, u8::MAX.into()),
            Type::Int8 => (i8::MIN.into(), i8::MAX.into()),
            Type::Short => (i16::MIN.into(), i16::MAX.into()),
            Type::UShort => (0, u16::MAX.into()),
            Type::Long => (i32::MIN.into(), i32::MAX.into()),
            Type::ULong => (0, u32::MAX.into()),
            Type::LongLong => (i64::MIN.into(), i64::MAX.into()),
            Type::ULongLong => (0, u64::MAX.into()),
            _ => return None,
        })
    }
}

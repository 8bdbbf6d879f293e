//! The kinds of type codes.

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal),* $(,)?) => {
        /// `TCKind` (CORBA 3.3 part 1, clause 8.11.1), by its numbers on the wire.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        pub enum Kind {
            $($(#[$doc])* $name = $number,)*
        }

        impl Kind {
            /// The kind of a number on the wire; `None` for an unknown number.
            pub const fn from_number(number: u32) -> Option<Kind> {
                match number {
                    $($number if $number != NO_KIND => Some(Kind::$name),)*
                    _ => None,
                }
            }
        }
    };
}

/// The number that announces an indirection; never a kind on the wire.
pub(crate) const NO_KIND: u32 = 0xffff_ffff;

kinds! {
    /// No value.
    Null = 0,
    /// No result.
    Void = 1,
    /// 16 bits.
    Short = 2,
    /// 32 bits.
    Long = 3,
    /// 16 bits, unsigned.
    UShort = 4,
    /// 32 bits, unsigned.
    ULong = 5,
    /// IEEE 754 single precision.
    Float = 6,
    /// IEEE 754 double precision.
    Double = 7,
    /// True or false.
    Boolean = 8,
    /// A character of the narrow code set.
    Char = 9,
    /// 8 bits that are never converted.
    Octet = 10,
    /// A value with its type.
    Any = 11,
    /// A type.
    TypeCode = 12,
    /// Deprecated: the caller.
    Principal = 13,
    /// A reference to an object.
    ObjRef = 14,
    /// A structure.
    Struct = 15,
    /// A union.
    Union = 16,
    /// An enumeration.
    Enum = 17,
    /// Text.
    String = 18,
    /// A sequence.
    Sequence = 19,
    /// An array of one dimension.
    Array = 20,
    /// A `typedef`.
    Alias = 21,
    /// A user exception.
    Except = 22,
    /// 64 bits.
    LongLong = 23,
    /// 64 bits, unsigned.
    ULongLong = 24,
    /// IEEE 754 quadruple precision.
    LongDouble = 25,
    /// A character of the wide code set.
    WChar = 26,
    /// Wide text.
    WString = 27,
    /// A decimal with a fixed point.
    Fixed = 28,
    /// A value type.
    Value = 29,
    /// A boxed value.
    ValueBox = 30,
    /// A type outside of IDL.
    Native = 31,
    /// An abstract interface.
    AbstractInterface = 32,
    /// A local interface.
    LocalInterface = 33,
    /// A component.
    Component = 34,
    /// A home of components.
    Home = 35,
    /// An event type.
    Event = 36,
    /// A placeholder for an enclosing type that is not complete yet (see
    /// [`TypeCode::recursive`](crate::TypeCode::recursive)). It exists only while types are
    /// constructed, never on the wire.
    Recursive = 0xffff_ffff,
}

impl Kind {
    /// Whether the kind alone determines the type. Unbounded text counts: its bound is no parameter
    /// worth a node.
    pub(crate) const fn is_simple(self) -> bool {
        use Kind::*;
        matches!(
            self,
            Null | Void
                | Short
                | Long
                | UShort
                | ULong
                | Float
                | Double
                | Boolean
                | Char
                | Octet
                | Any
                | TypeCode
                | Principal
                | String
                | LongLong
                | ULongLong
                | LongDouble
                | WChar
                | WString
        )
    }

    /// Whether a type of the kind has a repository id and a name.
    pub(crate) const fn has_id(self) -> bool {
        use Kind::*;
        matches!(
            self,
            ObjRef
                | Struct
                | Union
                | Enum
                | Alias
                | Except
                | Value
                | ValueBox
                | Native
                | AbstractInterface
                | LocalInterface
                | Component
                | Home
                | Event
        )
    }

    /// Whether a type of the kind may contain itself.
    pub(crate) const fn may_recur(self) -> bool {
        use Kind::*;
        matches!(self, Struct | Union | Except | Value | Event)
    }

    /// Octets of a value that is copied unchanged, up to byte order; `None` for kinds with values
    /// that are checked.
    pub(crate) const fn plain_width(self) -> Option<usize> {
        use Kind::*;
        match self {
            Octet => Some(1),
            Short | UShort => Some(2),
            Long | ULong | Float => Some(4),
            Double | LongLong | ULongLong => Some(8),
            _ => None,
        }
    }

    /// The IDL name of a simple type.
    pub(crate) const fn keyword(self) -> &'static str {
        use Kind::*;
        match self {
            Null => "null",
            Void => "void",
            Short => "short",
            Long => "long",
            UShort => "unsigned short",
            ULong => "unsigned long",
            Float => "float",
            Double => "double",
            Boolean => "boolean",
            Char => "char",
            Octet => "octet",
            Any => "any",
            TypeCode => "CORBA::TypeCode",
            Principal => "CORBA::Principal",
            ObjRef => "interface",
            Struct => "struct",
            Union => "union",
            Enum => "enum",
            String => "string",
            Sequence => "sequence",
            Array => "array",
            Alias => "typedef",
            Except => "exception",
            LongLong => "long long",
            ULongLong => "unsigned long long",
            LongDouble => "long double",
            WChar => "wchar",
            WString => "wstring",
            Fixed => "fixed",
            Value => "valuetype",
            ValueBox => "boxed valuetype",
            Native => "native",
            AbstractInterface => "abstract interface",
            LocalInterface => "local interface",
            Component => "component",
            Home => "home",
            Event => "eventtype",
            Recursive => "recursive",
        }
    }
}

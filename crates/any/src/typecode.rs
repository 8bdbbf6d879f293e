//! Types as values, and the questions about them.

use crate::graph::{Graph, Key, TcRef};
use crate::{Kind, TypeCodeError};
use alloc::sync::Arc;
use core::fmt;

/// A type of IDL as a value (CORBA 3.3 part 1, clause 8.11). Cloning counts a reference; primitive
/// types and unbounded text own nothing.
///
/// # Real-time
/// No method allocates unless it says so; none blocks.
#[derive(Clone)]
pub struct TypeCode(pub(crate) Repr);

#[derive(Clone)]
pub(crate) enum Repr {
    /// The kind determines the type.
    Simple(Kind),
    /// A node of a graph.
    Node(Arc<Graph>, u32),
}

/// Label of a case in a union.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// The `default` case.
    Default,
    /// A value of the discriminator: the number, the code point of a character, 0 or 1 for a
    /// boolean, the index of an enumerator.
    Value(i128),
}

/// Visibility of a value type's member.
pub mod visibility {
    /// `PRIVATE_MEMBER`.
    pub const PRIVATE: i16 = 0;
    /// `PUBLIC_MEMBER`.
    pub const PUBLIC: i16 = 1;
}

/// Modifiers of a value type.
pub mod modifier {
    /// `VM_NONE`.
    pub const NONE: i16 = 0;
    /// `VM_CUSTOM`.
    pub const CUSTOM: i16 = 1;
    /// `VM_ABSTRACT`.
    pub const ABSTRACT: i16 = 2;
    /// `VM_TRUNCATABLE`.
    pub const TRUNCATABLE: i16 = 3;
}

/// See [`TypeCode::identity`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Identity(Key);

macro_rules! primitives {
    ($($(#[$doc:meta])* $name:ident = $kind:ident),* $(,)?) => {
        /// Types without parameters.
        impl TypeCode {
            $($(#[$doc])* pub const $name: TypeCode = TypeCode(Repr::Simple(Kind::$kind));)*
        }
    };
}

primitives! {
    /// `null`, the type of an empty `Any`.
    NULL = Null,
    /// `void`.
    VOID = Void,
    /// `short`.
    SHORT = Short,
    /// `long`.
    LONG = Long,
    /// `unsigned short`.
    USHORT = UShort,
    /// `unsigned long`.
    ULONG = ULong,
    /// `long long`.
    LONGLONG = LongLong,
    /// `unsigned long long`.
    ULONGLONG = ULongLong,
    /// `float`.
    FLOAT = Float,
    /// `double`.
    DOUBLE = Double,
    /// `long double`.
    LONGDOUBLE = LongDouble,
    /// `boolean`.
    BOOLEAN = Boolean,
    /// `char`.
    CHAR = Char,
    /// `wchar`.
    WCHAR = WChar,
    /// `octet`.
    OCTET = Octet,
    /// `any`.
    ANY = Any,
    /// `CORBA::TypeCode`.
    TYPECODE = TypeCode,
    /// `CORBA::Principal`, deprecated.
    PRINCIPAL = Principal,
    /// `string`.
    STRING = String,
    /// `wstring`.
    WSTRING = WString,
}

impl TypeCode {
    pub(crate) fn borrow(&self) -> TcRef<'_> {
        match &self.0 {
            Repr::Simple(kind) => TcRef::Simple(*kind),
            Repr::Node(graph, index) => TcRef::Node(graph, *index),
        }
    }

    /// The kind.
    pub fn kind(&self) -> Kind {
        self.borrow().kind()
    }

    /// The repository id; may be empty except for interfaces, exceptions and value types.
    ///
    /// # Errors
    /// [`TypeCodeError::BadKind`] for types without one.
    pub fn id(&self) -> Result<&str, TypeCodeError> {
        self.has(self.kind().has_id() || self.kind() == Kind::Recursive)?;
        Ok(self.borrow().id())
    }

    /// The name without its scope; may be empty.
    ///
    /// # Errors
    /// [`TypeCodeError::BadKind`] for types without one.
    pub fn name(&self) -> Result<&str, TypeCodeError> {
        self.has(self.kind().has_id())?;
        Ok(self.borrow().name())
    }

    /// How many members, cases (one a label) or enumerators there are.
    ///
    /// # Errors
    /// [`TypeCodeError::BadKind`] for types without members.
    pub fn member_count(&self) -> Result<u32, TypeCodeError> {
        self.has(self.kind().may_recur() || self.kind() == Kind::Enum)?;
        Ok(self.borrow().members().len() as u32)
    }

    /// The name of a member, case or enumerator; may be empty.
    ///
    /// # Errors
    /// [`TypeCodeError::BadKind`], [`TypeCodeError::Bounds`].
    pub fn member_name(&self, index: u32) -> Result<&str, TypeCodeError> {
        self.member_count()?;
        let member = self.borrow().members().get(index as usize).ok_or(TypeCodeError::Bounds)?;
        Ok(&member.name)
    }

    /// The type of a member or case.
    ///
    /// # Errors
    /// [`TypeCodeError::BadKind`], [`TypeCodeError::Bounds`].
    pub fn member_type(&self, index: u32) -> Result<TypeCode, TypeCodeError> {
        self.has(self.kind().may_recur())?;
        let tc = self.borrow().member_type(index as usize).ok_or(TypeCodeError::Bounds)?;
        Ok(tc.to_owned())
    }

    /// The label of a union's case.
    ///
    /// # Errors
    /// [`TypeCodeError::BadKind`], [`TypeCodeError::Bounds`].
    pub fn member_label(&self, index: u32) -> Result<Label, TypeCodeError> {
        self.has(self.kind() == Kind::Union)?;
        let tc = self.borrow();
        let member = tc.members().get(index as usize).ok_or(TypeCodeError::Bounds)?;
        if tc.number() == i64::from(index) {
            return Ok(Label::Default);
        }
        let discriminator = tc.content().map(|tc| tc.strip().kind());
        Ok(Label::Value(label_value(discriminator, member.number)))
    }

    /// The type of a union's discriminator.
    ///
    /// # Errors
    /// [`TypeCodeError::BadKind`].
    pub fn discriminator_type(&self) -> Result<TypeCode, TypeCodeError> {
        self.has(self.kind() == Kind::Union)?;
        self.content()
    }

    /// The index of a union's default case, or -1.
    ///
    /// # Errors
    /// [`TypeCodeError::BadKind`].
    pub fn default_index(&self) -> Result<i32, TypeCodeError> {
        self.has(self.kind() == Kind::Union)?;
        Ok(self.borrow().number() as i32)
    }

    /// Bound of text or of a sequence in characters or elements, 0 for none; length of an array.
    ///
    /// # Errors
    /// [`TypeCodeError::BadKind`].
    pub fn length(&self) -> Result<u32, TypeCodeError> {
        use Kind::{Array, Sequence, String, WString};
        self.has(matches!(self.kind(), String | WString | Sequence | Array))?;
        Ok(self.borrow().number() as u32)
    }

    /// The element type, or the type of an alias or a box.
    ///
    /// # Errors
    /// [`TypeCodeError::BadKind`].
    pub fn content_type(&self) -> Result<TypeCode, TypeCodeError> {
        use Kind::{Alias, Array, Sequence, ValueBox};
        self.has(matches!(self.kind(), Sequence | Array | Alias | ValueBox))?;
        self.content()
    }

    /// Digits of a `fixed`.
    ///
    /// # Errors
    /// [`TypeCodeError::BadKind`].
    pub fn fixed_digits(&self) -> Result<u16, TypeCodeError> {
        self.has(self.kind() == Kind::Fixed)?;
        Ok(self.borrow().number() as u16)
    }

    /// Digits of a `fixed` after the point.
    ///
    /// # Errors
    /// [`TypeCodeError::BadKind`].
    pub fn fixed_scale(&self) -> Result<i16, TypeCodeError> {
        self.has(self.kind() == Kind::Fixed)?;
        Ok(self.borrow().node().map_or(0, |node| node.scale))
    }

    /// Visibility of a value type's member (see [`visibility`]).
    ///
    /// # Errors
    /// [`TypeCodeError::BadKind`], [`TypeCodeError::Bounds`].
    pub fn member_visibility(&self, index: u32) -> Result<i16, TypeCodeError> {
        self.has(matches!(self.kind(), Kind::Value | Kind::Event))?;
        let member = self.borrow().members().get(index as usize).ok_or(TypeCodeError::Bounds)?;
        Ok(member.number as i16)
    }

    /// Modifier of a value type (see [`modifier`]).
    ///
    /// # Errors
    /// [`TypeCodeError::BadKind`].
    pub fn type_modifier(&self) -> Result<i16, TypeCodeError> {
        self.has(matches!(self.kind(), Kind::Value | Kind::Event))?;
        Ok(self.borrow().number() as i16)
    }

    /// The concrete value type that a value type inherits from, if any.
    ///
    /// # Errors
    /// [`TypeCodeError::BadKind`].
    pub fn concrete_base_type(&self) -> Result<Option<TypeCode>, TypeCodeError> {
        self.has(matches!(self.kind(), Kind::Value | Kind::Event))?;
        Ok(self.borrow().content().map(TcRef::to_owned))
    }

    /// The identity of its description in memory, for tables of types that were visited. Type codes
    /// that were made apart differ, even if they are equal. It means nothing after the type code
    /// is dropped.
    pub fn identity(&self) -> Identity {
        Identity(self.borrow().key())
    }

    /// The type without aliases.
    pub fn original(&self) -> TypeCode {
        self.borrow().strip().to_owned()
    }

    /// Whether it has no placeholder for an enclosing type. Only a complete type code can be sent
    /// or describe a value.
    pub fn is_complete(&self) -> bool {
        match &self.0 {
            Repr::Simple(_) => true,
            Repr::Node(graph, _) => graph.open.is_empty(),
        }
    }

    fn has(&self, property: bool) -> Result<(), TypeCodeError> {
        if property { Ok(()) } else { Err(TypeCodeError::BadKind) }
    }

    fn content(&self) -> Result<TypeCode, TypeCodeError> {
        self.borrow().content().map(TcRef::to_owned).ok_or(TypeCodeError::BadKind)
    }
}

/// The bits of a label as a number, by the kind of the discriminator.
pub(crate) fn label_value(discriminator: Option<Kind>, bits: i64) -> i128 {
    match discriminator {
        Some(Kind::ULongLong) => i128::from(bits as u64),
        _ => i128::from(bits),
    }
}

/// Equality is [`TypeCode::equal`].
impl PartialEq for TypeCode {
    fn eq(&self, other: &TypeCode) -> bool {
        self.equal(other)
    }
}

impl Eq for TypeCode {}

/// The IDL form of the type where it is used.
impl fmt::Display for TypeCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        display(self.borrow(), f)
    }
}

impl fmt::Debug for TypeCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TypeCode({self})")
    }
}

/// Terminates, because a cycle has a named type in it, which is written as its name.
pub(crate) fn display(tc: TcRef<'_>, f: &mut dyn fmt::Write) -> fmt::Result {
    let kind = tc.kind();
    match kind {
        Kind::String | Kind::WString if tc.number() != 0 => {
            write!(f, "{}<{}>", kind.keyword(), tc.number())
        }
        Kind::Fixed => write!(f, "fixed<{}, {}>", tc.number(), tc.node().map_or(0, |node| node.scale)),
        Kind::Sequence => {
            f.write_str("sequence<")?;
            if let Some(content) = tc.content() {
                display(content, f)?;
            }
            match tc.number() {
                0 => f.write_str(">"),
                bound => write!(f, ", {bound}>"),
            }
        }
        Kind::Array => {
            let mut element = tc;
            while element.kind() == Kind::Array
                && let Some(content) = element.content()
            {
                element = content;
            }
            display(element, f)?;
            let mut dimension = tc;
            while dimension.kind() == Kind::Array
                && let Some(content) = dimension.content()
            {
                write!(f, "[{}]", dimension.number())?;
                dimension = content;
            }
            Ok(())
        }
        _ if kind.is_simple() => f.write_str(kind.keyword()),
        _ if !tc.name().is_empty() => write!(f, "{} {}", kind.keyword(), tc.name()),
        _ => write!(f, "{} {}", kind.keyword(), tc.id()),
    }
}

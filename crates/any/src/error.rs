//! Errors of questions to a type code, of making one, and of reading a value.

use core::fmt;

/// A question that the type code has no answer to (the user exceptions of CORBA 3.3 part 1, clause
/// 8.11.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeCodeError {
    /// The kind of the type code has no such property.
    BadKind,
    /// There is no member of that index.
    Bounds,
}

impl fmt::Display for TypeCodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TypeCodeError::BadKind => "a type code of this kind has no such property",
            TypeCodeError::Bounds => "the type code has no member of that index",
        })
    }
}

impl core::error::Error for TypeCodeError {}

/// The reason why a type code cannot be made (clause 8.11.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// A name is not an identifier.
    Name,
    /// A repository id has no format prefix, or has blanks.
    Id,
    /// Two members have one name, or names that differ in case only.
    DuplicateMember,
    /// Two cases of a union have one label.
    DuplicateLabel,
    /// A label is outside the discriminator type.
    LabelType,
    /// A type that cannot be a discriminator.
    Discriminator,
    /// A type that cannot be a member or element: `null`, `void`, an exception, a structure without
    /// members.
    MemberType,
    /// A number out of its range: the length of an array, the digits of a `fixed`, the modifier of
    /// a value type.
    Number,
    /// Types nested deeper than [`MAX_DEPTH`](isorb_cdr::MAX_DEPTH).
    TooDeep,
    /// More members than [`MAX_NODES`](crate::MAX_NODES).
    TooLarge,
}

impl BuildError {
    /// The standard system exception for this error, and its minor code relative to the OMG's base.
    pub const fn exception(self) -> (&'static str, u32) {
        match self {
            BuildError::Name => ("BAD_PARAM", 15),
            BuildError::Id => ("BAD_PARAM", 16),
            BuildError::DuplicateMember => ("BAD_PARAM", 17),
            BuildError::DuplicateLabel => ("BAD_PARAM", 18),
            BuildError::LabelType => ("BAD_PARAM", 19),
            BuildError::Discriminator => ("BAD_PARAM", 20),
            BuildError::MemberType => ("BAD_TYPECODE", 2),
            BuildError::Number => ("BAD_PARAM", 0),
            BuildError::TooDeep | BuildError::TooLarge => ("IMP_LIMIT", 0),
        }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BuildError::Name => "a name is not an IDL identifier",
            BuildError::Id => "a repository id is malformed",
            BuildError::DuplicateMember => "two members have the same name",
            BuildError::DuplicateLabel => "two cases of a union have the same label",
            BuildError::LabelType => "a label is no value of the discriminator type",
            BuildError::Discriminator => "the type cannot be a discriminator",
            BuildError::MemberType => "the type cannot be a member or element",
            BuildError::Number => "a length, modifier or number of digits is out of range",
            BuildError::TooDeep => "types are nested too deeply",
            BuildError::TooLarge => "the type has too many members",
        })
    }
}

impl core::error::Error for BuildError {}

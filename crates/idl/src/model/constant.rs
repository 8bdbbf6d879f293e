//! Values of constants, union labels and annotations.

use super::DefId;

/// The value of a constant expression. Which IDL type it has stands beside it (in
/// [`Const`](super::Const) or [`Union`](super::Union)); the value is known to fit.
#[derive(Clone, Debug, PartialEq)]
pub enum ConstValue {
    /// Of any integer type, `octet` included.
    Integer(i128),
    /// `TRUE` or `FALSE`
    Boolean(bool),
    /// A `char`: U+0001 to U+00FF, or NUL.
    Char(char),
    /// A `wchar`: a character of the basic plane, never a surrogate.
    WChar(char),
    /// A `string`: characters U+0001 to U+00FF.
    String(String),
    /// A `wstring`: any characters but NUL.
    WString(String),
    /// A `float`, already rounded to that precision, `double` or `long double`; always finite.
    /// IDL's `long double` is evaluated in double precision.
    Float(f64),
    /// A `fixed`.
    Fixed(FixedValue),
    /// An enumerator; the id is that of the [`Enumerator`](super::Enumerator) definition.
    Enumerator(DefId),
}

/// A label of a union case: [`ConstValue::Integer`], `Boolean`, `Char`, `WChar` or `Enumerator`.
pub type Label = ConstValue;

/// A decimal number: `unscaled / 10^scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FixedValue {
    /// All digits as one number; at most 31 of them.
    pub unscaled: i128,
    /// Digits after the point, 0 to 31.
    pub scale: u16,
}

/// An IDL 4 annotation as written, such as `@key` or `@range(min=0, max=10)`. Which annotations
/// mean something is for the back end to say.
#[derive(Clone, Debug, PartialEq)]
pub struct Annotation {
    /// The name without `@`, with `::` where it was scoped.
    pub name: String,
    /// The arguments in order.
    pub args: Vec<AnnotationArg>,
}

/// One argument of an [`Annotation`].
#[derive(Clone, Debug, PartialEq)]
pub struct AnnotationArg {
    /// The parameter's name; `None` for the one positional argument.
    pub name: Option<String>,
    /// Its value.
    pub value: AnnotationValue,
}

/// The value of an annotation's parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum AnnotationValue {
    /// A constant expression, evaluated.
    Const(ConstValue),
    /// A name that no definition in the specification has, such as `APPENDABLE`.
    Name(String),
}

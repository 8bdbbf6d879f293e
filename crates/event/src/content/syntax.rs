//! An expression as a tree of bounded height.

use std::ops::Range;

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Expr {
    pub kind: ExprKind,
    pub range: Range<usize>,
    pub height: usize,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum ExprKind {
    Bool(bool),
    Int(u64),
    Float(f64),
    Text(String),
    Char(char),
    Path(Vec<PathPart>),
    /// The number of elements or characters.
    Length(Vec<PathPart>),
    StartsWith(Box<Expr>, Box<Expr>),
    Not(Box<Expr>),
    Unary(Unary, Box<Expr>),
    Arithmetic(Arithmetic, Box<Expr>, Box<Expr>),
    Compare(Relation, Box<Expr>, Box<Expr>),
    /// All are true, or one of them is.
    Logical(Logical, Vec<Expr>),
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum PathPart {
    Member(String, Range<usize>),
    Element(u32, Range<usize>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unary {
    Negate,
    Complement,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Relation {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Logical {
    And,
    Or,
}

//! The syntax tree, without meaning.

use crate::model::Type;
use crate::pp::Token;
use crate::source::Span;
use std::rc::Rc;

/// An identifier and its position, without the escaping underscore.
#[derive(Clone, Debug)]
pub(crate) struct Ident {
    pub name: Rc<str>,
    pub span: Span,
}

/// `A::B` or `::A::B`
#[derive(Clone, Debug)]
pub(crate) struct ScopedName {
    pub absolute: bool,
    /// Not empty.
    pub parts: Vec<Ident>,
    pub span: Span,
}

impl std::fmt::Display for ScopedName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, part) in self.parts.iter().enumerate() {
            let colons = if i > 0 || self.absolute { "::" } else { "" };
            write!(f, "{colons}{}", part.name)?;
        }
        Ok(())
    }
}

/// The elements of a list of definitions.
#[derive(Debug)]
pub(crate) enum Item {
    Decl(Box<Decl>),
    /// `#pragma`, by its index.
    Pragma(u32),
    /// The text of an included file begins.
    FileBegin,
    /// It ends.
    FileEnd,
}

/// Comment and annotations in front of something.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attrs {
    pub doc: Option<Rc<str>>,
    pub annotations: Vec<AnnotationExpr>,
}

/// `@name` or `@name(value)` or `@name(a=1, b=2)`
#[derive(Clone, Debug)]
pub(crate) struct AnnotationExpr {
    pub name: String,
    pub args: Vec<(Option<Rc<str>>, Expr)>,
}

/// A definition or declaration.
#[derive(Debug)]
pub(crate) struct Decl {
    pub attrs: Attrs,
    pub kind: DeclKind,
}

#[derive(Debug)]
pub(crate) enum DeclKind {
    Module {
        name: Ident,
        items: Vec<Item>,
    },
    Interface {
        flavor: Flavor,
        name: Ident,
        bases: Vec<ScopedName>,
        items: Vec<Item>,
    },
    InterfaceForward {
        flavor: Flavor,
        name: Ident,
    },
    Value(ValueDecl),
    ValueForward {
        abstract_: bool,
        name: Ident,
    },
    ValueBox {
        name: Ident,
        boxed: TypeExpr,
    },
    Struct {
        name: Ident,
        members: Vec<Item>,
    },
    StructForward {
        name: Ident,
    },
    Union(UnionDecl),
    UnionForward {
        name: Ident,
    },
    Enum {
        name: Ident,
        enumerators: Vec<(Attrs, Ident)>,
    },
    Exception {
        name: Ident,
        members: Vec<Item>,
    },
    Typedef {
        ty: TypeExpr,
        declarators: Vec<Declarator>,
    },
    Const {
        ty: TypeExpr,
        name: Ident,
        value: Expr,
    },
    Native {
        name: Ident,
    },
    Operation(OperationDecl),
    Attribute(AttributeDecl),
    /// `public T a, b;` in a value.
    State {
        public: bool,
        ty: TypeExpr,
        declarators: Vec<Declarator>,
    },
    Factory {
        name: Ident,
        params: Vec<ParamDecl>,
        raises: Vec<ScopedName>,
    },
    /// `T a, b;` in a struct or exception.
    Members {
        ty: TypeExpr,
        declarators: Vec<Declarator>,
    },
    TypeId {
        target: ScopedName,
        id: StringLiteral,
    },
    TypePrefix {
        target: TypePrefixTarget,
        prefix: StringLiteral,
    },
    Import {
        target: ImportTarget,
    },
}

/// Modifiers of `interface`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavor {
    Plain,
    Local,
    Abstract,
}

#[derive(Debug)]
pub(crate) struct ValueDecl {
    pub custom: bool,
    pub abstract_: bool,
    pub name: Ident,
    pub truncatable: Option<Span>,
    pub bases: Vec<ScopedName>,
    pub supports: Vec<ScopedName>,
    pub items: Vec<Item>,
}

#[derive(Debug)]
pub(crate) struct UnionDecl {
    pub name: Ident,
    pub discriminator: TypeExpr,
    pub cases: Vec<CaseDecl>,
}

#[derive(Debug)]
pub(crate) struct CaseDecl {
    pub labels: Vec<LabelExpr>,
    pub attrs: Attrs,
    pub ty: TypeExpr,
    pub declarator: Declarator,
}

#[derive(Debug)]
pub(crate) enum LabelExpr {
    Default(Span),
    Case(Expr),
}

#[derive(Debug)]
pub(crate) struct OperationDecl {
    pub oneway: Option<Span>,
    pub result: TypeExpr,
    pub name: Ident,
    pub params: Vec<ParamDecl>,
    pub raises: Vec<ScopedName>,
    pub context: Vec<StringLiteral>,
}

#[derive(Debug)]
pub(crate) struct ParamDecl {
    pub attrs: Attrs,
    pub direction: crate::model::Direction,
    pub direction_span: Span,
    pub ty: TypeExpr,
    pub name: Ident,
}

#[derive(Debug)]
pub(crate) struct AttributeDecl {
    pub readonly: bool,
    pub ty: TypeExpr,
    pub names: Vec<Ident>,
    pub get_raises: Vec<ScopedName>,
    pub set_raises: Vec<ScopedName>,
}

/// `name[2][3]`
#[derive(Debug)]
pub(crate) struct Declarator {
    pub name: Ident,
    pub dims: Vec<Expr>,
}

#[derive(Debug)]
pub(crate) struct TypeExpr {
    pub kind: TypeKind,
    pub span: Span,
}

#[derive(Debug)]
pub(crate) enum TypeKind {
    /// A type that is a keyword or several.
    Basic(Type),
    String {
        wide: bool,
        bound: Option<Expr>,
    },
    Sequence {
        element: Box<TypeExpr>,
        bound: Option<Expr>,
    },
    /// Digits and scale; `None` for bare `fixed` in constants.
    Fixed(Option<(Expr, Expr)>),
    Named(ScopedName),
    /// A struct, union or enum that is defined on the spot.
    Inline(Box<Decl>),
}

#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub kind: ExprKind,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    Literal(Token),
    /// Adjacent string literals.
    Strings(Vec<Token>),
    Boolean(bool),
    Name(ScopedName),
    Unary(Unary, Box<Expr>),
    /// Operators of equal precedence, applied left to right. A list instead of a tree, so that a
    /// long sum does not make a deep one.
    Binary(Box<Expr>, Vec<(Binary, Expr)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unary {
    Minus,
    Plus,
    Not,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Or,
    Xor,
    And,
    ShiftLeft,
    ShiftRight,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// One or more adjacent string literals where the grammar wants a string, not an expression.
#[derive(Clone, Debug)]
pub(crate) struct StringLiteral {
    pub tokens: Vec<Token>,
    pub span: Span,
}

#[derive(Debug)]
pub(crate) enum TypePrefixTarget {
    /// `typeprefix :: "..."`: everything in the file that has no other.
    File,
    Name(ScopedName),
}

#[derive(Debug)]
pub(crate) enum ImportTarget {
    Name(ScopedName),
    Id(StringLiteral),
}

//! Definitions: everything that has a scoped name.

use super::{Annotation, ConstValue, Label, Location, Type};

/// Index of a definition in its [`Spec`](super::Spec).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DefId(pub(crate) u32);

impl DefId {
    /// The position in order of introduction.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A named definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// The identifier, the escaping underscore removed.
    pub name: String,
    /// The repository id after `#pragma prefix/ID/version`, `typeid` and `typeprefix`:
    /// `IDL:omg.org/CosNaming/Name:1.0`.
    pub repository_id: String,
    /// The enclosing scope; `None` at file scope.
    pub parent: Option<DefId>,
    /// What stands in this scope, in order: definitions of a module; operations, attributes and
    /// types of an interface or value; types that are defined inside a struct, union or exception.
    /// Enumerators are not listed here: their names belong to the scope around the enum (which is
    /// their [`parent`](Self::parent)), and [`Enum::enumerators`] has them.
    pub contents: Vec<DefId>,
    /// Where the identifier of the definition stands (the full definition where there were forward
    /// declarations too).
    pub location: Location,
    /// Whether it stands in the main file rather than in an included one. A reopened module is in
    /// the main file if any part of it is; its contents may differ one by one.
    pub in_main_file: bool,
    /// The comment directly before it, with the comment marks removed.
    pub doc: Option<String>,
    /// IDL 4 annotations, in order.
    pub annotations: Vec<Annotation>,
    /// The kind of definition.
    pub kind: DefKind,
}

/// The kinds of definitions.
#[derive(Clone, Debug, PartialEq)]
pub enum DefKind {
    /// A module; [`Definition::contents`] has the definitions of all its openings.
    Module,
    /// An interface.
    Interface(Interface),
    /// A valuetype with state or an abstract one.
    Value(Value),
    /// A boxed value.
    ValueBox(ValueBox),
    /// A struct.
    Struct(Struct),
    /// A union.
    Union(Union),
    /// An enum.
    Enum(Enum),
    /// A name of an enum.
    Enumerator(Enumerator),
    /// An exception.
    Exception(Exception),
    /// One name of a typedef; `typedef long a, b[2];` makes two definitions.
    Typedef(Typedef),
    /// A constant.
    Const(Const),
    /// A native type: opaque, for local interfaces.
    Native,
    /// An operation.
    Operation(Operation),
    /// One name of an attribute declaration.
    Attribute(Attribute),
}

/// `[local|abstract] interface X : bases { ... };`
#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    /// `local`
    pub local: bool,
    /// `abstract`
    pub abstract_: bool,
    /// Direct bases, as written, aliases looked through. See
    /// [`Spec::all_bases`](super::Spec::all_bases).
    pub bases: Vec<DefId>,
    /// False when there are only forward declarations of it in the whole specification: it can be
    /// passed, not called.
    pub defined: bool,
}

/// `[custom|abstract] valuetype V : [truncatable] base supports I { ... };`
///
/// Operations, attributes and nested types are in [`Definition::contents`].
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// `custom`
    pub custom: bool,
    /// `abstract`
    pub abstract_: bool,
    /// `truncatable` to [`Value::base`].
    pub truncatable: bool,
    /// The one base with state.
    pub base: Option<DefId>,
    /// Abstract bases, as written.
    pub abstract_bases: Vec<DefId>,
    /// Interfaces after `supports`, as written.
    pub supports: Vec<DefId>,
    /// Own state, in order; see [`Spec::all_state`](super::Spec::all_state) for the inherited too.
    pub members: Vec<StateMember>,
    /// `factory` declarations.
    pub factories: Vec<Factory>,
    /// False when there are only forward declarations of it in the whole specification.
    pub defined: bool,
}

/// `valuetype V T;`
#[derive(Clone, Debug, PartialEq)]
pub struct ValueBox {
    /// The type in the box.
    pub boxed: Type,
}

/// A state member of a valuetype.
#[derive(Clone, Debug, PartialEq)]
pub struct StateMember {
    /// `public` rather than `private`.
    pub public: bool,
    /// Name and type.
    pub member: Member,
}

/// `factory name(in T a, ...) raises (...);`
#[derive(Clone, Debug, PartialEq)]
pub struct Factory {
    /// The identifier.
    pub name: String,
    /// All are `in`.
    pub params: Vec<Param>,
    /// Exceptions, as written.
    pub raises: Vec<DefId>,
    /// The comment directly before it.
    pub doc: Option<String>,
    /// IDL 4 annotations.
    pub annotations: Vec<Annotation>,
    /// The position of the identifier.
    pub location: Location,
}

/// A named part of a struct, exception, union case or value state.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// The identifier.
    pub name: String,
    /// Its type; [`Type::Array`] where the declarator had dimensions.
    pub ty: Type,
    /// The comment directly before it.
    pub doc: Option<String>,
    /// IDL 4 annotations.
    pub annotations: Vec<Annotation>,
    /// The position of the identifier.
    pub location: Location,
}

/// `struct S { ... };`
#[derive(Clone, Debug, PartialEq)]
pub struct Struct {
    /// Members in order; never empty.
    pub members: Vec<Member>,
}

/// `exception E { ... };`
#[derive(Clone, Debug, PartialEq)]
pub struct Exception {
    /// Members in order; may be empty.
    pub members: Vec<Member>,
}

/// `union U switch (D) { case 1: T a; default: T b; };`
#[derive(Clone, Debug, PartialEq)]
pub struct Union {
    /// An integer type, `char`, `wchar`, `boolean`, or an enum; aliases are kept.
    pub discriminator: Type,
    /// Cases in order.
    pub cases: Vec<UnionCase>,
    /// No `default` is written and the labels leave values over: with such a value the union holds
    /// no member.
    pub implicit_default: bool,
    /// A discriminator value that no label names, for the explicit or the implicit default; `None`
    /// when the labels name every value. For enums and booleans the first free one; for numbers and
    /// characters the least non-negative.
    pub default_label: Option<Label>,
}

/// One member of a union with the labels that select it.
#[derive(Clone, Debug, PartialEq)]
pub struct UnionCase {
    /// `case` labels in order; empty when only `default` is written.
    pub labels: Vec<Label>,
    /// Whether `default:` stands among the labels.
    pub is_default: bool,
    /// The member.
    pub member: Member,
}

/// `enum E { a, b };`
#[derive(Clone, Debug, PartialEq)]
pub struct Enum {
    /// The [`Enumerator`] definitions, in order.
    pub enumerators: Vec<DefId>,
}

/// One name of an enum.
#[derive(Clone, Debug, PartialEq)]
pub struct Enumerator {
    /// The enum it belongs to.
    pub enum_: DefId,
    /// Position, from 0; it is sent on the wire.
    pub ordinal: u32,
}

/// `typedef T name;`
#[derive(Clone, Debug, PartialEq)]
pub struct Typedef {
    /// The last typedef of a chain of them, itself at its end.
    pub(crate) last: DefId,
    /// The number of typedefs that lead from here to the last one.
    pub(crate) links: u32,
    /// The aliased type; [`Type::Array`] where the declarator had dimensions.
    pub ty: Type,
}

/// `const T name = expression;`
#[derive(Clone, Debug, PartialEq)]
pub struct Const {
    /// The declared type, aliases kept.
    pub ty: Type,
    /// The value, in range.
    pub value: ConstValue,
}

/// The direction of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Client to servant.
    In,
    /// Servant to client.
    Out,
    /// Both ways.
    InOut,
}

/// A parameter of an operation or factory.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// The direction.
    pub direction: Direction,
    /// The identifier.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// IDL 4 annotations.
    pub annotations: Vec<Annotation>,
    /// The position of the identifier.
    pub location: Location,
}

/// `[oneway] T name(...) raises (...) context (...);`
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// `oneway`: no result, no `out`, no `raises`.
    pub oneway: bool,
    /// The result, [`Type::Void`] if none.
    pub result: Type,
    /// Parameters in order.
    pub params: Vec<Param>,
    /// Exceptions, as written.
    ///
    /// A native is possible, too: the modules of CORBA itself use one for an exception of any type.
    pub raises: Vec<DefId>,
    /// The strings of the context clause.
    pub context: Vec<String>,
}

/// `[readonly] attribute T name getraises (...) setraises (...);`
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// `readonly`: there is no `_set_`.
    pub readonly: bool,
    /// Its type.
    pub ty: Type,
    /// Exceptions that reading may raise.
    pub get_raises: Vec<DefId>,
    /// Exceptions that writing may raise; empty when readonly.
    pub set_raises: Vec<DefId>,
}

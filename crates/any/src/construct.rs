//! Making type codes, with the checks of CORBA 3.3 part 1, clause 8.11.3.

use crate::graph::{Graph, Link, Member, Node, TcRef};
use crate::typecode::{Repr, modifier};
use crate::{BuildError, Kind, Label, TypeCode};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use isorb_cdr::MAX_DEPTH;

/// The limit of types and members in one type code, shared ones of a constructed type not counted.
pub const MAX_NODES: usize = 65_536;

/// Constructors. Each allocates one graph; component types are shared, not copied, unless they wait
/// for an enclosing type.
impl TypeCode {
    /// A structure.
    ///
    /// # Errors
    /// [`BuildError`]: names, ids, duplicates, illegal member types, limits.
    pub fn new_struct(id: &str, name: &str, members: &[(&str, TypeCode)]) -> Result<TypeCode, BuildError> {
        named(Kind::Struct, id, name)?.with_members(members)?.finish()
    }

    /// A user exception.
    ///
    /// # Errors
    /// As [`TypeCode::new_struct`].
    pub fn new_exception(id: &str, name: &str, members: &[(&str, TypeCode)]) -> Result<TypeCode, BuildError> {
        named(Kind::Except, id, name)?.with_members(members)?.finish()
    }

    /// A union. A case with several labels is several consecutive members of the same name.
    ///
    /// # Errors
    /// [`BuildError`]; also for duplicate labels and for labels outside the discriminator type.
    pub fn new_union(
        id: &str,
        name: &str,
        discriminator: &TypeCode,
        cases: &[(Label, &str, TypeCode)],
    ) -> Result<TypeCode, BuildError> {
        let kind = discriminator.borrow().strip();
        let (low, high) = label_range(kind).ok_or(BuildError::Discriminator)?;
        let mut default = None;
        let mut labels = BTreeSet::new();
        let mut members = Vec::with_capacity(cases.len());
        let mut names = BTreeSet::new();
        for (i, (label, name, tc)) in cases.iter().enumerate() {
            check_member(name, tc)?;
            let again = i > 0 && cases[i - 1].1 == *name && cases[i - 1].2.equal(tc);
            if !name.is_empty() && !again && !names.insert(name.to_ascii_lowercase()) {
                return Err(BuildError::DuplicateMember);
            }
            let number = match label {
                Label::Default if default.is_some() => return Err(BuildError::DuplicateLabel),
                Label::Default => {
                    default = Some(i as i64);
                    0
                }
                Label::Value(value) if *value < low || *value > high => return Err(BuildError::LabelType),
                Label::Value(value)
                    if matches!(kind.kind(), Kind::WChar) && char::from_u32(*value as u32).is_none() =>
                {
                    return Err(BuildError::LabelType);
                }
                Label::Value(value) if !labels.insert(*value) => return Err(BuildError::DuplicateLabel),
                Label::Value(value) => *value as i64,
            };
            members.push((*name, tc.clone(), number));
        }
        let mut draft = named(Kind::Union, id, name)?;
        draft.node.number = default.unwrap_or(-1);
        draft.content = Some(discriminator.clone());
        draft.members(members)?.finish()
    }

    /// An enumeration.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn new_enum(id: &str, name: &str, enumerators: &[&str]) -> Result<TypeCode, BuildError> {
        let mut names = BTreeSet::new();
        for name in enumerators {
            check_name(name)?;
            if !name.is_empty() && !names.insert(name.to_ascii_lowercase()) {
                return Err(BuildError::DuplicateMember);
            }
        }
        let members = enumerators.iter().map(|name| (*name, TypeCode::NULL, 0)).collect();
        named(Kind::Enum, id, name)?.members(members)?.finish()
    }

    /// A `typedef`.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn new_alias(id: &str, name: &str, original: &TypeCode) -> Result<TypeCode, BuildError> {
        named(Kind::Alias, id, name)?.with_content(original)?.finish()
    }

    /// A boxed value.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn new_value_box(id: &str, name: &str, boxed: &TypeCode) -> Result<TypeCode, BuildError> {
        named(Kind::ValueBox, id, name)?.with_content(boxed)?.finish()
    }

    /// `string` with at most `bound` characters; 0 for no bound.
    pub fn string(bound: u32) -> TypeCode {
        text(Kind::String, bound)
    }

    /// `wstring` with at most `bound` characters; 0 for no bound.
    pub fn wstring(bound: u32) -> TypeCode {
        text(Kind::WString, bound)
    }

    /// `fixed<digits, scale>`.
    ///
    /// # Errors
    /// [`BuildError::Number`] unless 1 to 31 digits, of which no more than all are after the point.
    pub fn fixed(digits: u16, scale: i16) -> Result<TypeCode, BuildError> {
        if !(1..=31).contains(&digits) || scale > digits as i16 {
            return Err(BuildError::Number);
        }
        let mut draft = Draft::new(Kind::Fixed);
        draft.node.number = digits.into();
        draft.node.scale = scale;
        draft.finish()
    }

    /// `sequence<element, bound>`; 0 for no bound.
    ///
    /// # Errors
    /// [`BuildError::MemberType`], [`BuildError::TooDeep`].
    pub fn sequence(element: &TypeCode, bound: u32) -> Result<TypeCode, BuildError> {
        let mut draft = Draft::new(Kind::Sequence);
        draft.node.number = bound.into();
        draft.with_content(element)?.finish()
    }

    /// An array of one dimension; an array of arrays has several.
    ///
    /// # Errors
    /// [`BuildError::MemberType`], [`BuildError::Number`] for length 0, [`BuildError::TooDeep`].
    pub fn array(element: &TypeCode, length: u32) -> Result<TypeCode, BuildError> {
        if length == 0 {
            return Err(BuildError::Number);
        }
        let mut draft = Draft::new(Kind::Array);
        draft.node.number = length.into();
        draft.with_content(element)?.finish()
    }

    /// A reference to objects of an interface.
    ///
    /// # Errors
    /// [`BuildError::Id`], [`BuildError::Name`].
    pub fn interface(id: &str, name: &str) -> Result<TypeCode, BuildError> {
        TypeCode::opaque(Kind::ObjRef, id, name)
    }

    /// `Object`.
    pub fn object() -> TypeCode {
        TypeCode::interface(OBJECT_ID, "Object").unwrap_or(TypeCode::NULL)
    }

    /// A type with only an id and a name: an interface of any sort, a native type, a component, a
    /// home.
    ///
    /// # Errors
    /// [`BuildError::Id`], [`BuildError::Name`]; [`BuildError::MemberType`] for another kind.
    pub fn opaque(kind: Kind, id: &str, name: &str) -> Result<TypeCode, BuildError> {
        use Kind::{AbstractInterface, Component, Home, LocalInterface, Native, ObjRef};
        if !matches!(kind, ObjRef | Native | AbstractInterface | LocalInterface | Component | Home) {
            return Err(BuildError::MemberType);
        }
        if id.is_empty() && kind != ObjRef {
            return Err(BuildError::Id);
        }
        named(kind, id, name)?.finish()
    }

    /// A value type (or, with `event`, an event type). Members have a visibility (see
    /// [`visibility`](crate::visibility)); `modifier` is one of [`modifier`].
    ///
    /// # Errors
    /// [`BuildError`]; [`BuildError::MemberType`] for a base that is no value type.
    pub fn new_value(
        id: &str,
        name: &str,
        modifier: i16,
        base: Option<&TypeCode>,
        members: &[(&str, TypeCode, i16)],
        event: bool,
    ) -> Result<TypeCode, BuildError> {
        if !(modifier::NONE..=modifier::TRUNCATABLE).contains(&modifier) {
            return Err(BuildError::Number);
        }
        if base.is_some_and(|tc| !matches!(tc.kind(), Kind::Value | Kind::Event | Kind::Recursive)) {
            return Err(BuildError::MemberType);
        }
        check_members(members.iter().map(|(name, tc, _)| (*name, tc)))?;
        if members.iter().any(|(_, _, visibility)| !(0..=1).contains(visibility)) {
            return Err(BuildError::Number);
        }
        let mut draft = named(if event { Kind::Event } else { Kind::Value }, id, name)?;
        draft.node.number = modifier.into();
        draft.content = base.cloned();
        let members = members.iter().map(|(name, tc, seen)| (*name, tc.clone(), i64::from(*seen)));
        draft.members(members.collect())?.finish()
    }

    /// A placeholder for a structure, union or value type with the id `id`, for use in its members.
    /// When that type is made around it, the placeholder becomes the type; several types may wait
    /// for each other.
    ///
    /// # Errors
    /// [`BuildError::Id`].
    pub fn recursive(id: &str) -> Result<TypeCode, BuildError> {
        if id.is_empty() {
            return Err(BuildError::Id);
        }
        check_id(id)?;
        let mut node = Node::new(Kind::Recursive);
        node.id = id.into();
        let graph = Graph { nodes: [node].into(), open: [id.into()].into(), depth: 1, repeats: false };
        Ok(TypeCode(Repr::Node(Arc::new(graph), 0)))
    }
}

/// Repository id of `Object`.
pub(crate) const OBJECT_ID: &str = "IDL:omg.org/CORBA/Object:1.0";

/// A type under construction: its own node, and its components.
struct Draft {
    node: Node,
    content: Option<TypeCode>,
    parts: Vec<TypeCode>,
}

impl Draft {
    fn new(kind: Kind) -> Draft {
        Draft { node: Node::new(kind), content: None, parts: Vec::new() }
    }

    fn with_content(mut self, content: &TypeCode) -> Result<Draft, BuildError> {
        if !content.borrow().may_be_member() {
            return Err(BuildError::MemberType);
        }
        self.content = Some(content.clone());
        Ok(self)
    }

    fn with_members(self, members: &[(&str, TypeCode)]) -> Result<Draft, BuildError> {
        check_members(members.iter().map(|(name, tc)| (*name, tc)))?;
        self.members(members.iter().map(|(name, tc)| (*name, tc.clone(), 0)).collect())
    }

    fn members(mut self, members: Vec<(&str, TypeCode, i64)>) -> Result<Draft, BuildError> {
        if members.len() >= MAX_NODES {
            return Err(BuildError::TooLarge);
        }
        self.node.members = members
            .iter()
            .map(|(name, _, number)| Member {
                name: (*name).into(),
                link: Link::Outer(TypeCode::NULL),
                number: *number,
            })
            .collect();
        self.parts = members.into_iter().map(|(_, tc, _)| tc).collect();
        Ok(self)
    }

    /// Joins the parts into a graph. Complete ones are shared; others are copied, and their
    /// placeholders for this type are bound.
    fn finish(self) -> Result<TypeCode, BuildError> {
        let Draft { node, content, parts } = self;
        let mut joiner = Joiner { id: node.id.clone(), binds: node.kind.may_recur(), ..Joiner::default() };
        joiner.nodes.push(node);
        let content = content.map(|tc| joiner.join(tc)).transpose()?;
        let mut links = Vec::with_capacity(parts.len());
        for part in parts {
            links.push(joiner.join(part)?);
        }
        let Joiner { mut nodes, open, depth, .. } = joiner;
        let size: usize = nodes.iter().map(|node| 1 + node.members.len()).sum::<usize>() + links.len();
        if size > MAX_NODES {
            return Err(BuildError::TooLarge);
        }
        // As deep as a reader accepts at the start of a message.
        if depth + 1 >= MAX_DEPTH {
            return Err(BuildError::TooDeep);
        }
        let root = &mut nodes[0];
        root.content = content;
        for (member, link) in root.members.iter_mut().zip(links) {
            member.link = link;
        }
        if root.kind == Kind::Union {
            root.index_labels();
        }
        let open = open.into_iter().map(String::into_boxed_str).collect();
        let graph = Graph { nodes: nodes.into(), open, depth: depth + 1, repeats: false };
        Ok(TypeCode(Repr::Node(Arc::new(graph), 0)))
    }
}

#[derive(Default)]
struct Joiner {
    id: Box<str>,
    binds: bool,
    nodes: Vec<Node>,
    open: BTreeSet<String>,
    depth: u8,
    /// The new indices of a copied graph's nodes.
    copied: BTreeMap<usize, Vec<u32>>,
}

impl Joiner {
    fn join(&mut self, tc: TypeCode) -> Result<Link, BuildError> {
        let Repr::Node(graph, index) = &tc.0 else { return Ok(Link::Outer(tc)) };
        self.depth = self.depth.max(graph.depth);
        if graph.open.is_empty() {
            return Ok(Link::Outer(tc));
        }
        let address = Arc::as_ptr(graph).addr();
        if let Some(places) = self.copied.get(&address) {
            return Ok(Link::Here(places[*index as usize]));
        }
        if self.nodes.len() + graph.nodes.len() > MAX_NODES {
            return Err(BuildError::TooLarge);
        }
        let mut next = self.nodes.len() as u32;
        let mut places = Vec::with_capacity(graph.nodes.len());
        for node in &graph.nodes {
            if self.binds && node.kind == Kind::Recursive && node.id == self.id {
                places.push(0);
            } else {
                places.push(next);
                next += 1;
            }
        }
        for (node, place) in graph.nodes.iter().zip(&places) {
            if *place == 0 {
                continue;
            }
            let mut node = node.clone();
            for link in node.links_mut() {
                if let Link::Here(index) = link {
                    *index = places[*index as usize];
                }
            }
            self.nodes.push(node);
        }
        let open = graph.open.iter().filter(|id| !self.binds || **id != self.id);
        self.open.extend(open.map(|id| String::from(&**id)));
        let link = Link::Here(places[*index as usize]);
        self.copied.insert(address, places);
        Ok(link)
    }
}

/// The least and greatest label of a discriminator type; `None` for a type that cannot be one.
/// Since IDL 4 an octet can.
pub(crate) fn label_range(discriminator: TcRef<'_>) -> Option<(i128, i128)> {
    Some(match discriminator.kind() {
        Kind::Short => (i16::MIN.into(), i16::MAX.into()),
        Kind::UShort => (0, u16::MAX.into()),
        Kind::Long => (i32::MIN.into(), i32::MAX.into()),
        Kind::ULong => (0, u32::MAX.into()),
        Kind::LongLong => (i64::MIN.into(), i64::MAX.into()),
        Kind::ULongLong => (0, u64::MAX.into()),
        Kind::Boolean => (0, 1),
        Kind::Char | Kind::Octet => (0, 255),
        Kind::WChar => (0, u32::from(char::MAX).into()),
        Kind::Enum => (0, discriminator.members().len() as i128 - 1),
        _ => return None,
    })
}

fn text(kind: Kind, bound: u32) -> TypeCode {
    if bound == 0 {
        return TypeCode(Repr::Simple(kind));
    }
    let mut node = Node::new(kind);
    node.number = bound.into();
    let graph = Graph { nodes: [node].into(), open: Box::default(), depth: 1, repeats: false };
    TypeCode(Repr::Node(Arc::new(graph), 0))
}

fn named(kind: Kind, id: &str, name: &str) -> Result<Draft, BuildError> {
    check_id(id)?;
    check_name(name)?;
    let mut draft = Draft::new(kind);
    draft.node.id = id.into();
    draft.node.name = name.into();
    Ok(draft)
}

/// A repository id is a format, a colon and something without blanks; it may be absent.
fn check_id(id: &str) -> Result<(), BuildError> {
    let formed = id.split_once(':').is_some_and(|(format, rest)| !format.is_empty() && !rest.is_empty());
    let blank = |c: char| c.is_whitespace() || c.is_control();
    if id.is_empty() || formed && !id.contains(blank) { Ok(()) } else { Err(BuildError::Id) }
}

/// A name is an identifier; it may be absent.
fn check_name(name: &str) -> Result<(), BuildError> {
    let bytes = name.as_bytes();
    let starts = bytes.first().is_none_or(u8::is_ascii_alphabetic);
    let goes_on = bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_');
    if starts && goes_on { Ok(()) } else { Err(BuildError::Name) }
}

fn check_member(name: &str, tc: &TypeCode) -> Result<(), BuildError> {
    check_name(name)?;
    if tc.borrow().may_be_member() { Ok(()) } else { Err(BuildError::MemberType) }
}

fn check_members<'a>(members: impl Iterator<Item = (&'a str, &'a TypeCode)>) -> Result<(), BuildError> {
    let mut names = BTreeSet::new();
    for (name, tc) in members {
        check_member(name, tc)?;
        if !name.is_empty() && !names.insert(name.to_ascii_lowercase()) {
            return Err(BuildError::DuplicateMember);
        }
    }
    Ok(())
}

/// `null`.
impl Default for TypeCode {
    fn default() -> TypeCode {
        TypeCode::NULL
    }
}

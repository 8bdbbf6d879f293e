//! Type codes in memory: nodes in a graph that is owned as a whole.
//!
//! A recursive type is a cycle. Reference counts would leak a cycle, so its nodes are in one array
//! and refer to each other by index. Everything outside a cycle is a shared graph of its own.
//!
//! ```text
//!   struct Node { long v; sequence<Node> next; Point at; }
//!
//!   TypeCode ─► Graph [ 0: struct ─ v: long, next ─► 1, at ─────► Graph [ 0: struct Point … ]
//!                       1: sequence ─► 0 ]
//! ```

use crate::{Kind, TypeCode, typecode::Repr};
use alloc::boxed::Box;
use alloc::sync::Arc;

/// Nodes that belong together.
pub(crate) struct Graph {
    pub nodes: Box<[Node]>,
    /// Ids of its placeholders for an enclosing type. A graph with placeholders is copied into the
    /// type that embeds it.
    pub open: Box<[Box<str>]>,
    /// Nesting depth of the types, other graphs included.
    pub depth: u8,
    /// Whether it was read with indirections to complete types. It is then written with them too,
    /// so that passing a type code on never makes it larger.
    pub repeats: bool,
}

/// One type. The kind decides which fields have a meaning; the others are empty.
#[derive(Clone)]
pub(crate) struct Node {
    pub kind: Kind,
    pub id: Box<str>,
    pub name: Box<str>,
    /// Bound of text or a sequence, length of an array, digits of a `fixed`, index of a union's
    /// default case (or -1), modifier of a value type.
    pub number: i64,
    /// Scale of a `fixed`.
    pub scale: i16,
    /// Element, aliased or boxed type, discriminator, concrete base.
    pub content: Option<Link>,
    pub members: Box<[Member]>,
    /// Indices of a union's cases by ascending label, without the default case.
    pub by_label: Box<[u32]>,
}

#[derive(Clone)]
pub(crate) struct Member {
    pub name: Box<str>,
    /// `null` for enumerators.
    pub link: Link,
    /// Label of a case, as the bits of its value; visibility of a value's member.
    pub number: i64,
}

/// A link from one node to another.
#[derive(Clone)]
pub(crate) enum Link {
    /// In the same graph.
    Here(u32),
    /// In another graph.
    Outer(TypeCode),
}

impl Node {
    pub fn new(kind: Kind) -> Node {
        Node {
            kind,
            id: Box::default(),
            name: Box::default(),
            number: 0,
            scale: 0,
            content: None,
            members: Box::default(),
            by_label: Box::default(),
        }
    }

    /// All links of the node.
    pub fn links(&self) -> impl Iterator<Item = &Link> {
        let members = if self.kind == Kind::Enum { &[][..] } else { &self.members };
        self.content.iter().chain(members.iter().map(|member| &member.link))
    }

    pub fn links_mut(&mut self) -> impl Iterator<Item = &mut Link> {
        self.content.iter_mut().chain(self.members.iter_mut().map(|member| &mut member.link))
    }

    /// Fills in `by_label`.
    pub fn index_labels(&mut self) {
        let mut order: Box<[u32]> =
            (0..self.members.len() as u32).filter(|i| i64::from(*i) != self.number).collect();
        order.sort_by_key(|i| self.members[*i as usize].number);
        self.by_label = order;
    }

    /// The case of a union for the bits of a discriminator; `None` where no case applies.
    pub fn case(&self, bits: i64) -> Option<usize> {
        let label = |i: &u32| self.members[*i as usize].number;
        match self.by_label.binary_search_by_key(&bits, label) {
            Ok(found) => Some(self.by_label[found] as usize),
            Err(_) => usize::try_from(self.number).ok(),
        }
    }
}

/// A borrowed type code; walks use it, so that they do not count references.
#[derive(Clone, Copy)]
pub(crate) enum TcRef<'a> {
    Simple(Kind),
    Node(&'a Arc<Graph>, u32),
}

/// The identity of the node, for tables of visited nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Key {
    Simple(Kind),
    Node(usize, u32),
}

impl<'a> TcRef<'a> {
    pub fn node(self) -> Option<&'a Node> {
        match self {
            TcRef::Simple(_) => None,
            TcRef::Node(graph, index) => graph.nodes.get(index as usize),
        }
    }

    pub fn kind(self) -> Kind {
        match self {
            TcRef::Simple(kind) => kind,
            TcRef::Node(graph, index) => graph.nodes[index as usize].kind,
        }
    }

    pub fn key(self) -> Key {
        match self {
            TcRef::Simple(kind) => Key::Simple(kind),
            TcRef::Node(graph, index) => Key::Node(Arc::as_ptr(graph).addr(), index),
        }
    }

    pub fn follow(self, link: &'a Link) -> TcRef<'a> {
        match (self, link) {
            (_, Link::Outer(tc)) => tc.borrow(),
            (TcRef::Node(graph, _), Link::Here(index)) => TcRef::Node(graph, *index),
            (TcRef::Simple(kind), Link::Here(_)) => TcRef::Simple(kind),
        }
    }

    /// Element, aliased or boxed type, discriminator, concrete base.
    pub fn content(self) -> Option<TcRef<'a>> {
        Some(self.follow(self.node()?.content.as_ref()?))
    }

    pub fn members(self) -> &'a [Member] {
        self.node().map_or(&[], |node| &node.members)
    }

    pub fn member_type(self, index: usize) -> Option<TcRef<'a>> {
        Some(self.follow(&self.members().get(index)?.link))
    }

    pub fn id(self) -> &'a str {
        self.node().map_or("", |node| &node.id)
    }

    pub fn name(self) -> &'a str {
        self.node().map_or("", |node| &node.name)
    }

    pub fn number(self) -> i64 {
        self.node().map_or(0, |node| node.number)
    }

    /// The type without aliases. Terminates, because no cycle consists of aliases alone.
    pub fn strip(self) -> TcRef<'a> {
        let mut tc = self;
        while tc.kind() == Kind::Alias
            && let Some(content) = tc.content()
        {
            tc = content;
        }
        tc
    }

    /// Whether it can be a member or element: its values take at least one octet.
    pub fn may_be_member(self) -> bool {
        let tc = self.strip();
        match tc.kind() {
            Kind::Null | Kind::Void | Kind::Except => false,
            Kind::Struct => !tc.members().is_empty(),
            _ => true,
        }
    }

    pub fn to_owned(self) -> TypeCode {
        match self {
            TcRef::Simple(kind) => TypeCode(Repr::Simple(kind)),
            TcRef::Node(graph, index) => TypeCode(Repr::Node(graph.clone(), index)),
        }
    }
}

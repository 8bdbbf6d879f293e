//! Reading type codes from CDR (CORBA 3.3 part 2, clause 9.3.5.1).

use crate::graph::{Graph, Link, Member, Node};
use crate::kind::NO_KIND;
use crate::typecode::Repr;
use crate::{Kind, MAX_NODES, TypeCode};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use isorb_cdr::{Decoder, Error, ErrorKind, MAX_DEPTH, Result};

impl TypeCode {
    /// Reads a type code.
    ///
    /// Accepts what the clause allows: indirections to enclosing types and to earlier complete
    /// types in the same type code. Names are not checked, because compact type codes have none.
    ///
    /// # Errors
    /// [`ErrorKind::TypeCode`] for an unknown kind, an indirection to no type, or a type in an
    /// illegal position; [`ErrorKind::Depth`], [`ErrorKind::TooLarge`] past the limits; the errors
    /// of strings and numbers.
    ///
    /// # Real-time
    /// Allocates, in proportion to the octets read; nothing for primitive types.
    pub fn read(d: &mut Decoder<'_>) -> Result<TypeCode> {
        let mut reader = Reader::default();
        match reader.read(d, 0)? {
            Link::Outer(tc) => Ok(tc),
            Link::Here(root) => {
                let Reader { nodes, repeats, .. } = reader;
                let graph =
                    Graph { nodes: nodes.into(), open: Box::default(), depth: reader.deepest + 1, repeats };
                Ok(TypeCode(Repr::Node(Arc::new(graph), root)))
            }
        }
    }
}

#[derive(Default)]
struct Reader {
    nodes: Vec<Node>,
    /// Nodes with parameters still to be read; ascending.
    open: Vec<u32>,
    /// Position of each type in the outermost stream, ascending, for indirections.
    seen: Vec<(usize, Link)>,
    /// Types and members so far.
    size: usize,
    depth: u8,
    deepest: u8,
    repeats: bool,
}

impl Reader {
    /// Reads a type; `base` is the start of the decoder's encapsulation in the outermost stream.
    fn read(&mut self, d: &mut Decoder<'_>, base: usize) -> Result<Link> {
        d.align(4)?;
        let at = base + d.position();
        let number = d.get::<u32>()?;
        if number == NO_KIND {
            return self.indirection(d, base, at);
        }
        let Some(kind) = Kind::from_number(number) else { return Err(d.error(ErrorKind::TypeCode)) };
        self.grow(d, 1)?;
        if kind.is_simple() {
            let bound = if matches!(kind, Kind::String | Kind::WString) { d.get::<u32>()? } else { 0 };
            if bound == 0 {
                let link = Link::Outer(TypeCode(Repr::Simple(kind)));
                // Alone, it is the whole type code: no indirection refers to it.
                if self.depth > 0 {
                    self.seen.push((at, link.clone()));
                }
                return Ok(link);
            }
            let mut node = Node::new(kind);
            node.number = bound.into();
            return Ok(self.leaf(at, node));
        }
        if kind == Kind::Fixed {
            let mut node = Node::new(kind);
            let digits = d.get::<u16>()?;
            node.number = digits.into();
            node.scale = d.get::<i16>()?;
            if !(1..=31).contains(&digits) || node.scale > digits as i16 || node.scale < -31 {
                return Err(d.error(ErrorKind::TypeCode));
            }
            return Ok(self.leaf(at, node));
        }
        let index = self.nodes.len() as u32;
        self.nodes.push(Node::new(kind));
        self.seen.push((at, Link::Here(index)));
        self.open.push(index);
        let mut inner = d.encapsulation()?;
        let base = base + d.position() - (inner.position() + inner.remaining());
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        if self.depth >= MAX_DEPTH {
            return Err(inner.error(ErrorKind::Depth));
        }
        let node = self.parameters(kind, &mut inner, base)?;
        if inner.remaining() != 0 {
            return Err(inner.error(ErrorKind::TypeCode));
        }
        self.depth -= 1;
        self.nodes[index as usize] = node;
        self.open.pop();
        Ok(Link::Here(index))
    }

    fn leaf(&mut self, at: usize, node: Node) -> Link {
        let link = Link::Here(self.nodes.len() as u32);
        self.nodes.push(node);
        self.seen.push((at, link.clone()));
        link
    }

    /// The offset counts from its own position back to the kind of an earlier type in this type
    /// code. An incomplete type is legal only with a structure, union or value type between it and
    /// here. Then no cycle consists of aliases and sequences alone; such a cycle would have a
    /// single path, the one that was read.
    fn indirection(&mut self, d: &mut Decoder<'_>, base: usize, at: usize) -> Result<Link> {
        self.grow(d, 1)?;
        let from = (base + d.position()) as i64;
        let offset = d.get::<i32>()?;
        let target = from + i64::from(offset);
        let wrong = d.error(ErrorKind::TypeCode);
        let target = usize::try_from(target).ok().filter(|target| *target < at).ok_or(wrong)?;
        let found = self.seen.binary_search_by_key(&target, |(at, _)| *at).map_err(|_| wrong)?;
        let link = self.seen[found].1.clone();
        match link {
            Link::Here(index) if self.is_open(&link) => {
                let inside = self.open.iter().filter(|open| **open >= index);
                if !inside.clone().any(|open| self.nodes[*open as usize].kind.may_recur()) {
                    return Err(wrong);
                }
            }
            _ => self.repeats = true,
        }
        Ok(link)
    }

    /// Reads the parameters of a complex kind (table 9-2).
    fn parameters(&mut self, kind: Kind, d: &mut Decoder<'_>, base: usize) -> Result<Node> {
        let mut node = Node::new(kind);
        if kind.has_id() {
            node.id = text(d)?;
            node.name = text(d)?;
        }
        match kind {
            Kind::Sequence | Kind::Array => {
                node.content = Some(self.element(d, base)?);
                node.number = d.get::<u32>()?.into();
                if kind == Kind::Array && node.number == 0 {
                    return Err(d.error(ErrorKind::TypeCode));
                }
            }
            Kind::Alias | Kind::ValueBox => node.content = Some(self.element(d, base)?),
            Kind::Struct | Kind::Except => {
                node.members = self.members(d, 12, |reader, d, _| {
                    Ok(Member { name: text(d)?, link: reader.element(d, base)?, number: 0 })
                })?;
            }
            Kind::Enum => {
                node.members = self.members(d, 5, |_, d, _| {
                    Ok(Member { name: text(d)?, link: Link::Outer(TypeCode::NULL), number: 0 })
                })?;
            }
            Kind::Union => self.union(&mut node, d, base)?,
            Kind::Value | Kind::Event => {
                node.number = d.get::<i16>()?.into();
                let base_type = self.read(d, base)?;
                match self.behind_aliases(&base_type) {
                    (Kind::Null, _) => {}
                    (Kind::Value | Kind::Event, _) => node.content = Some(base_type),
                    _ => return Err(d.error(ErrorKind::TypeCode)),
                }
                node.members = self.members(d, 14, |reader, d, _| {
                    let name = text(d)?;
                    let link = reader.element(d, base)?;
                    Ok(Member { name, link, number: d.get::<i16>()?.into() })
                })?;
            }
            _ => {}
        }
        Ok(node)
    }

    fn union(&mut self, node: &mut Node, d: &mut Decoder<'_>, base: usize) -> Result<()> {
        let discriminator = self.read(d, base)?;
        let (kind, enumerators) = self.behind_aliases(&discriminator);
        node.content = Some(discriminator);
        let default = d.get::<i32>()?;
        node.number = default.into();
        node.members = self.members(d, 13, |reader, d, i| {
            let number = label(kind, d)?;
            let is_default = i64::from(default) == i as i64;
            if kind == Kind::Enum && !is_default && number >= enumerators as i64 {
                return Err(d.error(ErrorKind::TypeCode));
            }
            let number = if is_default { 0 } else { number };
            Ok(Member { name: text(d)?, link: reader.element(d, base)?, number })
        })?;
        let known = matches!(
            kind,
            Kind::Short
                | Kind::UShort
                | Kind::Long
                | Kind::ULong
                | Kind::LongLong
                | Kind::ULongLong
                | Kind::Boolean
                | Kind::Char
                | Kind::WChar
                | Kind::Octet
                | Kind::Enum
        );
        if !known || default < -1 || i64::from(default) >= node.members.len() as i64 {
            return Err(d.error(ErrorKind::TypeCode));
        }
        node.index_labels();
        Ok(())
    }

    /// Reads a type of elements.
    fn element(&mut self, d: &mut Decoder<'_>, base: usize) -> Result<Link> {
        let link = self.read(d, base)?;
        match self.behind_aliases(&link) {
            (Kind::Null | Kind::Void | Kind::Except, _) => Err(d.error(ErrorKind::TypeCode)),
            (Kind::Struct, 0) if !self.is_open(&link) => Err(d.error(ErrorKind::TypeCode)),
            _ => Ok(link),
        }
    }

    fn is_open(&self, link: &Link) -> bool {
        matches!(link, Link::Here(index) if self.open.binary_search(index).is_ok())
    }

    /// The kind of a type, and how many members it has.
    fn behind_aliases(&self, link: &Link) -> (Kind, usize) {
        let mut link = link;
        loop {
            match link {
                Link::Outer(tc) => return (tc.kind(), tc.borrow().members().len()),
                Link::Here(index) => {
                    let node = &self.nodes[*index as usize];
                    match (&node.content, node.kind) {
                        (Some(content), Kind::Alias) => link = content,
                        _ => return (node.kind, node.members.len()),
                    }
                }
            }
        }
    }

    fn members(
        &mut self,
        d: &mut Decoder<'_>,
        min_wire: usize,
        mut read: impl FnMut(&mut Reader, &mut Decoder<'_>, usize) -> Result<Member>,
    ) -> Result<Box<[Member]>> {
        let n = d.count(min_wire)?;
        self.grow(d, n)?;
        let mut members = Vec::with_capacity(n);
        for i in 0..n {
            members.push(read(self, d, i)?);
        }
        Ok(members.into())
    }

    fn grow(&mut self, d: &Decoder<'_>, by: usize) -> Result<()> {
        self.size += by;
        if self.size > MAX_NODES { Err(d.error(ErrorKind::TooLarge)) } else { Ok(()) }
    }
}

fn text(d: &mut Decoder<'_>) -> Result<Box<str>> {
    d.string_owned().map(Into::into)
}

/// Reads a discriminator or label, as the bits of its value.
pub(crate) fn label(kind: Kind, d: &mut Decoder<'_>) -> Result<i64, Error> {
    Ok(match kind {
        Kind::Short => d.get::<i16>()?.into(),
        Kind::UShort => d.get::<u16>()?.into(),
        Kind::Long => d.get::<i32>()?.into(),
        Kind::ULong | Kind::Enum => d.get::<u32>()?.into(),
        Kind::LongLong => d.get::<i64>()?,
        Kind::ULongLong => d.get::<u64>()? as i64,
        Kind::Octet => d.get::<u8>()?.into(),
        Kind::Boolean => d.boolean()?.into(),
        Kind::Char => u32::from(d.char()?).into(),
        Kind::WChar => u32::from(d.wchar()?).into(),
        _ => return Err(d.error(ErrorKind::TypeCode)),
    })
}

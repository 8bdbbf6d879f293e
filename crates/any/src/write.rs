//! Writing type codes in CDR (CORBA 3.3 part 2, clause 9.3.5.1).

use crate::graph::{Key, Node, TcRef};
use crate::kind::NO_KIND;
use crate::{Kind, TypeCode};
use alloc::collections::BTreeMap;
use isorb_cdr::{Encoder, ErrorKind, MAX_DEPTH};

/// Length in octets of one type code after which a repeated type is written as an indirection. Up
/// to it a repeated type is written out, which every peer can read: omniORB's Python side, for one,
/// cannot follow an indirection to a complete type. Beyond it the code would otherwise grow without
/// bound.
const WRITE_OUT: usize = 256 * 1024;

impl TypeCode {
    /// Writes the type code. An incomplete one is a sticky error of the encoder:
    /// [`ErrorKind::TypeCode`].
    ///
    /// # Real-time
    /// Allocates a table unless the type is primitive.
    pub fn write(&self, e: &mut Encoder<'_>) {
        let mut writer = Writer { start: e.position(), written: BTreeMap::new(), depth: 0 };
        writer.write(self.borrow(), e);
    }
}

struct Writer {
    start: usize,
    /// The positions of written types, and whether more are recorded.
    written: BTreeMap<Key, (usize, bool)>,
    depth: u8,
}

impl Writer {
    fn write(&mut self, tc: TcRef<'_>, e: &mut Encoder<'_>) {
        let (graph, node) = match (tc, tc.node()) {
            (TcRef::Node(graph, _), Some(node)) => (graph, node),
            _ => {
                e.put(tc.kind() as u32);
                if matches!(tc.kind(), Kind::String | Kind::WString) {
                    e.put(0u32);
                }
                return;
            }
        };
        match node.kind {
            Kind::Recursive => return e.fail(ErrorKind::TypeCode),
            Kind::String | Kind::WString => {
                e.put(node.kind as u32);
                return e.put(node.number as u32);
            }
            Kind::Fixed => {
                e.put(node.kind as u32);
                e.put(node.number as u16);
                return e.put(node.scale);
            }
            _ => {}
        }
        if e.error().is_some() {
            return;
        }
        e.align(4);
        let at = e.position();
        if let Some((target, open)) = self.written.get(&tc.key()).copied()
            && (open || graph.repeats || at - self.start > WRITE_OUT || self.depth + 1 >= MAX_DEPTH)
        {
            e.put(NO_KIND);
            // Both positions are in one message, the target first.
            return match i32::try_from(e.position() - target) {
                Ok(distance) => e.put(-distance),
                Err(_) => e.fail(ErrorKind::TooLarge),
            };
        }
        if self.depth + 1 >= MAX_DEPTH {
            return e.fail(ErrorKind::Depth);
        }
        self.depth += 1;
        self.written.insert(tc.key(), (at, true));
        e.put(node.kind as u32);
        e.encapsulation(|e| self.parameters(tc, node, e));
        self.written.insert(tc.key(), (at, false));
        self.depth -= 1;
    }

    fn parameters(&mut self, tc: TcRef<'_>, node: &Node, e: &mut Encoder<'_>) {
        if node.kind.has_id() {
            e.string(&node.id);
            e.string(&node.name);
        }
        let content = tc.content();
        match (node.kind, content) {
            (Kind::Sequence | Kind::Array, Some(content)) => {
                self.write(content, e);
                e.put(node.number as u32);
            }
            (Kind::Alias | Kind::ValueBox, Some(content)) => self.write(content, e),
            (Kind::Struct | Kind::Except, _) => {
                e.count(node.members.len());
                for member in &node.members {
                    e.string(&member.name);
                    self.write(tc.follow(&member.link), e);
                }
            }
            (Kind::Enum, _) => {
                e.count(node.members.len());
                node.members.iter().for_each(|member| e.string(&member.name));
            }
            (Kind::Union, Some(discriminator)) => {
                self.write(discriminator, e);
                let kind = discriminator.strip().kind();
                e.put(node.number as i32);
                e.count(node.members.len());
                for member in &node.members {
                    put_label(kind, member.number, e);
                    e.string(&member.name);
                    self.write(tc.follow(&member.link), e);
                }
            }
            (Kind::Value | Kind::Event, base) => {
                e.put(node.number as i16);
                self.write(base.unwrap_or(TcRef::Simple(Kind::Null)), e);
                e.count(node.members.len());
                for member in &node.members {
                    e.string(&member.name);
                    self.write(tc.follow(&member.link), e);
                    e.put(member.number as i16);
                }
            }
            _ => {}
        }
    }
}

/// Writes a discriminator or label from the bits of its value.
pub(crate) fn put_label(kind: Kind, bits: i64, e: &mut Encoder<'_>) {
    let as_char = || char::from_u32(bits as u32);
    match kind {
        Kind::Short | Kind::UShort => e.put(bits as u16),
        Kind::Long | Kind::ULong | Kind::Enum => e.put(bits as u32),
        Kind::LongLong | Kind::ULongLong => e.put(bits),
        Kind::Octet | Kind::Boolean => e.put(bits as u8),
        Kind::Char | Kind::WChar => match as_char() {
            Some(c) if kind == Kind::Char => e.char(c),
            Some(c) => e.wchar(c),
            None => e.fail(ErrorKind::Text),
        },
        _ => e.fail(ErrorKind::TypeCode),
    }
}

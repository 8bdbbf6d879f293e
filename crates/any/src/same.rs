//! Equality and equivalence of types.

use crate::graph::{Key, Node, TcRef};
use crate::{Kind, TypeCode};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// The limit of compared pairs of types; beyond it two type codes count as different. Real types
/// need as many as they have members; only cycles made to be slow need more.
const MAX_PAIRS: usize = 1 << 17;

impl TypeCode {
    /// Whether every question has the same answer for both, names and aliases included (CORBA 3.3
    /// part 1, clause 8.11.1).
    ///
    /// # Real-time
    /// Allocates unless both are primitive or the same object; bounded by the sizes of both.
    pub fn equal(&self, other: &TypeCode) -> bool {
        same(self.borrow(), other.borrow(), Rule::Equal)
    }

    /// Whether values of one type are values of the other: aliases are resolved, types with ids are
    /// compared by id, and names are ignored.
    ///
    /// # Real-time
    /// As [`TypeCode::equal`].
    pub fn equivalent(&self, other: &TypeCode) -> bool {
        same(self.borrow(), other.borrow(), Rule::Equivalent)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Rule {
    Equal,
    Equivalent,
}

/// Compares without recursion: pairs under comparison count as equal until a difference is found,
/// which is the meaning of equality for cyclic types.
fn same(a: TcRef<'_>, b: TcRef<'_>, rule: Rule) -> bool {
    let mut seen: BTreeSet<(Key, Key)> = BTreeSet::new();
    let mut todo = Vec::new();
    let mut next = Some((a, b));
    while let Some((a, b)) = next {
        let (a, b) = if rule == Rule::Equivalent { (a.strip(), b.strip()) } else { (a, b) };
        if a.key() != b.key() {
            match (a, b) {
                (TcRef::Node(..), TcRef::Node(..)) => {
                    if seen.len() == MAX_PAIRS {
                        return false;
                    }
                    if seen.insert((a.key(), b.key())) && !same_node(a, b, rule, &mut todo) {
                        return false;
                    }
                }
                // Two primitive types with other keys, or a primitive type and one with parameters.
                _ => return false,
            }
        }
        next = todo.pop();
    }
    true
}

/// Compares two nodes by themselves, and queues the nodes that they refer to.
fn same_node<'a>(a: TcRef<'a>, b: TcRef<'a>, rule: Rule, todo: &mut Vec<(TcRef<'a>, TcRef<'a>)>) -> bool {
    let (Some(x), Some(y)) = (a.node(), b.node()) else { return false };
    if x.kind != y.kind {
        return false;
    }
    match rule {
        Rule::Equal if x.id != y.id || x.name != y.name => return false,
        Rule::Equivalent if x.kind.has_id() && !x.id.is_empty() && !y.id.is_empty() => return x.id == y.id,
        _ => {}
    }
    let members = x.members.iter().zip(&y.members);
    if x.number != y.number
        || x.scale != y.scale
        || x.members.len() != y.members.len()
        || x.content.is_some() != y.content.is_some()
        || !members.clone().enumerate().all(|(i, (m, n))| {
            // The label of a default case has no meaning.
            let labels = m.number == n.number || x.kind == Kind::Union && x.number == i as i64;
            labels && (rule == Rule::Equivalent || m.name == n.name)
        })
    {
        return false;
    }
    let follow = |tc: TcRef<'a>, node: &'a Node| node.links().map(move |link| tc.follow(link));
    todo.extend(follow(a, x).zip(follow(b, y)));
    true
}

//! Type codes without the names, which readers of values do not need.

use crate::graph::{Graph, Link, Node};
use crate::{TypeCode, typecode::Repr};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;

impl TypeCode {
    /// The same type without its optional names: ids and aliases stay, names of types and members
    /// become empty.
    ///
    /// # Real-time
    /// Allocates.
    #[must_use]
    pub fn compact(&self) -> TypeCode {
        compact(self, &mut BTreeMap::new())
    }
}

/// Recursion follows only links between graphs, which are nested no deeper than types.
fn compact(tc: &TypeCode, done: &mut BTreeMap<usize, Arc<Graph>>) -> TypeCode {
    let Repr::Node(graph, index) = &tc.0 else { return tc.clone() };
    let address = Arc::as_ptr(graph).addr();
    if let Some(done) = done.get(&address) {
        return TypeCode(Repr::Node(done.clone(), *index));
    }
    let nodes = graph.nodes.iter().map(|node| {
        let mut node: Node = node.clone();
        node.name = Box::default();
        node.members.iter_mut().for_each(|member| member.name = Box::default());
        for link in node.links_mut() {
            if let Link::Outer(tc) = link {
                *tc = compact(tc, done);
            }
        }
        node
    });
    let nodes = nodes.collect();
    let small = Graph { nodes, open: graph.open.clone(), depth: graph.depth, repeats: graph.repeats };
    let small = Arc::new(small);
    done.insert(address, small.clone());
    TypeCode(Repr::Node(small, *index))
}

//! Reads values from octets of the input: as typed values, and by a type code; then writes them.
#![no_main]

use isorb::generated::{Any, CdrResult, Handle, Part, Shared, TypeCode, ValueState};
use isorb::{Link, Value, ValueBase};
use isorb_cdr::{Decoder, Encoder, Order, Text};
use isorb_scope::Region;
use libfuzzer_sys::fuzz_target;

/// `valuetype Node { long id; string name; Node left; sequence<Node> rest; };`
#[derive(Clone, Debug, PartialEq)]
struct NodeState {
    id: i32,
    name: String,
    left: Link<Node>,
    rest: Vec<Link<Node>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Node(Shared<dyn Part<NodeState>>);

isorb::value!(
    Node,
    NodeState,
    &["IDL:Node:1.0"],
    false,
    false,
    |id| (id == "IDL:Leaf:1.0").then(Leaf::value_type),
    []
);

impl ValueState for NodeState {
    fn encode_state<'v>(&'v self, e: &mut Encoder<'v>) {
        e.put(self.id);
        e.string(&self.name);
        self.left.encode(e);
        e.count(self.rest.len());
        self.rest.iter().for_each(|link| link.encode(e));
    }
    fn decode_state(d: &mut Decoder<'_>) -> CdrResult<Self> {
        let (id, name, left) = (d.get()?, d.string_owned()?, Link::decode(d)?);
        let n = d.count(4)?;
        let rest = (0..n).map(|_| Link::decode(d)).collect::<CdrResult<_>>()?;
        Ok(NodeState { id, name, left, rest })
    }
}

/// `valuetype Leaf : truncatable Node { double weight; };`
#[derive(Clone, Debug, PartialEq)]
struct LeafState {
    base: NodeState,
    weight: f64,
}

#[derive(Clone, Debug, PartialEq)]
struct Leaf(Shared<dyn Part<LeafState>>);

isorb::value!(
    Leaf,
    LeafState,
    &["IDL:Leaf:1.0", "IDL:Node:1.0"],
    false,
    true,
    |_| None,
    [(Node, NodeState, |state| &state.base)]
);

impl ValueState for LeafState {
    fn encode_state<'v>(&'v self, e: &mut Encoder<'v>) {
        self.base.encode_state(e);
        e.put(self.weight);
    }
    fn decode_state(d: &mut Decoder<'_>) -> CdrResult<Self> {
        Ok(LeafState { base: NodeState::decode_state(d)?, weight: d.get()? })
    }
}

fn node_code() -> TypeCode {
    let node = TypeCode::recursive("IDL:Node:1.0").expect("an id");
    let rest = TypeCode::sequence(&node, 0).expect("a sequence");
    let members =
        [("id", TypeCode::LONG, 1), ("name", TypeCode::STRING, 1), ("left", node, 1), ("rest", rest, 1)];
    TypeCode::new_value("IDL:Node:1.0", "Node", 0, None, &members, false).expect("a valuetype")
}

fn written<'v>(write: impl FnOnce(&mut Encoder<'v>)) -> Option<Vec<u8>> {
    let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
    write(&mut e);
    e.flatten().ok()
}

// The first octet chooses the byte order, and what is read from the rest.
fuzz_target!(|data: &[u8]| {
    let [how, octets @ ..] = data else { return };
    let mut region = Region::new(octets.len() + 4096);
    let scope = region.enter();
    let Ok(octets) = scope.aligned_copy(octets) else { return };
    let mut d = Decoder::new(octets, Order::from_flag(*how), Text::DEFAULT, &scope);
    if how & 2 != 0 {
        if let Ok(any) = Any::take(node_code(), &mut d) {
            let _ = any.to_string();
            let octets = written(|e| any.write_value(e)).expect("it was read");
            let again = Any::from_cdr(node_code(), &octets, Order::NATIVE, Text::DEFAULT);
            assert_eq!(again.as_ref(), Ok(&any));
        }
        return;
    }
    while d.remaining() > 0 {
        let Ok(node) = Node::decode_handle(&mut d) else { return };
        let Some(octets) = written(|e| Node::encode_handle(node.as_ref(), e)) else { continue };
        let mut region = Region::new(octets.len() + 4096);
        let scope = region.enter();
        let octets = scope.aligned_copy(&octets).expect("it fits");
        let mut d = Decoder::new(octets, Order::NATIVE, Text::DEFAULT, &scope);
        let again = Node::decode_handle(&mut d).expect("it was written");
        assert_eq!((again.is_some(), d.remaining()), (node.is_some(), 0));
        let _ = node.map(ValueBase::from).and_then(|value| value.cast::<Leaf>());
    }
});

//! Graphs of values: written, read, dropped.

use crate::idl::golden::*;
use crate::idl::values::*;
use crate::wire::{arrived, reading, value, words, written};
use isorb::generated::{CdrErrorKind, Handle};
use isorb::{Any, Link, Value, ValueBase};
use isorb_cdr::Order;

pub fn node(id: i32, left: Link<Node>, right: Link<Node>) -> Node {
    NodeState { id, name: format!("node {id}"), left, right }.into()
}

fn mixed() -> Mixed {
    let shared = node(1, Link::NULL, Link::NULL);
    let base = Base::from(BaseState { a: 5 });
    let derived = Derived::from(DerivedState { base: BaseState { a: 6 }, b: "six".into() });
    MixedState {
        base: BaseState { a: -1 },
        small: 1,
        large: 2.5,
        node: node(2, Link::from(&shared), Link::NULL).into(),
        doubles: vec![0.5, 1.5],
        wide: "ü".into(),
        grid: [Link::from(&base), Link::from(Base::from(derived.clone()))],
        few: vec![Link::from(ValueBase::from(shared)), Link::NULL],
        both: Pair { first: Some(base), second: Some(derived.into()) },
        more: Any::new(&7i32).expect("a long"),
        box_: StringBox::from("boxed".to_owned()).into(),
        last: true,
    }
    .into()
}

#[track_caller]
fn same(a: &Mixed, b: &Mixed) {
    assert_eq!((a.a, a.small, a.large, a.last), (b.a, b.small, b.large, b.last));
    assert_eq!((&a.doubles, &a.wide, &a.more), (&b.doubles, &b.wide, &b.more));
    let [first, second] = &b.grid;
    assert_eq!(first.get().map(|base| base.a), Some(5));
    let derived: Derived = second.get().and_then(|base| base.cast()).expect("it is a Derived");
    assert_eq!((derived.a, &*derived.b), (6, "six"));
    assert_eq!(b.both.first, first.get());
    let inner = b.node.get().and_then(|node| node.left.get()).expect("a node");
    assert_eq!(b.few[0].get().and_then(|value| value.cast::<Node>()), Some(inner));
    assert!(b.few[1].is_null());
    assert_eq!(b.box_.get().as_deref().map(String::as_str), Some("boxed"));
}

/// The types that ValueBase members need are found by their bases alone if the values were read
/// before; see `calls` for registered ones.
#[test]
fn every_kind_of_member() {
    let sent = mixed();
    let octets = written(|e| Mixed::encode_handle(Some(&sent), e)).expect("it can be sent");
    let got = value::<Mixed>(&octets).expect("it can be read").expect("a value");
    same(&sent, &got);
    // Truncated: the reader knows its base only. What follows is found.
    let octets = written(|e| {
        Mixed::encode_handle(Some(&sent), e);
        e.put(0x1234_5678u32);
        Mixed::encode_handle(Some(&sent), e);
    });
    let mut octets = octets.expect("it can be sent");
    let id = b"IDL:Values/Mixed:1.0";
    let at = octets.windows(id.len()).position(|window| window == id).expect("its id");
    octets[at + 4] = b'X';
    reading(&octets, Order::NATIVE, |d| {
        let base = Base::decode_handle(d).expect("it is truncated").expect("a value");
        assert_eq!((base.a, base.repository_id()), (-1, "IDL:Golden/Base:1.0"));
        assert_eq!(d.get(), Ok(0x1234_5678u32));
        assert_eq!(Base::decode_handle(d), Ok(Some(base)));
        assert_eq!(d.remaining(), 0);
    });
}

pub fn far() -> FarDerived {
    let code = Code::from(CodeState { a: 1, b: "x".into() });
    FarDerivedState {
        base: DerivedState { base: BaseState { a: 6 }, b: "six".into() },
        extra: node(3, Link::NULL, Link::NULL).into(),
        secret: code.into(),
    }
    .into()
}

#[test]
fn a_chunked_value_is_written_as_the_standard_says() {
    let derived = Derived::from(DerivedState { base: BaseState { a: 6 }, b: "six".into() });
    let octets = written(|e| Derived::encode_handle(Some(&derived), e)).expect("it can be sent");
    let mut wanted = words(&[0x7fff_ff0e, 2, 23]);
    wanted.extend(b"IDL:Golden/Derived:1.0\0\0");
    wanted.extend(words(&[20]));
    wanted.extend(b"IDL:Golden/Base:1.0\0");
    wanted.extend(words(&[12, 6, 4]));
    wanted.extend(b"six\0");
    wanted.extend((-1i32).to_ne_bytes());
    assert_eq!(octets, wanted);

    // A value inside of it ends the chunk, is chunked too, and has an end tag of its own; null and
    // a value that was written before stay in the chunk.
    let far = far();
    let inner = far.extra.get().expect("a node");
    let octets = written(|e| {
        Node::encode_handle(Some(&inner), e);
        FarDerived::encode_handle(Some(&far), e);
    });
    let octets = octets.expect("it can be sent");
    assert!(octets.ends_with(&words(&[1, -2i32 as u32, -1i32 as u32])), "{octets:02x?}");
    reading(&octets, Order::NATIVE, |d| {
        let first = Node::decode_handle(d).expect("a node");
        let far = FarDerived::decode_handle(d).expect("it can be read").expect("a value");
        assert_eq!((far.extra.get(), far.a, &*far.b), (first, 6, "six"));
        assert_eq!(far.secret.get().map(|code| (code.a, code.b.clone())), Some((1, "x".into())));
    });
    // Cut off to Derived and to Base: the nested values are passed over.
    for unknown in [&["Values/FarDerived"][..], &["Values/FarDerived", "Golden/Derived"]] {
        let mut octets = octets.clone();
        for id in unknown {
            let at = octets.windows(id.len()).position(|window| window == id.as_bytes()).expect("its id");
            octets[at] = b'X';
        }
        reading(&octets, Order::NATIVE, |d| {
            Node::decode_handle(d).expect("a node");
            let base = Base::decode_handle(d).expect("it can be read").expect("a value");
            assert_eq!(base.a, 6);
            assert_eq!(base.cast::<Derived>().is_some(), unknown.len() == 1);
            assert_eq!(d.remaining(), 0);
        });
    }
}

#[test]
fn abstract_and_derived_types() {
    let square = SquareState { side: 2.0 };
    let cube = Cube::from(CubeState { base: square.clone(), height: 3.0 });
    for shape in [Shape::from(cube.clone()), Shape::from(Square::from(square))] {
        let got = arrived(&shape);
        assert_eq!(got.repository_id(), shape.repository_id());
        assert_eq!(got.cast::<Square>().map(|square| square.side), Some(2.0));
    }
    let got: Cube = arrived(&Shape::from(cube)).cast().expect("a cube");
    assert_eq!((got.side, got.height), (2.0, 3.0));
    assert!(got.cast::<Node>().is_none());
    assert_eq!(arrived(&Empty::from(EmptyState {})), EmptyState {}.into());
}

#[test]
fn cycles() {
    // Three nodes in a ring; the receiver can begin anywhere.
    let back = Link::unset();
    let third = node(3, back.clone(), Link::NULL);
    let second = node(2, third.clone().into(), Link::NULL);
    let first = node(1, second.clone().into(), Link::NULL);
    assert!(back.is_null());
    assert!(back.set(&first) && !back.set(&second));
    for start in [&first, &second, &third] {
        let got = arrived(start);
        let mut at = got.clone();
        for expected in [start.id, start.id % 3 + 1, (start.id + 1) % 3 + 1] {
            assert_eq!(at.id, expected);
            at = at.left.get().expect("a ring");
        }
        assert_eq!(at, got);
        let weak = std::sync::Arc::downgrade(&got.object());
        drop((at, got));
        assert!(weak.upgrade().is_none(), "a ring is freed");
    }
    // A weak link without its target is null.
    drop(first);
    assert!(arrived(&third).left.is_null());

    // A tree with the way up, begun at its root and at a leaf.
    let up = Link::unset();
    let children = [1, 2, 3].map(|number| Child::from(ChildState { up: up.clone(), number }));
    let parent =
        Parent::from(ParentState { name: "p".into(), children: children.iter().map(Link::from).collect() });
    up.set(&parent);
    let got = arrived(&parent);
    for (child, number) in got.children.iter().zip(1..) {
        let child = child.get().expect("a child");
        assert_eq!((child.number, child.up.get().as_ref()), (number, Some(&got)));
    }
    let got = arrived(&children[1]);
    let parent = got.up.get().expect("its parent");
    assert_eq!(parent.children[1].get(), Some(got));
}

#[test]
fn a_long_chain_is_dropped_without_a_stack() {
    let chain = (0..200_000).fold(Link::NULL, |next, id| node(id, next, Link::NULL).into());
    let small = std::thread::Builder::new().stack_size(64 << 10);
    small.spawn(move || drop(chain)).expect("a thread").join().expect("it does not overflow");
    // The same for values that lie side by side in the message.
    let first = node(0, Link::NULL, Link::NULL);
    let chain: Vec<Node> = (1..20_000)
        .scan(first, |last, id| {
            *last = node(id, Link::from(&*last), Link::NULL);
            Some(last.clone())
        })
        .collect();
    let octets = written(|e| chain.iter().for_each(|node| Node::encode_handle(Some(node), e)));
    let octets = octets.expect("it can be sent");
    let last = reading(&octets, Order::NATIVE, |d| {
        let nodes = (1..20_000).map(|_| Node::decode_handle(d).expect("a node").expect("not null"));
        nodes.last().expect("many")
    });
    let small = std::thread::Builder::new().stack_size(64 << 10);
    small.spawn(move || drop(last)).expect("a thread").join().expect("it does not overflow");
}

#[test]
fn a_graph_too_deep_to_send_is_refused() {
    let chain = |n| (0..n).fold(Link::NULL, |next, id| node(id, next, Link::NULL).into()).get();
    assert!(written(|e| Node::encode_handle(chain(256).as_ref(), e)).is_ok());
    let refused = written(|e| Node::encode_handle(chain(257).as_ref(), e));
    assert_eq!(refused, Err(CdrErrorKind::ValueDepth));
}

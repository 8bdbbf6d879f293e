//! What TAO 2.2.2 sent: read completely, and where TAO keeps to the standard, written as it did.

use crate::idl::golden::{Base, Derived, LongSeqBox, Node, StringBox};
use crate::idl::obv_truncatable_test::{BaseValue, TValue1, TValue2, TValue4, TValue5};
use crate::idl::{StringNode, TreeController};
use crate::wire::{reading, written};
use isorb::Value;
use isorb::generated::{CdrErrorKind, Decoder, Handle};
use isorb_cdr::Order;

/// The bodies of the messages of a recording, without those that have none.
fn bodies(text: &str) -> Vec<Vec<u8>> {
    let mut messages: Vec<(usize, Vec<u8>)> = Vec::new();
    for line in text.lines() {
        if let Some(at) = line.strip_prefix("# body at ") {
            messages.push((at.parse().expect("a number"), Vec::new()));
        } else if let Some((_, message)) =
            messages.last_mut().filter(|_| !line.is_empty() && !line.starts_with('#'))
        {
            let octets = line.split(' ').map(|octet| u8::from_str_radix(octet, 16).expect("an octet"));
            message.extend(octets);
        }
    }
    messages.retain(|(at, message)| message.len() > *at);
    messages.into_iter().map(|(at, mut message)| message.split_off(at)).collect()
}

fn read<R>(body: &[u8], read: impl FnOnce(&mut Decoder<'_>) -> R) -> R {
    reading(body, Order::Little, |d| {
        let value = read(d);
        assert_eq!(d.remaining(), 0, "all of the body");
        value
    })
}

fn next<V: Handle>(d: &mut Decoder<'_>) -> Option<V> {
    V::decode_handle(d).expect("TAO wrote it")
}

/// The octets without padding: TAO does not clear it. Both have the same padding, behind texts.
#[track_caller]
fn same_octets(tao: &[u8], own: &[u8]) {
    assert_eq!(tao.len(), own.len());
    let differ = (0..own.len()).filter(|at| tao[*at] != own[*at] && own[*at] != 0).count();
    assert_eq!(differ, 0, "{tao:02x?}\n{own:02x?}");
}

fn rewritten<V: Handle>(body: &[u8]) {
    let value = read(body, next::<V>);
    let own = written(|e| V::encode_handle(value.as_ref(), e)).expect("it can be sent");
    same_octets(body, &own);
}

#[test]
fn graphs() {
    let bodies = bodies(include_str!("../../../interop/golden/tao-tao-values.hex"));
    // A value that two links lead to.
    let root = read(&bodies[0], next::<Node>).expect("a node");
    let (left, right) = (root.left.get().expect("a node"), root.right.get().expect("a node"));
    assert_eq!((root.id, &*root.name, left.id, &*left.name), (1, "root", 2, "shared"));
    assert_eq!(root.left, root.right);
    assert_eq!(left.left.get().map(|leaf| leaf.id), Some(3));
    assert!(left.right.is_null() && right.right.is_null());
    assert_eq!(read(&bodies[2], next::<Node>), None);
    // A value that leads to itself.
    let ring = read(&bodies[4], next::<Node>).expect("a node");
    assert_eq!((ring.id, ring.left.get()), (4, Some(ring.clone())));
    for graph in [0, 2, 4] {
        rewritten::<Node>(&bodies[graph]);
        rewritten::<Node>(&bodies[graph + 1]);
    }
    // A sequence that shares values.
    read(&bodies[6], |d| {
        assert_eq!(d.get(), Ok(3u32));
        let [a, b, c] = [next::<Node>(d), next(d), next(d)];
        assert_eq!(a.as_ref().expect("a node").left.get(), b);
        assert_eq!(a, c);
    });
}

#[test]
fn boxes() {
    let bodies = bodies(include_str!("../../../interop/golden/tao-tao-values.hex"));
    for at in [12, 13] {
        assert_eq!(read(&bodies[at], next::<StringBox>), Some(StringBox::from("boxed".to_owned())));
        rewritten::<StringBox>(&bodies[at]);
    }
    assert_eq!(read(&bodies[14], next::<StringBox>), None);
    assert_eq!(read(&bodies[16], next::<LongSeqBox>), Some(LongSeqBox::from(vec![1, -2, 3])));
    rewritten::<LongSeqBox>(&bodies[16]);
}

#[test]
fn truncation() {
    let bodies = bodies(include_str!("../../../interop/golden/tao-tao-values.hex"));
    let base = read(&bodies[8], next::<Base>).expect("a value");
    assert_eq!((base.a, base.repository_id()), (7, "IDL:Golden/Base:1.0"));
    // The receiver knows the type, so nothing is cut off.
    let derived = read(&bodies[10], next::<Base>).expect("a value");
    let derived = derived.cast::<Derived>().expect("it is a Derived");
    assert_eq!((derived.a, &*derived.b), (8, "extra"));

    let bodies = self::bodies(include_str!("../../../interop/golden/tao-tao-obv-truncatable.hex"));
    let named = |at: usize| {
        read(&bodies[at], |d| {
            let name = d.string().expect("a name").to_owned();
            let value = next::<BaseValue>(d).expect("a value");
            (name, value, d.string().expect("a text").to_owned())
        })
    };
    let (name, value, text) = named(0);
    assert_eq!((&*name, &*text), ("case1", "A<-tB, truncate B to A"));
    let value: TValue1 = value.cast().expect("its type");
    assert_eq!((value.basic_data, value.data1), (9, 99));
    let value: TValue2 = named(2).1.cast().expect("its type");
    assert_eq!((value.basic_data, value.data1, value.data2), (9, 99, 198));
    // A value inside of a chunk, and a reference to it in the next.
    let value: TValue5 = named(10).1.cast().expect("its type");
    assert_eq!((value.basic_data, value.data4, value.data5), (9, 396, 495));
    assert_eq!((&*value.str1, &*value.str2), ("str1", "str2"));
    assert_eq!(value.nv4, value.nv5);
    assert_eq!(value.nv4.get().map(|nested| nested.data), Some(2));
    // Values that share their repository ids.
    read(&bodies[16], |d| {
        assert_eq!(d.string(), Ok("case8"));
        let data = |value: Option<BaseValue>| value.map(|value| value.basic_data);
        assert_eq!((data(next(d)), d.get()), (Some(8), Ok(5i16)));
        assert_eq!([data(next(d)), data(next(d)), data(next(d))], [7, 6, 9].map(Some));
        assert!(d.string().is_ok_and(|text| text.starts_with("multiple IN")));
    });
    // An unknown type is cut off to the first known one in its list.
    let value = read(&bodies[18], |d| {
        let value = next::<TValue1>(d).expect("a value");
        assert_eq!((d.string(), d.string().is_ok()), (Ok("case9"), true));
        value
    });
    assert_eq!((value.basic_data, value.data1), (9, 99));
    assert!(value.repository_id().ends_with("/TValue1:1.0") && value.cast::<TValue4>().is_none());
}

/// TAO's case 4: an unknown type that names no base.
#[test]
fn an_unknown_type_is_refused() {
    let bodies = bodies(include_str!("../../../interop/golden/tao-tao-obv-truncatable.hex"));
    reading(&bodies[8], Order::Little, |d| {
        assert_eq!(d.string(), Ok("case4"));
        let error = BaseValue::decode_handle(d).expect_err("TValue3 is unknown here");
        assert_eq!(error.kind, CdrErrorKind::ValueType);
    });
}

#[test]
fn a_tree() {
    let bodies = bodies(include_str!("../../../interop/golden/tao-tao-obv-forward.hex"));
    let tree = read(&bodies[0], next::<TreeController>).expect("a tree");
    let root = tree.root.get().expect("a root");
    let names = |node: Option<StringNode>| node.map(|node| node.name.clone());
    assert_eq!(root.name, "RootNode");
    assert_eq!(names(root.left.get()).as_deref(), Some("LeftNode"));
    assert_eq!(names(root.right.get()).as_deref(), Some("RightNode"));
    rewritten::<TreeController>(&bodies[0]);
    rewritten::<TreeController>(&bodies[1]);
}

/// Values in an `any`, known and unknown to the reader: the type code describes them.
#[test]
fn anys() {
    use isorb::Any;
    let bodies = bodies(include_str!("../../../interop/golden/tao-tao-obv-truncatable.hex"));
    let read = |at: usize| {
        read(&bodies[at], |d| {
            let any = Any::read(d).expect("TAO wrote it");
            assert!(d.string().is_ok_and(|name| name.starts_with("case1")));
            assert!(d.string().is_ok_and(|text| text.starts_with("A<-tB")));
            any
        })
    };
    let known = read(20);
    let value = known.get::<Option<TValue1>>().flatten().expect("a TValue1");
    assert_eq!((value.basic_data, value.data1), (9, 99));
    assert_eq!(known.to_string(), "valuetype TValue1 {basic_data: 9, data1: 99}");
    let unknown = read(22);
    assert_eq!(unknown.to_string(), "valuetype Extra1 {basic_data: 9, data1: 99, edata1: 1234}");
    // It travels on, and another message has it in chunks of its own.
    for shift in [0u32, 1] {
        let octets = written(|e| {
            (0..shift).for_each(|_| e.put(7u32));
            unknown.write(e);
            known.write(e);
        });
        reading(&octets.expect("it can be sent"), Order::NATIVE, |d| {
            (0..shift).for_each(|_| assert_eq!(d.get(), Ok(7u32)));
            assert_eq!(Any::read(d).as_ref(), Ok(&unknown));
            assert_eq!(Any::read(d).as_ref(), Ok(&known));
        });
    }

    let bodies = self::bodies(include_str!("../../../interop/golden/tao-tao-values.hex"));
    for (at, text) in [
        (18, "valuetype Base {a: 7}"),
        (20, "valuetype Derived {a: 8, b: \"extra\"}"),
        (22, "boxed valuetype StringBox {value: \"boxed\"}"),
    ] {
        let any = self::read(&bodies[at], |d| Any::read(d).expect("TAO wrote it"));
        assert_eq!(any.to_string(), text);
    }
    let any = self::read(&bodies[22], |d| Any::read(d).expect("TAO wrote it"));
    assert_eq!(any.get::<Option<StringBox>>(), Some(Some(StringBox::from("boxed".to_owned()))));
}

/// A link from outside to a value in an `any` is refused, and the other way round.
#[test]
fn anys_share_nothing_with_what_is_around_them() {
    use isorb::Any;
    let bodies = bodies(include_str!("../../../interop/golden/tao-tao-values.hex"));
    let base = read(&bodies[18], |d| Any::read(d).expect("TAO wrote it"));
    let octets = written(|e| {
        base.write(e);
        let tag_at = e.position() - base.value().len();
        e.put(u32::MAX);
        e.put(tag_at as i32 - e.position() as i32);
    });
    reading(&octets.expect("it can be written"), Order::NATIVE, |d| {
        assert_eq!(Any::read(d).as_ref(), Ok(&base));
        assert_eq!(Base::decode_handle(d).err().map(|error| error.kind), Some(CdrErrorKind::ValueType));
    });
    let octets = written(|e| {
        Base::encode_handle(base.get::<Option<Base>>().flatten().as_ref(), e);
        base.type_code().write(e);
        e.put(u32::MAX);
        e.put(-(e.position() as i32));
    });
    reading(&octets.expect("it can be written"), Order::NATIVE, |d| {
        assert!(Base::decode_handle(d).is_ok_and(|base| base.is_some()));
        assert_eq!(Any::read(d).err().map(|error| error.kind), Some(CdrErrorKind::NotRemotable));
    });
}

/// Graphs in an `any`: shared values stay shared, cycles stay cycles.
#[test]
fn graphs_in_anys() {
    use isorb::Any;
    let bodies = bodies(include_str!("../../../interop/golden/tao-tao-values.hex"));
    for at in [0, 4] {
        let node = read(&bodies[at], next::<Node>);
        let any = Any::new(&node).expect("it can be sent");
        let octets = written(|e| {
            e.put(1u8);
            any.write(e);
        });
        let any = reading(&octets.expect("it can be sent"), Order::NATIVE, |d| {
            assert_eq!(d.get(), Ok(1u8));
            Any::read(d).expect("it can be read")
        });
        let got = any.get::<Option<Node>>().flatten().expect("a node");
        if at == 0 {
            assert!(!got.left.is_null() && got.left == got.right);
        } else {
            assert_eq!(got.left.get(), Some(got.clone()));
        }
    }
    // A derived value behind the handle of its base: the base's type code does not describe it.
    let derived = Derived::from(crate::idl::golden::DerivedState {
        base: crate::idl::golden::BaseState { a: 1 },
        b: "x".into(),
    });
    assert!(Any::new(&Some(Base::from(derived.clone()))).is_err());
    let any = Any::new(&Some(derived.clone())).expect("it can be sent");
    assert_eq!(any.get::<Option<Derived>>(), Some(Some(derived)));
}

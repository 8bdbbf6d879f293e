//! Messages that lie.

use crate::idl::golden::{Base, Node};
use crate::wire::{reading, value, words, written};
use isorb::generated::{CdrErrorKind as Kind, Decoder, Handle};
use isorb_cdr::{Order, ValueLimits, ValueStart};

const TAG: u32 = 0x7fff_ff00;

fn refused<V: Handle>(octets: &[u8]) -> Kind {
    value::<V>(octets).err().expect("it is refused")
}

#[test]
fn tags_that_are_none() {
    for tag in [1, 0x7fff_feff, TAG | 4, TAG | 0x10, 0x8000_0000, 0xffff_fffe] {
        assert_eq!(refused::<Base>(&words(&[tag, 0, 0, 0])), Kind::Value, "{tag:#x}");
    }
    for kept in 0..3 {
        assert_eq!(refused::<Base>(&[2, 0xff, 0xff][..kept]), Kind::Truncated);
    }
    // A type that the message leaves to the reader, and one without values of its own.
    assert_eq!(value::<Base>(&words(&[TAG, 7])).ok().flatten().map(|base| base.a), Some(7));
    assert_eq!(refused::<crate::idl::values::Shape>(&words(&[TAG])), Kind::ValueType);
    assert_eq!(refused::<isorb::ValueBase>(&words(&[TAG])), Kind::ValueType);
}

#[test]
fn indirections_to_nothing() {
    for offset in [0, 4, -4, -8, -3, -12, i32::MIN, i32::MAX] {
        assert_eq!(refused::<Node>(&words(&[u32::MAX, offset as u32])), Kind::Value, "{offset}");
    }
    // To an id that is none, and to a value of another type.
    assert_eq!(refused::<Node>(&words(&[TAG | 2, u32::MAX, -8i32 as u32])), Kind::Value);
    let octets = written(|e| {
        Node::encode_handle(Some(&crate::graphs::node(1, Default::default(), Default::default())), e);
        let distance = e.position() as i32 + 4;
        e.put(u32::MAX);
        e.put(-distance);
    });
    reading(&octets.expect("it can be written"), Order::NATIVE, |d| {
        assert!(Node::decode_handle(d).is_ok_and(|node| node.is_some()));
        assert_eq!(Base::decode_handle(d).err().map(|error| error.kind), Some(Kind::Value));
    });
    // A value that leads back to itself as another type, and where it cannot be a link.
    let octets = words(&[TAG, u32::MAX, -8i32 as u32]);
    reading(&octets, Order::NATIVE, |d| {
        let open = begin(d);
        assert_eq!(Base::decode_handle(d).err().map(|error| error.kind), Some(Kind::Value));
        drop(open);
    });
}

fn begin<'m>(d: &mut Decoder<'m>) -> isorb_cdr::OpenValue<'m> {
    match d.begin_value(ValueLimits::DEFAULT) {
        Ok(ValueStart::New(open)) => open,
        other => panic!("{other:?}"),
    }
}

#[test]
fn chunks_that_lie() {
    let base = |rest: &[u32]| words(&[&[TAG | 8][..], rest].concat());
    let end = -1i32 as u32;
    assert_eq!(value::<Base>(&base(&[4, 7, end])).ok().flatten().map(|base| base.a), Some(7));
    // An end tag for more than one level, and TAO's for each level of inheritance.
    assert!(value::<Base>(&base(&[4, 7, -3i32 as u32, end])).is_ok());
    for (rest, kind) in [
        (&[4, 7][..], Kind::Truncated),
        (&[8, 7], Kind::Truncated),
        (&[4, 7, 4, 8, end], Kind::Length),
        (&[8, 7, 8, end], Kind::Length),
        (&[4, 7, 0, end], Kind::Length),
        (&[end], Kind::Truncated),
        (&[0, 7, end], Kind::Truncated),
        (&[0x7fff_fe00, 7, end], Kind::Truncated),
        (&[2, 7, end], Kind::Truncated),
    ] {
        assert_eq!(refused::<Base>(&base(rest)), kind, "{rest:x?}");
    }
}

/// No prefix of a message with chunks is a value.
#[test]
fn every_prefix() {
    use crate::idl::values::FarDerived;
    let octets = written(|e| FarDerived::encode_handle(Some(&crate::graphs::far()), e));
    let octets = octets.expect("it can be written");
    assert!(value::<FarDerived>(&octets).is_ok_and(|value| value.is_some()));
    for kept in 0..octets.len() {
        assert!(value::<FarDerived>(&octets[..kept]).is_err(), "{kept} octets");
    }
}

#[test]
fn too_many_and_too_deep() {
    let limits = ValueLimits { depth: 3, count: 5 };
    let values = |n: usize| words(&vec![TAG; n]);
    reading(&values(4), Order::NATIVE, |d| {
        for _ in 0..3 {
            assert!(matches!(d.begin_value(limits), Ok(ValueStart::New(_))));
        }
        assert_eq!(d.begin_value(limits).err().map(|error| error.kind), Some(Kind::ValueDepth));
    });
    let octets = words(&[TAG, 1].repeat(6));
    let base = reading(&octets, Order::NATIVE, |d| {
        for _ in 0..5 {
            let open = begin_within(d, limits);
            let a = d.get::<i32>().expect("its state");
            let object = isorb::Value::object(&Base::from(crate::idl::golden::BaseState { a }));
            d.end_value(&open, true, &object).expect("it ends");
        }
        d.begin_value(limits).err().map(|error| error.kind)
    });
    assert_eq!(base, Some(Kind::ValueCount));
    // A list of nodes without ids: 16 octets a level.
    let list = |n: usize| words(&[TAG, 1, 1, 0].repeat(n));
    assert_eq!(refused::<Node>(&list(300)), Kind::ValueDepth);
    assert_eq!(refused::<Node>(&list(200)), Kind::Truncated);
}

fn begin_within<'m>(d: &mut Decoder<'m>, limits: ValueLimits) -> isorb_cdr::OpenValue<'m> {
    match d.begin_value(limits) {
        Ok(ValueStart::New(open)) => open,
        other => panic!("{other:?}"),
    }
}

/// A list of ids is as long as the octets that are left allow, and no longer.
#[test]
fn lists_of_ids() {
    assert_eq!(refused::<Base>(&words(&[TAG | 6, 0x7fff_ffff])), Kind::Length);
    assert_eq!(refused::<Base>(&words(&[TAG | 6, 2, 1, 0])), Kind::Truncated);
    // Without any it is the type of the parameter.
    assert_eq!(value::<Base>(&words(&[TAG | 6, 0, 7])).ok().flatten().map(|base| base.a), Some(7));
    // A code base is ignored, also where it is an indirection.
    let mut octets = words(&[TAG | 1, 5]);
    octets.extend(b"a:b\xc3\0\0\0\0");
    assert_eq!(refused::<Base>(&octets), Kind::Text);
    let mut octets = words(&[TAG | 1, 4]);
    octets.extend(b"a:b\0");
    octets.extend(words(&[7, TAG | 1, u32::MAX, -20i32 as u32, 8]));
    reading(&octets, Order::NATIVE, |d| {
        for a in [7, 8] {
            assert_eq!(Base::decode_handle(d).map(|base| base.map(|base| base.a)), Ok(Some(a)));
        }
    });
}

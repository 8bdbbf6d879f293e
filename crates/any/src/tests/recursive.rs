//! Recursive types: made, embedded, compared, sent.

use super::{read_tc, write_tc};
use crate::{Any, BuildError, Kind, Label, TypeCode, modifier};
use alloc::string::ToString;
use alloc::vec::Vec;
use isorb_cdr::{Encoder, ErrorKind, Order, Text};

fn recursive(id: &str) -> TypeCode {
    TypeCode::recursive(id).unwrap()
}

fn sequence(of: &TypeCode) -> TypeCode {
    TypeCode::sequence(of, 0).unwrap()
}

/// `struct A { sequence<B> b; long n; }`, `struct B { sequence<A> a; }`.
fn mutual() -> (TypeCode, TypeCode) {
    let make_b = |a: &TypeCode| TypeCode::new_struct("IDL:B:1.0", "B", &[("a", sequence(a))]).unwrap();
    let make_a = |b: &TypeCode| {
        let members = [("b", sequence(b)), ("n", TypeCode::LONG)];
        TypeCode::new_struct("IDL:A:1.0", "A", &members).unwrap()
    };
    let a = make_a(&make_b(&recursive("IDL:A:1.0")));
    let b = make_b(&make_a(&recursive("IDL:B:1.0")));
    (a, b)
}

#[test]
fn types_that_contain_each_other() {
    let (a, b) = mutual();
    assert!(a.is_complete() && b.is_complete());
    let inner_b = a.member_type(0).unwrap().content_type().unwrap();
    assert_eq!(inner_b, b, "the same type, entered elsewhere in the cycle");
    assert_eq!(inner_b.member_type(0).unwrap().content_type().unwrap(), a);
    assert_ne!(a, b);
    for tc in [&a, &b, &inner_b] {
        let again = read_tc(&write_tc(tc), Order::NATIVE).unwrap();
        assert_eq!(&again, tc);
        assert_eq!(write_tc(&again), write_tc(tc));
    }
    assert!(a.compact().equivalent(&a));
    assert_eq!(a.compact().member_name(0), Ok(""));
}

#[test]
fn values_of_types_that_contain_each_other() {
    let (a, _) = mutual();
    // A { b: [B { a: [A { b: [], n: 7 }] }], n: 8 }
    let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
    [1u32, 1, 0, 7, 8].into_iter().for_each(|n| e.put(n));
    let any = Any::from_cdr(a, &e.flatten().unwrap(), Order::NATIVE, Text::DEFAULT).unwrap();
    assert_eq!(any.to_string(), "struct A {b: [struct B {a: [struct A {b: [], n: 7}]}], n: 8}");
    assert_eq!(any.to_json(1000).unwrap(), r#"{"b":[{"a":[{"b":[],"n":7}]}],"n":8}"#);
}

#[test]
fn unions_and_values_recur() {
    let place = sequence(&recursive("IDL:U:1.0"));
    let cases = [(Label::Value(1), "u", place), (Label::Default, "n", TypeCode::LONG)];
    let union = TypeCode::new_union("IDL:U:1.0", "U", &TypeCode::LONG, &cases).unwrap();
    assert_eq!(union.member_type(0).unwrap().content_type().unwrap(), union);
    let members = [("next", recursive("IDL:V:1.0"), 1)];
    let value = TypeCode::new_value("IDL:V:1.0", "V", modifier::NONE, None, &members, false).unwrap();
    assert_eq!(value.member_type(0).unwrap(), value);
    for tc in [union, value] {
        assert_eq!(read_tc(&write_tc(&tc), Order::NATIVE).unwrap(), tc);
    }
}

#[test]
fn a_place_is_no_type() {
    let place = recursive("IDL:N:1.0");
    assert_eq!(place.kind(), Kind::Recursive);
    assert!(!place.is_complete());
    let half = TypeCode::new_struct("IDL:M:1.0", "M", &[("n", sequence(&place))]).unwrap();
    assert!(!half.is_complete());
    let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
    half.write(&mut e);
    assert_eq!(e.error().unwrap().kind, ErrorKind::TypeCode);
    assert!(TypeCode::recursive("").is_err());
    assert_eq!(TypeCode::recursive("no id"), Err(BuildError::Id));
    // An alias or sequence in between does not resolve the placeholder.
    let alias = TypeCode::new_alias("IDL:L:1.0", "L", &sequence(&place)).unwrap();
    let node = TypeCode::new_struct("IDL:N:1.0", "N", &[("a", alias.clone()), ("b", alias)]).unwrap();
    assert!(node.is_complete());
    assert_eq!(node.member_type(1).unwrap().original().content_type().unwrap(), node);
}

#[test]
fn cycles_are_compared_without_end() {
    // A cycle of one node against one of two: equal, because every answer is equal.
    let one = TypeCode::new_struct("IDL:N:1.0", "N", &[("n", sequence(&recursive("IDL:N:1.0")))]).unwrap();
    let two = TypeCode::new_struct("IDL:N:1.0", "N", &[("n", sequence(&one))]).unwrap();
    assert_eq!(one, two);
    let other = TypeCode::new_struct("IDL:N:1.0", "N", &[("m", sequence(&one))]).unwrap();
    assert_ne!(one, other);
    assert!(one.equivalent(&other));
}

#[test]
fn nothing_leaks() {
    let (a, _) = mutual();
    let crate::typecode::Repr::Node(graph, _) = &a.0 else { panic!("a graph") };
    let weak = alloc::sync::Arc::downgrade(graph);
    let inner = a.member_type(0).unwrap();
    drop(a);
    assert!(weak.upgrade().is_some(), "part of it is in use");
    drop(inner);
    assert!(weak.upgrade().is_none());
}

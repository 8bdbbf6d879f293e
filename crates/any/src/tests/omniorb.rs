//! Values that omniORB wrote: read, shown, written again.

use super::{read_any, write_any};
use crate::TypeCode;
use alloc::string::ToString;
use alloc::vec::Vec;
use isorb_cdr::Order;

const CAPTURED: &str = include_str!("omniorb.txt");

/// The captured values.
const SHOWN: [(&str, &str); 16] = [
    ("long", "-5"),
    (
        "node",
        "struct Node {v: 1, next: [struct Node {v: 2, next: []}, struct Node {v: 3, next: [struct Node {v: 4, next: []}]}]}",
    ),
    (
        "mutual",
        "struct SA {b: struct SB {inner: []}, more: [struct SB {inner: [struct SA {b: struct SB {inner: []}, more: [], n: 7}]}], n: 8}",
    ),
    ("as", "[struct SA {b: struct SB {inner: []}, more: [], n: 7}]"),
    ("union_n", "union UE (red) {n: 5}"),
    ("union_s", "union UE (blue) {s: \"hi\"}"),
    ("union_d", "union US (4) {x: 2.5}"),
    ("union_l", "union UL (18446744073709551615) {w: \"w\u{fc}\"}"),
    ("money", "-123.45"),
    ("matrix", "[[1, 2, 3], [4, 5, 6]]"),
    ("bad", "exception Bad {why: \"no\", code: 7}"),
    ("nil", "nil"),
    ("value", "null"),
    ("box", "null"),
    ("anys", "[any(long: 1), any(struct Point: struct Point {x: 1.5, c: 'c', s: \"abc\"})]"),
    (
        "all",
        "struct All {p1: struct Point {x: 1.5, c: 'c', s: \"abc\"}, p2: struct Point {x: 2.5, c: 'd', s: \"\"}, c: green, u1: union UE (green) {s: \"x\"}, v2: union US (-1) {o: 9}, v3: union UL (18446744073709551615) {w: \"z\"}, m: 1.00, x: [[1, 2, 3], [4, 5, 6]], y: any(struct Node: struct Node {v: 1, next: []}), i: nil, w: '€', b: true, ll: -1099511627776, ush: 65535, f: 0.5, os: <010203>, tc: TypeCode(struct SA)}",
    ),
];

fn captured() -> impl Iterator<Item = (&'static str, Order, Vec<u8>)> {
    CAPTURED.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let octet = |i: usize| u8::from_str_radix(&words[2][2 * i..2 * i + 2], 16).unwrap();
        let order = if words[1] == "big" { Order::Big } else { Order::Little };
        (words[0], order, (0..words[2].len() / 2).map(octet).collect())
    })
}

#[test]
fn values_of_omniorb_are_read() {
    let mut seen = 0;
    for (name, order, bytes) in captured() {
        let any = read_any(&bytes, order).unwrap_or_else(|error| panic!("{name}: {error}"));
        let shown = SHOWN.iter().find(|(known, _)| *known == name).unwrap().1;
        assert_eq!(any.to_string(), shown, "{name}");
        assert_eq!(read_any(&write_any(&any), Order::NATIVE).unwrap(), any, "{name}");
        seen += 1;
    }
    assert_eq!(seen, 2 * SHOWN.len());
}

/// The values written again have the same octets, except padding and the byte order marks of wide
/// text.
#[test]
fn values_are_written_as_omniorb_writes_them() {
    let without_wide = |name: &str| !matches!(name, "all" | "union_l");
    for (name, order, bytes) in
        captured().filter(|(name, order, _)| without_wide(name) && *order == Order::NATIVE)
    {
        let written = write_any(&read_any(&bytes, order).unwrap());
        assert_eq!(written.len(), bytes.len(), "{name}");
        let differs = bytes.iter().zip(&written).filter(|(a, b)| a != b && **b != 0).count();
        assert_eq!(differs, 0, "{name}");
    }
}

/// omniORB refers back to an alias that contains the recursive structure.
#[test]
fn recursion_through_an_alias() {
    let (_, order, bytes) = captured().find(|(name, ..)| *name == "as").unwrap();
    let tc: TypeCode = read_any(&bytes, order).unwrap().type_code().clone();
    let structure = tc.original().content_type().unwrap();
    let inner = structure.member_type(0).unwrap().member_type(0).unwrap();
    assert_eq!((inner.kind(), inner.name()), (crate::Kind::Alias, Ok("As")));
    assert_eq!(inner, tc);
}

//! Octets worked out by hand from CORBA 3.3 part 2.

use super::{read_any, read_tc, write_tc};
use crate::{Any, Kind, TypeCode};
use alloc::string::ToString;
use alloc::vec::Vec;
use isorb_cdr::Order;

/// Octets from text: hexadecimal words, and characters in quotes.
fn octets(text: &str) -> Vec<u8> {
    let mut all = Vec::new();
    for word in text.split_whitespace() {
        if let Some(word) = word.strip_prefix('\'') {
            all.extend(word.trim_end_matches('\'').bytes());
        } else {
            all.extend((0..word.len() / 2).map(|i| u8::from_str_radix(&word[2 * i..2 * i + 2], 16).unwrap()));
        }
    }
    all
}

/// Clause 9.3.5.2: the type code, then the value.
#[test]
fn any_of_long() {
    let any = read_any(&octets("00000003 fffffffe"), Order::Big).unwrap();
    assert_eq!(any, Any::from(-2i32));
    assert_eq!(read_any(&octets("03000000 feffffff"), Order::Little).unwrap(), any);
}

/// Clause 9.3.5.1, table 9-2: `tk_struct` is complex; an encapsulation of id, name, count and
/// members.
const POINT: &str = "0000000f 00000038
    00 000000 0000000a 'IDL:P:1.0' 00 0000
    00000002 'P' 00 0000 00000002
    00000002 'x' 00 0000 00000003
    00000002 'y' 00 0000 00000003";

#[test]
fn structure() {
    let tc = read_tc(&octets(POINT), Order::Big).unwrap();
    let point =
        TypeCode::new_struct("IDL:P:1.0", "P", &[("x", TypeCode::LONG), ("y", TypeCode::LONG)]).unwrap();
    assert_eq!(tc, point);
    let mut bytes = octets(POINT);
    bytes.extend(octets("00000001 fffffffe"));
    assert_eq!(read_any(&bytes, Order::Big).unwrap().to_string(), "struct P {x: 1, y: -2}");
    if Order::NATIVE == Order::Little {
        let little = "0f000000 38000000
            01 000000 0a000000 'IDL:P:1.0' 00 0000
            02000000 'P' 00 0000 02000000
            02000000 'x' 00 0000 03000000
            02000000 'y' 00 0000 03000000";
        assert_eq!(write_tc(&point), octets(little));
    }
}

/// The inner encapsulation has a byte order of its own.
#[test]
fn mixed_byte_order() {
    let bytes = octets("00000013 00000010 01 000000 12000000 07000000 03000000");
    let tc = read_tc(&bytes, Order::Big).unwrap();
    assert_eq!(tc, TypeCode::sequence(&TypeCode::string(7), 3).unwrap());
}

/// Table 9-2: strings and `fixed` have simple parameters, without an encapsulation.
#[test]
fn simple_parameters() {
    assert_eq!(read_tc(&octets("00000012 00000000"), Order::Big).unwrap(), TypeCode::STRING);
    assert_eq!(read_tc(&octets("0000001b 00000005"), Order::Big).unwrap(), TypeCode::wstring(5));
    let fixed = read_tc(&octets("0000001c 0005 0002"), Order::Big).unwrap();
    assert_eq!(fixed, TypeCode::fixed(5, 2).unwrap());
    // Clause 9.3.2.8: -123.45.
    let any = read_any(&octets("0000001c 0005 0002 12345d"), Order::Big).unwrap();
    assert_eq!(any.to_string(), "-123.45");
}

/// `union U switch (boolean) { case TRUE: octet a; default: string b; }`: the label of the default
/// case has no meaning.
#[test]
fn union() {
    let tc = octets(
        "00000010 00000045
        00 000000 0000000a 'IDL:U:1.0' 00 0000
        00000002 'U' 00 0000 00000008 00000001 00000002
        01 000000 00000002 'a' 00 0000 0000000a
        00 000000 00000002 'b' 00",
    );
    // 8 for the last kind and bound.
    let mut bytes = tc;
    bytes.extend(octets("0000 00000012 00000000"));
    let n = bytes.len() - 8;
    bytes[7] = n as u8;
    let mut yes = bytes.clone();
    yes.extend(octets("01 2a"));
    assert_eq!(read_any(&yes, Order::Big).unwrap().to_string(), "union U (1) {a: 42}");
    bytes.extend(octets("00 000000 00000003 'no' 00"));
    let any = read_any(&bytes, Order::Big).unwrap();
    assert_eq!(any.to_string(), "union U (0) {b: \"no\"}");
    assert_eq!(any.type_code().default_index(), Ok(1));
}

/// Clause 9.3.5.1 on indirection: the offset counts from its own position in the outermost stream,
/// here 68, across two encapsulations, back to the kind of the structure at 0.
pub const NODE: &str = "0000000f 00000044
    00 000000 0000000a 'IDL:N:1.0' 00 0000
    00000002 'N' 00 0000 00000001
    00000005 'next' 00 000000
    00000013 00000010 00 000000 ffffffff ffffffbc 00000000";

#[test]
fn recursion() {
    let tc = read_tc(&octets(NODE), Order::Big).unwrap();
    let inner = tc.member_type(0).unwrap().content_type().unwrap();
    assert_eq!(inner.kind(), Kind::Struct);
    assert_eq!(inner, tc);
    let place = TypeCode::recursive("IDL:N:1.0").unwrap();
    let next = TypeCode::sequence(&place, 0).unwrap();
    let node = TypeCode::new_struct("IDL:N:1.0", "N", &[("next", next)]).unwrap();
    assert_eq!(node, tc);
    assert_eq!(write_tc(&node).len(), octets(NODE).len());
    assert_eq!(read_tc(&write_tc(&node), Order::NATIVE).unwrap(), tc);
    // The same, not at the start of the stream.
    let mut bytes = octets("00000013 00000054 00 000000");
    bytes.extend(octets(NODE));
    bytes.extend(octets("00000000"));
    assert_eq!(read_tc(&bytes, Order::Big).unwrap(), TypeCode::sequence(&node, 0).unwrap());
    // Node { Node {}, Node {} }
    let mut bytes = octets(NODE);
    bytes.extend(octets("00000002 00000000 00000000"));
    let any = read_any(&bytes, Order::Big).unwrap();
    assert_eq!(any.to_string(), "struct N {next: [struct N {next: []}, struct N {next: []}]}");
}

/// Clause 9.3.5.5: an exception is its id, then its members.
#[test]
fn exception() {
    let mut bytes =
        octets("00000016 00000024 00 000000 0000000a 'IDL:E:1.0' 00 0000 00000002 'E' 00 0000 00000000");
    bytes[7] = bytes.len() as u8 - 8;
    bytes.extend(octets("0000000a 'IDL:E:1.0' 00"));
    let any = read_any(&bytes, Order::Big).unwrap();
    assert_eq!(any.to_string(), "exception E {}");
    let id = any.type_code().id();
    assert_eq!(id, Ok("IDL:E:1.0"));
}

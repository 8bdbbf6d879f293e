//! Hostile bytes.

use super::{read_any, read_tc, reading, write_tc};
use crate::{Any, MAX_NODES, TypeCode};
use alloc::string::ToString;
use alloc::vec::Vec;
use isorb_cdr::{Encoder, ErrorKind, Order, Text};

extern crate std;

fn encoded(write: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
    let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
    write(&mut e);
    e.flatten().unwrap()
}

fn kind_of(result: isorb_cdr::Result<TypeCode>) -> ErrorKind {
    result.unwrap_err().kind
}

fn indirection(e: &mut Encoder<'_>, target: usize) {
    e.put(u32::MAX);
    e.put((target as i64 - e.position() as i64) as i32);
}

/// `struct S { X m; }` where `member` writes the type of `m`.
fn struct_around(member: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
    encoded(|e| {
        e.put(15u32);
        e.encapsulation(|e| {
            e.string("IDL:S:1.0");
            e.string("S");
            e.put(1u32);
            e.string("m");
            member(e);
        });
    })
}

#[test]
fn indirections_that_point_nowhere() {
    for offset in [0, 4, -4, -8, -5, 1000, -1000, i32::MAX, i32::MIN] {
        let top = encoded(|e| {
            e.put(u32::MAX);
            e.put(offset);
        });
        assert_eq!(kind_of(read_tc(&top, Order::NATIVE)), ErrorKind::TypeCode, "alone, {offset}");
        let inside = struct_around(|e| {
            e.put(u32::MAX);
            e.put(offset);
        });
        assert_eq!(kind_of(read_tc(&inside, Order::NATIVE)), ErrorKind::TypeCode, "inside, {offset}");
    }
    let forward = struct_around(|e| {
        indirection(e, e.position() + 12);
        e.put(3u32);
    });
    assert_eq!(kind_of(read_tc(&forward, Order::NATIVE)), ErrorKind::TypeCode);
}

#[test]
fn types_without_a_structure_cannot_contain_themselves() {
    let alias = encoded(|e| {
        e.put(21u32);
        e.encapsulation(|e| {
            e.string("IDL:A:1.0");
            e.string("A");
            indirection(e, 0);
        });
    });
    assert_eq!(kind_of(read_tc(&alias, Order::NATIVE)), ErrorKind::TypeCode);
    let sequence = encoded(|e| {
        e.put(19u32);
        e.encapsulation(|e| {
            indirection(e, 0);
            e.put(0u32);
        });
    });
    assert_eq!(kind_of(read_tc(&sequence, Order::NATIVE)), ErrorKind::TypeCode);
}

#[test]
fn structures_that_contain_themselves_directly_have_no_values() {
    let bytes = struct_around(|e| indirection(e, 0));
    let tc = read_tc(&bytes, Order::NATIVE).unwrap();
    assert_eq!(tc.member_type(0).unwrap(), tc);
    let read = reading(&[0; 64], Order::NATIVE, Text::DEFAULT, |d| Any::take(tc.clone(), d));
    assert_eq!(read.unwrap_err().kind, ErrorKind::Depth);
}

#[test]
fn an_indirection_may_point_at_a_complete_type() {
    let bytes = encoded(|e| {
        e.put(15u32);
        e.encapsulation(|e| {
            e.string("IDL:S:1.0");
            e.string("S");
            e.put(3u32);
            e.string("a");
            let at = e.position().next_multiple_of(4);
            e.put(19u32);
            e.encapsulation(|e| {
                e.put(3u32);
                e.put(9u32);
            });
            e.string("b");
            indirection(e, at);
            e.string("c");
            indirection(e, at + 12);
        });
    });
    let tc = read_tc(&bytes, Order::NATIVE).unwrap();
    assert_eq!(tc.member_type(1), tc.member_type(0));
    assert_eq!(tc.member_type(1).unwrap().length(), Ok(9));
    assert_eq!(tc.member_type(2), Ok(TypeCode::LONG), "even at a primitive one");
    assert!(write_tc(&tc).len() <= bytes.len() + 8, "what came short stays short");
    assert_eq!(read_tc(&write_tc(&tc), Order::NATIVE).unwrap(), tc);
}

/// Each type contains the previous one twice: 2 to the power of 50 types when written out.
#[test]
fn laughs() {
    fn level(e: &mut Encoder<'_>, n: u32) -> usize {
        e.align(4);
        let at = e.position();
        e.put(15u32);
        e.encapsulation(|e| {
            e.string("IDL:S:1.0");
            e.string("S");
            e.put(2u32);
            e.string("a");
            let inner = if n == 0 {
                let at = e.position().next_multiple_of(4);
                e.put(3u32);
                at
            } else {
                level(e, n - 1)
            };
            e.string("b");
            indirection(e, inner);
        });
        at
    }
    let bytes = encoded(|e| {
        level(e, 50);
    });
    let tc = read_tc(&bytes, Order::NATIVE).unwrap();
    let again = read_tc(&write_tc(&tc), Order::NATIVE).unwrap();
    assert!(write_tc(&tc).len() <= bytes.len() + 400);
    assert!(tc.equal(&again) && tc.equivalent(&again) && tc.compact().equivalent(&again));
    let read = reading(&[0; 4096], Order::NATIVE, Text::DEFAULT, |d| Any::take(tc.clone(), d));
    assert_eq!(read.unwrap_err().kind, ErrorKind::Truncated);
    // A type code made here has no reason to be short, until it gets long.
    let mut made = TypeCode::LONG;
    for _ in 0..50 {
        made = TypeCode::new_struct("IDL:S:1.0", "S", &[("a", made.clone()), ("b", made)]).unwrap();
    }
    let written = write_tc(&made);
    assert!(written.len() < 300_000, "{} octets", written.len());
    assert_eq!(read_tc(&written, Order::NATIVE).unwrap(), made);
}

#[test]
fn depth_is_bounded() {
    fn nest(e: &mut Encoder<'_>, n: u32) {
        if n == 0 {
            return e.put(3u32);
        }
        e.put(19u32);
        e.encapsulation(|e| {
            nest(e, n - 1);
            e.put(0u32);
        });
    }
    assert!(read_tc(&encoded(|e| nest(e, 62)), Order::NATIVE).is_ok());
    for n in [64, 65, 500] {
        assert_eq!(kind_of(read_tc(&encoded(|e| nest(e, n)), Order::NATIVE)), ErrorKind::Depth);
    }
    let mut tc = TypeCode::LONG;
    let deepest = (0..100).find(|_| match TypeCode::sequence(&tc, 0) {
        Ok(deeper) => {
            tc = deeper;
            false
        }
        Err(error) => error == crate::BuildError::TooDeep,
    });
    assert!(deepest.is_some());
    assert_eq!(read_tc(&write_tc(&tc), Order::NATIVE).unwrap(), tc, "what can be made can be sent");
    // Any in any.
    let mut bytes = Vec::new();
    (0..500).for_each(|_| bytes.extend(11u32.to_ne_bytes()));
    assert_eq!(read_any(&bytes, Order::NATIVE).unwrap_err().kind, ErrorKind::Depth);
}

#[test]
fn size_is_bounded() {
    let counts = |kind: u32| {
        encoded(|e| {
            e.put(kind);
            e.encapsulation(|e| {
                e.string("IDL:S:1.0");
                e.string("S");
                e.put(0xffff_fff0u32);
            });
        })
    };
    for kind in [15, 17, 22] {
        assert_eq!(kind_of(read_tc(&counts(kind), Order::NATIVE)), ErrorKind::Length);
    }
    let many = encoded(|e| {
        e.put(17u32);
        e.encapsulation(|e| {
            e.string("IDL:S:1.0");
            e.string("S");
            e.put(MAX_NODES as u32);
            (0..MAX_NODES).for_each(|_| e.string(""));
        });
    });
    assert_eq!(kind_of(read_tc(&many, Order::NATIVE)), ErrorKind::TooLarge);
}

/// Arrays of nothing would take time without octets.
#[test]
fn elements_take_octets() {
    for nothing in [TypeCode::NULL, TypeCode::VOID] {
        let bytes = encoded(|e| {
            e.put(20u32);
            e.encapsulation(|e| {
                nothing.write(e);
                e.put(u32::MAX);
            });
        });
        assert_eq!(kind_of(read_tc(&bytes, Order::NATIVE)), ErrorKind::TypeCode);
    }
    let empty = TypeCode::new_struct("IDL:S:1.0", "S", &[]).unwrap();
    assert!(TypeCode::array(&empty, u32::MAX).is_err());
    let aliased = TypeCode::new_alias("IDL:A:1.0", "A", &empty);
    assert!(aliased.is_err());
    let bytes = encoded(|e| {
        e.put(20u32);
        e.encapsulation(|e| {
            empty.write(e);
            e.put(u32::MAX);
        });
    });
    assert_eq!(kind_of(read_tc(&bytes, Order::NATIVE)), ErrorKind::TypeCode);
    // An array that is far longer than the message.
    let mut tc = TypeCode::DOUBLE;
    for _ in 0..10 {
        tc = TypeCode::array(&tc, u32::MAX).unwrap();
    }
    let read = reading(&[0; 64], Order::NATIVE, Text::DEFAULT, |d| Any::take(tc.clone(), d));
    assert_eq!(read.unwrap_err().kind, ErrorKind::Truncated);
    let tc = TypeCode::sequence(&TypeCode::BOOLEAN, 0).unwrap();
    let read = reading(&[0xff; 64], Order::NATIVE, Text::DEFAULT, |d| Any::take(tc.clone(), d));
    assert_eq!(read.unwrap_err().kind, ErrorKind::Length);
}

#[test]
fn values_that_are_none() {
    let take = |tc: TypeCode, bytes: &[u8]| {
        reading(bytes, Order::Little, Text::DEFAULT, |d| Any::take(tc, d)).map_err(|error| error.kind)
    };
    let colour = TypeCode::new_enum("IDL:C:1.0", "C", &["red", "green"]).unwrap();
    assert_eq!(take(colour.clone(), &[2, 0, 0, 0]), Err(ErrorKind::Value));
    assert_eq!(take(colour, &[1, 0, 0, 0]).unwrap().to_string(), "green");
    assert_eq!(take(TypeCode::BOOLEAN, &[2]), Err(ErrorKind::Value));
    assert_eq!(take(TypeCode::string(2), b"\x04\0\0\0abc\0"), Err(ErrorKind::Bound));
    assert_eq!(take(TypeCode::wstring(1), b"\x04\0\0\0\0a\0b"), Err(ErrorKind::Bound));
    let sequence = TypeCode::sequence(&TypeCode::OCTET, 1).unwrap();
    assert_eq!(take(sequence, b"\x02\0\0\0ab"), Err(ErrorKind::Bound));
    let fixed = TypeCode::fixed(4, 2).unwrap();
    assert_eq!(take(fixed.clone(), &[0x01, 0x23, 0x4c]).unwrap().to_string(), "12.34");
    for wrong in [[0x11, 0x23, 0x4c], [0x01, 0xa3, 0x4c], [0x01, 0x23, 0x44]] {
        assert_eq!(take(fixed.clone(), &wrong), Err(ErrorKind::Value));
    }
    let local = TypeCode::opaque(crate::Kind::LocalInterface, "IDL:L:1.0", "L").unwrap();
    assert_eq!(take(local, &[0; 16]), Err(ErrorKind::NotRemotable));
    let boxed = TypeCode::new_value_box("IDL:B:1.0", "B", &TypeCode::LONG).unwrap();
    assert_eq!(take(boxed.clone(), &[2, 0xff, 0xff, 0x7f]), Err(ErrorKind::Truncated));
    assert_eq!(take(boxed.clone(), &[0, 0xff, 0xff, 0x7f]), Err(ErrorKind::Truncated));
    assert_eq!(take(boxed.clone(), &[0x10, 0xff, 0xff, 0x7f]), Err(ErrorKind::Value));
    let seven = [0, 0xff, 0xff, 0x7f, 7, 0, 0, 0];
    assert_eq!(take(boxed.clone(), &seven).unwrap().to_string(), "boxed valuetype B {value: 7}");
    // Of another type, and one that began before.
    let mut other = Vec::from([2, 0xff, 0xff, 0x7f, 4, 0, 0, 0]);
    other.extend(b"IDL\0\x07\0\0\0");
    assert_eq!(take(boxed.clone(), &other), Err(ErrorKind::ValueType));
    assert_eq!(take(boxed.clone(), &[0xff, 0xff, 0xff, 0xff, 0xfc, 0xff, 0xff, 0xff]), Err(ErrorKind::Value));
    assert_eq!(take(boxed, &[0; 4]).unwrap().to_string(), "null");
    assert_eq!(take(TypeCode::recursive("IDL:R:1.0").unwrap(), &[0; 16]), Err(ErrorKind::TypeCode));
}

/// The deepest accepted nesting fits the stack of a small thread, also without optimisation.
#[test]
fn stacks_are_small() {
    let deepest = || {
        let mut tc = TypeCode::LONG;
        while let Ok(deeper) = TypeCode::new_struct("IDL:S:1.0", "S", &[("m", tc.clone())]) {
            tc = deeper;
        }
        let bytes = write_tc(&tc);
        assert_eq!(read_tc(&bytes, Order::NATIVE).unwrap(), tc);
        assert_eq!(tc.compact().id(), Ok("IDL:S:1.0"));
        assert!(Any::with_type(tc, 7i32).unwrap().to_string().contains("{m: struct S {m: 7}}"));
        let place = TypeCode::recursive("IDL:N:1.0").unwrap();
        let next = TypeCode::sequence(&place, 0).unwrap();
        let node = TypeCode::new_struct("IDL:N:1.0", "N", &[("n", next)]).unwrap();
        for levels in [60, 400] {
            let mut bytes: Vec<u8> = (0..levels).flat_map(|_| 1u32.to_ne_bytes()).collect();
            bytes.extend([0; 4]);
            let read = reading(&bytes, Order::NATIVE, Text::DEFAULT, |d| Any::take(node.clone(), d));
            match read {
                Ok(any) => assert!(any.to_json(10_000).is_ok()),
                Err(error) => assert_eq!((error.kind, levels), (ErrorKind::Depth, 400)),
            }
        }
    };
    let stack = 1024 * 1024;
    std::thread::Builder::new().stack_size(stack).spawn(deepest).unwrap().join().unwrap();
}

//! Random types and values, in both byte orders and at every alignment; random bytes.

use super::model::{Out, Ty};
use super::{read_any, read_tc, reading};
use crate::{Any, DynAny, Kind};
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;
use isorb_cdr::{Encoder, Order, Text};
use proptest::collection::vec;
use proptest::prelude::*;

pub const SIMPLE: [Kind; 18] = [
    Kind::Short,
    Kind::Long,
    Kind::UShort,
    Kind::ULong,
    Kind::Float,
    Kind::Double,
    Kind::Boolean,
    Kind::Char,
    Kind::Octet,
    Kind::Any,
    Kind::TypeCode,
    Kind::Principal,
    Kind::String,
    Kind::LongLong,
    Kind::ULongLong,
    Kind::LongDouble,
    Kind::WChar,
    Kind::WString,
];

fn discriminator() -> impl Strategy<Value = Ty> {
    prop_oneof![
        prop::sample::select(alloc::vec![
            Kind::Short,
            Kind::UShort,
            Kind::Long,
            Kind::ULong,
            Kind::LongLong,
            Kind::ULongLong,
            Kind::Char,
        ])
        .prop_map(Ty::Simple),
        (3..6u32).prop_map(Ty::Enum),
        Just(Ty::Alias(Box::new(Ty::Simple(Kind::Short)))),
        Just(Ty::Alias(Box::new(Ty::Enum(3)))),
    ]
}

pub fn ty() -> impl Strategy<Value = Ty> {
    let leaf = prop_oneof![
        4 => prop::sample::select(SIMPLE.to_vec()).prop_map(Ty::Simple),
        1 => (any::<bool>(), 1..6u32).prop_map(|(wide, bound)| Ty::Text { wide, bound }),
        1 => (1..=31u16).prop_flat_map(|digits| (0..=digits as i16)
            .prop_map(move |scale| Ty::Fixed { digits, scale })),
        1 => (1..5u32).prop_map(Ty::Enum),
        1 => Just(Ty::Reference),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        prop_oneof![
            vec(inner.clone(), 1..4).prop_map(Ty::Struct),
            (discriminator(), vec(inner.clone(), 1..4), any::<bool>())
                .prop_filter("no enumerator for the default", |(d, cases, _)| match d {
                    Ty::Enum(n) => cases.len() <= *n as usize,
                    Ty::Alias(of) => !matches!(**of, Ty::Enum(n) if cases.len() > n as usize),
                    _ => true,
                })
                .prop_map(|(d, cases, default)| Ty::Union(Box::new(d), cases, default)),
            (boxed.clone(), 0..4u32).prop_map(|(element, bound)| Ty::Sequence(element, bound)),
            (boxed.clone(), 1..4u32).prop_map(|(element, n)| Ty::Array(element, n)),
            boxed.clone().prop_map(Ty::Alias),
            vec(inner, 0..3).prop_map(Ty::Value),
            boxed.prop_map(Ty::Boxed),
        ]
    })
}

/// Reads a random `Any` behind `prefix` octets, and compares it with the model in native order at
/// alignment 0.
pub fn check(ty: &Ty, seed: u64, order: Order, prefix: usize) {
    let mut out = Out::new(order, prefix, seed);
    out.type_code(ty);
    out.value(ty);
    let any = reading(&out.bytes, order, Text::DEFAULT, |d| {
        d.take(prefix).unwrap();
        let any = Any::read(d).unwrap();
        assert_eq!(d.remaining(), 0);
        any
    });
    assert!(any.type_code().equal(&ty.type_code()), "{} is not {}", any.type_code(), ty.type_code());
    assert!(any.type_code().equivalent(&ty.type_code()));
    assert!(any.type_code().compact().equivalent(&ty.type_code()));

    let mut native = Out::new(Order::NATIVE, 0, seed);
    native.value(ty);
    assert_eq!(any.value(), native.bytes, "the value in canonical form");

    let mut out = Out::new(Order::NATIVE, prefix, seed);
    out.type_code(ty);
    out.value(ty);
    let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
    e.raw(&[0; 8][..prefix]);
    any.write(&mut e);
    assert_eq!(e.flatten().unwrap(), out.bytes, "written again");

    assert!(!any.to_string().is_empty());
    assert!(any.to_json(1 << 20).is_ok());
    let components = DynAny::from_any(&any).unwrap();
    assert_eq!(components.to_any().as_ref(), Ok(&any), "the components make the value again");
    assert_eq!(DynAny::from_type(any.type_code()).unwrap().set(&any), Ok(()));
    assert_eq!(Any::from_cdr(any.type_code().clone(), any.value(), Order::NATIVE, Text::DEFAULT), Ok(any));
}

proptest! {
    #[test]
    fn any_type_and_value_survive(ty in ty(), seed: u64, big: bool, prefix in 0..8usize) {
        check(&ty, seed, if big { Order::Big } else { Order::Little }, prefix);
    }

    #[test]
    fn any_type_has_a_default_value(ty in ty()) {
        let tc = ty.type_code();
        let any = DynAny::from_type(&tc).unwrap().to_any().unwrap();
        prop_assert_eq!(Any::from_cdr(tc, any.value(), Order::NATIVE, Text::DEFAULT), Ok(any));
    }

    #[test]
    fn any_type_code_survives_alone(ty in ty(), big: bool) {
        let order = if big { Order::Big } else { Order::Little };
        let mut out = Out::new(order, 0, 0);
        out.type_code(&ty);
        let tc = read_tc(&out.bytes, order).unwrap();
        prop_assert!(tc.equal(&ty.type_code()));
        prop_assert!(read_tc(&super::write_tc(&tc), Order::NATIVE).unwrap().equal(&tc));
    }

    #[test]
    fn damaged_values_never_panic(ty in ty(), seed: u64, damage in vec((any::<usize>(), any::<u8>()), 1..6), cut: usize) {
        let mut out = Out::new(Order::NATIVE, 0, seed);
        out.type_code(&ty);
        out.value(&ty);
        for (at, value) in damage {
            let n = out.bytes.len();
            out.bytes[at % n] = value;
        }
        out.bytes.truncate(out.bytes.len() - cut % 8.min(out.bytes.len()));
        if let Ok(any) = read_any(&out.bytes, Order::NATIVE) {
            // A value that was read is sound: it can be printed and written, and read again.
            let _ = (any.to_string(), any.to_json(1 << 16));
            let again = read_any(&super::write_any(&any), Order::NATIVE).unwrap();
            prop_assert!(again == any);
            prop_assert_eq!(DynAny::from_any(&any).unwrap().to_any(), Ok(any));
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(prop_oneof![3 => 0..40u8, 1 => any::<u8>(), 1 => Just(0xffu8)], 0..200)) {
        let _ = read_any(&bytes, Order::Big);
        let _ = read_any(&bytes, Order::Little);
    }
}

/// Each kind separately, so that a failure names it.
#[test]
fn each_kind_survives() {
    let long = || Box::new(Ty::Simple(Kind::Long));
    let mut types: Vec<Ty> = SIMPLE.iter().map(|kind| Ty::Simple(*kind)).collect();
    types.extend([
        Ty::Simple(Kind::Null),
        Ty::Simple(Kind::Void),
        Ty::Text { wide: false, bound: 4 },
        Ty::Text { wide: true, bound: 4 },
        Ty::Fixed { digits: 31, scale: 31 },
        Ty::Fixed { digits: 4, scale: 0 },
        Ty::Reference,
        Ty::Struct(alloc::vec![Ty::Simple(Kind::Octet), Ty::Simple(Kind::Double)]),
        Ty::Struct(alloc::vec![]),
        Ty::Except(alloc::vec![Ty::Simple(Kind::String)]),
        Ty::Except(alloc::vec![]),
        Ty::Enum(3),
        Ty::Union(long(), alloc::vec![Ty::Simple(Kind::String), Ty::Simple(Kind::Octet)], true),
        Ty::Union(Box::new(Ty::Simple(Kind::Boolean)), alloc::vec![Ty::Simple(Kind::String)], false),
        Ty::Union(Box::new(Ty::Enum(4)), alloc::vec![Ty::Simple(Kind::Double)], false),
        Ty::Sequence(long(), 0),
        Ty::Sequence(Box::new(Ty::Simple(Kind::LongDouble)), 3),
        Ty::Array(long(), 3),
        Ty::Array(Box::new(Ty::Array(Box::new(Ty::Simple(Kind::WString)), 2)), 3),
        Ty::Alias(Box::new(Ty::Alias(long()))),
        Ty::Value(alloc::vec![Ty::Simple(Kind::Long)]),
        Ty::Boxed(long()),
    ]);
    for ty in &types {
        for prefix in 0..8 {
            for seed in [1, 77, 123_456_789] {
                check(ty, seed, Order::Big, prefix);
                check(ty, seed, Order::Little, prefix);
            }
        }
    }
}

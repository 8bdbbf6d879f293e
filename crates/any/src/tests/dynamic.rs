//! `DynAny` by the rules of the standard, one test a rule.

use crate::DynAnyError::{InconsistentTypeCode, InvalidValue, TooLarge, TypeMismatch};
use crate::{Any, AnyValue, DynAny, Kind, Label, MAX_COMPONENTS, TypeCode, modifier, visibility};
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use isorb_cdr::{Encoder, Order, Text};

fn point() -> TypeCode {
    TypeCode::new_struct("IDL:P:1.0", "P", &[("x", TypeCode::LONG), ("name", TypeCode::STRING)]).unwrap()
}

fn made(tc: &TypeCode) -> DynAny {
    DynAny::from_type(tc).unwrap()
}

fn shown(of: &DynAny) -> String {
    of.to_any().unwrap().to_json(1000).unwrap()
}

/// `union U switch (long) { case 1: case 2: string s; case 3: long n; [default: boolean b;] }`.
fn union(default: bool) -> TypeCode {
    let mut cases = vec![
        (Label::Value(1), "s", TypeCode::STRING),
        (Label::Value(2), "s", TypeCode::STRING),
        (Label::Value(3), "n", TypeCode::LONG),
    ];
    if default {
        cases.push((Label::Default, "b", TypeCode::BOOLEAN));
    }
    TypeCode::new_union("IDL:U:1.0", "U", &TypeCode::LONG, &cases).unwrap()
}

/// `valuetype V : B` with a public member each; truncatable if `by` says so.
fn value_type(by: i16) -> TypeCode {
    let members = [("x", TypeCode::LONG, visibility::PUBLIC)];
    let base = TypeCode::new_value("IDL:B:1.0", "B", modifier::NONE, None, &members, true).unwrap();
    let members = [("y", TypeCode::STRING, visibility::PRIVATE)];
    TypeCode::new_value("IDL:V:1.0", "V", by, Some(&base), &members, true).unwrap()
}

#[test]
fn a_default_value_is_zero_of_its_kind() {
    let colour = TypeCode::new_enum("IDL:C:1.0", "C", &["red", "green"]).unwrap();
    for (tc, json) in [
        (point(), r#"{"x":0,"name":""}"#),
        (TypeCode::sequence(&TypeCode::LONG, 0).unwrap(), "[]"),
        (TypeCode::array(&TypeCode::DOUBLE, 2).unwrap(), "[0.0,0.0]"),
        (TypeCode::fixed(4, 2).unwrap(), "\"0.00\""),
        (colour, "\"red\""),
        (union(false), r#"{"$case":1,"s":""}"#),
        (TypeCode::object(), "null"),
        (value_type(modifier::NONE), "null"),
        (TypeCode::ANY, r#"{"$type":"null","value":null}"#),
        (TypeCode::WSTRING, "\"\""),
        (TypeCode::CHAR, "\"\\u0000\""),
    ] {
        assert_eq!(shown(&made(&tc)), json, "{tc}");
    }
    let native = {
        let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
        e.put(31u32);
        e.encapsulation(|e| {
            e.string("IDL:N:1.0");
            e.string("N");
        });
        super::read_tc(&e.flatten().unwrap(), Order::NATIVE).unwrap()
    };
    assert_eq!(native.kind(), Kind::Native);
    for tc in [native, TypeCode::recursive("IDL:R:1.0").unwrap()] {
        assert_eq!(DynAny::from_type(&tc).unwrap_err(), InconsistentTypeCode, "{tc}");
    }
}

#[test]
fn the_cursor_moves_over_the_components() {
    let mut p = made(&point());
    assert_eq!((p.component_count(), p.position()), (2, Some(0)));
    assert!(p.next());
    assert_eq!(p.current_member_name(), Ok("name"));
    assert!(!p.next(), "no third member");
    assert_eq!(p.position(), None);
    assert_eq!(p.current_component().unwrap(), None);
    assert_eq!((p.insert(&1i32), p.get::<i32>()), (Err(InvalidValue), Err(InvalidValue)));
    assert!(p.next() && p.position() == Some(0), "from -1 to the first");
    assert!(!p.seek(2) && p.position().is_none());
    p.rewind();
    assert_eq!(p.position(), Some(0));
    let mut number = made(&TypeCode::LONG);
    assert_eq!((number.component_count(), number.position(), number.next()), (0, None, false));
    assert_eq!(number.current_component(), Err(TypeMismatch));
    let mut empty = made(&TypeCode::new_exception("IDL:E:1.0", "E", &[]).unwrap());
    assert_eq!(empty.current_component(), Err(TypeMismatch));
}

#[test]
fn insert_and_get_take_the_current_component() {
    let mut p = made(&point());
    p.insert(&7i32).unwrap();
    assert_eq!((p.get::<i32>(), p.position()), (Ok(7), Some(0)));
    assert_eq!(p.insert(&7i16), Err(TypeMismatch));
    assert_eq!(p.get::<f64>(), Err(TypeMismatch));
    p.next();
    p.current_component().unwrap().unwrap().insert(&"seven".to_string()).unwrap();
    assert_eq!(shown(&p), r#"{"x":7,"name":"seven"}"#);
    // A clone is independent; a component is not.
    let mut copy = p.clone();
    copy.rewind();
    copy.insert(&8i32).unwrap();
    assert!(shown(&p).contains('7') && copy != p);
    p.assign(&copy).unwrap();
    assert!(p == copy && p.position() == Some(0));
    assert_eq!(p.assign(&made(&TypeCode::LONG)), Err(TypeMismatch));
}

#[test]
fn text_and_sequences_keep_their_bounds() {
    let mut text = made(&TypeCode::string(3));
    assert_eq!(text.insert(&"four".to_string()), Err(InvalidValue));
    text.insert(&"abc".to_string()).unwrap();
    assert_eq!(text.get::<String>().as_deref(), Ok("abc"));
    let mut list = made(&TypeCode::sequence(&TypeCode::OCTET, 2).unwrap());
    assert_eq!(list.insert(&vec![1u8, 2, 3]), Err(InvalidValue));
    list.insert(&vec![1u8, 2]).unwrap();
    assert_eq!(list.get::<Vec<u8>>(), Ok(vec![1, 2]));
    assert_eq!(list.set_length(3), Err(InvalidValue));
}

#[test]
fn an_any_is_inserted_and_taken_as_components() {
    let mut any = made(&TypeCode::ANY);
    let mut p = made(&point());
    p.insert(&5i32).unwrap();
    any.insert_dyn_any(&p).unwrap();
    assert!(any.get_dyn_any().unwrap() == p);
    assert_eq!(any.get::<Any>().unwrap().type_code(), &point());
    assert_eq!(any.component_count(), 0);
}

#[test]
fn members_are_read_and_set_together() {
    let mut p = made(&point());
    p.set_members(&[("x", Any::from(3)), ("", Any::new(&"n".to_string()).unwrap())]).unwrap();
    assert_eq!(p.current_member_kind(), Ok(Kind::Long));
    let members = p.members().unwrap();
    assert_eq!(members.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["x", "name"]);
    assert_eq!(members[0].1.get::<i32>(), Some(3));
    let (x, text) = (Any::from(4), Any::new(&"n".to_string()).unwrap());
    assert_eq!(p.set_members(&[("x", x.clone())]), Err(InvalidValue));
    assert_eq!(p.set_members(&[("y", x.clone()), ("name", text.clone())]), Err(TypeMismatch));
    assert_eq!(p.set_members(&[("x", text.clone()), ("name", text)]), Err(TypeMismatch));
    assert_eq!(shown(&p), r#"{"x":3,"name":"n"}"#, "unchanged");
    assert_eq!(made(&TypeCode::LONG).members(), Err(TypeMismatch));
    assert_eq!(made(&union(true)).current_member_name(), Err(TypeMismatch));
}

#[test]
fn an_exception_keeps_its_id() {
    let tc = TypeCode::new_exception("IDL:E:1.0", "E", &[("code", TypeCode::LONG)]).unwrap();
    let mut e = made(&tc);
    e.insert(&9i32).unwrap();
    let any = e.to_any().unwrap();
    assert_eq!(any.to_json(100).unwrap(), r#"{"code":9}"#);
    assert_eq!(Any::from_cdr(tc, any.value(), Order::NATIVE, Text::DEFAULT), Ok(any));
}

#[test]
fn a_discriminator_selects_the_member() {
    let mut u = made(&union(true));
    assert_eq!((u.component_count(), u.member_name(), u.member_kind()), (2, Ok("s"), Ok(Kind::String)));
    u.member().unwrap().insert(&"kept".to_string()).unwrap();
    // Another label of the same member.
    u.seek(0);
    u.current_component().unwrap().unwrap().insert(&2i32).unwrap();
    assert_eq!(shown(&u), r#"{"$case":2,"s":"kept"}"#);
    // A label of another member: it has its default value.
    let mut label = made(&TypeCode::LONG);
    label.insert(&3i32).unwrap();
    u.set_discriminator(&label).unwrap();
    assert_eq!((u.position(), shown(&u)), (Some(1), r#"{"$case":3,"n":0}"#.to_string()));
    assert!(u.seek(1));
    u.current_component().unwrap().unwrap().insert(&77i32).unwrap();
    u.set_to_default_member().unwrap();
    assert_eq!((u.position(), u.component_count()), (Some(0), 2));
    assert_eq!(shown(&u), r#"{"$case":0,"b":false}"#);
    assert_eq!(u.set_to_no_active_member(), Err(TypeMismatch));
    assert_eq!(u.set_discriminator(&made(&TypeCode::SHORT)), Err(TypeMismatch));
    assert_eq!(u.discriminator().unwrap().get::<i32>(), Ok(0));
}

/// Found by a fuzz target: a type code of a peer with one name for members of two types.
#[test]
fn members_of_one_name_and_two_types_are_two() {
    let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
    e.put(16u32);
    e.encapsulation(|e| {
        e.string("IDL:U:1.0");
        e.string("U");
        TypeCode::LONG.write(e);
        e.put(-1i32);
        e.count(2);
        for (label, tc) in [(1i32, TypeCode::SHORT), (2, TypeCode::STRING)] {
            e.put(label);
            e.string("s");
            tc.write(e);
        }
    });
    let tc = super::read_tc(&e.flatten().unwrap(), Order::NATIVE).unwrap();
    let mut u = made(&tc);
    u.member().unwrap().insert(&3i16).unwrap();
    u.seek(0);
    u.current_component().unwrap().unwrap().insert(&2i32).unwrap();
    assert_eq!(shown(&u), r#"{"$case":2,"s":""}"#);
    assert_eq!(u.member().unwrap().get::<String>().as_deref(), Ok(""));
}

#[test]
fn a_union_may_have_no_active_member() {
    let mut u = made(&union(false));
    assert_eq!(u.has_no_active_member(), Ok(false));
    u.set_to_no_active_member().unwrap();
    assert_eq!((u.component_count(), u.position(), u.has_no_active_member()), (1, Some(0), Ok(true)));
    assert_eq!((u.member().err(), u.member_name()), (Some(InvalidValue), Err(InvalidValue)));
    assert_eq!(u.set_to_default_member(), Err(TypeMismatch));
    assert_eq!(shown(&u), r#"{"$case":0}"#);
    // Every value of the discriminator is a label.
    let cases = [(Label::Value(0), "a", TypeCode::LONG), (Label::Value(1), "b", TypeCode::LONG)];
    let full = TypeCode::new_union("IDL:F:1.0", "F", &TypeCode::BOOLEAN, &cases).unwrap();
    assert_eq!(made(&full).set_to_no_active_member(), Err(TypeMismatch));
}

#[test]
fn a_sequence_grows_and_shrinks_with_its_cursor() {
    let mut list = made(&TypeCode::sequence(&point(), 0).unwrap());
    assert_eq!(list.position(), None);
    list.set_length(2).unwrap();
    assert_eq!((list.component_count(), list.position()), (2, Some(0)), "the first new element");
    list.seek(1);
    list.current_component().unwrap().unwrap().insert(&4i32).unwrap();
    list.set_length(3).unwrap();
    assert_eq!(list.position(), Some(1), "unchanged");
    list.set_length(1).unwrap();
    assert_eq!((list.component_count(), list.position()), (1, None), "it was cut off");
    let elements = list.elements().unwrap();
    list.set_elements(&[elements[0].clone(), elements[0].clone()]).unwrap();
    assert_eq!((list.component_count(), list.position()), (2, Some(0)));
    assert_eq!(list.set_elements(&[Any::from(1)]), Err(TypeMismatch));
    let mut array = made(&TypeCode::array(&TypeCode::LONG, 2).unwrap());
    assert_eq!(array.set_elements(&[Any::from(1)]), Err(InvalidValue));
    array.set_elements_as_dyn_any(&[made(&TypeCode::LONG), made(&TypeCode::LONG)]).unwrap();
    assert_eq!((array.set_length(2), array.component_count()), (Err(TypeMismatch), 2));
}

#[test]
fn an_enumerator_is_set_by_name_and_place() {
    let mut colour = made(&TypeCode::new_enum("IDL:C:1.0", "C", &["red", "green"]).unwrap());
    colour.set_enumerator("green").unwrap();
    assert_eq!((colour.enumerator(), colour.ordinal()), (Ok("green"), Ok(1)));
    assert_eq!(
        (colour.set_enumerator("blue"), colour.set_ordinal(2)),
        (Err(InvalidValue), Err(InvalidValue))
    );
    colour.set_ordinal(0).unwrap();
    assert_eq!(shown(&colour), "\"red\"");
    assert_eq!(made(&TypeCode::LONG).ordinal(), Err(TypeMismatch));
}

#[test]
fn a_fixed_is_set_from_text() {
    let mut number = made(&TypeCode::fixed(5, 2).unwrap());
    for (text, exact, becomes) in [
        ("-123.45", true, "-123.45"),
        (" 12d ", true, "12.00"),
        ("1.239", false, "1.23"),
        ("1.2300", true, "1.23"),
        ("+.5", true, "0.50"),
        ("0", true, "0.00"),
    ] {
        assert_eq!((number.set_fixed(text), number.fixed()), (Ok(exact), Ok(becomes.into())), "{text}");
        let any = number.to_any().unwrap();
        assert!(Any::from_cdr(any.type_code().clone(), any.value(), Order::NATIVE, Text::DEFAULT).is_ok());
    }
    assert_eq!(number.set_fixed("1234.5"), Err(InvalidValue));
    for wrong in ["", ".", "1.2.3", "1e3", "x", "1 2"] {
        assert_eq!(number.set_fixed(wrong), Err(TypeMismatch), "{wrong}");
    }
    let digits = "1234567890123456789012345678901";
    let mut most = made(&TypeCode::fixed(31, 0).unwrap());
    most.set_fixed(digits).unwrap();
    assert_eq!(most.fixed().as_deref(), Ok(digits));
    assert_eq!(made(&TypeCode::STRING).set_fixed("1"), Err(TypeMismatch));
}

#[cfg(feature = "json")]
#[test]
fn a_fixed_is_read_from_json() {
    let tc = TypeCode::fixed(5, 2).unwrap();
    for (json, becomes) in [("\"1.5\"", "\"1.50\""), ("-7", "\"-7.00\""), ("0.25", "\"0.25\"")] {
        assert_eq!(Any::from_json(tc.clone(), json).unwrap().to_json(20).unwrap(), becomes);
    }
    for wrong in ["\"1.255\"", "12345", "\"x\"", "null", "[]"] {
        assert!(Any::from_json(tc.clone(), wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_value_is_null_or_has_the_members_of_its_bases() {
    for by in [modifier::NONE, modifier::TRUNCATABLE] {
        let tc = value_type(by);
        let mut value = made(&tc);
        assert_eq!((value.is_null(), value.component_count(), value.position()), (Ok(true), 0, None));
        assert_eq!(value.members(), Err(InvalidValue));
        assert_eq!(value.current_component().unwrap(), None);
        value.set_to_value().unwrap();
        assert_eq!((value.component_count(), value.current_member_name()), (2, Ok("x")));
        value.insert(&6i32).unwrap();
        value.next();
        assert_eq!(value.current_member_name(), Ok("y"));
        let any = value.to_any().unwrap();
        assert_eq!(any.to_json(100).unwrap(), r#"{"x":6,"y":""}"#);
        let again = Any::from_cdr(tc, any.value(), Order::NATIVE, Text::DEFAULT).unwrap();
        assert!(DynAny::from_any(&again).unwrap() == value);
        value.set_to_null().unwrap();
        assert_eq!(shown(&value), "null");
        value.set_members(&[("x", Any::from(1)), ("y", Any::new(&String::new()).unwrap())]).unwrap();
        assert_eq!(value.is_null(), Ok(false));
    }
    assert_eq!(made(&point()).is_null(), Err(TypeMismatch));
    let mut custom = made(&value_type(modifier::CUSTOM));
    assert_eq!((custom.is_null(), custom.set_to_value()), (Ok(true), Err(InconsistentTypeCode)));
}

#[test]
fn a_box_holds_one_value() {
    let mut boxed = made(&TypeCode::new_value_box("IDL:X:1.0", "X", &point()).unwrap());
    assert_eq!((boxed.is_null(), boxed.boxed_value()), (Ok(true), Err(InvalidValue)));
    assert_eq!(boxed.set_boxed_value(&Any::from(1)), Err(TypeMismatch));
    let mut p = made(&point());
    p.insert(&2i32).unwrap();
    boxed.set_boxed_value(&p.to_any().unwrap()).unwrap();
    assert_eq!(boxed.boxed_value(), p.to_any());
    assert_eq!(boxed.current_component().unwrap().unwrap().get::<i32>(), Ok(2));
    boxed.set_to_null().unwrap();
    boxed.set_to_value().unwrap();
    assert_eq!(boxed.components()[0].to_any(), made(&point()).to_any());
}

/// `struct Pair { N a; N b; }` of `valuetype N { long x; }`, both places with the same value.
fn pair_of_one() -> (TypeCode, Any) {
    let members = [("x", TypeCode::LONG, visibility::PUBLIC)];
    let node = TypeCode::new_value("IDL:N:1.0", "N", modifier::NONE, None, &members, true).unwrap();
    let pair =
        TypeCode::new_struct("IDL:Pair:1.0", "Pair", &[("a", node.clone()), ("b", node.clone())]).unwrap();
    let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
    let open = e.begin_value(1, &["IDL:N:1.0"], false);
    e.put(42i32);
    e.end_value(open);
    assert!(e.value_again(1));
    let any = Any::from_cdr(pair.clone(), &e.flatten().unwrap(), Order::NATIVE, Text::DEFAULT).unwrap();
    (pair, any)
}

#[test]
fn a_value_that_is_shared_stays_shared() {
    let (_, any) = pair_of_one();
    let mut pair = DynAny::from_any(&any).unwrap();
    assert_eq!(pair.to_any().as_ref(), Ok(&any));
    pair.current_component().unwrap().unwrap().insert(&43i32).unwrap();
    let changed = pair.to_any().unwrap();
    assert_eq!(changed.to_json(100).unwrap(), r#"{"a":{"x":43},"b":{"$value":0}}"#);
    // The second place refers to the first, and is nothing without it.
    assert_eq!(pair.components()[1].to_any(), Err(InvalidValue));
    pair.current_component().unwrap().unwrap().set_to_null().unwrap();
    assert_eq!(pair.to_any(), Err(InvalidValue));
}

#[test]
fn the_number_of_components_is_bounded() {
    let many = TypeCode::array(&TypeCode::LONG, MAX_COMPONENTS as u32).unwrap();
    assert_eq!(DynAny::from_type(&many).unwrap_err(), TooLarge);
    assert!(TooLarge.to_string().contains("MAX_COMPONENTS"));
    let huge = TypeCode::array(&TypeCode::array(&TypeCode::LONG, 1 << 20).unwrap(), 1 << 30).unwrap();
    assert_eq!(DynAny::from_type(&huge).unwrap_err(), TooLarge);
    let octets = Any::new(&vec![0u8; MAX_COMPONENTS]).unwrap();
    assert_eq!(DynAny::from_any(&octets).unwrap_err(), TooLarge);
    let mut list = made(&TypeCode::sequence(&TypeCode::OCTET, 0).unwrap());
    assert_eq!(list.set_length(MAX_COMPONENTS + 1), Err(TooLarge));
}

#[test]
fn an_alias_keeps_its_name() {
    let tc = TypeCode::new_alias("IDL:A:1.0", "A", &point()).unwrap();
    let mut alias = made(&tc);
    alias.insert(&1i32).unwrap();
    assert_eq!(alias.to_any().unwrap().type_code().kind(), Kind::Alias);
    assert_eq!(alias.type_code(), &tc);
    assert!(<i32 as AnyValue>::type_code().equal(&TypeCode::LONG));
}

#[test]
fn an_exception_with_another_id_than_its_type_is_refused() {
    let tc = TypeCode::new_exception("IDL:Own:1.0", "Own", &[]).unwrap();
    let codec = crate::Codec::new(crate::Encoding::CDR_1_2).unwrap();
    let of = |id: &str| {
        // The order of octets, its padding, and the id with a zero octet.
        let octets = [&[1, 0, 0, 0, id.len() as u8 + 1, 0, 0, 0], id.as_bytes(), b"\0"].concat();
        codec.decode_value(&octets, &tc).unwrap()
    };
    let own = of("IDL:Own:1.0");
    assert_eq!(DynAny::from_any(&own).unwrap().to_any(), Ok(own));
    // It would become another value: DynAny has the id of the type only.
    assert!(DynAny::from_any(&of("IDL:Other:1.0")).is_err());
}

//! Questions to type codes, and the checks on making them.

use crate::{BuildError, Kind, Label, TypeCode, TypeCodeError, modifier, visibility};
use alloc::string::ToString;

fn point() -> TypeCode {
    TypeCode::new_struct("IDL:P:1.0", "P", &[("x", TypeCode::LONG), ("y", TypeCode::DOUBLE)]).unwrap()
}

#[test]
fn questions_have_answers_or_errors() {
    let tc = point();
    assert_eq!((tc.id(), tc.name(), tc.member_count()), (Ok("IDL:P:1.0"), Ok("P"), Ok(2)));
    assert_eq!((tc.member_name(1), tc.member_name(2)), (Ok("y"), Err(TypeCodeError::Bounds)));
    assert_eq!(tc.member_type(1), Ok(TypeCode::DOUBLE));
    assert_eq!(tc.member_type(2), Err(TypeCodeError::Bounds));
    let bad = TypeCodeError::BadKind;
    assert_eq!((tc.length(), tc.default_index(), tc.fixed_digits()), (Err(bad), Err(bad), Err(bad)));
    assert_eq!((tc.member_label(0), tc.member_visibility(0)), (Err(bad), Err(bad)));
    assert_eq!((tc.content_type(), tc.discriminator_type()), (Err(bad), Err(bad)));
    assert_eq!(
        (tc.type_modifier(), tc.concrete_base_type(), tc.fixed_scale()),
        (Err(bad), Err(bad), Err(bad))
    );
    let long = TypeCode::LONG;
    assert_eq!((long.id(), long.name(), long.member_count()), (Err(bad), Err(bad), Err(bad)));
    assert_eq!((TypeCode::STRING.length(), TypeCode::string(4).length()), (Ok(0), Ok(4)));
    let array = TypeCode::array(&TypeCode::array(&long, 3).unwrap(), 2).unwrap();
    assert_eq!((array.length(), array.to_string().as_str()), (Ok(2), "long[2][3]"));
    let colours = TypeCode::new_enum("IDL:C:1.0", "C", &["red", "green"]).unwrap();
    assert_eq!((colours.member_count(), colours.member_name(1)), (Ok(2), Ok("green")));
    assert_eq!(colours.member_type(0), Err(bad));
}

#[test]
fn kinds_have_the_numbers_of_the_wire() {
    for number in 0..=36 {
        assert_eq!(Kind::from_number(number).map(|kind| kind as u32), Some(number));
    }
    assert_eq!((Kind::from_number(37), Kind::from_number(u32::MAX)), (None, None));
}

#[test]
fn opaque_types_of_every_kind() {
    use Kind::{AbstractInterface, Component, Home, LocalInterface, Native, ObjRef, Struct};
    for kind in [ObjRef, Native, AbstractInterface, LocalInterface, Component, Home] {
        let tc = TypeCode::opaque(kind, "IDL:X:1.0", "X").unwrap();
        assert_eq!((tc.kind(), tc.id(), tc.name()), (kind, Ok("IDL:X:1.0"), Ok("X")));
        assert_eq!(super::read_tc(&super::write_tc(&tc), isorb_cdr::Order::NATIVE), Ok(tc));
    }
    assert_eq!(TypeCode::opaque(Struct, "IDL:X:1.0", "X"), Err(BuildError::MemberType));
    assert_eq!(TypeCode::object().id(), Ok("IDL:omg.org/CORBA/Object:1.0"));
}

#[test]
fn value_types() {
    let base = TypeCode::new_value("IDL:B:1.0", "B", modifier::ABSTRACT, None, &[], false).unwrap();
    let members = [("a", TypeCode::LONG, visibility::PRIVATE), ("b", point(), visibility::PUBLIC)];
    let event =
        TypeCode::new_value("IDL:V:1.0", "V", modifier::TRUNCATABLE, Some(&base), &members, true).unwrap();
    assert_eq!(event.kind(), Kind::Event);
    let again = super::read_tc(&super::write_tc(&event), isorb_cdr::Order::NATIVE).unwrap();
    assert_eq!(again, event);
    assert_eq!(again.type_modifier(), Ok(modifier::TRUNCATABLE));
    assert_eq!(again.concrete_base_type(), Ok(Some(base)));
    assert_eq!((again.member_visibility(0), again.member_visibility(1)), (Ok(0), Ok(1)));
    let no_base = TypeCode::new_value("IDL:V:1.0", "V", 0, Some(&point()), &[], false);
    assert_eq!(no_base, Err(BuildError::MemberType));
    assert_eq!(TypeCode::new_value("IDL:V:1.0", "V", 4, None, &[], false), Err(BuildError::Number));
}

#[test]
fn names_and_ids_are_checked() {
    let make = |id: &str, name: &str, members: &[(&str, TypeCode)]| TypeCode::new_struct(id, name, members);
    let long = || TypeCode::LONG;
    assert!(make("", "", &[("", long()), ("", long())]).is_ok(), "compact types have no names");
    assert_eq!(make("IDL:P:1.0", "2", &[]), Err(BuildError::Name));
    assert_eq!(make("IDL:P:1.0", "_p", &[]), Err(BuildError::Name));
    assert_eq!(make("IDL:P:1.0", "P", &[("a b", long())]), Err(BuildError::Name));
    assert_eq!(make("P", "P", &[]), Err(BuildError::Id));
    assert_eq!(make(":P", "P", &[]), Err(BuildError::Id));
    assert_eq!(make("IDL:P :1.0", "P", &[]), Err(BuildError::Id));
    assert_eq!(make("IDL:P:1.0", "P", &[("a", long()), ("A", long())]), Err(BuildError::DuplicateMember));
    assert_eq!(make("IDL:P:1.0", "P", &[("a", TypeCode::VOID)]), Err(BuildError::MemberType));
    let exception = TypeCode::new_exception("IDL:E:1.0", "E", &[]).unwrap();
    assert_eq!(make("IDL:P:1.0", "P", &[("a", exception)]), Err(BuildError::MemberType));
    assert_eq!(TypeCode::new_enum("IDL:C:1.0", "C", &["a", "A"]), Err(BuildError::DuplicateMember));
    assert_eq!(TypeCode::fixed(32, 0), Err(BuildError::Number));
    assert_eq!(TypeCode::fixed(3, 4), Err(BuildError::Number));
    assert_eq!(TypeCode::array(&long(), 0), Err(BuildError::Number));
    assert_eq!(BuildError::DuplicateLabel.exception(), ("BAD_PARAM", 18));
}

#[test]
fn unions_are_checked() {
    let make =
        |on: &TypeCode, cases: &[(Label, &str, TypeCode)]| TypeCode::new_union("IDL:U:1.0", "U", on, cases);
    let value = |n: i128, name| (Label::Value(n), name, TypeCode::LONG);
    let short = TypeCode::SHORT;
    let union = make(&short, &[value(-1, "a"), value(2, "a"), (Label::Default, "b", point())]).unwrap();
    assert_eq!((union.default_index(), union.member_count()), (Ok(2), Ok(3)));
    assert_eq!((union.member_label(0), union.member_label(2)), (Ok(Label::Value(-1)), Ok(Label::Default)));
    assert_eq!(union.discriminator_type(), Ok(TypeCode::SHORT));
    let wide = make(&TypeCode::ULONGLONG, &[value(u64::MAX.into(), "a")]).unwrap();
    assert_eq!(wide.member_label(0), Ok(Label::Value(u64::MAX.into())));
    assert_eq!(make(&short, &[value(1, "a"), value(1, "b")]), Err(BuildError::DuplicateLabel));
    let twice = [(Label::Default, "a", TypeCode::LONG), (Label::Default, "b", TypeCode::LONG)];
    assert_eq!(make(&short, &twice), Err(BuildError::DuplicateLabel));
    assert_eq!(make(&short, &[value(40_000, "a")]), Err(BuildError::LabelType));
    assert_eq!(make(&TypeCode::BOOLEAN, &[value(2, "a")]), Err(BuildError::LabelType));
    assert_eq!(make(&TypeCode::WCHAR, &[value(0xd800, "a")]), Err(BuildError::LabelType));
    assert_eq!(make(&TypeCode::STRING, &[value(1, "a")]), Err(BuildError::Discriminator));
    let apart = [value(1, "a"), value(2, "b"), value(3, "a")];
    assert_eq!(make(&short, &apart), Err(BuildError::DuplicateMember));
}

#[test]
fn equal_and_equivalent() {
    let alias = TypeCode::new_alias("IDL:A:1.0", "A", &point()).unwrap();
    assert_ne!(alias, point());
    assert!(alias.equivalent(&point()) && point().equivalent(&alias));
    let renamed = TypeCode::new_struct("IDL:P:1.0", "Q", &[("x", TypeCode::LONG)]).unwrap();
    assert_ne!(renamed, point());
    assert!(renamed.equivalent(&point()), "types with ids are compared by id");
    let nameless =
        |second: TypeCode| TypeCode::new_struct("", "", &[("", TypeCode::LONG), ("", second)]).unwrap();
    assert!(nameless(TypeCode::DOUBLE).equivalent(&point()), "otherwise by structure");
    assert!(!nameless(TypeCode::FLOAT).equivalent(&point()));
    assert!(!TypeCode::string(3).equivalent(&TypeCode::STRING));
    assert!(TypeCode::LONG.equal(&TypeCode::LONG) && !TypeCode::LONG.equal(&TypeCode::ULONG));
    let in_sequence = TypeCode::sequence(&alias, 0).unwrap();
    assert!(in_sequence.equivalent(&TypeCode::sequence(&point(), 0).unwrap()));
    assert!(!in_sequence.equivalent(&TypeCode::sequence(&point(), 1).unwrap()));
    let compact = in_sequence.compact();
    assert_eq!(compact.content_type().unwrap().kind(), Kind::Alias, "aliases stay");
    assert_eq!(compact.content_type().unwrap().name(), Ok(""));
    assert_eq!(compact.content_type().unwrap().original().id(), Ok("IDL:P:1.0"));
    assert!(compact.equivalent(&in_sequence) && !compact.equal(&in_sequence));
}

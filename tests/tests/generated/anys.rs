//! Generated types in an `any`: unions, references, values.

use isorb::generated::{Any, AnyKind, AnyLabel, AnyValue, CdrErrorKind, HandleCode, TypeCode};
use isorb::{AbstractBase, Object, Orb, Reference, Value, ValueBase};
use isorb_tests::corpus::from_bases::bases::{self, NameableRef, PrintableRef, PrinterRef, Some as Either};
use isorb_tests::corpus::from_operations::operations::{Boxed, EchoRef, Link, Thing, ThingState};
use isorb_tests::corpus::from_types::types::*;
use std::fmt::Debug;

/// Into an `Any` and back, by way of the wire's form of the type code.
fn goes_round<T: AnyValue + PartialEq + Debug>(value: &T) -> TypeCode {
    let any = Any::new(value).expect("it has a type code and can be sent");
    assert_eq!(any.get::<T>().as_ref(), Some(value));
    let twice = Any::new(&any).expect("an any goes into an any");
    assert_eq!(twice.get::<Any>(), Some(any));
    T::type_code()
}

#[test]
fn unions_over_every_discriminator() {
    let tree = Node { name: "root".to_owned(), children: vec![Node::default()] };
    goes_round(&ByLong::A(-1));
    goes_round(&ByLong::B { label: 4, value: "four".to_owned() });
    goes_round(&ByLong::C { label: 7, value: 1 });
    goes_round(&ByLong::D { label: i32::MAX, value: tree });
    goes_round(&ByEnum::A(1));
    goes_round(&ByEnum::Unlisted(Colour::Green));
    goes_round(&ByPaint::P { label: Colour::Green, value: Plain { value: 1.5, at: 9 } });
    goes_round(&ByBool::T(0.5));
    goes_round(&ByBool::Unlisted(false));
    goes_round(&ByChar::B { label: '\'', value: 3 });
    goes_round(&ByWChar::X("wide €".to_owned()));
    goes_round(&ByWChar::Y { label: '€', value: 'ß' });
    goes_round(&ByShort::A(1));
    goes_round(&ByUShort::A(vec!["a".to_owned()]));
    goes_round(&ByULong::A(-1));
    let more = ByLongLong::More { label: 1, value: vec![ByLongLong::A(3)] };
    goes_round(&more);
    goes_round(&vec![more.clone(), ByLongLong::A(-2)]);
    goes_round(&[more.clone(), more]);
    goes_round(&ByULongLong::A(1));
    goes_round(&ByInner::A(7));
    // A label that leads elsewhere is refused here, too.
    assert!(Any::new(&ByLong::B { label: 5, value: String::new() }).is_err());
}

#[test]
fn the_type_code_of_a_union_has_its_labels() {
    let code = ByLong::type_code();
    assert_eq!((code.kind(), code.id().ok()), (AnyKind::Union, Some("IDL:types/ByLong:1.0")));
    let members: Vec<_> = (0..code.member_count().expect("it is a union"))
        .map(|i| (code.member_name(i).expect("it is there"), code.member_label(i).expect("it is there")))
        .collect();
    let value = |n| AnyLabel::Value(n);
    assert_eq!(
        members,
        [
            ("a", value(-1)),
            ("b", value(2)),
            ("b", value(3)),
            ("b", value(4)),
            ("c", value(7)),
            ("c", value(9)),
            ("d", AnyLabel::Default)
        ]
    );
    assert_eq!(code.default_index(), Ok(6));
    // An alias in the discriminator keeps its name; 64 bits are not cut.
    let paint = ByPaint::type_code().discriminator_type().expect("it is a union");
    assert_eq!(paint.name().ok(), Some("Paint"));
    assert_eq!(ByLongLong::type_code().member_label(0), Ok(value(i64::MIN.into())));
    // A type that contains itself.
    let more = ByLongLong::type_code().member_type(1).expect("two members");
    assert!(more.content_type().expect("a sequence").equal(&ByLongLong::type_code()));
}

/// A reference that is never called.
fn object(orb: &Orb) -> Object {
    orb.string_to_object("corbaloc:iiop:1.2@127.0.0.1:1/key").expect("it is well formed")
}

#[test]
fn references_belong_to_the_orb_that_takes_them_out() {
    let (orb, other) = (
        Orb::with_config(isorb::Config::default()).unwrap(),
        Orb::with_config(isorb::Config::default()).unwrap(),
    );
    let echo: EchoRef = object(&orb).unchecked_narrow();
    let any = Any::of::<Option<EchoRef>>(Some(&echo)).expect("it can be sent");
    assert_eq!(any, Any::new(&Some(echo.clone())).expect("it can be sent"));
    assert_eq!(any.type_code(), &EchoRef::type_code());
    assert_eq!((any.type_code().kind(), any.type_code().name().ok()), (AnyKind::ObjRef, Some("Echo")));
    let back = other.extract::<Option<EchoRef>>(&any).flatten().expect("an Echo is in it");
    assert_eq!((back.object().orb(), &back), (&other, &echo));
    // Every reference is an Object; a Printer it is not.
    assert_eq!(other.extract::<Option<Object>>(&any), Some(Some(echo.object().clone())));
    assert_eq!(other.extract::<Option<PrinterRef>>(&any), None);
    // Without an ORB nothing can be called, so nothing is found; nil needs none.
    assert_eq!(any.get::<Option<EchoRef>>(), None);
    goes_round(&None::<EchoRef>);
    goes_round(&None::<Object>);
    // Inside other types.
    let link = Link {
        label: "link".to_owned(),
        target: Some(echo.clone()),
        more: vec![None, Some(echo.clone())],
        pair: [Some(echo.clone()), None],
    };
    let any = Any::new(&link).expect("it can be sent");
    assert_eq!(other.extract::<Link>(&any), Some(link));
    let all = vec![Some(echo.clone()), None];
    let any = Any::new(&Any::new(&all).expect("it can be sent")).expect("so can this");
    let inner = orb.extract::<Any>(&any).expect("an any is in it");
    assert_eq!(orb.extract::<Vec<Option<EchoRef>>>(&inner), Some(all));
    let union = bases::Any::O(Some(echo.object().clone()));
    assert_eq!(orb.extract(&Any::new(&union).expect("it can be sent")), Some(union));
}

#[test]
fn abstract_interfaces_are_objects_or_null() {
    let orb = Orb::with_config(isorb::Config::default()).unwrap();
    let printer: PrinterRef = object(&orb).unchecked_narrow();
    let printable = PrintableRef::from(printer.clone());
    let nameable = NameableRef::from(printable.clone());
    let base = AbstractBase::from(printable.clone());
    assert_eq!((base.object(), AbstractBase::from(nameable)), (printer.object(), base.clone()));
    let any = Any::new(&Some(base.clone())).expect("it can be sent");
    assert_eq!(any.type_code().kind(), AnyKind::AbstractInterface);
    // CDR of a union switched by a boolean: TRUE and an object (part 2, clause 9.3.4.6).
    assert_eq!(any.value().first(), Some(&1));
    assert_eq!(orb.extract::<Option<AbstractBase>>(&any), Some(Some(base.clone())));
    let null = Any::new(&None::<AbstractBase>).expect("it can be sent");
    assert_eq!(null.value(), [0; 8]);
    goes_round(&None::<PrintableRef>);
    goes_round(&bases::Pair::default());
    goes_round(&Either::V(None));
    for value in [Either::A(None), Either::A(Some(base.clone()))] {
        let any = Any::new(&value).expect("it can be sent");
        assert_eq!(orb.extract::<Either>(&any), Some(value));
    }
    let pair = bases::Pair { a: Some(base.clone()), as_: vec![None, Some(base)], ..Default::default() };
    assert_eq!(orb.extract(&Any::new(&pair).expect("it can be sent")), Some(pair));
}

#[test]
fn values() {
    let last = Thing::from(ThingState { x: 2, y: "z".to_owned(), next: isorb::Link::NULL });
    let thing = Thing::from(ThingState { x: 1, y: "y".to_owned(), next: last.clone().into() });
    let base = ValueBase::from(thing.clone());
    assert_eq!(base.cast::<Thing>(), Some(thing.clone()));
    assert_eq!(base.cast::<Boxed>(), None);
    let any = Any::new(&Some(thing)).expect("it can be sent");
    let got = any.get::<Option<Thing>>().flatten().expect("a thing");
    assert_eq!((got.x, got.next.get()), (1, Some(last)));
    assert_eq!(
        any.to_string(),
        "valuetype Thing {x: 1, y: \"y\", next: valuetype Thing {x: 2, y: \"z\", next: null}}"
    );
    // Its type is not in the type code.
    let error = Any::new(&Some(base)).expect_err("the type code has no members");
    assert_eq!(error.kind, CdrErrorKind::ValueType);
    goes_round(&None::<ValueBase>);
    assert_eq!(goes_round(&None::<Boxed>).kind(), AnyKind::ValueBox);
    let code = goes_round(&None::<Thing>);
    assert_eq!((code.kind(), code.member_count()), (AnyKind::Value, Ok(3)));
    // A value that refers to its own kind.
    assert!(code.member_type(2).expect("three members").equal(&code));
}

/// Each type code must be one: making it hides its errors.
#[test]
fn type_codes_were_made() {
    let codes = [
        NameableRef::type_code(),
        PrinterRef::type_code(),
        bases::HandleCode::type_code(),
        bases::AbstractBase::type_code(),
        ValueBase::type_code(),
        AbstractBase::type_code(),
        bases::Any::type_code(),
        bases::Pair::type_code(),
        bases::Refused::type_code(),
    ];
    for code in codes {
        assert!(!matches!(code.kind(), AnyKind::Null), "{code}");
    }
}

//! `Any` as programs use it.

use super::{read_any, reading, write_any};
use crate::{Any, AnyValue, BuildError, DynAny, HandleCode, Label, TypeCode, WalkError};
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use isorb_cdr::{
    Decode, Decoder, Encode, Encoder, ErrorKind, Fixed, Handle, LongDouble, Narrow, Order, Result, Text,
    Version, WChar, WString, Wide,
};

/// As in generated code: a plain structure, its own view.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    x: i32,
    y: f64,
}
impl<'v> Encode<'v> for Point {
    fn encode(self, e: &mut Encoder<'v>) {
        self.x.encode(e);
        self.y.encode(e);
    }
}
impl<'m> Decode<'m> for Point {
    const MIN_WIRE: usize = 12;
    fn decode(d: &mut Decoder<'m>) -> Result<Point> {
        Ok(Point { x: d.read()?, y: d.read()? })
    }
}
impl isorb_cdr::Item<'_> for Point {}
isorb_cdr::by_value!(Point);
impl AnyValue for Point {
    fn type_code() -> TypeCode {
        TypeCode::new_struct("IDL:P:1.0", "P", &[("x", TypeCode::LONG), ("y", TypeCode::DOUBLE)]).unwrap()
    }
    fn put_value<'v>(&'v self, e: &mut Encoder<'v>) {
        self.encode(e);
    }
}

/// As in the ORB: a reference that may be nil.
#[derive(Clone, Debug, PartialEq)]
struct TestRef(String);
impl Handle for TestRef {
    const MIN_WIRE: usize = 8;
    fn decode_handle(d: &mut Decoder<'_>) -> Result<Option<TestRef>> {
        let id = d.string_owned()?;
        let profiles = d.count(8)?;
        for _ in 0..profiles {
            d.get::<u32>()?;
            let n = d.count(1)?;
            d.take(n)?;
        }
        Ok((profiles > 0).then_some(TestRef(id)))
    }
    fn encode_handle(this: Option<&TestRef>, e: &mut Encoder<'_>) {
        e.string(this.map_or("", |this| &this.0));
        e.put(u32::from(this.is_some()));
        if this.is_some() {
            e.put(0u32);
            e.put(2u32);
            e.raw(&[1, 2]);
        }
    }
}
impl HandleCode for TestRef {
    fn type_code() -> TypeCode {
        TypeCode::interface("IDL:R:1.0", "R").unwrap()
    }
}

fn back<T: AnyValue + PartialEq + core::fmt::Debug>(value: T) -> Any {
    let any = Any::new(&value).unwrap();
    assert_eq!(any.get::<T>().as_ref(), Some(&value));
    let again = read_any(&write_any(&any), Order::NATIVE).unwrap();
    assert_eq!(again, any);
    assert_eq!(again.get::<T>(), Some(value));
    any
}

#[test]
fn values_come_back() {
    back(7u8);
    back(-7i8);
    back(-7i16);
    back(7u16);
    back(-7i32);
    back(7u32);
    back(i64::MIN);
    back(u64::MAX);
    back(1.5f32);
    back(-0.0f64);
    back(true);
    back('x');
    back(WChar('\u{1f600}'));
    back(String::from("gr\u{fc}n"));
    back(WString("gr\u{fc}n".into()));
    back(LongDouble::from(2.5));
    back(Fixed::<5, 2>::from_unscaled(-12345).unwrap());
    back(vec![1.0f64, 2.0]);
    back(vec![String::from("a"), String::new()]);
    back(vec![vec![1u8, 2], vec![]]);
    back([[1i16, 2], [3, 4]]);
    back(vec![Point { x: 1, y: 2.0 }]);
    back(Some(TestRef("IDL:R:1.0".into())));
    back(None::<TestRef>);
    back(vec![Some(TestRef("IDL:R:1.0".into())), None]);
    back(Any::from(5i32));
    back(vec![Any::from(5i32), Any::null(), Any::new(&Any::from(true)).unwrap()]);
    back(Point::type_code());
    back(());
}

#[test]
fn types_are_told_apart() {
    let any = Any::from(5i32);
    assert_eq!((any.get::<u32>(), any.get::<i64>(), any.get::<String>()), (None, None, None));
    let wide = Any::new(&WString("a".into())).unwrap();
    assert_eq!((wide.get::<String>(), wide.get::<WString>()), (None, Some(WString("a".into()))));
    assert_eq!(Any::of::<String>("a").unwrap(), Any::new(&String::from("a")).unwrap());
    assert_ne!(Any::from(5u32), Any::from(5i32));
    assert!(Any::null().is_null() && !any.is_null());
    let reference = Any::new(&Some(TestRef("IDL:R:1.0".into()))).unwrap();
    assert!(reference.holds(&TypeCode::object()));
    assert!(!any.holds(&TypeCode::object()));
}

#[test]
fn large_values_come_back() {
    back(vec![7u8; 1 << 20]);
    back(vec![vec![1u8]; 10_000]);
    back((0..5_000).map(|i| Any::from(i as i16)).collect::<Vec<_>>());
}

#[test]
fn aliases_are_transparent() {
    let metres = TypeCode::new_alias("IDL:Metres:1.0", "Metres", &TypeCode::DOUBLE).unwrap();
    let any = Any::with_type(metres.clone(), 2.5f64).unwrap();
    assert_eq!(any.get::<f64>(), Some(2.5));
    assert_eq!(any.type_code(), &metres);
    let mut plain = Any::from(2.5f64);
    plain.set_type(metres).unwrap();
    assert_eq!(plain, any);
    assert_eq!(plain.set_type(TypeCode::LONG), Err(BuildError::MemberType));
    assert!(Any::with_type(TypeCode::string(2), "abc").is_err());
}

#[test]
fn text_is_transcoded() {
    let latin1 = Text { version: Version::V1_1, narrow: Narrow::Latin1, wide: Wide::Utf16 };
    let both = TypeCode::new_struct("IDL:T:1.0", "T", &[("n", TypeCode::STRING), ("w", TypeCode::WSTRING)]);
    let both = both.unwrap();
    // string "ü" in ISO 8859-1; wstring "ü" as GIOP 1.1 has it: two units with the terminator.
    let bytes = [0, 0, 0, 2, 0xfc, 0, 0, 0, 0, 0, 0, 2, 0, 0xfc, 0, 0];
    let any = reading(&bytes, Order::Big, latin1, |d| Any::take(both, d)).unwrap();
    assert_eq!(any.to_string(), "struct T {n: \"\u{fc}\", w: \"\u{fc}\"}");
    // To a peer with the same settings as the first, at an offset of 4.
    let mut e = Encoder::new(Vec::new(), latin1);
    e.put(0u32);
    any.write_value(&mut e);
    let native = if Order::NATIVE == Order::Big {
        [0, 0, 0, 2, 0xfc, 0, 0, 0, 0, 0, 0, 2, 0, 0xfc, 0, 0]
    } else {
        [2, 0, 0, 0, 0xfc, 0, 0, 0, 2, 0, 0, 0, 0xfc, 0, 0, 0]
    };
    assert_eq!(e.flatten().unwrap()[4..], native);
    // To a peer that cannot express it.
    let mut e = Encoder::new(Vec::new(), Text::fallback(Version::V1_0));
    any.write(&mut e);
    assert_eq!(e.error().unwrap().kind, ErrorKind::NoWideCodeSet);
    let euro = Any::of::<String>("\u{20ac}").unwrap();
    let mut e = Encoder::new(Vec::new(), latin1);
    euro.write(&mut e);
    assert_eq!(e.error().unwrap().kind, ErrorKind::Text);
    assert_eq!(Any::of::<String>("a\0b").unwrap_err().kind, ErrorKind::Text);
}

/// A `char` is one octet, whatever text an `Any` holds: one of ISO 8859-1, which a connection of
/// that code set carries, and one of UTF-8 cannot.
#[test]
fn a_char_above_ascii_travels_in_iso_8859_1() {
    let latin1 = Text { narrow: Narrow::Latin1, ..Text::DEFAULT };
    let both = [("c", TypeCode::CHAR), ("s", TypeCode::STRING), ("n", TypeCode::LONG)];
    let tc = TypeCode::new_struct("IDL:C:1.0", "C", &both).unwrap();
    let octets: &[u8] = if Order::NATIVE == Order::Big {
        &[0xe9, 0, 0, 0, 0, 0, 0, 2, 0xe9, 0, 0, 0, 0, 0, 0, 7]
    } else {
        &[0xe9, 0, 0, 0, 2, 0, 0, 0, 0xe9, 0, 0, 0, 7, 0, 0, 0]
    };
    let any = reading(octets, Order::NATIVE, latin1, |d| Any::take(tc.clone(), d)).unwrap();
    let inner = Any::new(&'é').unwrap();
    assert_eq!(any.to_string(), "struct C {c: 'é', s: \"é\", n: 7}");
    assert_eq!((inner.get::<char>(), inner.value()), (Some('é'), &[0xe9][..]));
    assert_eq!(Any::new(&vec!['a', 'ÿ']).unwrap().get::<Vec<char>>(), Some(vec!['a', 'ÿ']));
    assert_eq!(Any::new(&'\u{100}').unwrap_err().kind, ErrorKind::Text);
    for value in [&any, &inner, &Any::new(&inner).unwrap()] {
        // In place, and behind what moves it.
        for before in [0, 1] {
            let mut e = Encoder::new(Vec::new(), latin1);
            (0..before).for_each(|_| e.put(0u32));
            value.write(&mut e);
            let written = e.flatten().unwrap();
            let again = reading(&written, Order::NATIVE, latin1, |d| {
                d.skip(4 * before);
                Any::read(d)
            });
            assert_eq!(again.as_ref(), Ok(value));
            let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
            (0..before).for_each(|_| e.put(0u32));
            value.write_value(&mut e);
            assert_eq!(e.error().unwrap().kind, ErrorKind::Text, "{value}");
        }
    }
    let mut e = Encoder::new(Vec::new(), latin1);
    any.write_value(&mut e);
    assert_eq!(e.flatten().unwrap(), octets);
    // An `Any` without such a char goes as it is.
    let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
    let plain = Any::new(&'e').unwrap();
    plain.write_value(&mut e);
    assert_eq!(e.flatten().unwrap(), b"e");
    let dynamic = DynAny::from_any(&any).unwrap();
    assert_eq!(dynamic.to_any().as_ref(), Ok(&any));
    #[cfg(feature = "json")]
    assert_eq!(Any::from_json(tc, r#"{"c":"é","s":"é","n":7}"#).as_ref(), Ok(&any));
}

#[test]
fn exceptions_carry_their_id() {
    let tc = TypeCode::new_exception("IDL:E:1.0", "E", &[("why", TypeCode::STRING)]).unwrap();
    let any = Any::with_type(tc, "no").unwrap();
    assert_eq!(any.to_string(), "exception E {why: \"no\"}");
    assert!(any.value().windows(9).any(|octets| octets == b"IDL:E:1.0"));
}

#[test]
fn values_are_shown() {
    let cases = [(Label::Value(0), "n", TypeCode::LONG), (Label::Value(1), "s", TypeCode::STRING)];
    let colour = TypeCode::new_enum("IDL:C:1.0", "C", &["red", "green", "blue"]).unwrap();
    let union = TypeCode::new_union("IDL:U:1.0", "U", &colour, &cases).unwrap();
    let shown = |any: &Any, text: &str, json: &str| {
        assert_eq!(any.to_string(), text);
        assert_eq!(any.to_json(1000).unwrap(), json);
    };
    shown(&Any::new(&Point { x: 1, y: 2.5 }).unwrap(), "struct P {x: 1, y: 2.5}", r#"{"x":1,"y":2.5}"#);
    let any = Any::with_type(union.clone(), (1u32, "hi")).unwrap();
    shown(&any, "union U (green) {s: \"hi\"}", r#"{"$case":"green","s":"hi"}"#);
    let any = Any::with_type(union.clone(), 2u32).unwrap();
    shown(&any, "union U (blue) {}", r#"{"$case":"blue"}"#);
    let nameless = Any::with_type(union.compact(), (0u32, 4i32)).unwrap();
    shown(&nameless, "union  (0) {#0: 4}", r#"{"$case":0,"0":4}"#);
    shown(&Any::new(&vec![1u8, 255]).unwrap(), "<01ff>", r#""01ff""#);
    shown(&Any::new(&vec![true, false]).unwrap(), "[true, false]", "[true,false]");
    shown(&Any::of::<String>("a\"\n\u{1}").unwrap(), "\"a\\\"\\n\\u{1}\"", r#""a\"\n\u0001""#);
    let nested = Any::new(&vec![Any::from(1i32), Any::of::<String>("x").unwrap()]).unwrap();
    shown(
        &nested,
        "[any(long: 1), any(string: \"x\")]",
        r#"[{"$type":"long","value":1},{"$type":"string","value":"x"}]"#,
    );
    shown(&Any::from(f64::NAN), "NaN", r#""NaN""#);
    shown(&Any::from(f32::NEG_INFINITY), "-inf", r#""-Infinity""#);
    shown(&Any::from(u64::MAX), "18446744073709551615", "18446744073709551615");
    shown(&Any::new(&Fixed::<3, 2>::from_unscaled(-5).unwrap()).unwrap(), "-0.05", r#""-0.05""#);
    shown(&Any::new(&'\'').unwrap(), "'\\''", r#""'""#);
    shown(&Any::new(&TypeCode::string(3)).unwrap(), "TypeCode(string<3>)", r#"{"$typecode":"string<3>"}"#);
    shown(&Any::new(&None::<TestRef>).unwrap(), "nil", "null");
    let reference = Any::new(&Some(TestRef("IDL:R:1.0".into()))).unwrap();
    let json = r#"{"$reference":"IDL:R:1.0","profiles":1}"#;
    shown(&reference, "reference(\"IDL:R:1.0\", profiles: 1)", json);
    shown(&Any::null(), "null", "null");
    assert_eq!(alloc::format!("{:?}", Any::from(5i32)), "Any(long: 5)");
}

#[test]
fn text_has_a_limit() {
    let any = Any::new(&vec![0i32; 1 << 16]).unwrap();
    assert!(any.to_string().ends_with('…') && any.to_string().len() < 70_000);
    assert_eq!(any.to_json(1000), Err(WalkError::Stopped));
}

//! What conditions mean, on one value.

use super::image;
use crate::content::{ContentFilter, ContentLimits, PayloadError};
use isorb_any::{Any, TypeCode};
use isorb_cdr::{Encoder, Text};

pub(super) const JSON: &str = r#"{"ok":true,"position":{"altitude":320.5,"km":1.5},"id":7,"flags":5,"matrix":[[1,-2],[3,4]],
    "name":"GPS north","wide":"Zürich","mark":"x","points":[{"x":1,"tag":"a"},{"x":-7,"tag":"bc"}],
    "valve":"half","reading":{"$case":"half","part":0.5},"count":18446744073709551615,
    "depth":-9223372036854775808,"raw":"00ff10","last":65535}"#;

pub(super) fn payload(tc: &TypeCode, json: &str) -> Vec<u8> {
    let any = Any::from_json(tc.clone(), json).unwrap();
    let mut encoder = Encoder::new(Vec::new(), Text::DEFAULT);
    encoder.put(u8::from(cfg!(target_endian = "little")));
    any.write_value(&mut encoder);
    encoder.flatten().unwrap()
}

#[test]
fn conditions_hold_or_do_not() {
    let tc = image();
    let octets = payload(&tc, JSON);
    let judge = |text: &str| {
        let filter = ContentFilter::new(text, &tc).unwrap_or_else(|why| panic!("{why}"));
        filter.matches(&octets).unwrap_or_else(|why| panic!("{text}: {why}"))
    };
    for (text, expected) in [
        ("position.altitude > 300 && id == 7", true),
        ("position.altitude > 320.5 || id == 8", false),
        (r#"name == "GPS" || (flags & 4) != 0"#, true),
        ("flags & 2 != 0", false),
        ("ok && !(id < 7)", true),
        ("!ok || ok == false", false),
        ("matrix[0][1] == -2 && matrix[1][0] + matrix[1][1] == 7", true),
        ("len(matrix) == 2 && len(points) == 2 && len(raw) == 3 && raw[1] == 0xff", true),
        ("points[1].x == -7 && points[1].tag == \"bc\"", true),
        ("points[2].x == 0 || points[2].x != 0", false),
        ("!(points[2].x == 0)", true),
        ("valve == half && valve < open && shut < valve", true),
        ("valve == open", false),
        ("reading.part == 0.5 && reading._d == half", true),
        ("reading.none == 0 || reading.none != 0 || reading.text == \"\"", false),
        ("reading.none + 1 == 1", false),
        (r#"starts_with(name, "GPS") && !starts_with(name, "gps")"#, true),
        (r#"starts_with(wide, "Zü") && wide == "Zürich" && wide > name && len(wide) == 6"#, true),
        (r#"name >= "GPS" && name < "GPT""#, true),
        ("mark == 'x' && mark < 'y'", true),
        ("count == 18446744073709551615 && count + 1 > count", true),
        ("depth == -9223372036854775808 && -depth > 0", true),
        ("position.km == 1.5 && last == 65535", true),
        ("id / 0 == 0 || id % 0 == 0 || 1 << 64 == 0", false),
        ("id / 2 == 3 && id / 2.0 == 3.5", true),
        ("~flags & 0xff == 0xfa && (flags ^ 1) == 4 && (flags | 8) == 13 && flags << 2 >> 1 == 10", true),
        ("1 + 2 * 3 == 7 && (1 + 2) * 3 == 9 && -2 - -3 == 1", true),
        ("true", true),
        ("position.altitude * position.altitude * position.altitude > 1e7", true),
        ("count * count * count * count > 0", false),
    ] {
        assert_eq!(judge(text), expected, "{text}");
    }
}

#[test]
fn a_payload_that_is_no_structure_has_a_name() {
    let octets = crate::remote::encode(&48.5f64).unwrap();
    let filter = ContentFilter::new("payload > 48 && payload < 49", &TypeCode::DOUBLE).unwrap();
    assert_eq!(filter.matches(&octets), Ok(true));
    let list = crate::remote::encode(&vec![1i16, 2, 3]).unwrap();
    let filter = ContentFilter::of::<Vec<i16>>("len(payload) == 3 && payload[2] == 3").unwrap();
    assert_eq!(filter.matches(&list), Ok(true));
}

#[test]
fn what_a_condition_does_not_need_is_not_read() {
    let tc = image();
    let octets = payload(&tc, JSON);
    let first = ContentFilter::new("id == 7", &tc).unwrap();
    let last = ContentFilter::new("id == 7 && last == 65535", &tc).unwrap();
    // The octet of the order, `ok`, `position` and `id`.
    assert_eq!(first.matches(&octets[..24]), Ok(true));
    assert_eq!(first.matches(&octets[..23]), Err(PayloadError::Malformed));
    for length in 0..octets.len() {
        assert_eq!(last.matches(&octets[..length]), Err(PayloadError::Malformed), "{length}");
    }
    assert_eq!(last.matches(&octets), Ok(true));
}

#[test]
fn steps_are_bounded() {
    let list = TypeCode::sequence(&TypeCode::STRING, 0).unwrap();
    let members = [("names", list), ("id", TypeCode::LONG)];
    let tc = TypeCode::new_struct("IDL:N:1.0", "N", &members).unwrap();
    let names: Vec<String> = (0..50).map(|i| format!("\"{i}\"")).collect();
    let octets = payload(&tc, &format!(r#"{{"names":[{}],"id":7}}"#, names.join(",")));
    let judge = |steps| {
        let limits = ContentLimits { steps, ..ContentLimits::default() };
        ContentFilter::within(limits, "id == 7", &tc).unwrap().matches(&octets)
    };
    assert_eq!(judge(51), Ok(true));
    assert_eq!(judge(50), Err(PayloadError::Steps));
    assert!(PayloadError::Steps.to_string().contains("ContentLimits::steps"));
    // A sequence of plain values is one step, whatever its length.
    let tc = TypeCode::new_struct(
        "IDL:N:1.0",
        "N",
        &[("raw", TypeCode::sequence(&TypeCode::LONG, 0).unwrap()), ("id", TypeCode::LONG)],
    )
    .unwrap();
    let numbers = vec!["1"; 10_000].join(",");
    let octets = payload(&tc, &format!(r#"{{"raw":[{numbers}],"id":7}}"#));
    let limits = ContentLimits { steps: 2, ..ContentLimits::default() };
    assert_eq!(ContentFilter::within(limits, "id == 7", &tc).unwrap().matches(&octets), Ok(true));
}

#[test]
fn recursive_types_are_passed_to_a_depth() {
    let open = TypeCode::recursive("IDL:Tree:1.0").unwrap();
    let below = TypeCode::sequence(&open, 0).unwrap();
    let tree =
        TypeCode::new_struct("IDL:Tree:1.0", "Tree", &[("n", TypeCode::LONG), ("below", below)]).unwrap();
    let tc = TypeCode::new_struct("IDL:R:1.0", "R", &[("tree", tree), ("id", TypeCode::LONG)]).unwrap();
    let filter = ContentFilter::new("tree.below[0].n == 2 && id == 7", &tc).unwrap();
    let octets = payload(&tc, r#"{"tree":{"n":1,"below":[{"n":2,"below":[]},{"n":3,"below":[]}]},"id":7}"#);
    assert_eq!(filter.matches(&octets), Ok(true));
    // Trees of one child each, nested 100,000 times.
    let mut deep = vec![1, 0, 0, 0];
    deep.extend([1u32.to_le_bytes(), 1u32.to_le_bytes()].concat().repeat(100_000));
    assert!(ContentFilter::new("id == 7", &tc).unwrap().matches(&deep).is_err());
}

#[test]
fn a_payload_that_claims_more_than_it_has_is_malformed() {
    let tc = TypeCode::new_struct(
        "IDL:N:1.0",
        "N",
        &[("names", TypeCode::sequence(&TypeCode::STRING, 0).unwrap()), ("id", TypeCode::LONG)],
    )
    .unwrap();
    let filter = ContentFilter::new("id == 7", &tc).unwrap();
    for claimed in [u32::MAX, 1 << 31, 100] {
        let mut octets = vec![1, 0, 0, 0];
        octets.extend(claimed.to_le_bytes());
        octets.extend([0; 64]);
        assert_eq!(filter.matches(&octets), Err(PayloadError::Malformed), "{claimed}");
        let mut octets = vec![1, 0, 0, 0];
        octets.extend(1u32.to_le_bytes());
        octets.extend(claimed.to_le_bytes());
        octets.extend([0; 64]);
        assert_eq!(filter.matches(&octets), Err(PayloadError::Malformed), "{claimed}");
    }
    let huge = TypeCode::array(&TypeCode::array(&TypeCode::LONGDOUBLE, u32::MAX).unwrap(), u32::MAX).unwrap();
    let huge = TypeCode::new_struct("IDL:H:1.0", "H", &[("all", huge), ("id", TypeCode::LONG)]).unwrap();
    assert!(ContentFilter::new("id == 7", &huge).is_err());
}

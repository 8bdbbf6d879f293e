//! Content filters of events: any expression on any type is compiled or refused, and any payload is
//! judged or unreadable, within the limits.
//!
//! The first octet says whether the type is read from the input, the second how long the expression
//! is; the rest is the type, if it is there, and the payload.
#![no_main]

use isorb_any::{Label, TypeCode};
use isorb_cdr::{Decoder, Order, Text};
use isorb_event::ContentFilter;
use isorb_scope::Region;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

/// A type with a member of each kind that filters read or pass.
static KNOWN: LazyLock<TypeCode> = LazyLock::new(|| {
    let new_struct = |name: &str, members: &[(&str, TypeCode)]| {
        TypeCode::new_struct(&format!("IDL:{name}:1.0"), name, members).unwrap()
    };
    let position = new_struct("Position", &[("altitude", TypeCode::DOUBLE), ("km", TypeCode::FLOAT)]);
    let point = new_struct("Point", &[("x", TypeCode::LONG), ("tag", TypeCode::STRING)]);
    let valve = TypeCode::new_enum("IDL:Valve:1.0", "Valve", &["shut", "half", "open"]).unwrap();
    let cases = [
        (Label::Value(0), "none", TypeCode::LONG),
        (Label::Value(1), "part", TypeCode::DOUBLE),
        (Label::Default, "text", TypeCode::STRING),
    ];
    let reading = TypeCode::new_union("IDL:Reading:1.0", "Reading", &valve, &cases).unwrap();
    new_struct(
        "Image",
        &[
            ("ok", TypeCode::BOOLEAN),
            ("position", position),
            ("id", TypeCode::LONG),
            ("flags", TypeCode::OCTET),
            ("name", TypeCode::STRING),
            ("wide", TypeCode::WSTRING),
            ("mark", TypeCode::CHAR),
            ("points", TypeCode::sequence(&point, 0).unwrap()),
            ("valve", valve),
            ("reading", reading),
            ("device", TypeCode::interface("IDL:Device:1.0", "Device").unwrap()),
            ("last", TypeCode::ULONGLONG),
        ],
    )
});

fuzz_target!(|data: &[u8]| {
    let [given, length, rest @ ..] = data else { return };
    let (expression, rest) = rest.split_at(rest.len().min((*length).into()));
    let Ok(expression) = str::from_utf8(expression) else { return };
    let mut octets = rest.to_vec();
    let mut region = Region::new(4096);
    let scope = region.enter();
    let mut d = Decoder::new(&mut octets, Order::Little, Text::DEFAULT, &scope);
    let tc = match given & 1 {
        0 => Some(KNOWN.clone()),
        _ => TypeCode::read(&mut d).ok(),
    };
    let Some(tc) = tc else { return };
    let payload = &rest[rest.len() - d.remaining()..];
    match ContentFilter::new(expression, &tc) {
        Ok(filter) => {
            let judged = filter.matches(payload);
            // It says the same of the same.
            assert_eq!(filter.matches(payload), judged);
            let again = ContentFilter::new(filter.expression(), filter.payload()).unwrap();
            assert_eq!(again.matches(payload), judged);
        }
        Err(refused) => assert!(refused.to_string().starts_with("error: ")),
    }
});

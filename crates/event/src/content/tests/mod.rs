//! Content filters against values, against malformed octets, and against a naive evaluator.

mod cost;
mod generate;
mod naive;
mod random;
mod refusals;
mod values;

use isorb_any::{Label, TypeCode};

/// The type of the examples in the documents.
pub(super) fn image() -> TypeCode {
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
    let points = TypeCode::sequence(&point, 0).unwrap();
    let points = TypeCode::new_alias("IDL:Points:1.0", "Points", &points).unwrap();
    new_struct(
        "Image",
        &[
            ("ok", TypeCode::BOOLEAN),
            ("position", position),
            ("id", TypeCode::LONG),
            ("flags", TypeCode::OCTET),
            ("matrix", TypeCode::array(&TypeCode::array(&TypeCode::SHORT, 2).unwrap(), 2).unwrap()),
            ("name", TypeCode::STRING),
            ("wide", TypeCode::WSTRING),
            ("mark", TypeCode::CHAR),
            ("points", points),
            ("valve", valve),
            ("reading", reading),
            ("count", TypeCode::ULONGLONG),
            ("depth", TypeCode::LONGLONG),
            ("raw", TypeCode::sequence(&TypeCode::OCTET, 0).unwrap()),
            ("last", TypeCode::USHORT),
        ],
    )
}

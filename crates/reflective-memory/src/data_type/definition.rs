//! Definitions as text, from type codes.

use isorb_any::{Kind, Label, TypeCode};
use std::fmt::Write;

/// Nested definitions are spelled out up to this depth.
const DEPTH: usize = 16;

/// The definition of a type in one line: `struct Point { long x; double y; }`.
pub(super) fn definition(type_code: &TypeCode) -> String {
    let mut text = String::new();
    write(&mut text, type_code, &mut Vec::new());
    text
}

fn write(text: &mut String, type_code: &TypeCode, open: &mut Vec<String>) {
    let type_code = type_code.original();
    let named = || type_code.name().unwrap_or_default().to_owned();
    let id = type_code.id().unwrap_or_default().to_owned();
    let kind = type_code.kind();
    // A type that contains itself, or one beyond the depth, is named.
    let is_open = !id.is_empty() && open.contains(&id) || open.len() == DEPTH;
    match kind {
        _ if is_open => text.push_str(if id.is_empty() { "…" } else { &id }),
        Kind::Struct | Kind::Except => {
            open.push(id);
            let word = if kind == Kind::Struct { "struct" } else { "exception" };
            let _ = write!(text, "{word} {} {{", named());
            members(text, &type_code, open, |_, _| ());
            open.pop();
        }
        Kind::Union => {
            open.push(id);
            let _ = write!(text, "union {} switch (", named());
            write(text, &type_code.discriminator_type().unwrap_or_default(), open);
            text.push_str(") {");
            members(text, &type_code, open, |text, index| {
                let _ = match type_code.member_label(index) {
                    Ok(Label::Value(value)) => write!(text, " case {value}:"),
                    _ => write!(text, " default:"),
                };
            });
            open.pop();
        }
        Kind::Enum => {
            let names = (0..type_code.member_count().unwrap_or(0))
                .map(|index| type_code.member_name(index).unwrap_or_default().to_owned());
            let _ = write!(text, "enum {} {{ {} }}", named(), names.collect::<Vec<_>>().join(", "));
        }
        Kind::Sequence => {
            open.push(String::new());
            text.push_str("sequence<");
            write(text, &type_code.content_type().unwrap_or_default(), open);
            match type_code.length().unwrap_or(0) {
                0 => text.push('>'),
                bound => drop(write!(text, ", {bound}>")),
            }
            open.pop();
        }
        Kind::Array => {
            open.push(String::new());
            write(text, &type_code.content_type().unwrap_or_default(), open);
            let _ = write!(text, "[{}]", type_code.length().unwrap_or(0));
            open.pop();
        }
        _ => drop(write!(text, "{type_code}")),
    }
}

fn members(
    text: &mut String,
    type_code: &TypeCode,
    open: &mut Vec<String>,
    before: impl Fn(&mut String, u32),
) {
    for index in 0..type_code.member_count().unwrap_or(0) {
        before(text, index);
        text.push(' ');
        write(text, &type_code.member_type(index).unwrap_or_default(), open);
        let _ = write!(text, " {};", type_code.member_name(index).unwrap_or_default());
    }
    text.push_str(" }");
}

/// The first members, or other parts, in which two definitions differ.
pub(super) fn first_difference<'t>(there: &'t str, here: &'t str) -> (&'t str, &'t str) {
    fn parts(text: &str) -> impl Iterator<Item = &str> {
        text.split_inclusive([';', '{', '}']).map(|part| part.trim().trim_end_matches(';'))
    }
    let (mut a, mut b) = (parts(there), parts(here));
    loop {
        match (a.next(), b.next()) {
            (Some(x), Some(y)) if x == y => {}
            (None, None) => return ("…", "…"),
            (x, y) => return (x.unwrap_or("nothing"), y.unwrap_or("nothing")),
        }
    }
}

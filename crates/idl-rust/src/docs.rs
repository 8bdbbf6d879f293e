//! Documentation of generated items: their IDL, and its comments.

use isorb_idl::model::{DefId, Direction, Spec, Type};
use proc_macro2::TokenStream;
use quote::quote;

/// Doc attributes, one for each line.
pub(crate) fn doc(lines: &[String]) -> TokenStream {
    let lines = lines.iter().map(|line| if line.is_empty() { String::new() } else { format!(" {line}") });
    quote!(#(#[doc = #lines])*)
}

/// One line of documentation.
pub(crate) fn line(text: impl Into<String>) -> TokenStream {
    doc(&[text.into()])
}

/// An IDL comment as text that rustdoc shows verbatim: no markup, no links, no code that it would
/// run.
pub(crate) fn comment(text: Option<&str>) -> Vec<String> {
    let Some(text) = text else { return Vec::new() };
    let lines: Vec<String> = text.lines().map(|line| escape(line.trim())).collect();
    let start = lines.iter().position(|l| !l.is_empty()).unwrap_or(lines.len());
    let end = lines.iter().rposition(|l| !l.is_empty()).map_or(start, |i| i + 1);
    let mut kept: Vec<String> = lines[start..end].to_vec();
    kept.dedup_by(|a, b| a.is_empty() && b.is_empty());
    kept
}

fn escape(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    // A backslash escapes the begin of a list, a heading, a table or a rule. Numbered lists need it
    // before the point.
    let digits = line.chars().take_while(char::is_ascii_digit).count();
    for (i, c) in line.chars().enumerate() {
        let starts =
            i == 0 && matches!(c, '-' | '+' | '=') || digits > 0 && i == digits && matches!(c, '.' | ')');
        let everywhere = matches!(
            c,
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '<' | '>' | '#' | '~' | '|' | '&' | '$'
        );
        // Otherwise rustdoc would warn of a bare address.
        let in_url = c == '/' && out.ends_with(':');
        if starts || everywhere || in_url {
            out.push('\\');
        }
        match c {
            '\t' => out.push(' '),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

/// Text as inline code.
pub(crate) fn code(text: &str) -> String {
    let text: String = text.chars().map(|c| if c == '`' || c.is_control() { '\'' } else { c }).collect();
    format!("`{text}`")
}

/// A definition's own comment, a paragraph, then its IDL.
pub(crate) fn item(spec: &Spec, id: DefId, signature: &str) -> Vec<String> {
    let mut lines = comment(spec[id].doc.as_deref());
    if !lines.is_empty() {
        lines.push(String::new());
    }
    lines.push(format!("IDL: {}", code(signature)));
    lines
}

/// Like [`item`], with the repository id.
pub(crate) fn item_with_id(spec: &Spec, id: DefId, signature: &str) -> Vec<String> {
    let mut lines = item(spec, id, signature);
    lines.push(String::new());
    lines.push(format!("Repository id: {}", code(&spec[id].repository_id)));
    lines
}

/// A type as in IDL, without leading `::`.
pub(crate) fn type_name(spec: &Spec, ty: &Type) -> String {
    spec.type_name(ty).replace("<::", "<").trim_start_matches("::").to_owned()
}

/// `in`, `out` or `inout`.
pub(crate) fn direction(direction: Direction) -> &'static str {
    match direction {
        Direction::In => "in",
        Direction::Out => "out",
        Direction::InOut => "inout",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_inert() {
        assert_eq!(escape("see [Foo] and `x`"), "see \\[Foo\\] and \\`x\\`");
        assert_eq!(escape("1. first"), "1\\. first");
        assert_eq!(escape("- item"), "\\- item");
        assert_eq!(escape("http://x"), "http:\\//x");
        assert_eq!(comment(Some("\n    indented code\n\n\n\nend\n")), ["indented code", "", "end"]);
    }
}

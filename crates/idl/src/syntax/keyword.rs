//! Reserved words (CORBA 3.3 part 1, clause 7.2.4).

/// Words with a meaning of their own in IDL.
const KEYWORDS: [&str; 55] = [
    "abstract",
    "any",
    "attribute",
    "boolean",
    "case",
    "char",
    "const",
    "context",
    "custom",
    "default",
    "double",
    "enum",
    "exception",
    "factory",
    "FALSE",
    "fixed",
    "float",
    "getraises",
    "import",
    "in",
    "inout",
    "interface",
    "local",
    "long",
    "module",
    "native",
    "Object",
    "octet",
    "oneway",
    "out",
    "private",
    "public",
    "raises",
    "readonly",
    "sequence",
    "setraises",
    "short",
    "string",
    "struct",
    "supports",
    "switch",
    "TRUE",
    "truncatable",
    "typedef",
    "typeid",
    "typeprefix",
    "union",
    "unsigned",
    "ValueBase",
    "valuetype",
    "void",
    "wchar",
    "wstring",
    "component",
    "home",
];

/// Words that CORBA 3 added and that older specifications use as ordinary names: allowed as such
/// with a warning.
const SOFT: [&str; 17] = [
    "component",
    "consumes",
    "emits",
    "eventtype",
    "finder",
    "getraises",
    "home",
    "import",
    "multiple",
    "primarykey",
    "provides",
    "publishes",
    "setraises",
    "typeid",
    "typeprefix",
    "uses",
    "factory",
];

/// The relation of a word to the reserved ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reserved {
    /// It is free.
    No,
    /// Reserved since CORBA 3 only.
    Soft,
    /// Reserved.
    Yes,
    /// Differs from this reserved word in case only, which is not allowed either.
    ByCase(&'static str),
}

/// Looks a word up.
pub(crate) fn reserved(word: &str) -> Reserved {
    if SOFT.contains(&word) {
        return Reserved::Soft;
    }
    match KEYWORDS.iter().find(|k| k.eq_ignore_ascii_case(word)) {
        Some(keyword) if *keyword == word => Reserved::Yes,
        Some(keyword) if !SOFT.contains(keyword) => Reserved::ByCase(keyword),
        _ => Reserved::No,
    }
}

//! One Rust scope in which no two names may be the same.

use std::collections::HashSet;

/// The names of one Rust module, trait, enum, struct or parameter list.
///
/// Types, values and modules share one namespace here, although Rust keeps them apart: fewer
/// surprises, and a glob import of a generated module cannot bring two things of one name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Space {
    taken: HashSet<String>,
}

impl Space {
    /// Gives `wanted` out, with as many underscores at its end as make it free and legal.
    pub fn claim(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        while is_reserved(&name) || self.taken.contains(&name) {
            name.push('_');
        }
        self.taken.insert(name.clone());
        name
    }

    /// As [`Space::claim`], for what must not shadow a primitive type either: types and modules.
    pub fn claim_type(&mut self, wanted: &str) -> String {
        if PRIMITIVES.contains(&wanted) { self.claim(&format!("{wanted}_")) } else { self.claim(wanted) }
    }

    /// Whether something in the scope has this name.
    pub fn contains(&self, name: &str) -> bool {
        self.taken.contains(name)
    }
}

fn is_reserved(name: &str) -> bool {
    KEYWORDS.contains(&name)
}

/// Strict and reserved keywords of all editions up to 2024, and the underscore.
const KEYWORDS: &[&str] = &[
    "_", "Self", "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
    "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let",
    "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self",
    "static", "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use",
    "virtual", "where", "while", "yield",
];

const PRIMITIVES: &[&str] = &[
    "bool", "char", "f32", "f64", "i8", "i16", "i32", "i64", "i128", "isize", "str", "u8", "u16", "u32",
    "u64", "u128", "usize",
];

#[cfg(test)]
mod tests {
    use super::super::case;
    use super::*;
    use proptest::prelude::*;

    fn identifier() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-c][a-cA-C0-1_]{0,5}",
            proptest::sample::select(KEYWORDS).prop_map(str::to_owned),
            proptest::sample::select(PRIMITIVES).prop_map(str::to_owned),
            "[A-Z][a-z]{1,3}(Ref|View|Error|_in)?",
            "_[a-z_]{0,3}",
        ]
    }

    proptest! {
        #[test]
        fn no_two_names_meet(names in proptest::collection::vec(identifier(), 1..40)) {
            let mut space = Space::default();
            let mut seen = HashSet::new();
            for name in &names {
                for (wanted, is_type) in [
                    (name.clone(), true), (format!("{name}View"), true), (case::snake(name), true),
                    (case::upper(name), false), (case::camel(name), true), (format!("{}_in", case::snake(name)), false),
                ] {
                    let given = if is_type { space.claim_type(&wanted) } else { space.claim(&wanted) };
                    prop_assert!(syn::parse_str::<syn::Ident>(&given).is_ok(), "{given} is no identifier");
                    prop_assert!(!is_type || !PRIMITIVES.contains(&given.as_str()));
                    prop_assert!(given.trim_end_matches('_') == wanted.trim_end_matches('_'));
                    prop_assert!(seen.insert(given.clone()), "{given} twice");
                }
            }
        }
    }
}

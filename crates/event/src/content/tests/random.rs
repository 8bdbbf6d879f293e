//! Random types, values and expressions: the program agrees with the naive evaluator.

use super::generate::{expression, payload, types};
use super::naive;
use crate::content::parser::parse;
use crate::content::{ContentFilter, ContentLimits, PayloadError};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn a_program_agrees_with_the_naive_evaluator(
        ty in types(),
        seeds in prop::array::uniform8(any::<u64>()),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 8),
        cut in any::<prop::sample::Index>(),
    ) {
        let tc = ty.type_code();
        for seed in seeds {
            let Some(text) = expression(&ty, seed) else { continue };
            let expr = parse(ContentLimits::default(), &text).unwrap();
            let filter = ContentFilter::new(&text, &tc).unwrap_or_else(|why| panic!("{tc}: {why}"));
            for little in [true, false] {
                let octets = payload(&ty, little, seed.rotate_left(17));
                let tree = naive::decode(&tc, &octets).expect("a value");
                let expected = naive::is_true(&expr, &tree);
                prop_assert_eq!(filter.matches(&octets), Ok(expected), "{} on {:?}", text, tree);
                // What can be decoded is judged alike, what is damaged may be unreadable.
                let mut octets = octets;
                for (at, octet) in &damage {
                    let at = at.index(octets.len());
                    octets[at] = *octet;
                    let judged = filter.matches(&octets);
                    if let Some(tree) = naive::decode(&tc, &octets) {
                        prop_assert_eq!(judged, Ok(naive::is_true(&expr, &tree)), "{} on {:?}", text, tree);
                    }
                }
                octets.truncate(cut.index(octets.len()));
                if filter.matches(&octets) == Err(PayloadError::Malformed) {
                    prop_assert!(naive::decode(&tc, &octets).is_none());
                }
            }
        }
    }

    /// Any text is compiled or refused, and a refusal can be shown.
    #[test]
    fn any_text_is_compiled_or_refused(text in "\\PC{0,60}", odd in any::<bool>()) {
        let name = if odd { format!("name == \"{text}") } else { text };
        if let Err(refused) = ContentFilter::new(&name, &super::image()) {
            prop_assert!(refused.to_string().starts_with("error: "), "{}", refused);
        }
    }

    /// Tokens in any order are compiled or refused.
    #[test]
    fn any_tokens_are_compiled_or_refused(
        tokens in prop::collection::vec(
            prop::sample::select(vec![
                "id", "ok", "position", ".", "altitude", "points", "[", "0", "]", "name", "(", ")", "&&", "||",
                "==", "<", "!", "-", "+", "&", "1.5", "\"a\"", "'a'", "len", "starts_with", ",", "valve", "half",
                "reading", "_d", "part", "<<", "0x1f", "true",
            ]),
            0..30,
        ),
        octets in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        if let Ok(filter) = ContentFilter::new(&tokens.join(" "), &super::image()) {
            let _ = filter.matches(&octets);
        }
    }
}

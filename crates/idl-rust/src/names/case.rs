//! Changing the case of an IDL identifier.
//!
//! An identifier is a sequence of words. A word ends at an underscore, before an upper-case letter
//! that follows a lower-case letter or a digit, and before the last of several upper-case letters
//! when a lower-case one follows (`HTTPServer` is `HTTP`, `Server`), unless all that follows is a
//! plural `s` (`URLs` is one word).

/// `sample_rate`, also from `sampleRate`, `SampleRate` and `SAMPLE_RATE`.
pub(crate) fn snake(name: &str) -> String {
    join(words(name).map(|w| w.to_ascii_lowercase()), "_", 'x')
}

/// `SAMPLE_RATE`.
pub(crate) fn upper(name: &str) -> String {
    join(words(name).map(|w| w.to_ascii_uppercase()), "_", 'X')
}

/// `SampleRate`.
pub(crate) fn camel(name: &str) -> String {
    let capitalised = words(name).map(|w| {
        let (first, rest) = w.split_at(1);
        first.to_ascii_uppercase() + &rest.to_ascii_lowercase()
    });
    join(capitalised, "", 'X')
}

/// An escaped identifier may consist of underscores, or have a digit after them; `first` then makes
/// it a name.
fn join(words: impl Iterator<Item = String>, with: &str, first: char) -> String {
    let mut joined = words.collect::<Vec<_>>().join(with);
    if !joined.starts_with(|c: char| c.is_ascii_alphabetic()) {
        joined.insert(0, first);
    }
    joined
}

fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split('_').flat_map(|part| {
        let mut words = Vec::new();
        let mut start = 0;
        for at in 1..part.len() {
            if part.is_char_boundary(at) && part.is_char_boundary(start) && splits(part.as_bytes(), at) {
                words.push(&part[start..at]);
                start = at;
            }
        }
        words.push(&part[start..]);
        words.into_iter().filter(|w| !w.is_empty())
    })
}

/// Whether a word starts at `at`, which is not the first octet.
fn splits(part: &[u8], at: usize) -> bool {
    let (before, here) = (part[at - 1], part[at]);
    if !here.is_ascii_uppercase() {
        return false;
    }
    if before.is_ascii_lowercase() || before.is_ascii_digit() {
        return true;
    }
    let rest = &part[at + 1..];
    before.is_ascii_uppercase() && rest.first().is_some_and(u8::is_ascii_lowercase) && rest != b"s"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found() {
        for (name, expected) in [
            ("sampleRate", "sample_rate"),
            ("SAMPLE_RATE", "sample_rate"),
            ("HTTPServer", "http_server"),
            ("URLs", "urls"),
            ("URL", "url"),
            ("get2D", "get2_d"),
            ("a__b_", "a_b"),
            ("x", "x"),
            ("_", "x"),
            ("NamingContextExt", "naming_context_ext"),
            ("v1_2", "v1_2"),
        ] {
            assert_eq!(snake(name), expected, "{name}");
        }
        assert_eq!(upper("maxFrameSize"), "MAX_FRAME_SIZE");
        assert_eq!(camel("red_light"), "RedLight");
        assert_eq!(camel("IDLE"), "Idle");
        assert_eq!(camel("HTTPServer"), "HttpServer");
        assert_eq!(camel("_1x"), "X1x");
    }
}

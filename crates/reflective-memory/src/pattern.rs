//! Patterns of areas' names, such as `plant/*`.

/// Whether a name matches: `*` stands for any characters, `?` for one. Takes at most the product of
/// both lengths.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut seen) = (0, 0);
    // The last `*`, and the part of the name that it stands for so far.
    let mut star: Option<(usize, usize)> = None;
    while seen < name.len() {
        match (pattern.get(at), star) {
            (Some('*'), _) => {
                star = Some((at, seen));
                at += 1;
            }
            (Some(&c), _) if c == '?' || c == name[seen] => {
                at += 1;
                seen += 1;
            }
            (_, Some((from, taken))) => {
                star = Some((from, taken + 1));
                (at, seen) = (from + 1, taken + 1);
            }
            (_, None) => return false,
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_stand_for_any_characters_and_question_marks_for_one() {
        for (pattern, name) in [
            ("plant/*", "plant/1"),
            ("plant/*", "plant/"),
            ("*", ""),
            ("**", "plant"),
            ("*/temp", "plant/1/temp"),
            ("p*t/?", "plant/1"),
            ("größe?", "größe1"),
            ("a*b*c", "abbbc"),
            ("", ""),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("plant/*", "plan"), ("plant/?", "plant/10"), ("", "a"), ("a*b*c", "abbb"), ("?", "")]
        {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
        // The number of steps is the product, not a power.
        assert!(!matches(&"*a".repeat(200), &("a".repeat(199) + &"b".repeat(2000))));
    }
}

//! Text from outside, as it may go to a terminal: arguments, and errors that quote them or a file.

/// Characters that are shown of an argument.
const OF_ARGUMENT: usize = 400;
/// Characters that are shown of a line. A line may quote a whole reference.
const OF_LINE: usize = 8_000;

/// An argument without characters that a terminal obeys, and without its middle where it is long.
pub fn argument(text: &str) -> String {
    shown(text, OF_ARGUMENT)
}

/// Each line without characters that a terminal obeys, and without its middle where it is long.
pub fn lines(text: &str) -> String {
    text.split('\n').map(|line| shown(line, OF_LINE)).collect::<Vec<_>>().join("\n")
}

/// As [`lines`], but in the colours that the text has.
pub fn coloured(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut all = lines(parts.next().unwrap_or_default());
    for part in parts {
        let behind = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        match behind.strip_prefix('m') {
            Some(rest) => {
                all.push_str("\u{1b}[");
                all.push_str(&part[..part.len() - rest.len()]);
                all.push_str(&lines(rest));
            }
            None => all.push_str(&lines(&format!("\u{1b}[{part}"))),
        }
    }
    all
}

fn shown(text: &str, most: usize) -> String {
    let count = text.chars().count();
    let mut shown = String::new();
    for (at, c) in text.chars().enumerate() {
        let is_left_out = count > most && (most / 2..count - most / 2).contains(&at);
        match c {
            _ if is_left_out && at == most / 2 => shown.push('…'),
            _ if is_left_out => {}
            '\t' => shown.push(c),
            c if c.is_control() => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_shown_as_text() {
        assert_eq!(argument("a\tb\x1b[31m\n\u{9b}"), "a\tb\\u{1b}[31m\\n\\u{9b}");
        assert_eq!(lines("größe\nb\r"), "größe\nb\\r");
        assert_eq!(
            coloured("\u{1b}[1;31merror\u{1b}[0m: \u{1b}[2Jx\r\n"),
            "\u{1b}[1;31merror\u{1b}[0m: \\u{1b}[2Jx\\r\n"
        );
    }

    #[test]
    fn what_is_long_has_its_beginning_and_its_end() {
        let long = format!("a{}z", "ä".repeat(OF_ARGUMENT));
        let half = "ä".repeat(OF_ARGUMENT / 2 - 1);
        assert_eq!(argument(&long), format!("a{half}…{half}z"));
        assert_eq!(argument(&"x".repeat(OF_ARGUMENT)), "x".repeat(OF_ARGUMENT));
        assert_eq!(lines(&long), long);
    }
}

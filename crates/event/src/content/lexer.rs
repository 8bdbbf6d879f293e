//! An expression as tokens.

use super::error::ContentError;
use std::ops::Range;

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Token {
    Name(String),
    Int(u64),
    Float(f64),
    Text(String),
    Char(char),
    /// An operator or a bracket.
    Sign(&'static str),
    End,
}

pub(super) struct Spanned {
    pub token: Token,
    pub range: Range<usize>,
}

/// The longest first.
const SIGNS: [&str; 25] = [
    "&&", "||", "==", "!=", "<=", ">=", "<<", ">>", "<", ">", "!", "~", "&", "|", "^", "+", "-", "*", "/",
    "%", "(", ")", "[", "]", ".",
];

/// The tokens of an expression, of which the last is [`Token::End`].
pub(super) fn tokens(source: &str) -> Result<Vec<Spanned>, ContentError> {
    let mut at = 0;
    let mut all = Vec::new();
    loop {
        at += source[at..].len() - source[at..].trim_start().len();
        let rest = &source[at..];
        let Some(first) = rest.chars().next() else {
            all.push(Spanned { token: Token::End, range: at..at });
            return Ok(all);
        };
        let (token, length) = match first {
            'a'..='z' | 'A'..='Z' | '_' => {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                let name = &rest[..end.unwrap_or(rest.len())];
                (Token::Name(name.to_owned()), name.len())
            }
            '0'..='9' => number(rest, at)?,
            '"' | '\'' => quoted(rest, at)?,
            _ => match SIGNS.iter().copied().find(|sign| rest.starts_with(sign)) {
                Some(sign) => (Token::Sign(sign), sign.len()),
                // A comma is no operator, but parts the arguments of functions.
                None if first == ',' => (Token::Sign(","), 1),
                None => return Err(unknown(first, at)),
            },
        };
        all.push(Spanned { token, range: at..at + length });
        at += length;
    }
}

fn unknown(sign: char, at: usize) -> ContentError {
    let error = ContentError::new(at..at + sign.len_utf8(), "the expression has a sign without a meaning");
    if sign == '=' { error.hint("equality is `==`") } else { error }
}

fn number(rest: &str, at: usize) -> Result<(Token, usize), ContentError> {
    let octets = rest.as_bytes();
    let hexadecimal = rest.starts_with("0x") || rest.starts_with("0X");
    let mut end = if hexadecimal { 2 } else { 0 };
    let mut float = false;
    while let Some(octet) = octets.get(end) {
        let sign_of_exponent = |sign: &u8| {
            matches!(sign, b'+' | b'-') && float && matches!(octets.get(end - 1), Some(b'e' | b'E'))
        };
        match octet {
            b'.' | b'e' | b'E' if !hexadecimal => float = true,
            octet if octet.is_ascii_alphanumeric() => {}
            sign if sign_of_exponent(sign) => {}
            _ => break,
        }
        end += 1;
    }
    let text = &rest[..end];
    let token = if hexadecimal {
        u64::from_str_radix(&text[2..], 16).ok().map(Token::Int)
    } else if float {
        text.parse().ok().filter(|value: &f64| value.is_finite()).map(Token::Float)
    } else {
        text.parse().ok().map(Token::Int)
    };
    let wrong = || ContentError::new(at..at + end, "this is no number of 64 bits");
    token.map(|token| (token, end)).ok_or_else(wrong)
}

/// A text in double quotes, or a character in single ones.
fn quoted(rest: &str, at: usize) -> Result<(Token, usize), ContentError> {
    let mut signs = rest.char_indices();
    let Some((_, quote)) = signs.next() else { return Err(ContentError::new(at..at, "a quote is missing")) };
    let mut text = String::new();
    while let Some((offset, sign)) = signs.next() {
        match sign {
            _ if sign == quote => {
                let length = offset + 1;
                let token = match (quote, text.chars().next(), text.chars().nth(1)) {
                    ('"', ..) => Token::Text(text),
                    (_, Some(one), None) => Token::Char(one),
                    _ => {
                        let error = ContentError::new(at..at + length, "single quotes hold one character");
                        return Err(error.hint("text stands in double quotes"));
                    }
                };
                return Ok((token, length));
            }
            '\\' => match signs.next() {
                Some((_, 'n')) => text.push('\n'),
                Some((_, 't')) => text.push('\t'),
                Some((_, sign @ ('\\' | '"' | '\''))) => text.push(sign),
                _ => {
                    let range = at + offset..at + offset + 1;
                    let error = ContentError::new(range, "a backslash is followed by another sign");
                    return Err(error.hint(r#"known are \\, \", \', \n and \t"#));
                }
            },
            sign => text.push(sign),
        }
    }
    Err(ContentError::new(at..at + 1, "the quote is not closed"))
}

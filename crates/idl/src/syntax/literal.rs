//! The values of literals (CORBA 3.3 part 1, clause 7.2.6).

use crate::diagnostic::{Diagnostics, Report};
use crate::model::{ConstValue, FixedValue};
use crate::pp::{Kind, Token};

/// Most digits of a fixed-point value.
pub(crate) const FIXED_DIGITS: usize = 31;

/// The value of a number or character literal; reports and returns `None` if it has none.
pub(crate) fn value(token: &Token, diagnostics: &mut Diagnostics) -> Option<ConstValue> {
    let result = match token.kind {
        Kind::Number => number(&token.text),
        Kind::Char => character(&token.text),
        _ => Err("this is no literal".to_owned()),
    };
    result.map_err(|message| diagnostics.error(token.span, message)).ok()
}

/// The value of adjacent string literals, and whether they are wide.
pub(crate) fn string(tokens: &[Token], diagnostics: &mut Diagnostics) -> Option<(String, bool)> {
    let wide = tokens.first()?.text.starts_with('L');
    let mut text = String::new();
    for token in tokens {
        if token.text.starts_with('L') != wide {
            let report = Report::error(token.span, "wide and narrow string literals cannot be joined");
            diagnostics.push(report.hint("put `L` before each of them or before none"));
            return None;
        }
        let inner = token.text.trim_start_matches('L').strip_prefix('"').and_then(|t| t.strip_suffix('"'))?;
        match unescape(inner, wide) {
            Ok(part) if part.contains('\0') => {
                diagnostics.error(token.span, "a string cannot contain a NUL character");
                return None;
            }
            Ok(part) => text.push_str(&part),
            Err(message) => {
                diagnostics.error(token.span, message);
                return None;
            }
        }
    }
    Some((text, wide))
}

fn number(text: &str) -> Result<ConstValue, String> {
    let integer = |digits: &str, radix| {
        u64::from_str_radix(digits, radix).map(|n| ConstValue::Integer(n.into())).map_err(|e| {
            match e.kind() {
                std::num::IntErrorKind::PosOverflow => format!("`{text}` does not fit into 64 bits"),
                _ if radix == 8 => format!("`{text}` is no number: a leading 0 means octal"),
                _ => format!("`{text}` is no number"),
            }
        })
    };
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return integer(hex, 16);
    }
    if let Some(digits) = text.strip_suffix(['d', 'D']) {
        return fixed(digits).ok_or_else(|| {
            format!(
                "`{text}` is no fixed-point number: at most {FIXED_DIGITS} digits, a point, and a final `d`"
            )
        });
    }
    if text.contains(['.', 'e', 'E']) {
        // Rust reads more than IDL has, such as `1_0` or `inf`, but the lexer lets only digits
        // through to the exponent.
        let plain = text.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'));
        return match text.parse::<f64>() {
            Ok(value) if plain && value.is_finite() => Ok(ConstValue::Float(value)),
            Ok(_) if plain => Err(format!("`{text}` is too large for a floating-point number")),
            _ => Err(format!("`{text}` is no number")),
        };
    }
    if text.len() > 1 && text.starts_with('0') { integer(&text[1..], 8) } else { integer(text, 10) }
}

fn fixed(digits: &str) -> Option<ConstValue> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |s: &str| s.chars().all(|c| c.is_ascii_digit());
    if !all_digits(whole) || !all_digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    // Zeros at either end carry no value.
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    if whole.len() + fraction.len() > FIXED_DIGITS {
        return None;
    }
    let unscaled = format!("0{whole}{fraction}").parse().ok()?;
    Some(ConstValue::Fixed(FixedValue { unscaled, scale: fraction.len() as u16 }))
}

fn character(text: &str) -> Result<ConstValue, String> {
    let wide = text.starts_with('L');
    let inner = text.trim_start_matches('L').strip_prefix('\'').and_then(|t| t.strip_suffix('\''));
    let value = unescape(inner.unwrap_or_default(), wide)?;
    let mut chars = value.chars();
    match (chars.next(), chars.next()) {
        (Some(c), None) if wide && u32::from(c) > 0xffff => {
            Err("a wide character must be in the basic plane, up to U+FFFF".to_owned())
        }
        (Some(c), None) if wide => Ok(ConstValue::WChar(c)),
        (Some(c), None) => Ok(ConstValue::Char(c)),
        (None, _) => Err("a character literal cannot be empty".to_owned()),
        _ => Err("a character literal holds one character".to_owned()),
    }
}

/// Resolves the escape sequences.
fn unescape(text: &str, wide: bool) -> Result<String, String> {
    let mut out = String::new();
    // The first half of a surrogate pair that two `\u` escapes spell.
    let mut high: Option<u32> = None;
    let mut chars = text.chars().peekable();
    let lone = || "this escape is half of a surrogate pair".to_owned();
    while let Some(c) = chars.next() {
        let mut code = u32::from(c);
        if c == '\\' {
            let escape = chars.next().ok_or("the escape sequence is incomplete")?;
            let mut digits = |first: Option<char>, radix: u32, most: usize| {
                let mut value = first.map(|c| u32::from(c) - u32::from('0'));
                let mut left = most - usize::from(first.is_some());
                while let Some(digit) = chars.peek().and_then(|c| c.to_digit(radix)).filter(|_| left > 0) {
                    value = Some(value.unwrap_or(0) * radix + digit);
                    chars.next();
                    left -= 1;
                }
                value
            };
            code = match escape {
                'n' => 0x0a,
                't' => 0x09,
                'v' => 0x0b,
                'b' => 0x08,
                'r' => 0x0d,
                'f' => 0x0c,
                'a' => 0x07,
                '\\' | '?' | '\'' | '"' => u32::from(escape),
                'x' => digits(None, 16, 2).ok_or("`\\x` needs one or two hexadecimal digits")?,
                'u' if wide => digits(None, 16, 4).ok_or("`\\u` needs up to four hexadecimal digits")?,
                'u' => return Err("`\\u` stands in wide characters and strings only".to_owned()),
                '0'..='7' => digits(Some(escape), 8, 3).unwrap_or(0),
                other => return Err(format!("`\\{other}` is no escape sequence")),
            };
        }
        if let Some(first) = high.take() {
            if !(0xdc00..0xe000).contains(&code) {
                return Err(lone());
            }
            code = 0x10000 + ((first - 0xd800) << 10) + (code - 0xdc00);
        } else if (0xd800..0xdc00).contains(&code) {
            high = Some(code);
            continue;
        }
        if !wide && code > 0xff {
            return Err(format!(
                "character U+{code:04X} is not in ISO 8859-1; use a wide literal, L'x' or L\"x\""
            ));
        }
        out.push(char::from_u32(code).ok_or_else(lone)?);
    }
    if high.is_some() { Err(lone()) } else { Ok(out) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_radix() {
        assert_eq!(number("010"), Ok(ConstValue::Integer(8)));
        assert_eq!(number("0xFf"), Ok(ConstValue::Integer(255)));
        assert_eq!(number("0"), Ok(ConstValue::Integer(0)));
        for bad in ["08", "0x", "1x", "0xg", "18446744073709551616", "1.2.3", "1e", "1e999", "1.0f"] {
            assert!(number(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn fixed_drops_zeros_without_value() {
        let fixed = |unscaled, scale| Ok(ConstValue::Fixed(FixedValue { unscaled, scale }));
        assert_eq!(number("0123.450d"), fixed(12345, 2));
        assert_eq!(number(".5D"), fixed(5, 1));
        assert_eq!(number("0d"), fixed(0, 0));
        assert!(number("12345678901234567890123456789012d").is_err());
        assert!(number("1e3d").is_err());
    }

    #[test]
    fn escapes_follow_the_table() {
        assert_eq!(unescape(r#"\n\t\x41\101\'\"\?"#, false).as_deref(), Ok("\n\tAA'\"?"));
        assert_eq!(unescape(r"\u00e9\ud83d\ude00", true).as_deref(), Ok("é😀"));
        for bad in [r"\q", r"\x", r"\u0041", "é\u{100}"] {
            assert!(unescape(bad, false).is_err(), "{bad}");
        }
        assert!(unescape(r"\ud83d!", true).is_err());
        assert!(unescape(r"\ud83d", true).is_err());
        assert!(unescape(r"\ude00", true).is_err());
    }
}

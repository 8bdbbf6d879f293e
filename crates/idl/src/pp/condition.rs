//! The expressions of `#if` and `#elif`.

use super::Preprocessor;
use super::token::{Kind, Token};
use crate::limits;
use crate::source::Span;

impl Preprocessor<'_> {
    /// Evaluates the condition. A wrong one is reported and counts as false.
    pub(super) fn condition(&mut self, directive: Span, line: &[Token]) -> bool {
        let line = self.resolve_defined(line);
        let tokens = self.expand(&line, 0);
        if self.stopped {
            return false;
        }
        if tokens.is_empty() {
            self.out.diagnostics.error(directive, "a condition is missing");
            return false;
        }
        let mut parser = Parser { tokens: &tokens, at: 0, depth: 0 };
        let value = parser.binary(0, true).and_then(|value| match parser.tokens.get(parser.at) {
            None => Ok(value),
            Some(token) => Err((Some(token.span), "this is not expected in a condition")),
        });
        match value {
            Ok(value) => value != 0,
            Err((span, message)) => {
                self.out.diagnostics.error(span.unwrap_or(directive), message);
                false
            }
        }
    }
}

type Value = Result<i64, (Option<Span>, &'static str)>;

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
}

/// Binary operators by precedence, loosest first.
const LEVELS: [&[&str]; 10] = [
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<", ">", "<=", ">="],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl Parser<'_> {
    fn eat(&mut self, punct: &str) -> bool {
        let found = self.tokens.get(self.at).is_some_and(|t| t.is(punct));
        self.at += usize::from(found);
        found
    }

    /// `live` is false in what `&&`, `||` and `?:` skip: there a division by zero does not matter.
    fn binary(&mut self, level: usize, live: bool) -> Value {
        let Some(operators) = LEVELS.get(level) else { return self.unary(live) };
        let mut left = self.binary(level + 1, live)?;
        while let Some(operator) =
            operators.iter().find(|o| self.tokens.get(self.at).is_some_and(|t| t.is(o)))
        {
            let span = self.tokens[self.at].span;
            self.at += 1;
            let skip = (*operator == "&&" && left == 0) || (*operator == "||" && left != 0);
            let right = self.binary(level + 1, live && !skip)?;
            left = match apply(operator, left, right) {
                Some(value) => value,
                None if !live => 0,
                None => return Err((Some(span), "division by zero")),
            };
        }
        if level == 0 && self.eat("?") {
            let yes = self.nested(live && left != 0)?;
            if !self.eat(":") {
                return Err((None, "`:` is missing after `?`"));
            }
            let no = self.nested(live && left == 0)?;
            left = if left != 0 { yes } else { no };
        }
        Ok(left)
    }

    fn nested(&mut self, live: bool) -> Value {
        self.depth += 1;
        if self.depth > limits::NESTING {
            return Err((self.tokens.get(self.at).map(|t| t.span), "the condition is nested too deeply"));
        }
        let value = self.binary(0, live);
        self.depth -= 1;
        value
    }

    fn unary(&mut self, live: bool) -> Value {
        // Signs may be repeated, so they are counted off in a loop and applied from the inside out.
        let mut signs = Vec::new();
        while let Some(sign) =
            ["!", "~", "-", "+"].iter().find(|s| self.tokens.get(self.at).is_some_and(|t| t.is(s)))
        {
            signs.push(*sign);
            self.at += 1;
        }
        let mut value = self.primary(live)?;
        for sign in signs.into_iter().rev() {
            value = match sign {
                "!" => i64::from(value == 0),
                "~" => !value,
                "-" => value.wrapping_neg(),
                _ => value,
            };
        }
        Ok(value)
    }

    fn primary(&mut self, live: bool) -> Value {
        if self.eat("(") {
            let value = self.nested(live)?;
            return if self.eat(")") { Ok(value) } else { Err((None, "`)` is missing in the condition")) };
        }
        let token = self.tokens.get(self.at).ok_or((None, "the condition is incomplete"))?;
        self.at += 1;
        match token.kind {
            Kind::Number => number(&token.text).ok_or((Some(token.span), "this is no integer")),
            // A name that is no macro is zero, as in C.
            Kind::Ident => Ok(i64::from(&*token.text == "TRUE" || &*token.text == "true")),
            Kind::Char => {
                let mut inner = token.text.trim_start_matches('L').chars().skip(1);
                let c = inner.next().filter(|&c| c != '\\' && inner.next() == Some('\''));
                c.map(|c| i64::from(u32::from(c)))
                    .ok_or((Some(token.span), "this character cannot stand in a condition"))
            }
            _ => Err((Some(token.span), "this is not expected in a condition")),
        }
    }
}

fn number(text: &str) -> Option<i64> {
    let text = text.trim_end_matches(['u', 'U', 'l', 'L']);
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    if !digits.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    // Larger than i64 wraps, as it would in C's unsigned arithmetic.
    u64::from_str_radix(digits, radix).ok().map(|n| n as i64)
}

/// `None` is division by zero.
fn apply(operator: &str, a: i64, b: i64) -> Option<i64> {
    let shift = u32::try_from(b).ok().filter(|n| *n < 64);
    Some(match operator {
        "||" => i64::from(a != 0 || b != 0),
        "&&" => i64::from(a != 0 && b != 0),
        "|" => a | b,
        "^" => a ^ b,
        "&" => a & b,
        "==" => i64::from(a == b),
        "!=" => i64::from(a != b),
        "<" => i64::from(a < b),
        ">" => i64::from(a > b),
        "<=" => i64::from(a <= b),
        ">=" => i64::from(a >= b),
        "<<" => shift.map_or(0, |n| a << n),
        ">>" => shift.map_or(0, |n| a >> n),
        "+" => a.wrapping_add(b),
        "-" => a.wrapping_sub(b),
        "*" => a.wrapping_mul(b),
        "/" if b != 0 => a.wrapping_div(b),
        "%" if b != 0 => a.wrapping_rem(b),
        _ => return None,
    })
}

//! The parser of expressions.

use super::ContentLimits;
use super::error::ContentError;
use super::lexer::{Spanned, Token, tokens};
use super::syntax::{Arithmetic, Expr, ExprKind, Logical, PathPart, Relation, Unary};
use std::ops::Range;

/// What a binary operator does.
#[derive(Clone, Copy)]
enum Operator {
    Arithmetic(Arithmetic),
    Compare(Relation),
    Logical(Logical),
}

/// An operator and how strongly it binds: as in Rust, where `flags & 4 == 0` means what it says.
fn operator(sign: &str) -> Option<(u8, Operator)> {
    use Operator::{Arithmetic as Number, Compare, Logical as Truth};
    Some(match sign {
        "||" => (1, Truth(Logical::Or)),
        "&&" => (2, Truth(Logical::And)),
        "==" => (COMPARISON, Compare(Relation::Equal)),
        "!=" => (COMPARISON, Compare(Relation::NotEqual)),
        "<" => (COMPARISON, Compare(Relation::Less)),
        "<=" => (COMPARISON, Compare(Relation::LessOrEqual)),
        ">" => (COMPARISON, Compare(Relation::Greater)),
        ">=" => (COMPARISON, Compare(Relation::GreaterOrEqual)),
        "|" => (4, Number(Arithmetic::Or)),
        "^" => (5, Number(Arithmetic::Xor)),
        "&" => (6, Number(Arithmetic::And)),
        "<<" => (7, Number(Arithmetic::ShiftLeft)),
        ">>" => (7, Number(Arithmetic::ShiftRight)),
        "+" => (8, Number(Arithmetic::Add)),
        "-" => (8, Number(Arithmetic::Subtract)),
        "*" => (9, Number(Arithmetic::Multiply)),
        "/" => (9, Number(Arithmetic::Divide)),
        "%" => (9, Number(Arithmetic::Remainder)),
        _ => return None,
    })
}

const COMPARISON: u8 = 3;

/// Parses an expression.
///
/// # Errors
/// [`ContentError`].
pub(super) fn parse(limits: ContentLimits, source: &str) -> Result<Expr, ContentError> {
    if source.len() > limits.octets {
        let message = format!(
            "the expression has {} octets, and at most {} are allowed (ContentLimits::octets)",
            source.len(),
            limits.octets
        );
        return Err(ContentError::new(source.len()..source.len(), message));
    }
    let mut parser = Parser { tokens: tokens(source)?, at: 0, limit: limits.depth, depth: 0 };
    let expr = parser.binary(1)?;
    match parser.peek() {
        Token::End => Ok(expr),
        _ => Err(ContentError::new(parser.range(), "the expression ends before this")
            .label("an operator, or the end, is expected here")),
    }
}

struct Parser {
    /// The last is [`Token::End`].
    tokens: Vec<Spanned>,
    at: usize,
    limit: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::End, |spanned| &spanned.token)
    }

    fn range(&self) -> Range<usize> {
        self.tokens.get(self.at).map_or(0..0, |spanned| spanned.range.clone())
    }

    fn advance(&mut self) -> Range<usize> {
        let range = self.range();
        self.at = (self.at + 1).min(self.tokens.len().saturating_sub(1));
        range
    }

    fn takes(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Token::Sign(found) if *found == sign);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, sign: &str) -> Result<Range<usize>, ContentError> {
        let range = self.range();
        match self.takes(sign) {
            true => Ok(range),
            false => Err(ContentError::new(range, format!("a `{sign}` is missing"))),
        }
    }

    /// A node over others, unless the tree gets too high.
    fn node(&self, kind: ExprKind, range: Range<usize>, below: &[usize]) -> Result<Expr, ContentError> {
        let height = below.iter().max().map_or(0, |height| height + 1);
        if height > self.limit {
            return Err(too_deep(range, self.limit));
        }
        Ok(Expr { kind, range, height })
    }

    /// Operators that bind at least as strongly as `least`.
    fn binary(&mut self, least: u8) -> Result<Expr, ContentError> {
        let mut left = self.unary()?;
        let mut compared = false;
        loop {
            let Token::Sign(sign) = *self.peek() else { return Ok(left) };
            let Some((strength, operator)) = operator(sign).filter(|(strength, _)| *strength >= least) else {
                return Ok(left);
            };
            let sign = self.advance();
            if compared && strength == COMPARISON {
                return Err(
                    ContentError::new(sign, "comparisons cannot be chained").hint("write `a < b && b < c`")
                );
            }
            compared |= strength == COMPARISON;
            let right = self.binary(strength + 1)?;
            left = self.join(operator, left, right)?;
        }
    }

    fn join(&self, operator: Operator, left: Expr, right: Expr) -> Result<Expr, ContentError> {
        let range = left.range.start..right.range.end;
        let heights = [left.height, right.height];
        let kind = match operator {
            Operator::Arithmetic(it) => ExprKind::Arithmetic(it, Box::new(left), Box::new(right)),
            Operator::Compare(it) => ExprKind::Compare(it, Box::new(left), Box::new(right)),
            // A chain is one node, so that it may be long.
            Operator::Logical(it) => match left.kind {
                ExprKind::Logical(same, mut terms) if same == it => {
                    terms.push(right);
                    let below = [left.height.saturating_sub(1), heights[1]];
                    return self.node(ExprKind::Logical(it, terms), range, &below);
                }
                _ => ExprKind::Logical(it, vec![left, right]),
            },
        };
        self.node(kind, range, &heights)
    }

    /// Runs `parse` one level deeper.
    fn nested<T>(
        &mut self,
        parse: impl FnOnce(&mut Parser) -> Result<T, ContentError>,
    ) -> Result<T, ContentError> {
        if self.depth == self.limit {
            return Err(too_deep(self.range(), self.limit));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn unary(&mut self) -> Result<Expr, ContentError> {
        let start = self.range().start;
        let Token::Sign(sign @ ("!" | "-" | "~")) = *self.peek() else { return self.primary() };
        self.advance();
        let of = self.nested(Parser::unary)?;
        let (range, heights) = (start..of.range.end, [of.height]);
        let kind = match sign {
            "!" => ExprKind::Not(Box::new(of)),
            "-" => ExprKind::Unary(Unary::Negate, Box::new(of)),
            _ => ExprKind::Unary(Unary::Complement, Box::new(of)),
        };
        self.node(kind, range, &heights)
    }

    fn primary(&mut self) -> Result<Expr, ContentError> {
        let range = self.range();
        let kind = match self.peek().clone() {
            Token::Int(value) => ExprKind::Int(value),
            Token::Float(value) => ExprKind::Float(value),
            Token::Text(text) => ExprKind::Text(text),
            Token::Char(value) => ExprKind::Char(value),
            Token::Name(name) => match name.as_str() {
                "true" | "TRUE" => ExprKind::Bool(true),
                "false" | "FALSE" => ExprKind::Bool(false),
                _ => return self.name(name),
            },
            Token::Sign("(") => {
                self.advance();
                let mut inner = self.nested(|parser| parser.binary(1))?;
                inner.range = range.start..self.expect(")")?.end;
                return Ok(inner);
            }
            Token::Sign(_) | Token::End => {
                return Err(ContentError::new(range, "the expression lacks an operand")
                    .label("a member, a value or `(` is expected here"));
            }
        };
        self.advance();
        self.node(kind, range, &[])
    }

    /// A path, or a function.
    fn name(&mut self, name: String) -> Result<Expr, ContentError> {
        let first = self.advance();
        if self.takes("(") {
            return self.function(&name, first);
        }
        let parts = self.path(name, first.clone())?;
        let end = self.tokens.get(self.at.saturating_sub(1)).map_or(first.end, |last| last.range.end);
        self.node(ExprKind::Path(parts), first.start..end, &[])
    }

    fn path(&mut self, name: String, range: Range<usize>) -> Result<Vec<PathPart>, ContentError> {
        let mut parts = vec![PathPart::Member(name, range)];
        loop {
            if self.takes(".") {
                let range = self.range();
                let Token::Name(name) = self.peek().clone() else {
                    return Err(ContentError::new(range, "a member is missing after the dot"));
                };
                self.advance();
                parts.push(PathPart::Member(name, range));
            } else if self.takes("[") {
                let range = self.range();
                let index = match self.peek() {
                    Token::Int(index) => u32::try_from(*index).ok(),
                    _ => None,
                };
                let wrong = || ContentError::new(range.clone(), "an index is a number from 0 on");
                parts.push(PathPart::Element(index.ok_or_else(wrong)?, range.clone()));
                self.advance();
                self.expect("]")?;
            } else {
                return Ok(parts);
            }
        }
    }

    fn function(&mut self, name: &str, range: Range<usize>) -> Result<Expr, ContentError> {
        match name {
            "len" => {
                let at = self.range();
                let Token::Name(first) = self.peek().clone() else {
                    return Err(ContentError::new(at, "`len` takes a member"));
                };
                self.advance();
                let parts = self.path(first, at)?;
                let end = self.expect(")")?.end;
                self.node(ExprKind::Length(parts), range.start..end, &[])
            }
            "starts_with" => {
                let text = self.nested(|parser| parser.binary(1))?;
                self.expect(",")?;
                let prefix = self.nested(|parser| parser.binary(1))?;
                let end = self.expect(")")?.end;
                let heights = [text.height, prefix.height];
                let kind = ExprKind::StartsWith(Box::new(text), Box::new(prefix));
                self.node(kind, range.start..end, &heights)
            }
            _ => Err(ContentError::new(range, format!("there is no function `{name}`"))
                .hint("the functions are `len` and `starts_with`")),
        }
    }
}

fn too_deep(range: Range<usize>, limit: usize) -> ContentError {
    let message = format!("the expression is nested deeper than {limit} (ContentLimits::depth)");
    ContentError::new(range, message)
}

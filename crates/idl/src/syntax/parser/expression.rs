//! Constant expressions.

use super::{Parsed, Parser};
use crate::pp::Kind;
use crate::syntax::ast::{Binary, Expr, ExprKind, Unary};

/// Binary operators by precedence, loosest first.
const LEVELS: [&[(&str, Binary)]; 6] = [
    &[("|", Binary::Or)],
    &[("^", Binary::Xor)],
    &[("&", Binary::And)],
    &[("<<", Binary::ShiftLeft), (">>", Binary::ShiftRight)],
    &[("+", Binary::Add), ("-", Binary::Subtract)],
    &[("*", Binary::Multiply), ("/", Binary::Divide), ("%", Binary::Remainder)],
];

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Parsed<Expr> {
        self.binary(0)
    }

    fn binary(&mut self, level: usize) -> Parsed<Expr> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let first = self.binary(level + 1)?;
        let mut rest = Vec::new();
        while let Some(operator) = self.operator(operators) {
            self.bump();
            rest.push((operator, self.binary(level + 1)?));
        }
        let Some((_, last)) = rest.last() else { return Ok(first) };
        let span = first.span.to(last.span);
        Ok(Expr { kind: ExprKind::Binary(Box::new(first), rest), span })
    }

    fn operator(&self, operators: &[(&str, Binary)]) -> Option<Binary> {
        let token = self.token();
        let closes = self.angles > 0 && token.is(">>");
        operators.iter().find(|(text, _)| token.is(text) && !closes).map(|(_, operator)| *operator)
    }

    fn unary(&mut self) -> Parsed<Expr> {
        let operator = match self.token() {
            t if t.is("-") => Unary::Minus,
            t if t.is("+") => Unary::Plus,
            t if t.is("~") => Unary::Not,
            _ => return self.primary(),
        };
        let start = self.bump().span;
        let inner = self.primary()?;
        let span = start.to(inner.span);
        Ok(Expr { kind: ExprKind::Unary(operator, Box::new(inner)), span })
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let token = self.token().clone();
        match token.kind {
            Kind::Number | Kind::Char => {
                self.bump();
                Ok(Expr { span: token.span, kind: ExprKind::Literal(token) })
            }
            Kind::String => {
                let literal = self.string_literal()?;
                Ok(Expr { span: literal.span, kind: ExprKind::Strings(literal.tokens) })
            }
            Kind::Ident if matches!(&*token.text, "TRUE" | "FALSE") => {
                self.bump();
                Ok(Expr { kind: ExprKind::Boolean(&*token.text == "TRUE"), span: token.span })
            }
            Kind::Punct if self.at("(") => {
                let angles = std::mem::take(&mut self.angles);
                self.bump();
                let inner = self.nested(Self::expression);
                self.angles = angles;
                let inner = inner?;
                let end = self.expect(")")?;
                Ok(Expr { kind: inner.kind, span: token.span.to(end) })
            }
            Kind::Ident => {
                let name = self.scoped_name()?;
                Ok(Expr { span: name.span, kind: ExprKind::Name(name) })
            }
            Kind::Punct if self.at("::") => {
                let name = self.scoped_name()?;
                Ok(Expr { span: name.span, kind: ExprKind::Name(name) })
            }
            _ => self.unexpected("a constant expression"),
        }
    }
}

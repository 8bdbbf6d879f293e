//! Constants and the expressions that give them values (CORBA 3.3 part 1, clause 7.10).

use super::Resolver;
use super::arithmetic;
use super::types::TypeContext;
use crate::diagnostic::Report;
use crate::model::{Const, ConstValue, DefKind, Type};
use crate::rule::Rule;
use crate::source::Span;
use crate::syntax::ast::{Attrs, Binary, Expr, ExprKind, Ident, TypeExpr, Unary};
use crate::syntax::literal;

impl Resolver<'_> {
    pub(super) fn constant(&mut self, attrs: &Attrs, ty: &TypeExpr, name: &Ident, value: &Expr) {
        let declared = self.ty(ty, TypeContext::Const);
        let allowed = declared.filter(|t| {
            let allowed = match self.spec.resolve(t) {
                Type::Boolean | Type::Char | Type::WChar | Type::Float | Type::Double | Type::LongDouble => {
                    true
                }
                Type::String { .. } | Type::WString { .. } | Type::Fixed { .. } => true,
                Type::Named(id) => matches!(self.spec[*id].kind, DefKind::Enum(_)),
                t => t.is_integer(),
            };
            if !allowed {
                let message = format!("`{}` cannot be the type of a constant", self.spec.type_name(t));
                let report = Report::error(ty.span, message);
                self.diagnostics
                    .push(report.hint("allowed are numbers, characters, strings, booleans and enums"));
            }
            allowed
        });
        let bare_fixed = matches!(ty.kind, crate::syntax::ast::TypeKind::Fixed(None));
        let evaluated = allowed.and_then(|t| {
            let value = self.evaluate_as(value, &t, bare_fixed)?;
            let t = match value {
                ConstValue::Fixed(v) if bare_fixed => {
                    Type::Fixed { digits: v.digits().max(v.scale).max(1), scale: v.scale }
                }
                _ => t,
            };
            Some((t, value))
        });
        let failed = evaluated.is_none();
        let (ty, value) = evaluated.unwrap_or((Type::Void, ConstValue::Integer(1)));
        let id = self.define(attrs, name, DefKind::Const(Const { ty, value }));
        // A constant without a valid value is declared too, so that its uses are not reported
        // again.
        self.info(id).complete = !failed;
    }

    /// The value of an expression where a value of type `ty` is wanted.
    pub(super) fn evaluate(&mut self, expr: &Expr, ty: &Type) -> Option<ConstValue> {
        self.evaluate_as(expr, ty, false)
    }

    fn evaluate_as(&mut self, expr: &Expr, ty: &Type, any_fixed: bool) -> Option<ConstValue> {
        let target = self.spec.resolve(ty).clone();
        let value = self.eval(expr, &target)?;
        if !any_fixed {
            self.check_fits(&value, &target, expr.span)?;
        }
        Some(match (value, target) {
            (ConstValue::Float(f), Type::Float) => ConstValue::Float(f64::from(f as f32)),
            (value, _) => value,
        })
    }

    /// The value of an expression where an integer of type `ty` is wanted.
    pub(super) fn integer(&mut self, expr: &Expr, ty: &Type) -> Option<i128> {
        match self.evaluate(expr, ty)? {
            ConstValue::Integer(n) => Some(n),
            _ => None,
        }
    }

    fn check_fits(&mut self, value: &ConstValue, ty: &Type, span: Span) -> Option<()> {
        let problem = match (value, ty) {
            (ConstValue::Float(f), Type::Float) if f.abs() > f64::from(f32::MAX) => {
                Some(format!("{f:e} is too large for a float"))
            }
            (ConstValue::String(s), Type::String { bound: Some(bound) })
            | (ConstValue::WString(s), Type::WString { bound: Some(bound) }) => {
                let length = if matches!(ty, Type::String { .. }) {
                    s.chars().count()
                } else {
                    s.encode_utf16().count()
                };
                (length > *bound as usize)
                    .then(|| format!("the string has {length} characters, more than {bound}"))
            }
            (ConstValue::Fixed(v), Type::Fixed { digits, scale }) => {
                let whole = v.digits().saturating_sub(v.scale);
                (v.scale > *scale || whole > digits - scale).then(|| {
                    format!("{} does not fit into {}", self.spec.value_name(value), self.spec.type_name(ty))
                })
            }
            (ConstValue::Integer(n), ty) => match ty.integer_range() {
                Some((least, most)) if !(least..=most).contains(n) => {
                    let name = self.spec.type_name(ty);
                    Some(format!("{n} is out of range for `{name}`, which is {least} to {most}"))
                }
                _ => None,
            },
            _ => None,
        };
        match problem {
            Some(problem) => {
                self.diagnostics.error(span, problem);
                None
            }
            None => Some(()),
        }
    }

    /// Evaluates without checking the final range. `target` is no alias.
    fn eval(&mut self, expr: &Expr, target: &Type) -> Option<ConstValue> {
        match &expr.kind {
            ExprKind::Literal(token) => {
                let value = literal::value(token, self.diagnostics)?;
                self.of_type(value, target, expr.span)
            }
            ExprKind::Strings(tokens) => {
                let (text, wide) = literal::string(tokens, self.diagnostics)?;
                let value = if wide { ConstValue::WString(text) } else { ConstValue::String(text) };
                self.of_type(value, target, expr.span)
            }
            ExprKind::Boolean(value) => self.of_type(ConstValue::Boolean(*value), target, expr.span),
            ExprKind::Name(name) => {
                let id = self.find(name)?;
                let value = match &self.spec[id].kind {
                    DefKind::Const(_) if !self.infos[id.index()].complete => return None,
                    DefKind::Const(constant) => constant.value.clone(),
                    DefKind::Enumerator(_) => ConstValue::Enumerator(id),
                    _ => {
                        let message = format!("`{name}` is {}, not a constant", self.what(id));
                        let report = Report::error(expr.span, message).also(self.span(id), "defined here");
                        self.diagnostics.push(report);
                        return None;
                    }
                };
                self.of_type(value, target, expr.span)
            }
            ExprKind::Unary(operator, inner) => {
                self.check_arithmetic(target, expr.span)?;
                let value = self.eval(inner, target)?;
                if let Some(wrapped) = arithmetic::complement_within(*operator, &value, target) {
                    let message = "`~` of this value is out of range; its lower bits are taken";
                    self.diagnostics.push(Report::lenient(Rule::Complement, expr.span, message));
                    return Some(wrapped);
                }
                let result = arithmetic::unary(*operator, value, target);
                self.arithmetic(result, expr.span)
            }
            ExprKind::Binary(first, rest) => {
                self.check_arithmetic(target, expr.span)?;
                let mut left = self.eval(first, target)?;
                for (operator, right) in rest {
                    let value = self.eval(right, target)?;
                    let result = arithmetic::binary(*operator, left, value, target);
                    left = self.arithmetic(result, expr.span.to(right.span))?;
                }
                Some(left)
            }
        }
    }

    fn arithmetic(&mut self, result: Result<ConstValue, String>, span: Span) -> Option<ConstValue> {
        result.map_err(|message| self.diagnostics.error(span, message)).ok()
    }

    fn check_arithmetic(&mut self, target: &Type, span: Span) -> Option<()> {
        let numbers = matches!(target, Type::Float | Type::Double | Type::LongDouble | Type::Fixed { .. });
        if numbers || target.is_integer() {
            return Some(());
        }
        let message =
            format!("`{}` constants cannot be computed with operators", self.spec.type_name(target));
        self.diagnostics.error(span, message);
        None
    }

    /// Checks that a value has the kind of the target type. IDL has no conversions.
    fn of_type(&mut self, value: ConstValue, target: &Type, span: Span) -> Option<ConstValue> {
        let fits = match (&value, target) {
            (ConstValue::Integer(_), ty) => ty.is_integer(),
            (ConstValue::Float(_), Type::Float | Type::Double | Type::LongDouble)
            | (ConstValue::Fixed(_), Type::Fixed { .. })
            | (ConstValue::Boolean(_), Type::Boolean)
            | (ConstValue::Char(_), Type::Char)
            | (ConstValue::WChar(_), Type::WChar)
            | (ConstValue::String(_), Type::String { .. })
            | (ConstValue::WString(_), Type::WString { .. }) => true,
            (ConstValue::Enumerator(id), Type::Named(want)) => {
                matches!(&self.spec[*id].kind, DefKind::Enumerator(e) if e.enum_ == *want)
            }
            _ => false,
        };
        if fits {
            return Some(value);
        }
        let widened = match (&value, target) {
            (ConstValue::Char(c), Type::WChar) => Some((ConstValue::WChar(*c), "L'x'")),
            (ConstValue::String(s), Type::WString { .. }) => {
                Some((ConstValue::WString(s.clone()), "L\"text\""))
            }
            _ => None,
        };
        if let Some((widened, form)) = widened {
            let message = format!("a `{}` wants a wide literal", self.spec.type_name(target));
            let report = Report::lenient(Rule::NarrowLiteral, span, message);
            self.diagnostics.push(report.hint(format!("write `{form}`")));
            return Some(widened);
        }
        let found = match &value {
            ConstValue::Integer(_) => "an integer",
            ConstValue::Float(_) => "a floating-point number",
            ConstValue::Fixed(_) => "a fixed-point number",
            ConstValue::Boolean(_) => "a boolean",
            ConstValue::Char(_) => "a character",
            ConstValue::WChar(_) => "a wide character",
            ConstValue::String(_) => "a string",
            ConstValue::WString(_) => "a wide string",
            ConstValue::Enumerator(_) => "an enumerator",
        };
        let message = format!("expected a value of type `{}`, found {found}", self.spec.type_name(target));
        let mut report = Report::error(span, message);
        report = match (&value, target) {
            (ConstValue::Integer(n), Type::Float | Type::Double | Type::LongDouble) => {
                report.hint(format!("write `{n}.0`; IDL does not convert between kinds of numbers"))
            }
            (ConstValue::Integer(_) | ConstValue::Float(_), Type::Fixed { .. }) => {
                report.hint("a fixed-point literal ends in `d`, as in `1.5d`")
            }
            (ConstValue::Integer(0 | 1), Type::Boolean) => report.hint("write `TRUE` or `FALSE`"),
            _ => report,
        };
        self.diagnostics.push(report);
        None
    }

    /// The value of an expression that may be of any type, as in annotations.
    pub(super) fn evaluate_any(&mut self, expr: &Expr) -> Option<ConstValue> {
        let ty = self.natural_type(expr);
        self.evaluate_as(expr, &ty, true)
    }

    fn natural_type(&self, expr: &Expr) -> Type {
        match &expr.kind {
            ExprKind::Literal(token) => match &*token.text {
                text if text.starts_with("L'") => Type::WChar,
                text if text.starts_with('\'') => Type::Char,
                text if text.starts_with("0x") || text.starts_with("0X") => Type::LongLong,
                text if text.ends_with(['d', 'D']) => Type::Fixed { digits: 31, scale: 31 },
                text if text.contains(['.', 'e', 'E']) => Type::Double,
                _ => Type::LongLong,
            },
            ExprKind::Strings(tokens) if tokens.first().is_some_and(|t| t.text.starts_with('L')) => {
                Type::WString { bound: None }
            }
            ExprKind::Strings(_) => Type::String { bound: None },
            ExprKind::Boolean(_) => Type::Boolean,
            ExprKind::Name(name) => match self.peek(name).map(|id| &self.spec[id].kind) {
                Some(DefKind::Const(constant)) => self.spec.resolve(&constant.ty).clone(),
                Some(DefKind::Enumerator(e)) => Type::Named(e.enum_),
                _ => Type::LongLong,
            },
            ExprKind::Unary(_, inner) => self.natural_type(inner),
            ExprKind::Binary(first, _) => self.natural_type(first),
        }
    }
}

impl Unary {
    /// Its symbol.
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Unary::Minus => "-",
            Unary::Plus => "+",
            Unary::Not => "~",
        }
    }
}

impl Binary {
    /// Its symbol.
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Binary::Or => "|",
            Binary::Xor => "^",
            Binary::And => "&",
            Binary::ShiftLeft => "<<",
            Binary::ShiftRight => ">>",
            Binary::Add => "+",
            Binary::Subtract => "-",
            Binary::Multiply => "*",
            Binary::Divide => "/",
            Binary::Remainder => "%",
        }
    }
}

//! Checks an expression against the type of the payload, and makes its program.

use super::ContentLimits;
use super::emitter::Emitter;
use super::error::ContentError;
use super::layout::scalar;
use super::parser::parse;
use super::paths::{Located, approach, locate};
use super::payload::Scalar;
use super::program::{Constant, Op, Program};
use super::syntax::{Arithmetic, Expr, ExprKind, Logical, PathPart, Relation, Unary};
use isorb_any::{Kind, TypeCode};
use std::ops::Range;

/// Compiles an expression.
///
/// # Errors
/// [`ContentError`] with the expression.
pub(super) fn compile(
    limits: ContentLimits,
    expression: &str,
    payload: &TypeCode,
) -> Result<Program, ContentError> {
    let compiled = parse(limits, expression).and_then(|expr| {
        let mut compiler = Compiler { payload, out: Emitter::new(limits) };
        compiler.condition(&expr)?;
        Ok(compiler.out.finish())
    });
    compiled.map_err(|error| error.of(expression))
}

/// The type of a part of an expression.
#[derive(Clone, PartialEq, Debug)]
enum ExprType {
    Bool,
    Int,
    Float,
    Char,
    Text,
    Enum(TypeCode),
}

impl ExprType {
    fn is_number(&self) -> bool {
        matches!(self, ExprType::Int | ExprType::Float)
    }

    fn named(&self) -> String {
        match self {
            ExprType::Bool => "a truth value".to_owned(),
            ExprType::Int => "an integer".to_owned(),
            ExprType::Float => "a float".to_owned(),
            ExprType::Char => "a character".to_owned(),
            ExprType::Text => "text".to_owned(),
            ExprType::Enum(tc) => format!("an {tc}"),
        }
    }
}

struct Compiler<'a> {
    payload: &'a TypeCode,
    out: Emitter,
}

impl Compiler<'_> {
    /// An expression that must be true or false.
    fn condition(&mut self, expr: &Expr) -> Result<(), ContentError> {
        let made = self.value(expr, None)?;
        if made != ExprType::Bool {
            let message = format!("a condition is true or false, and this is {}", made.named());
            return Err(ContentError::new(expr.range.clone(), message).hint("compare it"));
        }
        match expr.kind {
            ExprKind::Path(_) => self.out.emit(Op::Truth, &expr.range),
            _ => Ok(()),
        }
    }

    /// Any expression. A bare name may be an enumerator of `labels`.
    fn value(&mut self, expr: &Expr, labels: Option<&TypeCode>) -> Result<ExprType, ContentError> {
        let range = &expr.range;
        match &expr.kind {
            ExprKind::Bool(value) => {
                self.out.constant(Constant::Int((*value).into()), range)?;
                Ok(ExprType::Bool)
            }
            ExprKind::Int(value) => {
                self.out.constant(Constant::Int((*value).into()), range)?;
                Ok(ExprType::Int)
            }
            ExprKind::Float(value) => {
                self.out.constant(Constant::Float(*value), range)?;
                Ok(ExprType::Float)
            }
            ExprKind::Text(text) => {
                self.out.constant(Constant::Text(text.clone()), range)?;
                Ok(ExprType::Text)
            }
            ExprKind::Char(value) if value.is_ascii() => {
                self.out.constant(Constant::Int(u32::from(*value).into()), range)?;
                Ok(ExprType::Char)
            }
            ExprKind::Char(_) => Err(ContentError::new(range.clone(), "a char of IDL is an ASCII character")),
            ExprKind::Path(path) => self.path(path, range, labels),
            ExprKind::Length(path) => self.length(path, range),
            ExprKind::StartsWith(text, prefix) => {
                for part in [text, prefix] {
                    let made = self.value(part, None)?;
                    if made != ExprType::Text {
                        let message = format!("`starts_with` takes text, and this is {}", made.named());
                        return Err(ContentError::new(part.range.clone(), message));
                    }
                }
                self.out.emit(Op::StartsWith, range)?;
                Ok(ExprType::Bool)
            }
            ExprKind::Not(of) => {
                self.condition(of)?;
                self.out.emit(Op::Not, range)?;
                Ok(ExprType::Bool)
            }
            ExprKind::Unary(operator, of) => self.unary(*operator, of, range),
            ExprKind::Arithmetic(operator, left, right) => self.arithmetic(*operator, left, right, range),
            ExprKind::Compare(relation, left, right) => self.compare(*relation, left, right, range),
            ExprKind::Logical(operator, terms) => self.logical(*operator, terms, range),
        }
    }

    fn path(
        &mut self,
        path: &[PathPart],
        range: &Range<usize>,
        labels: Option<&TypeCode>,
    ) -> Result<ExprType, ContentError> {
        if let (Some(tc), [PathPart::Member(name, _)]) = (labels, path)
            && let Some(index) = enumerator(tc, name)
        {
            self.out.constant(Constant::Int(index.into()), range)?;
            return Ok(ExprType::Enum(tc.clone()));
        }
        let located = locate(self.payload, path)?;
        self.load(&located, range)
    }

    fn load(&mut self, located: &Located, range: &Range<usize>) -> Result<ExprType, ContentError> {
        let tc = &located.tc;
        let made = match (tc.kind(), scalar(tc)) {
            (Kind::String | Kind::WString, _) => ExprType::Text,
            (_, Some(Scalar::Boolean)) => ExprType::Bool,
            (_, Some(Scalar::Char)) => ExprType::Char,
            (_, Some(Scalar::Float | Scalar::Double | Scalar::LongDouble)) => ExprType::Float,
            (_, Some(Scalar::Enum(_))) => ExprType::Enum(tc.clone()),
            (_, Some(_)) => ExprType::Int,
            (_, None) => return Err(no_value(located)),
        };
        let mut cursor = approach(&mut self.out, located)?;
        match (scalar(tc), cursor.known()) {
            (Some(scalar), Some(at)) => self.out.emit(Op::LoadAt(at, scalar), range)?,
            (Some(scalar), None) => self.out.emit(Op::Load(scalar), range)?,
            (None, _) => {
                cursor.settle(&mut self.out, range)?;
                self.out.emit(Op::LoadText { wide: tc.kind() == Kind::WString }, range)?;
            }
        }
        cursor.finish(&mut self.out);
        Ok(made)
    }

    fn length(&mut self, path: &[PathPart], range: &Range<usize>) -> Result<ExprType, ContentError> {
        let located = locate(self.payload, path)?;
        match located.tc.kind() {
            Kind::String | Kind::WString => {
                self.load(&located, range)?;
                self.out.emit(Op::CountChars, range)?;
            }
            Kind::Sequence => {
                let mut cursor = approach(&mut self.out, &located)?;
                cursor.settle(&mut self.out, range)?;
                self.out.emit(Op::LoadCount, range)?;
                cursor.finish(&mut self.out);
            }
            Kind::Array => {
                let length = located.tc.length().unwrap_or(0);
                let before = self.out.next();
                let cursor = approach(&mut self.out, &located)?;
                if !cursor.may_be_absent() {
                    // The type alone says it.
                    self.out.truncate(before);
                }
                self.out.constant(Constant::Int(length.into()), range)?;
                cursor.finish(&mut self.out);
            }
            _ => {
                let message = format!("`len` takes a sequence or text, and this is {}", article(&located.tc));
                return Err(ContentError::new(located.range(), message));
            }
        }
        Ok(ExprType::Int)
    }

    fn number(&mut self, expr: &Expr, whole: bool) -> Result<ExprType, ContentError> {
        let made = self.value(expr, None)?;
        if made == ExprType::Int || made.is_number() && !whole {
            return Ok(made);
        }
        let wanted = if whole { "an integer" } else { "a number" };
        let message = format!("the operator takes {wanted}, and this is {}", made.named());
        Err(ContentError::new(expr.range.clone(), message))
    }

    fn unary(&mut self, operator: Unary, of: &Expr, range: &Range<usize>) -> Result<ExprType, ContentError> {
        let made = self.number(of, operator == Unary::Complement)?;
        let op = if operator == Unary::Negate { Op::Negate } else { Op::Complement };
        self.out.emit(op, range)?;
        Ok(made)
    }

    fn arithmetic(
        &mut self,
        operator: Arithmetic,
        left: &Expr,
        right: &Expr,
        range: &Range<usize>,
    ) -> Result<ExprType, ContentError> {
        use Arithmetic::{Add, Divide, Multiply, Remainder, Subtract};
        let whole = !matches!(operator, Add | Subtract | Multiply | Divide | Remainder);
        let sides = [self.number(left, whole)?, self.number(right, whole)?];
        self.out.emit(Op::Compute(operator), range)?;
        Ok(if sides.contains(&ExprType::Float) { ExprType::Float } else { ExprType::Int })
    }

    /// The enumeration of a side: the other side may name its enumerators.
    fn labels(&self, side: &Expr) -> Option<TypeCode> {
        let ExprKind::Path(path) = &side.kind else { return None };
        let located = locate(self.payload, path).ok()?;
        (located.tc.kind() == Kind::Enum).then_some(located.tc)
    }

    fn compare(
        &mut self,
        relation: Relation,
        left: &Expr,
        right: &Expr,
        range: &Range<usize>,
    ) -> Result<ExprType, ContentError> {
        let (of_left, of_right) = (self.labels(left), self.labels(right));
        let one = self.value(left, of_right.as_ref())?;
        let other = self.value_or_label(right, of_left.as_ref())?;
        let comparable = one == other || one.is_number() && other.is_number();
        if !comparable {
            let message = format!("{} is compared with {}", one.named(), other.named());
            return Err(ContentError::new(range.clone(), message));
        }
        if one == ExprType::Bool && !matches!(relation, Relation::Equal | Relation::NotEqual) {
            return Err(ContentError::new(range.clone(), "truth values have no order"));
        }
        self.out.emit(Op::Compare(relation), range)?;
        Ok(ExprType::Bool)
    }

    /// As [`value`](Self::value), with a message for a name that is no enumerator.
    fn value_or_label(&mut self, expr: &Expr, labels: Option<&TypeCode>) -> Result<ExprType, ContentError> {
        let made = self.value(expr, labels);
        match (made, labels, &expr.kind) {
            (Err(error), Some(tc), ExprKind::Path(path)) if path.len() == 1 => {
                let names = (0..tc.member_count().unwrap_or(0)).filter_map(|i| tc.member_name(i).ok());
                let names: Vec<&str> = names.take(16).collect();
                Err(error.hint(format!("the enumerators of {tc} are {}", names.join(", "))))
            }
            (made, ..) => made,
        }
    }

    fn logical(
        &mut self,
        operator: Logical,
        terms: &[Expr],
        range: &Range<usize>,
    ) -> Result<ExprType, ContentError> {
        let mut ends = Vec::new();
        for (at, term) in terms.iter().enumerate() {
            self.condition(term)?;
            if at + 1 < terms.len() {
                ends.push(self.out.next());
                self.out.emit(Op::Short { truth: operator == Logical::Or, end: 0 }, range)?;
            }
        }
        let end = self.out.next();
        ends.into_iter().for_each(|at| self.out.patch(at, end));
        Ok(ExprType::Bool)
    }
}

fn enumerator(tc: &TypeCode, name: &str) -> Option<u32> {
    (0..tc.member_count().ok()?).find(|index| tc.member_name(*index) == Ok(name))
}

fn article(tc: &TypeCode) -> String {
    format!("of type {tc}")
}

fn no_value(located: &Located) -> ContentError {
    let tc = &located.tc;
    let error = ContentError::new(located.range(), format!("a {tc} cannot be compared"));
    match tc.kind() {
        Kind::Struct => error.hint("name one of its members"),
        Kind::Union => error.hint("name one of its members, or `_d` for its discriminator"),
        Kind::Sequence | Kind::Array => error.hint("name an element, `points[0]`, or take `len(points)`"),
        _ => error,
    }
}

//! The instructions of a content filter, and their evaluation.

use super::layout::Layouts;
use super::payload::{Payload, PayloadError, Scalar, Text, Value};
use super::syntax::{Arithmetic, Relation};
use std::cmp::Ordering;

/// The most values that an expression holds at a time.
pub(super) const MAX_OPERANDS: usize = 16;

/// An instruction. Jumps go forward only.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    /// Reads from this position on.
    GoTo(u32),
    /// Passes a range of members.
    Pass {
        first: u32,
        last: u32,
    },
    /// Goes to an element. A sequence that ends before it gives an absent value, at `absent`.
    Element {
        shape: u32,
        index: u32,
        counted: bool,
        absent: u32,
    },
    /// Goes to the member of a union. Another branch gives an absent value, at `absent`.
    Case {
        choice: u32,
        case: u32,
        absent: u32,
    },
    /// Reads a value.
    Load(Scalar),
    /// Reads a value at this position.
    LoadAt(u32, Scalar),
    LoadText {
        wide: bool,
    },
    /// Reads the number of elements of a sequence.
    LoadCount,
    /// The number of characters of a text.
    CountChars,
    Constant(u32),
    Negate,
    Complement,
    Compute(Arithmetic),
    Compare(Relation),
    StartsWith,
    /// Makes false of an absent value.
    Truth,
    Not,
    /// Leaves a value that is `truth` and goes on at `end`, or drops it.
    Short {
        truth: bool,
        end: u32,
    },
}

pub(super) enum Constant {
    Int(i128),
    Float(f64),
    Text(String),
}

pub(super) struct Program {
    pub ops: Vec<Op>,
    pub constants: Vec<Constant>,
    pub layouts: Layouts,
    pub steps: u32,
}

struct Stack<'a> {
    values: [Value<'a>; MAX_OPERANDS],
    used: usize,
}

impl<'a> Stack<'a> {
    #[inline]
    fn push(&mut self, value: Value<'a>) {
        // The compiler has checked that it has room.
        if let Some(slot) = self.values.get_mut(self.used) {
            *slot = value;
            self.used += 1;
        }
    }

    #[inline]
    fn pop(&mut self) -> Value<'a> {
        self.used = self.used.saturating_sub(1);
        self.values.get(self.used).copied().unwrap_or(Value::Absent)
    }

    #[inline]
    fn pop_truth(&mut self) -> bool {
        matches!(self.pop(), Value::Int(truth) if truth != 0)
    }

    #[inline]
    fn push_truth(&mut self, truth: bool) {
        self.push(Value::Int(truth.into()));
    }
}

impl Program {
    /// Judges a payload.
    pub(super) fn run(&self, octets: &[u8]) -> Result<bool, PayloadError> {
        let mut payload = Payload::new(octets, self.steps)?;
        let mut stack = Stack { values: [Value::Absent; MAX_OPERANDS], used: 0 };
        let mut next = 0;
        while let Some(op) = self.ops.get(next) {
            next += 1;
            match *op {
                Op::GoTo(at) => payload.go_to(at),
                Op::Pass { first, last } => {
                    for member in self.layouts.members(first, last) {
                        payload.pass(&self.layouts, *member, 1)?;
                    }
                }
                Op::Element { shape, index, counted, absent } => {
                    if counted && index >= payload.count()? {
                        stack.push(Value::Absent);
                        next = absent as usize;
                    } else {
                        payload.pass(&self.layouts, shape, index)?;
                    }
                }
                Op::Case { choice, case, absent } => {
                    if payload.case(&self.layouts, choice)? != Some(case as usize) {
                        stack.push(Value::Absent);
                        next = absent as usize;
                    }
                }
                Op::Load(scalar) => stack.push(payload.scalar(scalar)?),
                Op::LoadAt(at, scalar) => {
                    payload.go_to(at);
                    stack.push(payload.scalar(scalar)?);
                }
                Op::LoadText { wide } => stack.push(Value::Text(payload.text(wide)?)),
                Op::LoadCount => stack.push(Value::Int(payload.count()?.into())),
                Op::CountChars => {
                    let count = match stack.pop() {
                        Value::Text(text) => Value::Int(text.chars().count() as i128),
                        _ => Value::Absent,
                    };
                    stack.push(count);
                }
                Op::Constant(constant) => stack.push(match self.constants.get(constant as usize) {
                    Some(Constant::Int(value)) => Value::Int(*value),
                    Some(Constant::Float(value)) => Value::Float(*value),
                    Some(Constant::Text(text)) => Value::Text(Text::Utf8(text.as_bytes())),
                    None => Value::Absent,
                }),
                Op::Negate => {
                    let negated = match stack.pop() {
                        Value::Int(value) => value.checked_neg().map_or(Value::Absent, Value::Int),
                        Value::Float(value) => Value::Float(-value),
                        other => other,
                    };
                    stack.push(negated);
                }
                Op::Complement => {
                    let complement = match stack.pop() {
                        Value::Int(value) => Value::Int(!value),
                        _ => Value::Absent,
                    };
                    stack.push(complement);
                }
                Op::Compute(operator) => {
                    let right = stack.pop();
                    let left = stack.pop();
                    stack.push(compute(operator, left, right));
                }
                Op::Compare(relation) => {
                    let right = stack.pop();
                    let left = stack.pop();
                    stack.push_truth(compare(relation, left, right));
                }
                Op::StartsWith => {
                    let prefix = stack.pop();
                    let text = stack.pop();
                    stack.push_truth(starts_with(text, prefix));
                }
                Op::Truth => {
                    let truth = stack.pop_truth();
                    stack.push_truth(truth);
                }
                Op::Not => {
                    let truth = stack.pop_truth();
                    stack.push_truth(!truth);
                }
                Op::Short { truth, end } => {
                    if stack.pop_truth() == truth {
                        stack.push_truth(truth);
                        next = end as usize;
                    }
                }
            }
        }
        Ok(stack.pop_truth())
    }
}

/// The value of a number as a float.
fn float(value: Value<'_>) -> Option<f64> {
    match value {
        Value::Int(value) => Some(value as f64),
        Value::Float(value) => Some(value),
        Value::Absent | Value::Text(_) => None,
    }
}

fn compute<'a>(operator: Arithmetic, left: Value<'a>, right: Value<'a>) -> Value<'a> {
    if let (Value::Int(left), Value::Int(right)) = (left, right) {
        let shift = u32::try_from(right).ok().filter(|shift| *shift < 64);
        let result = match operator {
            Arithmetic::Add => left.checked_add(right),
            Arithmetic::Subtract => left.checked_sub(right),
            Arithmetic::Multiply => left.checked_mul(right),
            Arithmetic::Divide => left.checked_div(right),
            Arithmetic::Remainder => left.checked_rem(right),
            Arithmetic::And => Some(left & right),
            Arithmetic::Or => Some(left | right),
            Arithmetic::Xor => Some(left ^ right),
            Arithmetic::ShiftLeft => shift.and_then(|shift| left.checked_mul(1 << shift)),
            Arithmetic::ShiftRight => shift.map(|shift| left >> shift),
        };
        return result.map_or(Value::Absent, Value::Int);
    }
    let (Some(left), Some(right)) = (float(left), float(right)) else { return Value::Absent };
    Value::Float(match operator {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide => left / right,
        Arithmetic::Remainder => left % right,
        _ => return Value::Absent,
    })
}

fn compare(relation: Relation, left: Value<'_>, right: Value<'_>) -> bool {
    let order = match (left, right) {
        (Value::Absent, _) | (_, Value::Absent) => return false,
        (Value::Int(left), Value::Int(right)) => Some(left.cmp(&right)),
        // The order of octets in UTF-8 is that of the characters.
        (Value::Text(Text::Utf8(left)), Value::Text(Text::Utf8(right))) => Some(left.cmp(right)),
        (Value::Text(left), Value::Text(right)) => Some(left.chars().cmp(right.chars())),
        (left, right) => match (float(left), float(right)) {
            (Some(left), Some(right)) => left.partial_cmp(&right),
            _ => return false,
        },
    };
    match relation {
        Relation::Equal => order == Some(Ordering::Equal),
        Relation::NotEqual => order != Some(Ordering::Equal),
        Relation::Less => order == Some(Ordering::Less),
        Relation::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        Relation::Greater => order == Some(Ordering::Greater),
        Relation::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
    }
}

fn starts_with(text: Value<'_>, prefix: Value<'_>) -> bool {
    match (text, prefix) {
        (Value::Text(Text::Utf8(text)), Value::Text(Text::Utf8(prefix))) => text.starts_with(prefix),
        (Value::Text(text), Value::Text(prefix)) => {
            let mut text = text.chars();
            prefix.chars().all(|c| text.next() == Some(c))
        }
        _ => false,
    }
}

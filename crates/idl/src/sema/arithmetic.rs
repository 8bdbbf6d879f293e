//! The operators of constant expressions.
//!
//! Integers are computed exactly and checked after each step against the width that IDL computes
//! the target's type in: 32 bits for everything up to `long`, else 64; with or without sign.

use super::fixed;
use crate::model::{ConstValue, Type};
use crate::syntax::ast::{Binary, Unary};

type Computed = Result<ConstValue, String>;

/// Applies a unary operator to a value of the target's kind.
pub(super) fn unary(operator: Unary, value: ConstValue, target: &Type) -> Computed {
    match (operator, value) {
        (Unary::Plus, value) => Ok(value),
        (Unary::Minus, ConstValue::Integer(n)) => within(-n, target),
        (Unary::Minus, ConstValue::Float(f)) => Ok(ConstValue::Float(-f)),
        (Unary::Minus, ConstValue::Fixed(f)) => Ok(ConstValue::Fixed(fixed::negate(f))),
        (Unary::Not, ConstValue::Integer(n)) => {
            // The complement within the width of the type: all ones less the value for an unsigned
            // one.
            match target.integer_range() {
                Some((0, most)) if (0..=most).contains(&n) => Ok(ConstValue::Integer(most - n)),
                _ => within(!n, target),
            }
        }
        _ => Err(format!("`{}` applies to integers only", operator.symbol())),
    }
}

/// The complement of a value that has the bits of a number of the target's width, but is out of its
/// range: `~0xffffffff` as a `long`. `None` for all else.
pub(super) fn complement_within(operator: Unary, value: &ConstValue, target: &Type) -> Option<ConstValue> {
    let (Unary::Not, ConstValue::Integer(n)) = (operator, value) else { return None };
    let (least, most) = target.integer_range().filter(|(least, _)| *least < 0)?;
    let span = most - least + 1;
    (most + 1..span).contains(n).then(|| ConstValue::Integer(!n + span))
}

/// Applies a binary operator to two values of the target's kind.
pub(super) fn binary(operator: Binary, left: ConstValue, right: ConstValue, target: &Type) -> Computed {
    match (left, right) {
        (ConstValue::Integer(a), ConstValue::Integer(b)) => within(integers(operator, a, b)?, target),
        (ConstValue::Float(a), ConstValue::Float(b)) => floats(operator, a, b),
        (ConstValue::Fixed(a), ConstValue::Fixed(b)) => {
            let result = match operator {
                Binary::Add => fixed::add(a, b),
                Binary::Subtract => fixed::add(a, fixed::negate(b)),
                Binary::Multiply => fixed::multiply(a, b),
                Binary::Divide if b.unscaled == 0 => return Err("division by zero".to_owned()),
                Binary::Divide => fixed::divide(a, b),
                _ => return Err(format!("`{}` does not apply to fixed-point numbers", operator.symbol())),
            };
            result.map(ConstValue::Fixed).ok_or_else(|| "the result has more than 31 digits".to_owned())
        }
        _ => Err(format!("the operands of `{}` are of different kinds", operator.symbol())),
    }
}

fn integers(operator: Binary, a: i128, b: i128) -> Result<i128, String> {
    let shift = || match u32::try_from(b) {
        Ok(n) if n < 64 => Ok(n),
        _ => Err(format!("a shift is by 0 to 63 bits, not {b}")),
    };
    // Both operands fit 65 bits, so only a shift can exceed 128 bits, and it is checked.
    Ok(match operator {
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        Binary::And => a & b,
        Binary::ShiftLeft => a.checked_mul(1 << shift()?).ok_or("the result does not fit into 64 bits")?,
        Binary::ShiftRight => a >> shift()?,
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => a.checked_mul(b).ok_or("the result does not fit into 64 bits")?,
        Binary::Divide | Binary::Remainder if b == 0 => return Err("division by zero".to_owned()),
        Binary::Divide => a / b,
        Binary::Remainder => a % b,
    })
}

fn within(value: i128, target: &Type) -> Computed {
    let wide = matches!(target, Type::LongLong | Type::ULongLong);
    let (least, most, bits) = if wide {
        (i128::from(i64::MIN), i128::from(u64::MAX), 64)
    } else {
        (i128::from(i32::MIN), i128::from(u32::MAX), 32)
    };
    if (least..=most).contains(&value) {
        Ok(ConstValue::Integer(value))
    } else {
        Err(format!("the result, {value}, does not fit into {bits} bits"))
    }
}

fn floats(operator: Binary, a: f64, b: f64) -> Computed {
    let result = match operator {
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => a * b,
        Binary::Divide if b == 0.0 => return Err("division by zero".to_owned()),
        Binary::Divide => a / b,
        _ => return Err(format!("`{}` applies to integers only", operator.symbol())),
    };
    if result.is_finite() { Ok(ConstValue::Float(result)) } else { Err("the result is too large".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(operator: Binary, a: i128, b: i128, ty: &Type) -> Option<i128> {
        match binary(operator, ConstValue::Integer(a), ConstValue::Integer(b), ty) {
            Ok(ConstValue::Integer(n)) => Some(n),
            _ => None,
        }
    }

    #[test]
    fn integers_are_computed_in_the_width_of_the_target() {
        assert_eq!(int(Binary::Add, u32::MAX.into(), 1, &Type::Long), None);
        assert_eq!(int(Binary::Add, u32::MAX.into(), 1, &Type::LongLong), Some(1 << 32));
        assert_eq!(int(Binary::Divide, -7, 2, &Type::Long), Some(-3));
        assert_eq!(int(Binary::Remainder, -7, 2, &Type::Long), Some(-1));
        assert_eq!(int(Binary::Divide, 7, 0, &Type::Long), None);
        assert_eq!(int(Binary::ShiftLeft, 1, 63, &Type::ULongLong), Some(1 << 63));
        assert_eq!(int(Binary::ShiftLeft, 1, 64, &Type::ULongLong), None);
        assert_eq!(int(Binary::ShiftLeft, u64::MAX.into(), 63, &Type::ULongLong), None);
        assert_eq!(int(Binary::ShiftRight, -8, 1, &Type::Long), Some(-4));
    }

    #[test]
    fn complement_stays_in_the_type() {
        let not = |n, ty: &Type| unary(Unary::Not, ConstValue::Integer(n), ty);
        assert_eq!(not(0, &Type::UShort), Ok(ConstValue::Integer(0xffff)));
        assert_eq!(not(0, &Type::Long), Ok(ConstValue::Integer(-1)));
        assert_eq!(not(1, &Type::ULongLong), Ok(ConstValue::Integer(i128::from(u64::MAX) - 1)));
    }
}

//! Decimal fixed-point arithmetic (CORBA 3.3 part 1, clause 7.10.2): exact with twice the digits,
//! then cut to 31, the fraction first. A result with a longer integral part has no value.

use crate::model::FixedValue;
use crate::syntax::literal::FIXED_DIGITS;
use std::cmp::Ordering;

/// Digits of an intermediate result.
const WORKING_DIGITS: usize = 2 * FIXED_DIGITS;

impl FixedValue {
    /// Significant digits of the number without its sign; 0 for zero.
    pub(crate) fn digits(self) -> u16 {
        match self.unscaled.unsigned_abs().checked_ilog10() {
            Some(log) => log as u16 + 1,
            None => 0,
        }
    }
}

pub(super) fn negate(value: FixedValue) -> FixedValue {
    FixedValue { unscaled: -value.unscaled, ..value }
}

pub(super) fn add(a: FixedValue, b: FixedValue) -> Option<FixedValue> {
    let scale = a.scale.max(b.scale);
    let (x, y) = (magnitude(a, scale), magnitude(b, scale));
    let (negative, digits) = match (a.unscaled < 0, b.unscaled < 0) {
        (sign, other) if sign == other => (sign, plus(&x, &y)),
        (sign, _) => match compare(&x, &y) {
            Ordering::Less => (!sign, minus(&y, &x)),
            _ => (sign, minus(&x, &y)),
        },
    };
    cut(negative, digits, scale.into())
}

pub(super) fn multiply(a: FixedValue, b: FixedValue) -> Option<FixedValue> {
    let (x, y) = (magnitude(a, a.scale), magnitude(b, b.scale));
    let mut digits = vec![0_u32; x.len() + y.len()];
    for (i, &p) in x.iter().enumerate() {
        for (j, &q) in y.iter().enumerate() {
            digits[i + j] += u32::from(p) * u32::from(q);
        }
    }
    let mut carry = 0;
    let carried = digits.into_iter().map(|d| {
        let sum = d + carry;
        carry = sum / 10;
        (sum % 10) as u8
    });
    let digits = carried.collect();
    cut((a.unscaled < 0) != (b.unscaled < 0), digits, usize::from(a.scale + b.scale))
}

/// `b` is not zero.
pub(super) fn divide(a: FixedValue, b: FixedValue) -> Option<FixedValue> {
    let (x, y) = (magnitude(a, a.scale), magnitude(b, b.scale));
    // Long division, most significant digit first: through all of `a`, then on into the fraction.
    let mut quotient = Vec::new();
    let mut rest = Vec::new();
    let mut scale = isize::from(a.scale as i16) - isize::from(b.scale as i16);
    let mut whole = x.iter().rev();
    loop {
        match whole.next() {
            Some(&digit) => rest.insert(0, digit),
            None if (scale >= 0 && is_zero(&rest)) || significant(&quotient) >= WORKING_DIGITS => break,
            None => {
                rest.insert(0, 0);
                scale += 1;
            }
        }
        let mut digit = 0;
        while compare(&rest, &y) != Ordering::Less {
            rest = minus(&rest, &y);
            digit += 1;
        }
        quotient.push(digit);
    }
    quotient.reverse();
    cut((a.unscaled < 0) != (b.unscaled < 0), quotient, usize::try_from(scale).ok()?)
}

/// Decimal digits, least significant first.
fn magnitude(value: FixedValue, scale: u16) -> Vec<u8> {
    let mut digits = vec![0; usize::from(scale - value.scale)];
    let mut left = value.unscaled.unsigned_abs();
    while left > 0 {
        digits.push((left % 10) as u8);
        left /= 10;
    }
    digits
}

fn is_zero(digits: &[u8]) -> bool {
    digits.iter().all(|&d| d == 0)
}

/// Digits after the leading zeros of a number written most significant digit first.
fn significant(digits: &[u8]) -> usize {
    digits.iter().skip_while(|d| **d == 0).count()
}

fn compare(x: &[u8], y: &[u8]) -> Ordering {
    let at = |digits: &[u8], i: usize| digits.get(i).copied().unwrap_or(0);
    let length = x.len().max(y.len());
    (0..length).rev().map(|i| at(x, i).cmp(&at(y, i))).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
}

fn plus(x: &[u8], y: &[u8]) -> Vec<u8> {
    let mut carry = 0;
    let mut sum: Vec<u8> = (0..x.len().max(y.len()))
        .map(|i| {
            let digit = x.get(i).unwrap_or(&0) + y.get(i).unwrap_or(&0) + carry;
            carry = digit / 10;
            digit % 10
        })
        .collect();
    sum.push(carry);
    sum
}

/// `x` is not less than `y`.
fn minus(x: &[u8], y: &[u8]) -> Vec<u8> {
    let mut borrow = 0;
    let difference = x.iter().enumerate().map(|(i, &digit)| {
        let take = y.get(i).unwrap_or(&0) + borrow;
        borrow = u8::from(digit < take);
        digit + 10 * borrow - take
    });
    let mut difference: Vec<u8> = difference.collect();
    while difference.last() == Some(&0) {
        difference.pop();
    }
    difference
}

/// Cuts a result to what a fixed-point value can hold.
fn cut(negative: bool, mut digits: Vec<u8>, mut scale: usize) -> Option<FixedValue> {
    while digits.len() > scale && digits.last() == Some(&0) {
        digits.pop();
    }
    digits.resize(digits.len().max(scale), 0);
    if digits.len() - scale > FIXED_DIGITS {
        return None;
    }
    let excess = digits.len().saturating_sub(FIXED_DIGITS);
    let zeros = digits[excess..scale.max(excess)].iter().take_while(|d| **d == 0).count();
    let drop = excess + zeros;
    digits.drain(..drop);
    scale -= drop;
    let unscaled = digits.iter().rev().fold(0_i128, |n, &d| n * 10 + i128::from(d));
    Some(FixedValue { unscaled: if negative { -unscaled } else { unscaled }, scale: scale as u16 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed(text: &str) -> FixedValue {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let unscaled = format!("{whole}{fraction}").parse().expect("digits");
        FixedValue { unscaled, scale: fraction.len() as u16 }
    }

    #[test]
    fn adds_with_signs_and_scales() {
        assert_eq!(add(fixed("1.5"), fixed("0.25")), Some(fixed("1.75")));
        assert_eq!(add(fixed("1.5"), fixed("-2.75")), Some(fixed("-1.25")));
        assert_eq!(add(fixed("-1.5"), fixed("1.5")), Some(fixed("0")));
        assert_eq!(add(fixed("9.5"), fixed("0.5")), Some(fixed("10")));
        let most = fixed("9999999999999999999999999999999");
        assert_eq!(add(most, fixed("1")), None);
        assert_eq!(add(most, fixed("0.5")), Some(most));
    }

    #[test]
    fn multiplies_beyond_31_digits_and_cuts_the_fraction() {
        assert_eq!(multiply(fixed("1.5"), fixed("-0.2")), Some(fixed("-0.3")));
        assert_eq!(multiply(fixed("0"), fixed("12.5")), Some(fixed("0")));
        let tiny = fixed("0.0000000000000000000000000000001");
        assert_eq!(multiply(tiny, tiny), Some(fixed("0")));
        let big = fixed("9999999999999999");
        assert_eq!(multiply(big, big), None);
    }

    #[test]
    fn divides_until_it_ends_or_the_digits_do() {
        assert_eq!(divide(fixed("1"), fixed("8")), Some(fixed("0.125")));
        assert_eq!(divide(fixed("-10"), fixed("4")), Some(fixed("-2.5")));
        assert_eq!(divide(fixed("0"), fixed("3")), Some(fixed("0")));
        assert_eq!(divide(fixed("5"), fixed("0.001")), Some(fixed("5000")));
        assert_eq!(divide(fixed("10"), fixed("3")), Some(fixed("3.333333333333333333333333333333")));
        assert_eq!(divide(fixed("3"), fixed("1.5")), Some(fixed("2")));
    }
}

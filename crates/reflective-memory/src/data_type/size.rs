//! The largest value of a type in CDR.

use isorb_any::{Kind, TypeCode};

/// Octets of the largest value of a type; none where it has no bound, such as an unbounded string.
pub fn largest_value(type_code: &TypeCode) -> Option<usize> {
    end(type_code, 0, 0)
}

/// Nested types beyond this depth have no bound.
const DEPTH: usize = 32;

/// Where a value that begins at `at` ends at the latest.
fn end(type_code: &TypeCode, at: usize, depth: usize) -> Option<usize> {
    if depth == DEPTH {
        return None;
    }
    let type_code = type_code.original();
    let member = |index| type_code.member_type(index).ok();
    let count = type_code.member_count().unwrap_or(0);
    match type_code.kind() {
        Kind::Null | Kind::Void => Some(at),
        Kind::Octet | Kind::Boolean | Kind::Char => at.checked_add(1),
        Kind::Short | Kind::UShort => plain(at, 2),
        Kind::Long | Kind::ULong | Kind::Float | Kind::Enum => plain(at, 4),
        Kind::LongLong | Kind::ULongLong | Kind::Double => plain(at, 8),
        Kind::LongDouble => plain(at, 8)?.checked_add(8),
        Kind::Fixed => at.checked_add(usize::from(type_code.fixed_digits().ok()?) / 2 + 1),
        Kind::Struct => (0..count).try_fold(at, |at, index| end(&member(index)?, at, depth + 1)),
        Kind::Union => {
            let at = end(&type_code.discriminator_type().ok()?, at, depth + 1)?;
            (0..count).try_fold(at, |most, index| Some(most.max(end(&member(index)?, at, depth + 1)?)))
        }
        Kind::String => match type_code.length().ok()? {
            0 => None,
            // In UTF-8 a character of the bound takes an octet.
            bound => plain(at, 4)?.checked_add(bound as usize)?.checked_add(1),
        },
        Kind::Sequence => match type_code.length().ok()? {
            0 => None,
            bound => repeated(&type_code, bound, plain(at, 4)?, depth),
        },
        Kind::Array => repeated(&type_code, type_code.length().ok()?, at, depth),
        _ => None,
    }
}

fn plain(at: usize, size: usize) -> Option<usize> {
    at.checked_next_multiple_of(size)?.checked_add(size)
}

/// How far an element advances depends only on the alignment at which it begins.
fn repeated(type_code: &TypeCode, elements: u32, mut at: usize, depth: usize) -> Option<usize> {
    let element = type_code.content_type().ok()?;
    let mut steps = [None; 8];
    for _ in 0..elements {
        let step = match steps[at % 8] {
            Some(step) => step,
            None => *steps[at % 8].insert(end(&element, at % 8, depth + 1)? - at % 8),
        };
        at = at.checked_add(step).filter(|at| *at <= crate::memory::MAX_SIZE)?;
        if step == 0 {
            break;
        }
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_cdr() {
        let of = |members: &[(&str, TypeCode)]| TypeCode::new_struct("IDL:S:1.0", "S", members).unwrap();
        let mixed = of(&[("a", TypeCode::OCTET), ("b", TypeCode::DOUBLE), ("c", TypeCode::SHORT)]);
        assert_eq!(largest_value(&mixed), Some(18));
        // The second element begins at 18, its double at 24.
        let pair = TypeCode::array(&mixed, 3).unwrap();
        assert_eq!(largest_value(&pair), Some(24 + 8 + 2 + 6 + 8 + 2));
        assert_eq!(largest_value(&TypeCode::string(10)), Some(15));
        assert_eq!(largest_value(&TypeCode::sequence(&TypeCode::DOUBLE, 4).unwrap()), Some(40));
        for unbounded in [TypeCode::STRING, TypeCode::ANY, TypeCode::sequence(&TypeCode::OCTET, 0).unwrap()] {
            assert_eq!(largest_value(&of(&[("x", unbounded)])), None);
        }
        let huge = TypeCode::array(&TypeCode::DOUBLE, u32::MAX).unwrap();
        assert_eq!(largest_value(&huge), None, "larger than an area");
    }
}

//! Hints to the compiler about branches on the path of a call.

use std::hint::cold_path;

/// Returns the value, which is nearly always there. The compiler then places the code for `None`
/// away from the path of a call, so that it takes no cache lines there.
#[inline(always)]
pub(crate) fn hot<T>(value: Option<T>) -> Option<T> {
    if value.is_none() {
        cold_path();
    }
    value
}

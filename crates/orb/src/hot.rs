//! What the compiler is told of branches on the path of a call.

use std::hint::cold_path;

/// The value, which is nearly always there: what is done without it is laid out away from the path of a call. Code that is not run
/// would take up cache lines between code that is.
#[inline(always)]
pub(crate) fn hot<T>(value: Option<T>) -> Option<T> {
    if value.is_none() {
        cold_path();
    }
    value
}

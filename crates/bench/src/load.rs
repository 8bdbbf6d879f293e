//! Work that a server does for a call.

use std::hint::black_box;

/// Keeps the processor busy for `units`, each about a microsecond on a processor of the 2020s.
/// Always the same computation, so that a thread which is interrupted has as much left to do as
/// before; a loop that looks at a clock would get its work done by waiting.
pub fn work(units: i32) {
    /// Each takes the result of the one before.
    const STEPS: u32 = 600;
    let mut x = 0x2545_f491u32;
    for _ in 0..u64::from(units.max(0).unsigned_abs()) * u64::from(STEPS) {
        x = black_box(x.rotate_left(5) ^ 0x9e37_79b9).wrapping_mul(5);
    }
    black_box(x);
}

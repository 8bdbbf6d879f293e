//! Waiting for other threads and processes without asserting how long they take.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// A wait that lasts longer counts as a hang. Generous, since the machine may be busy.
pub const HANG_LIMIT: Duration = Duration::from_secs(300);

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// Waits until the condition holds.
///
/// # Panics
/// After [`HANG_LIMIT`], with a message that names `what`.
#[track_caller]
pub fn wait_until(what: impl Display, mut condition: impl FnMut() -> bool) {
    retry(what, || if condition() { Ok(()) } else { Err("the condition does not hold") });
}

/// Waits until there is a value, and returns it.
///
/// # Panics
/// After [`HANG_LIMIT`], with a message that names `what`.
#[track_caller]
pub fn wait_for<T>(what: impl Display, mut value: impl FnMut() -> Option<T>) -> T {
    retry(what, || value().ok_or("there is no value"))
}

/// Repeats an attempt until it succeeds, and returns its result.
///
/// # Panics
/// After [`HANG_LIMIT`], with a message that names `what` and the last error.
#[track_caller]
pub fn retry<T, E: Display>(what: impl Display, mut attempt: impl FnMut() -> Result<T, E>) -> T {
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        match attempt() {
            Ok(value) => return value,
            Err(error) => {
                let waited = start.elapsed();
                assert!(waited < HANG_LIMIT, "waited {waited:.0?} in vain: {what}: {error}");
            }
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_comes_later_is_returned() {
        let mut attempts = 0;
        let value = wait_for("the third attempt", || {
            attempts += 1;
            (attempts == 3).then_some(attempts)
        });
        assert_eq!(value, 3);
        wait_until("nothing", || true);
    }
}

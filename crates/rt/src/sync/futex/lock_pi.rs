//! The kernel's two calls that take a lock with inheritance until a deadline.
//!
//! `FUTEX_LOCK_PI2` (Linux 5.14) counts on the monotonic clock, as all deadlines here do. Kernels
//! before have `FUTEX_LOCK_PI` alone, which counts by the clock of the day: a deadline is
//! converted, and a wait that a step of that clock ended early is begun again. A step back cannot
//! be seen from here: it prolongs the wait by as much.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU32};

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags};
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::time::{Deadline, NS_PER_S};

/// Whether the kernel said that it has the first form only.
static FIRST_FORM_ONLY: AtomicBool = AtomicBool::new(false);

/// Waits for the lock in the kernel's queue.
pub(super) fn lock(word: &AtomicU32, deadline: Deadline) -> Result<(), Errno> {
    // Without a time-out, the call that every kernel has does.
    let Some(at) = deadline.timespec() else { return futex::lock_pi(word, Flags::PRIVATE, None) };
    if !FIRST_FORM_ONLY.load(Relaxed) {
        match futex::lock_pi2(word, Flags::PRIVATE, Some(&at)) {
            // A kernel without inheritance says the same, and says it again below.
            Err(Errno::NOSYS) => FIRST_FORM_ONLY.store(true, Relaxed),
            ended => return ended,
        }
    }
    by_the_day(deadline, |at| futex::lock_pi(word, Flags::PRIVATE, Some(at)))
}

/// Waits until `deadline` by `wait`, which takes a point on the clock of the day.
fn by_the_day(deadline: Deadline, mut wait: impl FnMut(&Timespec) -> Result<(), Errno>) -> Result<(), Errno> {
    loop {
        // The time that is left is read first: what passes in between makes the point later.
        let left = deadline.remaining().unwrap_or_default();
        match wait(&later(clock_gettime(ClockId::Realtime), left)) {
            // The clock of the day was set forward.
            Err(Errno::TIMEDOUT) if !deadline.is_past() => {}
            ended => return ended,
        }
    }
}

/// The point `by` after `now`; the last one that there is if that lies beyond it.
fn later(now: Timespec, by: core::time::Duration) -> Timespec {
    let ns = now.tv_nsec as u64 + u64::from(by.subsec_nanos());
    let seconds = by.as_secs().saturating_add(ns / NS_PER_S);
    let tv_sec = now.tv_sec.saturating_add(i64::try_from(seconds).unwrap_or(i64::MAX));
    Timespec { tv_sec, tv_nsec: (ns % NS_PER_S) as _ }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::time::now_ns;

    #[test]
    fn a_clock_that_is_set_forward_ends_no_wait_early() {
        let deadline = Deadline::after(Duration::from_millis(5));
        let mut waits = 0;
        // What the kernel says when the clock jumps beyond the point.
        let ended = by_the_day(deadline, |_| {
            waits += 1;
            Err(Errno::TIMEDOUT)
        });
        assert_eq!(ended, Err(Errno::TIMEDOUT));
        assert!(deadline.is_past() && waits > 1, "{waits} waits");
    }

    #[test]
    fn each_wait_ends_where_the_deadline_lies_by_the_clock_of_the_day() {
        let deadline = Deadline::after(Duration::from_secs(1_000));
        let seen = |at: &Timespec| (at.tv_sec as u64 * NS_PER_S + at.tv_nsec as u64) as i128;
        let day = seen(&clock_gettime(ClockId::Realtime));
        let monotonic = i128::from(now_ns());
        let mut point = 0;
        assert_eq!(
            by_the_day(deadline, |at| {
                point = seen(at);
                Ok(())
            }),
            Ok(())
        );
        // Between the two readings of this test some time passes, and the clock may be slewed.
        let error = (point - day) - (i128::from(deadline.as_ns().unwrap()) - monotonic);
        assert!(error.abs() < i128::from(100 * NS_PER_S), "{error} ns");
        // A time that is past is the time now, and one beyond the last second is that.
        let now = Timespec { tv_sec: 7, tv_nsec: 999_999_999 };
        assert_eq!(later(now, Duration::ZERO), now);
        assert_eq!(later(now, Duration::from_nanos(1)), Timespec { tv_sec: 8, tv_nsec: 0 });
        assert_eq!(later(now, Duration::MAX).tv_sec, i64::MAX);
    }
}

//! Monotonic time: the clock, deadlines on it, sleeping until one of them.
//!
//! All of the ORB's time-outs are points on `CLOCK_MONOTONIC`, in nanoseconds. A point does not
//! drift when a caller hands it to a queue and on to a socket, where a duration would start again
//! at each of them. The clock does not jump when the date is set.

use core::hint::cold_path;
use core::time::Duration;

use rustix::io::Errno;
use rustix::thread::{ClockId as SleepClock, clock_nanosleep_absolute};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds a second.
pub const NS_PER_S: u64 = 1_000_000_000;

/// Nanoseconds on `CLOCK_MONOTONIC`, which starts at an unspecified point (on Linux: at boot) and
/// stands still while the machine is suspended.
///
/// # Real-time
/// Neither allocates nor blocks; reads the clock through the vDSO, without a system call.
#[inline]
pub fn now_ns() -> u64 {
    read(ClockId::Monotonic)
}

/// [`now_ns`] at the kernel's last tick, which may be [`TICK`] ago: for time-outs of seconds, at a
/// fifth of the price.
///
/// # Real-time
/// As [`now_ns`].
#[inline]
pub fn coarse_now_ns() -> u64 {
    read(ClockId::MonotonicCoarse)
}

/// The longest time between two ticks of the kernel (its build option `HZ` is at least 100).
pub const TICK: Duration = Duration::from_millis(10);

/// Nanoseconds of processor time that the calling thread has used. The difference of two readings
/// is the cost of work without the time of threads that pre-empted it. Budgets are checked with it.
///
/// # Real-time
/// Neither allocates nor blocks. One system call: this clock is not in the vDSO.
#[inline]
pub fn thread_cpu_ns() -> u64 {
    read(ClockId::ThreadCPUTime)
}

/// Sleeps until `deadline`; returns at once if it is past, and never returns if it is
/// [`Deadline::NONE`]. A signal does not end the sleep.
///
/// # Real-time
/// Blocks. An absolute sleep: the time that passes before the call costs nothing, so a periodic
/// loop does not drift. A thread of an ordinary class wakes up to 50 us late (the kernel's timer
/// slack); one of a real-time class does not.
pub fn sleep_until(deadline: Deadline) {
    if cfg!(loom) {
        // A model has no time to pass; what a sleep is good for there is that others run.
        return crate::sync::thread::yield_now();
    }
    let at = deadline.timespec().unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
    while let Err(Errno::INTR) = clock_nanosleep_absolute(SleepClock::Monotonic, &at) {}
}

/// The point on `CLOCK_MONOTONIC` at which a wait ends, or none: then it waits as long as it
/// takes.
///
/// ```
/// use isorb_rt::time::Deadline;
/// use std::time::Duration;
///
/// let d = Deadline::after(Duration::from_millis(20));
/// assert!(d.remaining().unwrap() <= Duration::from_millis(20));
/// assert!(d < Deadline::NONE, "'never' is later than everything");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Deadline(u64);

impl Deadline {
    /// No deadline.
    pub const NONE: Deadline = Deadline(u64::MAX);
    /// A deadline that is always past: look, but do not wait.
    pub const PAST: Deadline = Deadline(0);

    /// The point `ns` nanoseconds on the clock of [`now_ns`]. `u64::MAX` means none.
    #[inline]
    pub const fn at_ns(ns: u64) -> Deadline {
        Deadline(ns)
    }

    /// `timeout` from now; none if that lies beyond what the clock can say (584 years).
    #[inline]
    pub fn after(timeout: Duration) -> Deadline {
        match u64::try_from(timeout.as_nanos()) {
            Ok(ns) => Deadline(now_ns().saturating_add(ns)),
            Err(_) => Deadline::NONE,
        }
    }

    /// The time now and the point `timeout_ns` nanoseconds later. A time-out of a second or more is
    /// counted from the kernel's last tick, and ends up to [`TICK`] late, never early. `u64::MAX`
    /// means none.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; for a second and more at a fifth of the price of [`now_ns`].
    #[inline]
    pub fn from_now(timeout_ns: u64) -> (u64, Deadline) {
        if timeout_ns < NS_PER_S {
            cold_path();
            let now = now_ns();
            return (now, Deadline(now.saturating_add(timeout_ns)));
        }
        let now = coarse_now_ns();
        (now, Deadline((now + TICK.as_nanos() as u64).saturating_add(timeout_ns)))
    }

    /// [`after`](Self::after), where none means no deadline.
    #[inline]
    pub fn after_opt(timeout: Option<Duration>) -> Deadline {
        timeout.map_or(Deadline::NONE, Deadline::after)
    }

    /// The point in nanoseconds, unless there is none.
    #[inline]
    pub const fn as_ns(self) -> Option<u64> {
        if self.is_none() { None } else { Some(self.0) }
    }

    /// Is there no deadline?
    #[inline]
    pub const fn is_none(self) -> bool {
        self.0 == u64::MAX
    }

    /// Has it passed?
    #[inline]
    pub fn is_past(self) -> bool {
        !self.is_none() && now_ns() >= self.0
    }

    /// The time that is left, zero when it has passed; `None` where there is no deadline.
    #[inline]
    pub fn remaining(self) -> Option<Duration> {
        self.as_ns().map(|at| Duration::from_nanos(at.saturating_sub(now_ns())))
    }

    /// The earlier of the two.
    #[inline]
    pub fn earlier(self, other: Deadline) -> Deadline {
        self.min(other)
    }

    /// As the kernel takes it.
    #[inline]
    pub(crate) fn timespec(self) -> Option<Timespec> {
        self.as_ns().map(to_timespec)
    }

    /// The time that is left as the kernel takes it, for the calls that know no absolute time.
    #[inline]
    pub(crate) fn remaining_timespec(self) -> Option<Timespec> {
        self.as_ns().map(|at| to_timespec(at.saturating_sub(now_ns())))
    }
}

impl Default for Deadline {
    fn default() -> Self {
        Deadline::NONE
    }
}

#[inline]
fn read(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    t.tv_sec as u64 * NS_PER_S + t.tv_nsec as u64
}

#[inline]
fn to_timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / NS_PER_S) as _, tv_nsec: (ns % NS_PER_S) as _ }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_time_out_is_never_over_too_early() {
        for timeout in [0, 1, NS_PER_S - 1, NS_PER_S, 60 * NS_PER_S] {
            let before = now_ns();
            let (begins, ends) = Deadline::from_now(timeout);
            let after = now_ns();
            assert!(begins <= after && ends.as_ns().unwrap() >= before + timeout, "{timeout} ns");
            let latest = after + timeout + TICK.as_nanos() as u64;
            assert!(ends.as_ns().unwrap() <= latest, "{timeout} ns");
        }
        assert_eq!(Deadline::from_now(u64::MAX).1, Deadline::NONE);
    }

    #[test]
    fn the_clock_never_goes_back() {
        let mut last = now_ns();
        for _ in 0..10_000 {
            let now = now_ns();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn deadlines_saturate() {
        assert!(Deadline::after(Duration::MAX).is_none());
        assert!(Deadline::after_opt(None).is_none());
        assert_eq!(Deadline::PAST.remaining(), Some(Duration::ZERO));
        assert!(Deadline::PAST.is_past());
        assert!(!Deadline::NONE.is_past());
        assert_eq!(Deadline::NONE.remaining(), None);
        assert_eq!(Deadline::at_ns(7).earlier(Deadline::NONE).as_ns(), Some(7));
    }

    #[test]
    fn a_sleep_lasts_until_its_point() {
        let at = now_ns() + 3_000_000;
        sleep_until(Deadline::at_ns(at));
        assert!(now_ns() >= at);
        sleep_until(Deadline::PAST);
    }

    #[test]
    fn the_cpu_clock_stands_still_in_sleep() {
        let t = thread_cpu_ns();
        sleep_until(Deadline::after(Duration::from_millis(50)));
        assert!(thread_cpu_ns() - t < 40_000_000, "sleeping costs no processor time");
        let t = thread_cpu_ns();
        let end = now_ns() + 2_000_000;
        while now_ns() < end {}
        assert!(thread_cpu_ns() > t);
    }

    #[test]
    fn timespecs_are_normalised() {
        let t = Deadline::at_ns(2 * NS_PER_S + 5).timespec().unwrap();
        assert_eq!((t.tv_sec, t.tv_nsec), (2, 5));
        assert!(Deadline::NONE.timespec().is_none());
    }
}

//! How long a thread that waits for its peer polls memory before it sleeps.
//!
//! Polling for as long as a wake-up costs is at most twice as expensive as the better of the two
//! choices, known afterwards. So the limit follows the [measured cost](super::wake_cost), and these
//! rules keep a pair awake that works:
//!
//! - A wait that polling to the full limit would have ended restores the limit; any other wait
//!   halves it, down to a sixteenth. One delay of the peer costs little that way.
//! - After this side woke the peer, the answer takes a wake-up longer, and so may the poll. If this
//!   side slept as well, each would go on waking the other.
//! - A thread that has not slept for [`AWAKE_NS`] sleeps once, so that less urgent threads get its
//!   processor.
//!
//! Neither holds with [`Spin::never_sleep`].

use super::wake_cost::wake_cost_ns;
use isorb_rt::time::now_ns;
use std::hint::cold_path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

/// The limits of polling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Spin {
    /// The longest time that a wait polls; `None` for twice what a wake-up costs on this machine.
    /// Zero: never.
    pub limit: Option<Duration>,
    /// A wait polls until it ends, unless the peer shares its processor.
    pub never_sleep: bool,
}

impl Spin {
    /// Sleeps at once.
    pub const NEVER: Spin = Spin::up_to(Duration::ZERO);

    /// A fixed limit.
    pub const fn up_to(limit: Duration) -> Spin {
        Spin { limit: Some(limit), never_sleep: false }
    }

    /// Whether a wait may poll at all.
    #[inline]
    pub fn spins(&self) -> bool {
        self.never_sleep || self.limit != Some(Duration::ZERO)
    }

    /// In nanoseconds.
    fn limit_ns(&self) -> u64 {
        self.limit.map_or_else(|| 2 * wake_cost_ns(), |limit| limit.as_nanos() as u64)
    }
}

/// After this time without a sleep a thread sleeps once.
const AWAKE_NS: u64 = 50_000_000;
/// Waits between two looks at the clock for it, a power of two.
const WAITS: u32 = 256;
/// The limit is halved at most so often.
const HALVED: u32 = 4;

/// The budget of the waits of one thread at a time, by the success of earlier ones.
#[derive(Debug)]
pub struct SpinBudget {
    spin: Spin,
    /// How often the limit is halved at present: for waits after an ordinary send, and after one
    /// that woke the peer.
    halved: [AtomicU32; 2],
    waits: AtomicU32,
    /// Since when no wait slept, in nanoseconds.
    awake_since: AtomicU64,
}

/// A wait that began, and for how long it may poll.
#[derive(Clone, Copy, Debug)]
pub struct SpinWait {
    began: u64,
    until: u64,
    limit: u64,
    woke: bool,
}

impl SpinWait {
    /// Whether it may poll on at `now`, in nanoseconds.
    #[inline]
    pub fn lasts(&self, now: u64) -> bool {
        now < self.until
    }
}

impl SpinBudget {
    /// The full limit.
    pub const fn new(spin: Spin) -> SpinBudget {
        let (zero, halved) = (AtomicU32::new(0), AtomicU32::new(0));
        SpinBudget { spin, halved: [zero, halved], waits: AtomicU32::new(0), awake_since: AtomicU64::new(0) }
    }

    /// The limits.
    #[inline]
    pub fn spin(&self) -> &Spin {
        &self.spin
    }

    /// Whether the next wait may poll.
    ///
    /// # Real-time
    /// Neither blocks nor allocates; reads the clock once in 256 waits.
    #[inline]
    pub fn may_spin(&self) -> bool {
        let waits = self.waits.load(Relaxed).wrapping_add(1);
        self.waits.store(waits, Relaxed);
        !waits.is_multiple_of(WAITS) || self.may_stay_awake()
    }

    #[cold]
    fn may_stay_awake(&self) -> bool {
        if self.spin.never_sleep {
            return true;
        }
        let now = now_ns();
        let sleeps = now.saturating_sub(self.awake_since.load(Relaxed)) >= AWAKE_NS;
        if sleeps {
            self.awake_since.store(now, Relaxed);
        }
        !sleeps
    }

    /// Begins to poll at `now`. `woke`: this side had to wake the peer, so that the answer takes
    /// longer.
    #[inline]
    pub fn begin(&self, now: u64, woke: bool) -> SpinWait {
        let limit = self.spin.limit_ns() << u32::from(woke);
        let budget = limit >> self.halved[usize::from(woke)].load(Relaxed).min(HALVED);
        let until = if self.spin.never_sleep { u64::MAX } else { now.saturating_add(budget) };
        SpinWait { began: now, until, limit, woke }
    }

    /// A poll ended the wait.
    #[inline]
    pub fn hit(&self, woke: bool) {
        let halved = &self.halved[usize::from(woke)];
        if halved.load(Relaxed) != 0 {
            cold_path();
            halved.store(0, Relaxed);
        }
    }

    /// A sleep ended the wait at `now`, in nanoseconds.
    #[cold]
    pub fn slept(&self, wait: &SpinWait, now: u64) {
        self.awake_since.store(now, Relaxed);
        let halved = &self.halved[usize::from(wait.woke)];
        // Its own wake-up is part of the time.
        if now.saturating_sub(wait.began) <= wait.limit + wake_cost_ns() {
            halved.store(0, Relaxed);
        } else {
            halved.store((halved.load(Relaxed) + 1).min(HALVED), Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const LIMIT: u64 = 1_600_000;

    fn budget() -> SpinBudget {
        SpinBudget::new(Spin::up_to(Duration::from_nanos(LIMIT)))
    }

    fn polls_for(budget: &SpinBudget, woke: bool) -> u64 {
        let wait = budget.begin(7, woke);
        wait.until - 7
    }

    #[test]
    fn waits_in_vain_halve_the_limit_and_a_hit_restores_it() {
        let budget = budget();
        for halved in [1, 2, 4, 8, 16, 16, 16] {
            assert_eq!(polls_for(&budget, false), LIMIT / halved);
            budget.slept(&budget.begin(0, false), 100 * LIMIT);
        }
        assert_eq!(polls_for(&budget, true), 2 * LIMIT, "a wait for a woken peer has its own");
        budget.hit(false);
        assert_eq!(polls_for(&budget, false), LIMIT);
    }

    /// A single delay of the peer does not put a pair to sleep for good: a sleep that was short
    /// restores the limit.
    #[test]
    fn a_wait_that_the_full_limit_would_have_ended_restores_it() {
        let budget = budget();
        for _ in 0..3 {
            budget.slept(&budget.begin(0, false), 100 * LIMIT);
        }
        assert_eq!(polls_for(&budget, false), LIMIT / 8);
        budget.slept(&budget.begin(0, false), LIMIT);
        assert_eq!(polls_for(&budget, false), LIMIT);
    }

    #[test]
    fn a_wait_for_a_woken_peer_polls_twice_as_long() {
        assert_eq!(polls_for(&budget(), true), 2 * polls_for(&budget(), false));
        let measured = SpinBudget::new(Spin::default());
        assert!(polls_for(&measured, true) >= 2 * 2 * 10_000, "at least two wake-ups of the least cost");
    }

    #[test]
    fn a_thread_that_stays_awake_sleeps_once_in_a_while() {
        let sleeps = |spin: Spin, since: u64| {
            let budget = SpinBudget::new(spin);
            budget.awake_since.store(since, Relaxed);
            (0..WAITS).filter(|_| !budget.may_spin()).count()
        };
        assert_eq!(sleeps(Spin::default(), now_ns() - 2 * AWAKE_NS), 1);
        assert_eq!(sleeps(Spin::default(), now_ns() + AWAKE_NS), 0, "it slept just now");
        assert_eq!(sleeps(Spin { never_sleep: true, ..Spin::default() }, 0), 0);
    }

    #[test]
    fn nothing_ends_a_poll_that_never_sleeps() {
        let budget = SpinBudget::new(Spin { never_sleep: true, ..Spin::NEVER });
        assert!(budget.spin().spins() && !Spin::NEVER.spins());
        assert!(budget.begin(0, false).lasts(u64::MAX - 1));
    }
}

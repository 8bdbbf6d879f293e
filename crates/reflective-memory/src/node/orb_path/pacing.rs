//! Keeps best-effort calls from filling the queue before the node's link.
//!
//! A link with one queue makes a guaranteed value wait for everything that lies there. So best
//! effort on the ORB's paths takes turns at the rate of the link while the node has guaranteed
//! channels, and one value at a time lies in the queue, for which admission counts where the
//! network does not sort (`admission::best_effort`). Guaranteed calls never wait here; what they
//! send delays the turns after them.

use crate::agents::link_burst;
use crate::wire::Pacer;
use isorb_rt::sync::PiMutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The calls that may await their turns before the list of them grows.
const WAITING: usize = 64;

/// The turns of a node's calls at its link.
#[derive(Debug)]
pub(in crate::node) struct CallPacing {
    /// Octets a second; 0 for no limit. Written under the lock.
    rate: AtomicU64,
    turns: PiMutex<Turns>,
}

#[derive(Debug)]
struct Turns {
    pacer: Pacer,
    /// The numbers of the turns that have not begun, in their order, with the octets of each.
    waiting: VecDeque<(u64, usize)>,
    last: u64,
}

/// The turn of a call, until it begins. Dropped before, it goes to the calls behind.
#[derive(Debug)]
pub(in crate::node) struct Turn {
    pacing: Arc<CallPacing>,
    number: u64,
    /// When it should begin, as far as that was known at the last look.
    due_ns: Option<u64>,
}

impl CallPacing {
    /// Without a limit.
    pub fn new() -> CallPacing {
        let turns = Turns { pacer: Pacer::new(0, 0), waiting: VecDeque::with_capacity(WAITING), last: 0 };
        CallPacing { rate: AtomicU64::new(0), turns: PiMutex::new(turns) }
    }

    /// Octets a second from now on; 0 for no limit.
    pub fn set_rate(&self, bytes_per_s: u64) {
        let mut turns = self.turns.lock();
        if self.rate.swap(bytes_per_s, Ordering::Relaxed) != bytes_per_s {
            turns.pacer = Pacer::new(bytes_per_s, link_burst(bytes_per_s));
        }
    }

    /// Whether there is a limit.
    ///
    /// # Real-time
    /// One atomic read.
    pub fn is_limited(&self) -> bool {
        self.rate.load(Ordering::Relaxed) > 0
    }

    /// Counts a call with so many octets on the wire that does not wait: the turns of others begin
    /// later.
    ///
    /// # Real-time
    /// One PI lock for a short section.
    pub fn count(&self, now_ns: u64, octets: u64) {
        let pacer = &mut self.turns.lock().pacer;
        pacer.sent(pacer.ready_at(now_ns), usize::try_from(octets).unwrap_or(usize::MAX));
    }

    /// A turn behind those of all calls that wait.
    ///
    /// # Real-time
    /// One PI lock for a short section. Allocates for more than 64 calls that wait.
    pub fn book(self: &Arc<CallPacing>, octets: u64) -> Turn {
        let mut turns = self.turns.lock();
        turns.last += 1;
        let number = turns.last;
        turns.waiting.push_back((number, usize::try_from(octets).unwrap_or(usize::MAX)));
        Turn { pacing: self.clone(), number, due_ns: None }
    }
}

impl Turn {
    /// Begins the turn if it is due; else returns when it should be. A call that comes at that time
    /// does not wait for one before it, the thread of which is late.
    ///
    /// # Real-time
    /// One PI lock for a section of one step for each call that waits before.
    pub fn begin(&mut self, now_ns: u64) -> Result<(), u64> {
        let mut turns = self.pacing.turns.lock();
        let Turns { pacer, waiting, .. } = &mut *turns;
        let Some(at) = waiting.iter().position(|(number, _)| *number == self.number) else { return Ok(()) };
        let ready_ns = pacer.ready_at(now_ns);
        if ready_ns <= now_ns && (at == 0 || self.due_ns.is_some_and(|due_ns| due_ns <= now_ns)) {
            pacer.sent(now_ns, waiting[at].1);
            waiting.remove(at);
            return Ok(());
        }
        let mut later = *pacer;
        waiting.iter().take(at).for_each(|(_, octets)| later.sent(later.ready_at(now_ns), *octets));
        let due_ns = later.ready_at(now_ns).max(now_ns + 1);
        self.due_ns = Some(due_ns);
        Err(due_ns)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.pacing.turns.lock().waiting.retain(|(number, _)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_follow_one_another_at_the_rate() {
        let pacing = Arc::new(CallPacing::new());
        assert_eq!([0, 0].map(|now| pacing.book(1 << 20).begin(now)), [Ok(()); 2], "no limit");
        // A thousand octets take a millisecond; the burst is 50 octets.
        pacing.set_rate(1_000_000);
        assert!(pacing.is_limited());
        assert_eq!(pacing.book(1_000).begin(0), Ok(()));
        let mut turns = [pacing.book(1_000), pacing.book(1_000)];
        assert_eq!(turns[0].begin(0), Err(950_000));
        assert_eq!(turns[1].begin(500_000), Err(1_950_000));
        assert_eq!(turns[1].begin(950_000), Err(1_950_000), "it is that of the one before");
        assert_eq!(turns[0].begin(950_000), Ok(()));
        // A call that does not wait takes the place of others.
        assert_eq!(turns[1].begin(950_000), Err(1_950_000));
        pacing.count(950_000, 1_000);
        assert_eq!(turns[1].begin(1_950_000), Err(2_950_000));
        // The same rate again changes nothing, another one begins anew.
        pacing.set_rate(1_000_000);
        assert_eq!(turns[1].begin(1_950_000), Err(2_950_000));
        pacing.set_rate(0);
        assert_eq!((pacing.is_limited(), turns[1].begin(1_950_000)), (false, Ok(())));
    }

    #[test]
    fn a_call_whose_turn_it_is_does_not_wait_for_a_late_thread() {
        let pacing = Arc::new(CallPacing::new());
        pacing.set_rate(1_000_000);
        assert_eq!(pacing.book(1_000).begin(0), Ok(()));
        let [mut late, mut next] = [pacing.book(1_000), pacing.book(1_000)];
        assert_eq!((late.begin(0), next.begin(0)), (Err(950_000), Err(1_950_000)));
        assert_eq!(next.begin(1_950_000), Ok(()));
        assert_eq!(late.begin(1_950_000), Err(2_900_000));
    }

    #[test]
    fn a_turn_that_is_not_begun_goes_to_those_behind_it() {
        let pacing = Arc::new(CallPacing::new());
        pacing.set_rate(1_000_000);
        assert_eq!(pacing.book(1_000).begin(0), Ok(()));
        // Ten seconds.
        let large = pacing.book(10_000_000);
        let [mut second, mut third] = [pacing.book(1_000), pacing.book(1_000)];
        assert_eq!(second.begin(0), Err(10_000_950_000));
        drop(large);
        assert_eq!((second.begin(0), third.begin(0)), (Err(950_000), Err(1_950_000)));
        drop(second);
        assert_eq!(third.begin(950_000), Ok(()));
        assert!(pacing.turns.lock().waiting.is_empty());
    }
}

//! What is counted.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

macro_rules! counters {
    ($(#[$of:meta])* $read:ident of $live:ident: $($(#[$doc:meta])* $name:ident,)*) => {
        $(#[$of])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
        pub struct $read {
            $($(#[$doc])* pub $name: u64,)*
        }

        #[derive(Debug, Default)]
        pub(crate) struct $live {
            $(pub $name: AtomicU64,)*
        }

        impl $live {
            pub(crate) fn read(&self) -> $read {
                $read { $($name: self.$name.load(Relaxed),)* }
            }
        }
    };
}

counters! {
    /// What happened to a consumer's events since it connected.
    Counts of Counters:
    /// Pushes that the consumer took or failed at.
    pushed,
    /// Pushes that waited in its queue before.
    queued,
    /// Pushes lost since its queue was full.
    dropped,
    /// Pushes refused since its queue was full; suppliers were told.
    refused,
    /// Events lost since all copies were in use ([`Limits::events`](crate::Limits::events)).
    not_kept,
    /// Events lost since their data are larger than a copy may be ([`Limits::payload`](crate::Limits::payload)); suppliers were told.
    too_large,
    /// Pushes at which the consumer failed.
    failed,
    /// Pushes that it returned from after its deadline.
    missed,
    /// Pushes that took more processor time than it declared.
    overruns,
    /// Events skipped after an overrun.
    skipped,
    /// Pushes that came sooner than its period and jitter allow, whatever became of them; time-outs among them.
    early,
    /// Time-outs that came.
    timeouts,
    /// Intervals that passed without a time-out, since the one before was served too late.
    late_intervals,
}

counters! {
    /// What happened in a channel since it was made, whoever is connected now.
    Totals of TotalCounters:
    /// Pushes to consumers, gateways included, that were lost since the event's data are larger than a copy may be.
    too_large,
    /// Events that their supplier had not declared.
    undeclared,
    /// Suppliers at the other end of a network that were removed since they did not answer.
    suppliers_lost,
}

#[inline]
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// A count that one thread raises most of the time: the first to do so owns a part of it, which it need not lock the bus for. An
/// event to twenty consumers would cost twenty such locks, more than the calls themselves.
#[derive(Debug, Default)]
pub(crate) struct OwnedCounter {
    owner: AtomicU32,
    own: AtomicU64,
    others: AtomicU64,
}

impl OwnedCounter {
    /// One more, by the calling thread.
    #[inline]
    pub(crate) fn add(&self, me: ThreadNumber) {
        if self.owner.load(Relaxed) == me.0.get() {
            // Nobody else writes it.
            self.own.store(self.own.load(Relaxed) + 1, Relaxed);
        } else {
            self.add_shared(me);
        }
    }

    fn add_shared(&self, me: ThreadNumber) {
        let owns = me != ThreadNumber::NOBODY
            && self.owner.compare_exchange(0, me.0.get(), Relaxed, Relaxed).is_ok();
        if owns { self.own.store(1, Relaxed) } else { count(&self.others) }
    }

    pub(crate) fn read(&self) -> u64 {
        self.own.load(Relaxed) + self.others.load(Relaxed)
    }
}

/// A thread's number in this process, which no other has, nor had; but for `NOBODY`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ThreadNumber(NonZeroU32);

impl ThreadNumber {
    /// The number of all threads for which there was none any more. They own nothing.
    const NOBODY: ThreadNumber = ThreadNumber(NonZeroU32::MAX);
}

/// The calling thread's.
#[inline]
pub(crate) fn thread_number() -> ThreadNumber {
    thread_local! {
        static ME: Cell<Option<ThreadNumber>> = const { Cell::new(None) };
    }
    match ME.get() {
        Some(me) => me,
        None => {
            let me = next();
            ME.set(Some(me));
            me
        }
    }
}

#[cold]
fn next() -> ThreadNumber {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let number = NEXT.fetch_update(Relaxed, Relaxed, |number| number.checked_add(1)).ok();
    number.and_then(NonZeroU32::new).map_or(ThreadNumber::NOBODY, ThreadNumber)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_counts_for_all_threads() {
        const EACH: u64 = 10_000;
        let tally = OwnedCounter::default();
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..EACH).for_each(|_| tally.add(thread_number())));
            }
        });
        assert_eq!(tally.read(), 4 * EACH);
        assert!(tally.own.load(Relaxed) >= EACH, "the first one owns its part");
        tally.add(thread_number());
        assert_eq!(tally.read(), 4 * EACH + 1);
    }

    #[test]
    fn threads_have_numbers_of_their_own() {
        let mine = thread_number();
        assert_eq!(mine, thread_number());
        let theirs = std::thread::spawn(thread_number).join().unwrap();
        assert_ne!(mine, theirs);
    }
}

//! Counters of consumers and of the channel.

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
    /// The counts of a consumer since it connected.
    Counts of Counters:
    /// Pushes to the consumer, failed ones included.
    pushed,
    /// Pushes that were queued.
    queued,
    /// Pushes lost because its queue was full.
    dropped,
    /// Pushes refused because its queue was full; suppliers were told.
    refused,
    /// Events lost because all copies were in use ([`Limits::events`](crate::Limits::events)).
    not_kept,
    /// Events lost because their data exceed the largest copies
    /// ([`Limits::larger`](crate::Limits::larger)); suppliers were told.
    too_large,
    /// Events that did not satisfy its content filter.
    filtered,
    /// Events with octets that its content filter could not read; see
    /// [`PayloadError`](crate::PayloadError).
    unreadable,
    /// Pushes at which the consumer failed.
    failed,
    /// Pushes from which it returned after its deadline.
    missed,
    /// Pushes that took more processor time than it declared.
    overruns,
    /// Events skipped after an overrun.
    skipped,
    /// Pushes that came sooner than its period and jitter allow, time-outs included.
    early,
    /// Events that came sooner than its
    /// [`Quality::min_separation`](crate::Quality::min_separation) allows, and were dropped.
    too_soon,
    /// Pushes with an event that was older than its [`Lifespan`](crate::Lifespan), and were
    /// dropped.
    expired,
    /// Events of the history that it got when it connected.
    from_history,
    /// Events of the history that were overwritten before it took them.
    history_lost,
    /// Times that an instance was silent for longer than
    /// [`Quality::instance_period`](crate::Quality::instance_period).
    instances_missed,
    /// Events of instances that are not watched, since there are more than
    /// [`Limits::instances`](crate::Limits::instances).
    not_watched,
    /// Time-outs.
    timeouts,
    /// Intervals without a time-out because the one before was served too late.
    late_intervals,
}

counters! {
    /// The counts of a channel since it was made.
    Totals of TotalCounters:
    /// Pushes to consumers, gateways included, lost because the event's data exceed the size of a
    /// copy.
    too_large,
    /// Events that their supplier had not declared.
    undeclared,
    /// Events that were dropped because a stronger supplier owns their instance
    /// ([`Ownership`](crate::Ownership)).
    not_owned,
    /// Times that an instance got an owner.
    owners_changed,
    /// Events of suppliers with an ownership that were delivered without a look at it, since there
    /// are more instances than [`Limits::instances`](crate::Limits::instances).
    owners_unknown,
    /// Times that an instance was silent for longer than the
    /// [`Quality::instance_period`](crate::Quality::instance_period) of a consumer.
    instances_missed,
    /// Remote suppliers that were removed because they did not answer.
    suppliers_lost,
    /// Remote pushes to proxies that the channel does not have, or at which no supplier is
    /// connected. Their suppliers have not noticed that they were removed, or that the channel was
    /// restarted without a store.
    unknown_proxies,
}

#[inline]
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// A counter that one thread increments most of the time. The first thread to do so owns a part
/// that it increments without an atomic read-modify-write. With twenty consumers, twenty such
/// operations would cost more than the calls.
#[derive(Debug, Default)]
pub(crate) struct OwnedCounter {
    owner: AtomicU32,
    own: AtomicU64,
    others: AtomicU64,
}

impl OwnedCounter {
    /// Increments it on the calling thread.
    #[inline]
    pub(crate) fn add(&self, me: ThreadNumber) {
        if self.owner.load(Relaxed) == me.0.get() {
            // No other thread writes it.
            self.own.store(self.own.load(Relaxed) + 1, Relaxed);
        } else {
            self.add_shared(me);
        }
    }

    fn add_shared(&self, me: ThreadNumber) {
        let owns =
            me != ThreadNumber::NONE && self.owner.compare_exchange(0, me.0.get(), Relaxed, Relaxed).is_ok();
        if owns { self.own.store(1, Relaxed) } else { count(&self.others) }
    }

    /// Takes back an [`add`](Self::add) of the calling thread.
    #[cold]
    pub(crate) fn take_back(&self, me: ThreadNumber) {
        if self.owner.load(Relaxed) == me.0.get() {
            self.own.store(self.own.load(Relaxed).saturating_sub(1), Relaxed);
        } else {
            self.others.fetch_sub(1, Relaxed);
        }
    }

    pub(crate) fn read(&self) -> u64 {
        self.own.load(Relaxed) + self.others.load(Relaxed)
    }
}

/// A thread's number in this process. It is never reused, except `NONE`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ThreadNumber(NonZeroU32);

impl ThreadNumber {
    /// Shared by all threads after the numbers ran out. They own no counter.
    const NONE: ThreadNumber = ThreadNumber(NonZeroU32::MAX);
}

/// The number of the calling thread.
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
    number.and_then(NonZeroU32::new).map_or(ThreadNumber::NONE, ThreadNumber)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owned_counter_counts_for_all_threads() {
        const EACH: u64 = 10_000;
        let counter = OwnedCounter::default();
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..EACH).for_each(|_| counter.add(thread_number())));
            }
        });
        assert_eq!(counter.read(), 4 * EACH);
        assert!(counter.own.load(Relaxed) >= EACH, "the first thread owns its part");
        counter.add(thread_number());
        assert_eq!(counter.read(), 4 * EACH + 1);
    }

    #[test]
    fn threads_have_numbers_of_their_own() {
        let mine = thread_number();
        assert_eq!(mine, thread_number());
        let theirs = std::thread::spawn(thread_number).join().unwrap();
        assert_ne!(mine, theirs);
    }
}

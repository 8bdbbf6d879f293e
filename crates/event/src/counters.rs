//! What is counted.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

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
    /// Time-outs that came.
    timeouts,
    /// Intervals that passed without a time-out, since the one before was served too late.
    late_intervals,
}

counters! {
    /// What happened in a channel since it was made, whoever is connected now.
    Totals of Total:
    /// Pushes to consumers, gateways included, that were lost since the event's data are larger than a copy may be.
    too_large,
    /// Events that their supplier had not declared.
    undeclared,
}

#[inline]
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

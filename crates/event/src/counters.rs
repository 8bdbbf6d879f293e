//! What is counted.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What happened to a consumer's events since it connected.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub $name: AtomicU64,)*
        }

        impl Counters {
            pub(crate) fn read(&self) -> Counts {
                Counts { $($name: self.$name.load(Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Pushes that the consumer took or failed at.
    pushed,
    /// Pushes that waited in its queue before.
    queued,
    /// Pushes lost since its queue was full.
    dropped,
    /// Pushes refused since its queue was full; suppliers were told.
    refused,
    /// Events that the channel had no memory for: the pool of copies was empty, or the event larger than a copy may be.
    not_kept,
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

#[inline]
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

//! The counts of a gateway, and the log's first record of each kind of loss.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident: $say:literal,)*) => {
        /// The counts of a [`Gateway`](crate::Gateway) since it started.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        #[non_exhaustive]
        pub struct GatewayCounts {
            /// Events handed to zenoh.
            pub sent: u64,
            /// Events from other sites that were pushed to the channel.
            pub received: u64,
            $($(#[$doc])* pub $name: u64,)*
        }

        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            pub sent: AtomicU64,
            pub received: AtomicU64,
            $(pub $name: AtomicU64,)*
        }

        impl Counters {
            pub fn read(&self) -> GatewayCounts {
                GatewayCounts {
                    sent: self.sent.load(Relaxed),
                    received: self.received.load(Relaxed),
                    $($name: self.$name.load(Relaxed),)*
                }
            }
        }

        /// What is said at the first loss of each kind, once.
        pub(crate) fn report(site: &str, now: GatewayCounts, said: &mut GatewayCounts) {
            $(if now.$name > 0 && said.$name == 0 {
                let n = now.$name;
                isorb_rt::log::warn("isorb::event", format_args!(concat!("zenoh gateway of site {}: {} ", $say), site, n));
            })*
            *said = now;
        }
    };
}

counts! {
    /// Events of other sites that did not arrive, by the gaps in their numbers. An event that the
    /// sender counts as lost is among them if the site wanted it.
    missing: "events of other sites did not arrive; later ones are only counted",
    /// Events that arrived after a later one of the same type, source and site. They are dropped.
    repeated: "events arrived again or late and were dropped; later ones are only counted",
    /// Events that found the queue of their priority full. They are lost.
    overflowed: "events for other sites were lost because the queue is full; make the setting `queue` longer",
    /// Events for other sites that were lost while no router was connected.
    unsent: "events for other sites were lost because no router is connected",
    /// Events with a `ttl` below 1. They are not sent.
    expired: "events were not sent to other sites, since their ttl is below 1; suppliers set it",
    /// Events larger than [`Settings::payload`](crate::Settings::payload). They are not sent.
    too_large: "events were not sent to other sites, since they are larger than the setting `payload`",
    /// Events of further types and sources than [`Settings::streams`](crate::Settings::streams).
    /// They are not sent.
    unnumbered: "events were not sent to other sites, since there are more types and sources than the setting `streams`",
    /// Samples that are no events of a gateway. They are ignored.
    malformed: "samples under the key expressions of the federation are no events and were ignored",
    /// Interests that are malformed or too many. They are ignored.
    ignored: "interests of other sites were ignored: malformed, or more than the setting `interests`",
}

/// Adds one.
#[inline]
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

//! Recognises authenticated datagrams that were received before.

use std::collections::BTreeMap;

/// The datagrams by which one may be late.
const WINDOW: u64 = 128;

/// How long a sender is remembered, in ns. Datagrams of a member that restarted with an earlier
/// clock are accepted again after this time.
const MEMORY_NS: u64 = 30_000_000_000;

/// The most senders that are remembered.
const MAX_SENDERS: usize = 1024;

/// The newest datagrams of each sender. Each sender counts its datagrams, from the time of its
/// start on.
#[derive(Default)]
pub(super) struct ReplayGuard(BTreeMap<u64, Window>);

struct Window {
    newest: u64,
    /// Bit `n` is set if the datagram `newest - n` was received.
    received: u128,
    /// When one was last accepted, in ns.
    at: u64,
}

impl ReplayGuard {
    /// Returns true for a datagram that is new.
    ///
    /// # Real-time
    /// Allocates for a sender that is not remembered.
    pub fn accept(&mut self, sender: u64, counter: u64, now: u64) -> bool {
        match self.0.get_mut(&sender).filter(|window| now.saturating_sub(window.at) < MEMORY_NS) {
            Some(window) => window.accept(counter, now),
            None => {
                if self.0.len() >= MAX_SENDERS
                    && let Some(oldest) = self.0.iter().min_by_key(|(_, window)| window.at)
                {
                    let oldest = *oldest.0;
                    self.0.remove(&oldest);
                }
                self.0.insert(sender, Window { newest: counter, received: 1, at: now });
                true
            }
        }
    }
}

impl Window {
    fn accept(&mut self, counter: u64, now: u64) -> bool {
        if counter > self.newest {
            let ahead = counter - self.newest;
            self.received = if ahead < WINDOW { self.received << ahead | 1 } else { 1 };
            self.newest = counter;
        } else {
            let late = self.newest - counter;
            if late >= WINDOW || self.received >> late & 1 == 1 {
                return false;
            }
            self.received |= 1 << late;
        }
        self.at = now;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Each datagram is accepted once, in any order, unless it is too late.
        #[test]
        fn each_is_accepted_once(counters in prop::collection::vec(0..400u64, 1..300)) {
            let (mut guard, mut seen) = (ReplayGuard::default(), std::collections::BTreeSet::new());
            for counter in counters {
                let newest = seen.last().copied().unwrap_or(counter);
                let late = newest.saturating_sub(counter) >= WINDOW;
                let accepted = guard.accept(1, counter, 0);
                prop_assert_eq!(accepted, !late && !seen.contains(&counter), "{} after {}", counter, newest);
                if accepted {
                    seen.insert(counter);
                }
            }
        }
    }

    #[test]
    fn senders_are_apart_bounded_and_forgotten() {
        let mut guard = ReplayGuard::default();
        assert!(guard.accept(1, 1_000, 0) && guard.accept(2, 5, 0) && !guard.accept(1, 5, 0));
        assert!(guard.accept(1, 1_001, 1) && !guard.accept(1, 5, MEMORY_NS));
        assert!(guard.accept(1, 5, MEMORY_NS + 1), "its clock was set back");
        for sender in 0..2 * MAX_SENDERS as u64 {
            assert!(guard.accept(10 + sender, 1, MEMORY_NS + 2));
        }
        assert_eq!(guard.0.len(), MAX_SENDERS);
    }
}

//! Which events have been here.

use std::collections::BTreeMap;

/// How many sequence numbers of a channel are remembered; an event that lags further behind counts as seen.
const WINDOW: u64 = 4096;
const WORDS: usize = (WINDOW / 64) as usize;

/// The newest sequence numbers of each channel of the federation, in fixed memory for each.
pub(super) struct Seen {
    channels: BTreeMap<u64, Box<Window>>,
    limit: usize,
    uses: u64,
}

struct Window {
    highest: u64,
    bits: [u64; WORDS],
    used: u64,
}

impl Seen {
    /// For so many channels; of more, the one that was silent longest is forgotten.
    pub(super) fn new(limit: usize) -> Seen {
        Seen { channels: BTreeMap::new(), limit: limit.max(1), uses: 0 }
    }

    /// Notes an event. Says whether it is new.
    pub(super) fn note(&mut self, channel: u64, sequence: u64) -> bool {
        self.uses += 1;
        if !self.channels.contains_key(&channel) && self.channels.len() >= self.limit {
            let silent = self.channels.iter().min_by_key(|(_, window)| window.used).map(|(id, _)| *id);
            silent.map(|id| self.channels.remove(&id));
        }
        let window = self
            .channels
            .entry(channel)
            .or_insert_with(|| Box::new(Window { highest: 0, bits: [0; WORDS], used: 0 }));
        window.used = self.uses;
        window.note(sequence)
    }
}

impl Window {
    fn note(&mut self, sequence: u64) -> bool {
        if sequence > self.highest {
            let gap = sequence - self.highest;
            if gap >= WINDOW {
                self.bits = [0; WORDS];
            } else {
                (self.highest + 1..=sequence).for_each(|n| self.set(n, false));
            }
            self.highest = sequence;
        } else if self.highest - sequence >= WINDOW || self.get(sequence) {
            return false;
        }
        self.set(sequence, true);
        true
    }

    fn get(&self, n: u64) -> bool {
        self.bits[(n % WINDOW / 64) as usize] >> (n % 64) & 1 != 0
    }

    fn set(&mut self, n: u64, to: bool) {
        let word = &mut self.bits[(n % WINDOW / 64) as usize];
        *word = *word & !(1 << (n % 64)) | u64::from(to) << (n % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        /// Against a set of all numbers, as long as none lags behind the window.
        #[test]
        fn each_number_is_new_once(steps in prop::collection::vec((1..3u64, -40..60i64), 1..300)) {
            let mut seen = Seen::new(2);
            let mut oracle = HashSet::new();
            let mut at = [0, 5_000i64, 5_000];
            for (channel, step) in steps {
                let position = &mut at[channel as usize];
                *position = (*position + step).max(1);
                let number = *position as u64;
                prop_assert_eq!(seen.note(channel, number), oracle.insert((channel, number)));
            }
        }
    }

    #[test]
    fn far_behind_is_seen_and_far_ahead_is_new() {
        let mut seen = Seen::new(1);
        assert!(seen.note(1, 1) && seen.note(1, WINDOW + 1));
        assert!(!seen.note(1, 1));
        assert!(seen.note(1, 2));
        assert!(seen.note(1, 1 << 40) && !seen.note(1, 3));
        assert!(seen.note(2, 1) && seen.note(1, 3), "the other was forgotten");
    }
}

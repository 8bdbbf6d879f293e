//! Which parts of an arena are lent, and which messages refer to them: the owner's private record.
//!
//! A chunk is free again when the program has dropped its loan and the peer has released every
//! message that refers to it. A peer that releases nothing keeps its arena full, and no other.

use super::ENTRIES;

/// Chunks that are lent at a time.
pub(super) const CHUNKS: usize = 64;
/// Chunks begin at multiples of a cache line, so that every plain type is aligned.
const GRANULE: u32 = 64;

#[derive(Debug)]
struct Chunk {
    at: u32,
    len: u32,
    /// The program has a loan of it.
    lent: bool,
    /// Messages that refer to it and are not released.
    sent: u32,
}

/// A message that refers to a chunk.
#[derive(Clone, Copy, Debug)]
struct Sent {
    number: u32,
    chunk: u32,
}

/// The record. Both lists have a fixed length.
#[derive(Debug)]
pub(in super::super) struct Chunks {
    capacity: u32,
    /// By their place in the arena.
    chunks: Vec<Chunk>,
    sent: [Option<Sent>; ENTRIES as usize],
    /// The number of the last message.
    last: u32,
}

impl Chunks {
    pub fn new(capacity: u32) -> Chunks {
        Chunks { capacity, chunks: Vec::with_capacity(CHUNKS), sent: [None; ENTRIES as usize], last: 0 }
    }

    /// Lends the first free `octets`; `None` if there are none.
    pub fn take(&mut self, octets: u32) -> Option<u32> {
        let len = octets.checked_next_multiple_of(GRANULE)?;
        if self.chunks.len() == CHUNKS || len == 0 {
            return None;
        }
        let mut at = 0;
        let mut place = 0;
        for chunk in &self.chunks {
            if chunk.at - at >= len {
                break;
            }
            at = chunk.at + chunk.len;
            place += 1;
        }
        if self.capacity - at < len {
            return None;
        }
        self.chunks.insert(place, Chunk { at, len, lent: true, sent: 0 });
        Some(at)
    }

    /// Takes a loan back.
    pub fn give_back(&mut self, at: u32) {
        if let Some(chunk) = self.chunks.iter_mut().find(|chunk| chunk.at == at) {
            chunk.lent = false;
        }
        self.chunks.retain(|chunk| chunk.lent || chunk.sent > 0);
    }

    /// Records a message that refers to `octets` from `at` on, and returns its number. `None` if
    /// they are not lent, or the entry that it would use is not released.
    pub fn send(&mut self, at: u32, octets: u32) -> Option<u32> {
        let number = self.last.wrapping_add(1);
        let sent = &mut self.sent[(number % ENTRIES) as usize];
        if sent.is_some() {
            return None;
        }
        let inside =
            |chunk: &&mut Chunk| at >= chunk.at && octets <= chunk.len && at - chunk.at <= chunk.len - octets;
        let chunk = self.chunks.iter_mut().find(inside)?;
        chunk.sent += 1;
        *sent = Some(Sent { number, chunk: chunk.at });
        self.last = number;
        Some(number)
    }

    /// Takes back the last message, which the peer was not told of.
    pub fn unsend(&mut self) {
        self.released(self.last);
        self.last = self.last.wrapping_sub(1);
    }

    /// Frees what the peer has released. `word` reads the peer's word for an entry. Only the
    /// number of the message that uses the entry counts: no other value does anything.
    pub fn reclaim(&mut self, word: impl Fn(u32) -> u32) {
        for slot in 0..ENTRIES {
            if let Some(sent) = self.sent[slot as usize]
                && word(slot) == sent.number
            {
                self.released(sent.number);
            }
        }
    }

    fn released(&mut self, number: u32) {
        let Some(sent) = self.sent[(number % ENTRIES) as usize].take() else { return };
        if let Some(chunk) = self.chunks.iter_mut().find(|chunk| chunk.at == sent.chunk) {
            chunk.sent -= 1;
        }
        self.chunks.retain(|chunk| chunk.lent || chunk.sent > 0);
    }

    /// Whether a message that is not released refers to the chunk.
    pub fn is_sent(&self, at: u32) -> bool {
        self.chunks.iter().any(|chunk| chunk.at == at && chunk.sent > 0)
    }

    /// Whether the entry of the next message is not released.
    pub fn is_exhausted(&self) -> bool {
        self.sent[(self.last.wrapping_add(1) % ENTRIES) as usize].is_some()
    }

    /// Octets that are not free, and chunks.
    pub fn in_use(&self) -> (u32, usize) {
        (self.chunks.iter().map(|chunk| chunk.len).sum(), self.chunks.len())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn chunks_never_overlap_and_all_come_back() {
        let mut chunks = Chunks::new(64 << 10);
        let mut lent: Vec<(u32, u32)> = Vec::new();
        let mut seed = 7u32;
        for _ in 0..if cfg!(miri) { 500 } else { 20_000 } {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if seed >> 31 == 0 || lent.is_empty() {
                let octets = (seed >> 8) % 9000 + 1;
                if let Some(at) = chunks.take(octets) {
                    assert!(at % 64 == 0 && at + octets <= 64 << 10);
                    assert!(lent.iter().all(|(other, len)| at + octets <= *other || other + len <= at));
                    lent.push((at, octets));
                }
            } else {
                let (at, _) = lent.swap_remove((seed >> 8) as usize % lent.len());
                chunks.give_back(at);
            }
        }
        lent.iter().for_each(|(at, _)| chunks.give_back(*at));
        assert_eq!(chunks.in_use(), (0, 0));
        assert_eq!(chunks.take(64 << 10), Some(0));
        assert_eq!(chunks.take(1), None);
    }

    #[test]
    fn four_loans_of_a_quarter_fill_it_and_none_is_longer_than_it() {
        let mut chunks = Chunks::new(4 << 20);
        assert_eq!([(); 4].map(|()| chunks.take(1 << 20)), [0, 1, 2, 3].map(|i| Some(i << 20)));
        assert_eq!(chunks.take(1), None);
        chunks.give_back(2 << 20);
        assert_eq!((chunks.take((1 << 20) + 1), chunks.take(1 << 20)), (None, Some(2 << 20)));
        for octets in [0, u32::MAX, (4 << 20) + 1] {
            assert_eq!(Chunks::new(4 << 20).take(octets), None);
        }
    }

    #[test]
    fn a_chunk_stays_until_its_loan_is_dropped_and_every_message_is_released() {
        let mut chunks = Chunks::new(4096);
        let at = chunks.take(4096).unwrap();
        assert_eq!((chunks.send(0, 4096), chunks.send(100, 4)), (Some(1), Some(2)));
        chunks.give_back(at);
        assert_eq!(chunks.take(1), None);
        // Only the number of the message releases it, and only once.
        for forged in [0, 2, 33, u32::MAX] {
            chunks.reclaim(|slot| if slot == 1 { forged } else { 0 });
            assert_eq!(chunks.in_use(), (4096, 1), "{forged}");
        }
        chunks.reclaim(|slot| u32::from(slot == 1));
        chunks.reclaim(|slot| u32::from(slot == 1));
        assert!(chunks.is_sent(at));
        chunks.reclaim(|slot| slot);
        assert_eq!(chunks.in_use(), (0, 0));
    }

    #[test]
    fn only_lent_octets_are_sent_by_so_many_messages_at_a_time() {
        let mut chunks = Chunks::new(8192);
        assert_eq!(chunks.take(4096), Some(0));
        for (at, octets) in [(4096, 1), (0, 4097), (4095, 2), (u32::MAX, 1), (1, u32::MAX)] {
            assert_eq!(chunks.send(at, octets), None, "{at} {octets}");
        }
        for number in 1..=ENTRIES {
            assert_eq!(chunks.send(0, 64), Some(number));
        }
        assert!(chunks.is_exhausted());
        assert_eq!(chunks.send(0, 64), None);
        chunks.unsend();
        assert_eq!(chunks.send(0, 64), Some(ENTRIES));
        chunks.reclaim(|slot| if slot == 1 { 1 } else { 0 });
        assert_eq!(chunks.send(0, 64), Some(ENTRIES + 1));
    }
}

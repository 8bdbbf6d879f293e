//! The numbers that a remote supplier gives its events.

use crate::event::Header;
use isorb_rt::log::warn;
use isorb_rt::sync::PiMutex;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// The most pairs of type and source that are numbered. A gateway passes on the types and sources
/// of others, so their number is not the program's to bound.
const MAX_STREAMS: usize = 65_536;

/// The numbers of the last events, by type and source.
pub(super) struct EventNumbers {
    last: PiMutex<BTreeMap<(i32, i32), u64>>,
    most: usize,
    /// The log says that there are more.
    is_full: AtomicBool,
}

impl Default for EventNumbers {
    fn default() -> EventNumbers {
        EventNumbers { last: PiMutex::default(), most: MAX_STREAMS, is_full: AtomicBool::new(false) }
    }
}

impl EventNumbers {
    /// The number of an event; 0 if there are too many types and sources, so that it has none.
    ///
    /// # Real-time
    /// One PI lock for a search. Allocates for the first event of a type and source.
    pub fn next(&self, header: &Header) -> u64 {
        self.advance((header.event_type, header.source), 1)
    }

    /// Uses up `count` numbers.
    ///
    /// # Real-time
    /// As [`next`](Self::next).
    pub fn skip(&self, event_type: i32, source: i32, count: u64) {
        if count > 0 {
            self.advance((event_type, source), count);
        }
    }

    /// The last number was not used.
    ///
    /// # Real-time
    /// One PI lock for a search.
    pub fn give_back(&self, header: &Header) {
        if let Some(last) = self.last.lock().get_mut(&(header.event_type, header.source)) {
            *last = last.saturating_sub(1);
        }
    }

    fn advance(&self, key: (i32, i32), count: u64) -> u64 {
        let mut numbers = self.last.lock();
        if let Some(last) = numbers.get_mut(&key) {
            *last = last.saturating_add(count);
            return *last;
        }
        if numbers.len() >= self.most {
            drop(numbers);
            if !self.is_full.swap(true, Relaxed) {
                let most = self.most;
                warn(
                    "isorb::event",
                    format_args!(
                        "a remote supplier pushes events of more than {most} types and sources: those of the \
                         others have no number, and consumers do not notice when one is lost"
                    ),
                );
            }
            return 0;
        }
        numbers.insert(key, count);
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(event_type: i32) -> Header {
        Header { event_type, source: 1, ..Header::default() }
    }

    #[test]
    fn each_type_and_source_has_numbers_of_its_own() {
        let numbers = EventNumbers::default();
        let next = |event_type| numbers.next(&header(event_type));
        assert_eq!([20, 20, 21].map(next), [1, 2, 1]);
        numbers.give_back(&header(20));
        numbers.skip(21, 1, 5);
        numbers.skip(22, 1, 3);
        assert_eq!([20, 21, 22].map(next), [2, 7, 4]);
    }

    #[test]
    fn types_and_sources_of_others_do_not_fill_the_memory() {
        let numbers = EventNumbers { most: 3, ..EventNumbers::default() };
        let all: Vec<u64> =
            (20..30).chain(20..30).map(|event_type| numbers.next(&header(event_type))).collect();
        assert!(numbers.is_full.load(Relaxed), "the log says so");
        assert_eq!(all[..10], [1, 1, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(all[10..], [2, 2, 2, 0, 0, 0, 0, 0, 0, 0]);
        numbers.skip(29, 1, 4);
        numbers.give_back(&header(29));
        assert_eq!(numbers.last.lock().len(), 3);
    }
}

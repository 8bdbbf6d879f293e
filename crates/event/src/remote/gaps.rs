//! Finds out which events of a supplier did not arrive, by their numbers.

use crate::event::{Header, Origin};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The most streams that are remembered. The one that was silent for longest is forgotten first.
const MAX_STREAMS: usize = 4096;

/// The most ranges of missing numbers of a stream that are remembered, the newest ones.
const MAX_RANGES: usize = 16;

/// Events that were lost on their way: those between `last` and `next`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The supplier, by a number that it drew at its start.
    pub supplier: u64,
    /// The type of the events.
    pub event_type: i32,
    /// Their source.
    pub source: i32,
    /// The number of the last event before the gap.
    pub last: u64,
    /// The number of the event behind it.
    pub next: u64,
}

impl Gap {
    /// The number of lost events.
    pub fn lost(&self) -> u64 {
        self.next.saturating_sub(self.last).saturating_sub(1)
    }
}

/// The last numbers that a consumer has seen. A supplier numbers its events of each type and source
/// from 1, so a filter that accepts some types and sources leaves no holes in these numbers.
#[derive(Default)]
pub(super) struct GapDetector {
    streams: BTreeMap<(u64, i32, i32), Stream>,
    events: u64,
}

struct Stream {
    last: u64,
    /// Of `events`.
    at: u64,
    missing: Missing,
}

/// Numbers that did not arrive: ranges of the first and the last one, ascending.
#[derive(Default)]
struct Missing(Vec<(u64, u64)>);

impl Missing {
    fn add(&mut self, at: usize, range: (u64, u64)) {
        self.0.insert(at, range);
        if self.0.len() > MAX_RANGES {
            self.0.remove(0);
        }
    }

    /// Takes a number out; false if it was not missing, or that is not known any more.
    fn take(&mut self, number: u64) -> bool {
        let holds = |(first, last): &(u64, u64)| (*first..=*last).contains(&number);
        let Some(at) = self.0.iter().position(holds) else { return false };
        let (first, last) = self.0.remove(at);
        if number < last {
            self.add(at, (number + 1, last));
        }
        if first < number {
            self.add(at, (first, number - 1));
        }
        true
    }
}

/// What the number of an event says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrival {
    InOrder,
    /// After a gap.
    After(Gap),
    /// It was counted as lost before: threads that share a supplier may overtake each other.
    Late,
    /// It has arrived before.
    Again,
}

impl GapDetector {
    /// Records an event. The first one of a stream tells nothing of those before.
    ///
    /// # Real-time
    /// O(log n) in the streams. Allocates for a new one, and for gaps.
    pub fn arrived(&mut self, header: &Header, origin: Origin) -> Arrival {
        let Origin { supplier, number } = origin;
        // A supplier numbers so many types and sources only.
        if supplier == 0 || number == 0 {
            return Arrival::InOrder;
        }
        self.events += 1;
        let (event_type, source, at) = (header.event_type, header.source, self.events);
        let key = (supplier, event_type, source);
        let Some(stream) = self.streams.get_mut(&key) else {
            self.make_room();
            self.streams.insert(key, Stream { last: number, at, missing: Missing::default() });
            return Arrival::InOrder;
        };
        stream.at = at;
        match number.cmp(&stream.last) {
            Ordering::Less if stream.missing.take(number) => return Arrival::Late,
            Ordering::Less | Ordering::Equal => return Arrival::Again,
            Ordering::Greater => {}
        }
        let gap = Gap { supplier, event_type, source, last: stream.last, next: number };
        stream.last = number;
        if gap.lost() == 0 {
            return Arrival::InOrder;
        }
        stream.missing.add(stream.missing.0.len(), (gap.last + 1, gap.next - 1));
        Arrival::After(gap)
    }

    fn make_room(&mut self) {
        if self.streams.len() >= MAX_STREAMS
            && let Some((oldest, _)) = self.streams.iter().min_by_key(|(_, stream)| stream.at)
        {
            let oldest = *oldest;
            self.streams.remove(&oldest);
        }
    }

    /// The number of the last event of a supplier with this type and source.
    pub fn last(&self, supplier: u64, event_type: i32, source: i32) -> Option<u64> {
        self.streams.get(&(supplier, event_type, source)).map(|stream| stream.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(event_type: i32) -> Header {
        Header { event_type, source: 1, ..Header::default() }
    }

    #[test]
    fn each_stream_has_its_own_numbers() {
        let mut gaps = GapDetector::default();
        let mut arrived =
            |event_type, supplier, number| gaps.arrived(&header(event_type), Origin { supplier, number });
        assert_eq!(arrived(20, 7, 5), Arrival::InOrder, "what was before is unknown");
        assert_eq!(arrived(21, 7, 1), Arrival::InOrder);
        assert_eq!(arrived(20, 8, 1), Arrival::InOrder);
        assert_eq!(arrived(20, 7, 6), Arrival::InOrder);
        let gap = Gap { supplier: 7, event_type: 20, source: 1, last: 6, next: 9 };
        assert_eq!((arrived(20, 7, 9), gap.lost()), (Arrival::After(gap), 2));
        assert_eq!(arrived(20, 7, 9), Arrival::Again, "a repetition was never missing");
        assert_eq!(arrived(20, 7, 8), Arrival::Late);
        assert_eq!(arrived(20, 7, 8), Arrival::Again);
        assert_eq!(arrived(20, 7, 5), Arrival::Again);
        assert_eq!(arrived(20, 7, 0), Arrival::InOrder, "it has no number, as its stream");
        assert_eq!(arrived(21, 7, 2), Arrival::InOrder);
        assert_eq!(arrived(20, 0, 100), Arrival::InOrder, "it has no number");
        assert_eq!(gaps.last(7, 20, 1), Some(9));
    }

    #[test]
    fn suppliers_that_come_and_go_do_not_fill_the_memory() {
        let mut gaps = GapDetector::default();
        for supplier in 1..=2 * MAX_STREAMS as u64 {
            gaps.arrived(&header(20), Origin { supplier, number: 1 });
            gaps.arrived(&header(20), Origin { supplier: 1, number: supplier });
        }
        assert_eq!(gaps.streams.len(), MAX_STREAMS);
        assert_eq!(gaps.last(1, 20, 1), Some(2 * MAX_STREAMS as u64), "one that pushes stays");
    }

    #[test]
    fn many_gaps_do_not_fill_the_memory() {
        let mut gaps = GapDetector::default();
        let mut arrived = |number| gaps.arrived(&header(20), Origin { supplier: 7, number });
        // Each second one is missing; and of a long range, each second one comes late.
        (1..1_000).step_by(2).for_each(|number| _ = arrived(number));
        arrived(2_000);
        for number in (1_001..1_200).step_by(2) {
            assert_eq!(arrived(number), Arrival::Late, "{number}");
        }
        assert_eq!(arrived(2), Arrival::Again, "that it was missing is forgotten");
        assert_eq!(gaps.streams.values().map(|stream| stream.missing.0.len()).max(), Some(MAX_RANGES));
    }

    proptest! {
        /// In any order, each event is new once, and those that did not come are lost.
        #[test]
        fn each_event_is_new_once(numbers in prop::collection::vec(1..30u64, 1..80)) {
            let mut gaps = GapDetector::default();
            let (mut lost, mut new) = (0, Vec::new());
            for number in &numbers {
                match gaps.arrived(&header(20), Origin { supplier: 1, number: *number }) {
                    Arrival::After(gap) => lost += gap.lost(),
                    Arrival::Late => lost -= 1,
                    Arrival::InOrder => {}
                    Arrival::Again => continue,
                }
                new.push(*number);
            }
            let first = numbers[0];
            let mut all: Vec<u64> = numbers.iter().copied().filter(|number| *number >= first).collect();
            all.sort_unstable();
            all.dedup();
            new.sort_unstable();
            prop_assert_eq!(&new, &all);
            prop_assert_eq!(lost, all[all.len() - 1] - first + 1 - all.len() as u64);
        }

        /// What did not arrive between the first and the last event is lost, in any order.
        #[test]
        fn the_lost_are_those_that_did_not_arrive(numbers in prop::collection::btree_set(1..300u64, 1..200)) {
            let mut gaps = GapDetector::default();
            let mut lost = 0;
            for number in &numbers {
                if let Arrival::After(gap) = gaps.arrived(&header(20), Origin { supplier: 1, number: *number }) {
                    lost += gap.lost();
                }
            }
            let (first, last) = (numbers.first().unwrap(), numbers.last().unwrap());
            prop_assert_eq!(lost, last - first + 1 - numbers.len() as u64);
        }
    }
}

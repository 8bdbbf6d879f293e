//! What the numbers of events say: which are new, repeated, or missing.

use std::collections::HashMap;
use std::hash::Hash;

/// A larger gap is not believed: it would take more than an hour at a million events a second.
const MAX_GAP: u64 = 1 << 32;

/// A bounded table that forgets what was not used for longest, roughly: a new half replaces the old
/// one when it is full. All operations take constant time.
#[derive(Debug)]
pub(crate) struct RecentMap<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    half: usize,
}

impl<K: Copy + Eq + Hash, V: Copy> RecentMap<K, V> {
    pub fn new(most: usize) -> RecentMap<K, V> {
        RecentMap { young: HashMap::new(), old: HashMap::new(), half: (most / 2).max(1) }
    }

    /// The value of a key, which counts as used. `None` if it is new or was forgotten.
    pub fn get(&mut self, key: K) -> Option<&mut V> {
        if !self.young.contains_key(&key) {
            let value = self.old.remove(&key)?;
            self.insert(key, value);
        }
        self.young.get_mut(&key)
    }

    /// Returns the former value.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let old = self.old.remove(&key);
        if self.young.len() >= self.half && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value).or(old)
    }

    fn each(&mut self, mut change: impl FnMut(&K, &mut V)) {
        self.young.iter_mut().for_each(|(key, value)| change(key, value));
        self.old.iter_mut().for_each(|(key, value)| change(key, value));
    }
}

/// The numbers of the events that arrived, by gateway, type and source.
#[derive(Debug)]
pub(crate) struct Streams {
    map: RecentMap<(u64, i32, i32), Stream>,
    /// So many old numbers in a row mean that the newest one was forged.
    resynchronise: u64,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    last: u64,
    /// The site did not want the events for a time: a gap means nothing.
    interrupted: bool,
    /// The last of the old numbers in a row, and their count.
    old: u64,
    run: u64,
}

/// What the number of an event says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    /// It is new, and so many before it are missing.
    New(u64),
    /// It is the last one again: interests that overlap are several subscriptions.
    Again,
    /// It is older than one that arrived.
    Repeated,
    /// No gateway can have sent so many events.
    Implausible,
}

impl Streams {
    /// At most `most` streams; `history` events may be repeated in a row.
    pub fn new(most: usize, history: usize) -> Streams {
        Streams { map: RecentMap::new(most), resynchronise: history as u64 + 64 }
    }

    /// Records an event. The first one of a stream says nothing of those before.
    pub fn arrived(&mut self, incarnation: u64, event_type: i32, source: i32, number: u64) -> Arrival {
        let key = (incarnation, event_type, source);
        let Some(stream) = self.map.get(key) else {
            self.map.insert(key, Stream { last: number, interrupted: false, old: 0, run: 0 });
            return Arrival::New(0);
        };
        if number > stream.last {
            let gap = number - stream.last - 1;
            if gap > MAX_GAP {
                return Arrival::Implausible;
            }
            let missing = if stream.interrupted { 0 } else { gap };
            *stream = Stream { last: number, interrupted: false, old: 0, run: 0 };
            return Arrival::New(missing);
        }
        if number == stream.last {
            return Arrival::Again;
        }
        stream.run = if number == stream.old + 1 { stream.run + 1 } else { 1 };
        stream.old = number;
        if stream.run > self.resynchronise {
            *stream = Stream { last: number, interrupted: false, old: 0, run: 0 };
            return Arrival::New(0);
        }
        Arrival::Repeated
    }

    /// The site does not want these events any more.
    pub fn interrupt(&mut self, unwanted: impl Fn(i32, i32) -> bool) {
        self.map.each(|(_, event_type, source), stream| stream.interrupted |= unwanted(*event_type, *source));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Arrival::{Again, New, Repeated};

    #[test]
    fn each_event_is_new_once_and_gaps_are_counted() {
        let mut streams = Streams::new(100, 0);
        let mut arrived = |number| streams.arrived(7, 20, 1, number);
        assert_eq!([5, 6, 6, 9, 8].map(&mut arrived), [New(0), New(0), Again, New(2), Repeated]);
        assert_eq!(streams.arrived(8, 20, 1, 3), New(0), "another gateway");
        assert_eq!(streams.arrived(7, 21, 1, 3), New(0), "another type");
    }

    #[test]
    fn events_that_were_not_wanted_are_not_missing() {
        let mut streams = Streams::new(100, 0);
        streams.arrived(7, 20, 1, 5);
        streams.arrived(7, 21, 1, 5);
        streams.interrupt(|event_type, _| event_type == 20);
        assert_eq!(streams.arrived(7, 20, 1, 5), Again, "the history may repeat it");
        assert_eq!(streams.arrived(7, 20, 1, 50), New(0));
        assert_eq!(streams.arrived(7, 20, 1, 52), New(1));
        assert_eq!(streams.arrived(7, 21, 1, 50), New(44));
    }

    /// A forged number must not silence the real gateway.
    #[test]
    fn a_forged_number_costs_a_bounded_number_of_events() {
        let mut streams = Streams::new(100, 10);
        streams.arrived(7, 20, 1, 5);
        assert_eq!(streams.arrived(7, 20, 1, u64::MAX), Arrival::Implausible);
        assert_eq!(streams.arrived(7, 20, 1, 1_000_000), New(999_994));
        let dropped = (6..1_000).take_while(|number| streams.arrived(7, 20, 1, *number) == Repeated).count();
        assert_eq!(dropped, 74);
        assert_eq!(streams.arrived(7, 20, 1, 82), New(1));
    }

    #[test]
    fn many_gateways_do_not_fill_the_memory() {
        let mut streams = Streams::new(100, 0);
        for number in 1..=10_000 {
            streams.arrived(number, 20, 1, 1);
            assert_eq!(streams.arrived(0, 20, 1, number), New(0), "one that sends stays");
        }
        assert!(streams.map.young.len() + streams.map.old.len() <= 101);
    }
}

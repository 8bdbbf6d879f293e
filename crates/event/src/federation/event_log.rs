//! The last events that a channel forwards, in memory of a fixed size.

use crate::event::{Data, Event, Header, Stamp};
use std::collections::VecDeque;

/// The events in order of arrival, each under an index that is never reused. The oldest are
/// overwritten.
pub(super) struct EventLog {
    entries: VecDeque<Entry>,
    /// The index of the oldest.
    first: u64,
    limit: usize,
    bytes: Box<[u8]>,
    /// The offset of the next event's octets, counted without wrapping; modulo the size it is an
    /// offset in `bytes`.
    tail: u64,
}

pub(super) struct Entry {
    pub header: Header,
    /// The channel where the event entered, and its number there.
    pub stamp: Stamp,
    pad1: i32,
    octets: usize,
    any: usize,
    begin: u64,
}

impl Entry {
    /// The octets of its data.
    pub(super) fn size(&self) -> usize {
        self.octets + self.any
    }
}

impl EventLog {
    pub(super) fn new(events: usize, octets: usize) -> EventLog {
        let limit = events.max(1);
        EventLog {
            entries: VecDeque::with_capacity(limit),
            first: 0,
            limit,
            bytes: vec![0; octets.max(1)].into_boxed_slice(),
            tail: 0,
        }
    }

    /// The index of the oldest event.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// The index of the event that is next.
    pub(super) fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    pub(super) fn get(&self, index: u64) -> Option<&Entry> {
        self.entries.get(usize::try_from(index.checked_sub(self.first)?).ok()?)
    }

    /// The oldest event, if it must be removed before an event with so many octets can be stored.
    pub(super) fn oldest_to_remove(&self, octets: usize) -> Option<&Entry> {
        let oldest = self.entries.front()?;
        let end = self.offset(octets) + octets as u64;
        (self.entries.len() >= self.limit || oldest.begin + (self.bytes.len() as u64) < end).then_some(oldest)
    }

    /// The octets of one event are contiguous; some at the end of the memory may stay unused.
    fn offset(&self, octets: usize) -> u64 {
        let size = self.bytes.len() as u64;
        let left = size - self.tail % size;
        if (octets as u64) <= left { self.tail } else { self.tail + left }
    }

    pub(super) fn forget_oldest(&mut self) {
        if self.entries.pop_front().is_some() {
            self.first += 1;
        }
    }

    /// Returns true if the event fits into the empty log.
    pub(super) fn fits(&self, event: &Event<'_>) -> bool {
        event.data.octets.len() + event.data.any.len() <= self.bytes.len()
    }

    /// Stores an event that [`fits`](Self::fits); removes older ones as needed.
    pub(super) fn append(&mut self, event: &Event<'_>) {
        let (octets, any) = (event.data.octets, event.data.any);
        let length = octets.len() + any.len();
        while self.oldest_to_remove(length).is_some() {
            self.forget_oldest();
        }
        let begin = self.offset(length);
        self.tail = begin + length as u64;
        let at = (begin % self.bytes.len() as u64) as usize;
        self.bytes[at..][..octets.len()].copy_from_slice(octets);
        self.bytes[at + octets.len()..][..any.len()].copy_from_slice(any);
        self.entries.push_back(Entry {
            header: event.header,
            stamp: event.stamp,
            pad1: event.data.pad1,
            octets: octets.len(),
            any: any.len(),
            begin,
        });
    }

    fn data(&self, entry: &Entry) -> &[u8] {
        let at = (entry.begin % self.bytes.len() as u64) as usize;
        &self.bytes[at..][..entry.octets + entry.any]
    }

    /// The index and number of a channel's oldest event with a larger number than `sequence`.
    /// Searches from the newest back to the first that is not larger.
    pub(super) fn after(&self, channel: u64, sequence: u64) -> Option<(u64, u64)> {
        let of_channel = |(_, entry): &(usize, &Entry)| entry.stamp.channel == channel;
        let newest_first = self.entries.iter().enumerate().rev().filter(of_channel);
        let newer = newest_first.take_while(|(_, entry)| entry.stamp.sequence > sequence);
        newer.last().map(|(at, entry)| (self.first + at as u64, entry.stamp.sequence))
    }

    /// The number of events of a channel.
    pub(super) fn count(&self, channel: u64) -> u64 {
        self.entries.iter().filter(|entry| entry.stamp.channel == channel).count() as u64
    }

    /// Raises the numbers of a channel's events.
    pub(super) fn renumber(&mut self, channel: u64, by: u64) {
        let of_channel = self.entries.iter_mut().filter(|entry| entry.stamp.channel == channel);
        of_channel.for_each(|entry| entry.stamp.sequence += by);
    }

    /// Copies an event, so that it can be sent without the log's lock.
    pub(super) fn copy(&self, index: u64, to: &mut EventBuffer) -> bool {
        let Some(entry) = self.get(index) else {
            return false;
        };
        to.bytes.clear();
        to.bytes.extend_from_slice(self.data(entry));
        (to.header, to.stamp, to.pad1, to.octets) = (entry.header, entry.stamp, entry.pad1, entry.octets);
        true
    }
}

/// A copy of an event; its memory is reused.
#[derive(Default)]
pub(super) struct EventBuffer {
    pub header: Header,
    pub stamp: Stamp,
    pad1: i32,
    octets: usize,
    bytes: Vec<u8>,
}

impl EventBuffer {
    pub(super) fn with_capacity(octets: usize) -> EventBuffer {
        EventBuffer { bytes: Vec::with_capacity(octets), ..EventBuffer::default() }
    }

    pub(super) fn event(&self) -> Event<'_> {
        let (octets, any) = self.bytes.split_at(self.octets);
        {
            let data = Data { pad1: self.pad1, octets, any };
            Event { header: self.header, stamp: self.stamp, data, ..Event::default() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares with a list of all events: the log holds the last ones, octet by octet, as many
        /// as fit.
        #[test]
        fn the_log_holds_the_last_events(sizes in prop::collection::vec((0..40usize, 0..20usize), 1..200)) {
            let mut log = EventLog::new(7, 100);
            let mut all = Vec::new();
            for (n, (octets, any)) in sizes.into_iter().enumerate() {
                let (octets, any) = (vec![n as u8; octets], vec![!n as u8; any]);
                let stamp = Stamp { channel: 1, sequence: n as u64, link: 0 };
                log.append(&Event { stamp, data: Data { pad1: n as i32, octets: &octets, any: &any }, ..Event::default() });
                all.push((octets, any));
                prop_assert!(log.end() == n as u64 + 1 && log.first() <= n as u64);
                let mut buffer = EventBuffer::default();
                let mut kept = 0;
                for index in log.first()..log.end() {
                    prop_assert!(log.copy(index, &mut buffer));
                    let (octets, any) = &all[index as usize];
                    let event = buffer.event();
                    prop_assert_eq!((event.data.octets, event.data.any), (&octets[..], &any[..]));
                    prop_assert_eq!((event.data.pad1, event.stamp.sequence), (index as i32, index));
                    kept += octets.len() + any.len();
                }
                // All that fit are stored, except for the unused end of the memory.
                let next = log.first().checked_sub(1).map_or(0, |i| all[i as usize].0.len() + all[i as usize].1.len());
                prop_assert!(log.first() == 0 || log.end() - log.first() == 7 || kept + next + 60 > 100);
            }
        }
    }

    #[test]
    fn an_event_larger_than_the_memory_does_not_fit() {
        let log = EventLog::new(7, 100);
        assert!(
            log.fits(&Event::new(20, 1).octets(&[0; 100])) && !log.fits(&Event::new(20, 1).octets(&[0; 101]))
        );
    }
}

//! The last events that a channel has to pass on, in memory of a fixed size.

use crate::event::{Data, Event, Header, Stamp};
use std::collections::VecDeque;

/// Events in the order in which they came to this channel, each under an index that never comes again. The oldest make room.
pub(super) struct EventLog {
    entries: VecDeque<Entry>,
    /// The index of the oldest.
    first: u64,
    limit: usize,
    bytes: Box<[u8]>,
    /// Where the next event's octets begin, counted without end; modulo the size it is a place in `bytes`.
    tail: u64,
}

pub(super) struct Entry {
    pub header: Header,
    /// Where the event entered, and its number there.
    pub stamp: Stamp,
    pad1: i32,
    octets: usize,
    any: usize,
    begin: u64,
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

    /// The oldest, if it must go before an event with so many octets can be kept.
    pub(super) fn in_the_way(&self, octets: usize) -> Option<&Entry> {
        let oldest = self.entries.front()?;
        let end = self.place(octets) + octets as u64;
        (self.entries.len() >= self.limit || oldest.begin + (self.bytes.len() as u64) < end).then_some(oldest)
    }

    /// The octets of one event lie together: at the end of the memory some may stay unused.
    fn place(&self, octets: usize) -> u64 {
        let size = self.bytes.len() as u64;
        let left = size - self.tail % size;
        if (octets as u64) <= left { self.tail } else { self.tail + left }
    }

    pub(super) fn forget_oldest(&mut self) {
        if self.entries.pop_front().is_some() {
            self.first += 1;
        }
    }

    /// Whether an event can be kept at all.
    pub(super) fn fits(&self, event: &Event<'_>) -> bool {
        event.data.octets.len() + event.data.any.len() <= self.bytes.len()
    }

    /// Keeps an event that [`fits`](Self::fits); what is in its way goes.
    pub(super) fn append(&mut self, event: &Event<'_>) {
        let (octets, any) = (event.data.octets, event.data.any);
        let length = octets.len() + any.len();
        while self.in_the_way(length).is_some() {
            self.forget_oldest();
        }
        let begin = self.place(length);
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

    /// The oldest event of a channel with a larger number than this: its index and its number. Looks back from the newest no further than
    /// the first that is not.
    pub(super) fn after(&self, channel: u64, sequence: u64) -> Option<(u64, u64)> {
        let of_channel = |(_, entry): &(usize, &Entry)| entry.stamp.channel == channel;
        let newest_first = self.entries.iter().enumerate().rev().filter(of_channel);
        let newer = newest_first.take_while(|(_, entry)| entry.stamp.sequence > sequence);
        newer.last().map(|(at, entry)| (self.first + at as u64, entry.stamp.sequence))
    }

    /// Copies an event out, so that it can be sent without the log's lock.
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

/// A copy of an event; its memory is used again and again.
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
        Event { header: self.header, stamp: self.stamp, data: Data { pad1: self.pad1, octets, any } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a list of everything: what is there is what came last, octet by octet, and there is as much of it as there is room.
        #[test]
        fn the_last_events_are_there_unharmed(sizes in prop::collection::vec((0..40usize, 0..20usize), 1..200)) {
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
                // All are kept that fit, but for what is lost at the end of the memory.
                let next = log.first().checked_sub(1).map_or(0, |i| all[i as usize].0.len() + all[i as usize].1.len());
                prop_assert!(log.first() == 0 || log.end() - log.first() == 7 || kept + next + 60 > 100);
            }
        }
    }

    #[test]
    fn what_is_larger_than_all_memory_does_not_fit() {
        let log = EventLog::new(7, 100);
        assert!(
            log.fits(&Event::new(20, 1).octets(&[0; 100])) && !log.fits(&Event::new(20, 1).octets(&[0; 101]))
        );
    }
}

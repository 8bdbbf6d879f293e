//! Events on their path through a member: in, to its own consumers, and on to neighbours.

use super::event_log::{Entry, EventBuffer};
use super::interest::Peer;
use super::protocol::{LinkState, Protocol};
use super::{ForwardError, ForwardedEvent, LinkId};
use crate::event::{Event, Stamp};

/// An event that is being sent over a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutgoingEvent {
    source: u64,
    pub epoch: u64,
    pub previous: u64,
    index: u64,
}

impl Protocol {
    /// Stores an event of this member's own suppliers that is wanted elsewhere. It is stored even
    /// if no link leads there: a neighbour that joins again requests what it missed.
    pub(super) fn pushed(&mut self, event: &Event<'_>) {
        if !self.log.fits(event) {
            self.counts.lost += 1;
            return;
        }
        self.sequence += 1;
        self.make_room(event);
        let stamp = Stamp { channel: self.id, sequence: self.sequence, link: 0 };
        self.log.append(&Event { stamp, ..*event });
    }

    /// Handles an event that arrived over a link.
    pub(super) fn receive_event(&mut self, link: LinkId, passed: &ForwardedEvent<'_>) {
        let Stamp { channel: source, sequence, .. } = passed.event.stamp;
        let peer = Peer { link, channel: passed.sender };
        let expected = self.upstreams.get(&source).and_then(|up| up.current.as_ref());
        let expected = expected.filter(|c| c.peer == peer && c.epoch == Some(passed.epoch));
        let Some(position) = expected.map(|c| c.position).filter(|position| sequence > *position) else {
            // From a neighbour that is not subscribed (any more), or a repetition.
            self.counts.repeated += 1;
            return;
        };
        let data = &passed.event.data;
        // An event without room is requested again.
        let missing = passed.previous > position || !self.has_room(data.octets.len() + data.any.len());
        let fits = self.log.fits(&passed.event);
        if fits && !missing {
            self.make_room(&passed.event);
        }
        let Some(up) = self.upstreams.get_mut(&source) else {
            return;
        };
        if missing {
            up.gap = true;
            return self.review(source);
        }
        up.current.iter_mut().for_each(|current| current.position = sequence);
        up.position = Some(sequence);
        let new = sequence > up.newest;
        up.newest = up.newest.max(sequence);
        let count = match (fits, new) {
            (false, _) => &mut self.counts.lost,
            (true, true) => &mut self.counts.received,
            (true, false) => &mut self.counts.repeated,
        };
        *count += 1;
        if fits {
            self.log.append(&Event { stamp: Stamp { link: link.0, ..passed.event.stamp }, ..passed.event });
        }
    }

    /// Returns true if the octets can be stored without removing an event that own consumers have
    /// not received.
    fn has_room(&self, octets: usize) -> bool {
        self.log.oldest_to_remove(octets).is_none() || self.local > self.log.first()
    }

    /// Removes events from the log to make room. Neighbours that have not been sent them must
    /// request them again.
    fn make_room(&mut self, event: &Event<'_>) {
        let octets = event.data.octets.len() + event.data.any.len();
        while let Some(oldest) = self.log.oldest_to_remove(octets) {
            let index = self.log.first();
            let (source, sequence) = (oldest.stamp.channel, oldest.stamp.sequence);
            let interests = &self.interests;
            for link_state in self.links.values_mut().filter(|link_state| link_state.cursor <= index) {
                if link_state.is_due(index, oldest, |consumers| interests.want(consumers, &oldest.header))
                    && let Some(stream) = link_state.streams.get_mut(&source)
                {
                    stream.interrupt();
                }
            }
            let delivered = self.upstreams.get(&source).map_or(u64::MAX, |up| up.delivered);
            self.counts.lost += u64::from(self.local <= index && sequence > delivered);
            self.log.forget_oldest();
        }
    }

    /// Returns true if an event is to be sent over a link.
    pub(super) fn is_due(&mut self, link: LinkId) -> bool {
        let (log, interests) = (&self.log, &self.interests);
        let Some(link_state) = self.links.get_mut(&link) else {
            return false;
        };
        if !link_state.up || !link_state.fresh.is_empty() {
            return false;
        }
        link_state.cursor = link_state.cursor.max(log.first());
        while let Some(entry) = log.get(link_state.cursor) {
            if link_state
                .is_due(link_state.cursor, entry, |consumers| interests.want(consumers, &entry.header))
            {
                if entry.header.ttl > 0 {
                    return true;
                }
                self.counts.expired += 1;
            }
            link_state.cursor += 1;
        }
        false
    }

    /// The octets of the data of the next event over a link.
    pub(super) fn next_octets(&mut self, link: LinkId) -> Option<usize> {
        if !self.is_due(link) {
            return None;
        }
        self.log.get(self.links.get(&link)?.cursor).map(Entry::size)
    }

    /// The next event over a link. The caller reports the result to [`sent`](Self::sent).
    pub(super) fn send(&mut self, link: LinkId, buffer: &mut EventBuffer) -> Option<OutgoingEvent> {
        if !self.is_due(link) {
            return None;
        }
        let link_state = self.links.get_mut(&link)?;
        let index = link_state.cursor;
        if !self.log.copy(index, buffer) {
            return None;
        }
        buffer.header.ttl -= 1;
        let Stamp { channel: source, sequence, .. } = buffer.stamp;
        let stream = link_state.streams.get_mut(&source)?;
        let sending = OutgoingEvent { source, epoch: stream.epoch, previous: stream.position, index };
        stream.position = sequence;
        link_state.cursor += 1;
        Some(sending)
    }

    /// Records the result of sending an event.
    pub(super) fn sent(&mut self, link: LinkId, sending: OutgoingEvent, result: Result<(), ForwardError>) {
        match result {
            Ok(()) => self.counts.forwarded += 1,
            Err(ForwardError::TooLarge) => {
                self.counts.lost += 1;
                // It can never be sent, so the next event names the one before it.
                let link_state = self.links.get_mut(&link);
                let stream = link_state.and_then(|link_state| link_state.streams.get_mut(&sending.source));
                if let Some(stream) = stream.filter(|stream| stream.epoch == sending.epoch) {
                    stream.position = sending.previous;
                }
            }
            Err(ForwardError::Down) => self.not_sent(link, sending),
        }
    }

    /// Sends it again when the link is up.
    fn not_sent(&mut self, link: LinkId, sending: OutgoingEvent) {
        let (first, now) = (self.log.first(), self.now);
        let Some(link_state) = self.links.get_mut(&link) else {
            return;
        };
        let stream = link_state.streams.get_mut(&sending.source);
        if let Some(stream) = stream.filter(|stream| stream.epoch == sending.epoch) {
            if sending.index < first {
                stream.interrupt();
            } else {
                stream.position = sending.previous;
                link_state.cursor = link_state.cursor.min(sending.index);
            }
        }
        link_state.goes_down(now);
        self.review_all();
    }

    /// Copies the next event for own consumers. Returns false if there is none.
    pub(super) fn deliver(&mut self, buffer: &mut EventBuffer) -> bool {
        self.local = self.local.max(self.log.first());
        while let Some(entry) = self.log.get(self.local) {
            let Stamp { channel: source, sequence, .. } = entry.stamp;
            let up = self.upstreams.get_mut(&source).filter(|up| sequence > up.delivered);
            self.local += 1;
            if let Some(up) = up {
                up.delivered = sequence;
                return self.log.copy(self.local - 1, buffer);
            }
        }
        false
    }
}

impl LinkState {
    /// Returns true if an event of the log is to be sent over this link, if the consumers `want`
    /// it.
    fn is_due(&self, index: u64, entry: &Entry, want: impl Fn(&[u64]) -> bool) -> bool {
        self.streams.get(&entry.stamp.channel).is_some_and(|stream| {
            stream.epoch != 0
                && index >= stream.since
                && entry.stamp.sequence > stream.position
                && stream.children.values().any(|child| want(&child.consumers))
        })
    }
}

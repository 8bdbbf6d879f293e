//! Assembling messages from packets that arrive in any order, twice, or not at all (clause 11).
//!
//! All memory is allocated at the start. A message is delivered only when each of its packets has
//! arrived. An impossible message is abandoned and counted, and later packets do not begin it anew:
//!
//! | what | then |
//! |---|---|
//! | a packet for the second time | ignored |
//! | a packet of a message that was returned or abandoned lately | ignored |
//! | two packets that cannot be of one message | the message is abandoned |
//! | a message longer, or of more packets, than there is room for | abandoned |
//! | a message that is not whole in time | abandoned |
//! | more messages under way than there is room for | the sender with most of them loses the one that it has been silent about for longest |
//!
//! Ids that are empty or all zeros do not distinguish collections; their senders have no protection
//! against duplicate packets.

use super::packet::{MAX_ID, Packet};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Limits of a [`Collector`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Incomplete messages of more than one packet.
    pub messages: usize,
    /// Octets of one message.
    pub octets: usize,
    /// Packets of one message.
    pub packets: usize,
    /// The time from a message's first packet to its last, in nanoseconds.
    pub age_ns: u64,
}

/// The result of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken<'c> {
    /// The packet completed this message.
    Whole(&'c [u8]),
    /// The packet is stored until the others arrive.
    Stored,
    /// The packet, or its whole message, had arrived before.
    Duplicate,
    /// The packet's message was abandoned.
    Abandoned(Lost),
}

/// The reason for abandoning a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Two of its packets contradict each other.
    Conflict,
    /// The message has more octets or packets than the limits allow.
    TooLong,
}

/// Counts of abandoned messages and ignored packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostCounts {
    /// Messages with contradictory packets.
    pub conflicts: u64,
    /// Messages above the limits.
    pub too_long: u64,
    /// Messages that were not complete in time.
    pub late: u64,
    /// Messages that were dropped for newer ones.
    pub displaced: u64,
    /// Duplicate packets.
    pub duplicates: u64,
}

/// Assembles messages. `S` identifies the sender.
#[derive(Debug)]
pub struct Collector<S> {
    limits: Limits,
    slots: Box<[Slot<S>]>,
    /// How many slots are in use.
    open: usize,
    /// A message with packets out of order.
    whole: Box<[u8]>,
    recent: Recent<S>,
    counts: LostCounts,
}

/// The identity of a collection.
#[derive(Clone, Copy, Debug)]
struct Name<S> {
    sender: S,
    length: u8,
    id: [u8; MAX_ID],
}

impl<S: Copy + PartialEq> Name<S> {
    fn new(sender: S, packet: &Packet<'_>) -> Name<S> {
        let mut id = [0; MAX_ID];
        let length = packet.id.len().min(MAX_ID);
        id[..length].copy_from_slice(&packet.id[..length]);
        Name { sender, length: length as u8, id }
    }

    #[inline]
    fn is(&self, sender: S, packet: &Packet<'_>) -> bool {
        self.sender == sender && &self.id[..usize::from(self.length)] == packet.id
    }
}

/// A packet's piece in the slot's octets; empty until it arrives.
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    at: u32,
    length: u32,
}

/// An incomplete message.
#[derive(Debug)]
struct Slot<S> {
    name: Option<Name<S>>,
    began_ns: u64,
    arrived_ns: u64,
    /// The number of packets; 0 while unknown.
    count: u32,
    came: u32,
    /// One more than the highest number that arrived.
    ends: u32,
    in_order: bool,
    /// By the packets' numbers.
    pieces: Box<[Piece]>,
    /// The pieces in order of arrival.
    octets: Box<[u8]>,
    used: usize,
}

impl<S: Copy + PartialEq> Slot<S> {
    fn new(limits: &Limits) -> Slot<S> {
        Slot {
            name: None,
            began_ns: 0,
            arrived_ns: 0,
            count: 0,
            came: 0,
            ends: 0,
            in_order: true,
            pieces: vec![Piece::default(); limits.packets].into(),
            octets: vec![0; limits.octets].into(),
            used: 0,
        }
    }

    fn begin(&mut self, name: Name<S>, now_ns: u64) {
        self.pieces[..self.ends as usize].fill(Piece::default());
        self.name = Some(name);
        (self.began_ns, self.arrived_ns) = (now_ns, now_ns);
        (self.count, self.came, self.ends, self.used, self.in_order) = (0, 0, 0, 0, true);
    }

    /// Takes a packet's piece; `false` for a duplicate.
    fn take(&mut self, packet: &Packet<'_>) -> Result<bool, Lost> {
        let number = packet.number as usize;
        if number >= self.pieces.len() || packet.count as usize > self.pieces.len() {
            return Err(Lost::TooLong);
        }
        let count = if packet.last { packet.number + 1 } else { packet.count };
        match (self.count, count) {
            (0, _) => self.count = count,
            (_, 0) => {}
            (known, declared) if known != declared => return Err(Lost::Conflict),
            _ => {}
        }
        if self.count != 0 && (packet.number >= self.count || self.ends > self.count) {
            return Err(Lost::Conflict);
        }
        let Piece { at, length } = self.pieces[number];
        if length != 0 {
            let known = &self.octets[at as usize..][..length as usize];
            return if known == packet.data { Ok(false) } else { Err(Lost::Conflict) };
        }
        let room = self.octets[self.used..].get_mut(..packet.data.len()).ok_or(Lost::TooLong)?;
        room.copy_from_slice(packet.data);
        self.pieces[number] = Piece { at: self.used as u32, length: packet.data.len() as u32 };
        self.in_order &= packet.number == self.came;
        self.used += packet.data.len();
        self.came += 1;
        self.ends = self.ends.max(packet.number + 1);
        Ok(true)
    }

    fn is_whole(&self) -> bool {
        self.count != 0 && self.came == self.count
    }

    fn gather(&self, into: &mut [u8]) {
        let mut to = 0;
        for Piece { at, length } in &self.pieces[..self.count as usize] {
            let (at, length) = (*at as usize, *length as usize);
            into[to..to + length].copy_from_slice(&self.octets[at..at + length]);
            to += length;
        }
    }
}

/// The number of ended collections that are remembered.
const RECENT: usize = 64;

/// Recently ended collections.
#[derive(Debug)]
struct Recent<S> {
    names: Vec<(u64, Name<S>)>,
    next: usize,
}

impl<S: Copy + PartialEq> Recent<S> {
    fn note(&mut self, name: Name<S>, now_ns: u64) {
        if name.id[..usize::from(name.length)].iter().all(|octet| *octet == 0) {
            return;
        }
        match self.names.get_mut(self.next) {
            Some(oldest) => *oldest = (now_ns, name),
            None => self.names.push((now_ns, name)),
        }
        self.next = (self.next + 1) % RECENT;
    }

    fn has(&self, sender: S, packet: &Packet<'_>, since_ns: u64) -> bool {
        self.names.iter().any(|(at, name)| *at >= since_ns && name.is(sender, packet))
    }
}

impl<S: Copy + PartialEq> Collector<S> {
    /// A collector with all its memory: [`Limits::messages`] + 1 times [`Limits::octets`], and
    /// eight octets for each packet. At least one message of at least one octet and packet.
    pub fn new(limits: Limits) -> Collector<S> {
        let most = u32::MAX as usize / 2;
        let limits = Limits {
            messages: limits.messages.max(1),
            octets: limits.octets.clamp(1, most),
            packets: limits.packets.clamp(1, most),
            ..limits
        };
        Collector {
            slots: (0..limits.messages).map(|_| Slot::new(&limits)).collect(),
            open: 0,
            whole: vec![0; limits.octets].into(),
            recent: Recent { names: Vec::with_capacity(RECENT), next: 0 },
            counts: LostCounts::default(),
            limits,
        }
    }

    /// Counts of abandoned messages and ignored packets.
    pub fn counts(&self) -> LostCounts {
        self.counts
    }

    /// Incomplete messages.
    pub fn under_way(&self) -> usize {
        self.open
    }

    /// Takes a packet.
    ///
    /// # Real-time
    /// Compares the packet's name with those of the incomplete messages and of 64 ended ones, and
    /// copies the piece unless it is a whole message. The last packet of a message that arrived out
    /// of order copies all pieces. Allocates nothing.
    pub fn take<'c>(&'c mut self, sender: S, packet: &Packet<'c>, now_ns: u64) -> Taken<'c> {
        if self.open > 0 {
            self.abandon_late(now_ns);
        }
        // Long enough for a packet that took another route, and short enough for the reuse of an
        // id.
        let since_ns = now_ns.saturating_sub(self.limits.age_ns.saturating_mul(4));
        if self.recent.has(sender, packet, since_ns) {
            self.counts.duplicates += 1;
            return Taken::Duplicate;
        }
        let known = if self.open > 0 { self.find(sender, packet) } else { None };
        if known.is_none() && packet.number == 0 && packet.last {
            if packet.data.len() > self.limits.octets {
                self.counts.too_long += 1;
                return Taken::Abandoned(Lost::TooLong);
            }
            self.recent.note(Name::new(sender, packet), now_ns);
            return Taken::Whole(packet.data);
        }
        let index = match known {
            Some(index) => index,
            None => self.begin(Name::new(sender, packet), now_ns),
        };
        let slot = &mut self.slots[index];
        slot.arrived_ns = now_ns;
        match slot.take(packet) {
            Ok(true) if slot.is_whole() => {
                self.end(index, now_ns);
                let slot = &self.slots[index];
                if slot.in_order {
                    return Taken::Whole(&slot.octets[..slot.used]);
                }
                slot.gather(&mut self.whole);
                Taken::Whole(&self.whole[..slot.used])
            }
            Ok(true) => Taken::Stored,
            Ok(false) => {
                self.counts.duplicates += 1;
                Taken::Duplicate
            }
            Err(why) => {
                match why {
                    Lost::Conflict => self.counts.conflicts += 1,
                    Lost::TooLong => self.counts.too_long += 1,
                }
                self.end(index, now_ns);
                Taken::Abandoned(why)
            }
        }
    }

    fn find(&self, sender: S, packet: &Packet<'_>) -> Option<usize> {
        self.slots.iter().position(|slot| slot.name.as_ref().is_some_and(|name| name.is(sender, packet)))
    }

    /// A slot for a new message; if all are in use, another message is dropped.
    fn begin(&mut self, name: Name<S>, now_ns: u64) -> usize {
        let free = self.slots.iter().position(|slot| slot.name.is_none());
        let index = free.unwrap_or_else(|| {
            let index = self.most_burdensome();
            self.counts.displaced += 1;
            self.end(index, now_ns);
            index
        });
        self.slots[index].begin(name, now_ns);
        self.open += 1;
        index
    }

    /// Of the sender with the most incomplete messages, the one that has been silent for longest.
    fn most_burdensome(&self) -> usize {
        let of = |sender: S| self.slots.iter().filter(|slot| slot.is_from(sender)).count();
        let burden = |slot: &Slot<S>| {
            let messages = slot.name.as_ref().map_or(0, |name| of(name.sender));
            (messages, core::cmp::Reverse(slot.arrived_ns))
        };
        let worst = self.slots.iter().enumerate().max_by_key(|(_, slot)| burden(slot));
        worst.map_or(0, |(index, _)| index)
    }

    fn abandon_late(&mut self, now_ns: u64) {
        for index in 0..self.slots.len() {
            let slot = &self.slots[index];
            if slot.name.is_some() && now_ns.saturating_sub(slot.began_ns) > self.limits.age_ns {
                self.counts.late += 1;
                self.end(index, now_ns);
            }
        }
    }

    /// Ends a message, complete or not; its octets stay until the slot is used again.
    fn end(&mut self, index: usize, now_ns: u64) {
        if let Some(name) = self.slots[index].name.take() {
            self.open -= 1;
            self.recent.note(name, now_ns);
        }
    }
}

impl<S: Copy + PartialEq> Slot<S> {
    fn is_from(&self, sender: S) -> bool {
        self.name.as_ref().is_some_and(|name| name.sender == sender)
    }
}

#[cfg(test)]
#[path = "collector_tests.rs"]
mod tests;

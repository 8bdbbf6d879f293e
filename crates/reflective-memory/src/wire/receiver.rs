//! The receiver's half of a channel.

use super::datagram::{Datagram, Kind};
use super::{Channel, ChannelError};
use std::net::SocketAddr;

/// The destination of fragments, which is notified when a value is complete. A memory area's writer
/// is one.
pub trait Sink {
    /// A piece of the value under way. The range lies within the channel's size.
    fn put(&mut self, offset: usize, piece: &[u8]);

    /// All bytes of the value are there. `written_ns` is a time of the sender's clock.
    fn publish(&mut self, len: usize, written_ns: u64, sequence: u64, writer: u32);
}

/// Puts a value together from datagrams, of which any may be lost, repeated, late or forged.
#[derive(Debug)]
pub struct Receiver {
    channel: Channel,
    peer: SocketAddr,
    /// The newest push of which any datagram has arrived.
    push: u64,
    /// The values on which its datagrams must agree.
    size: u32,
    sequence: u64,
    writer: u32,
    /// The value that was published last.
    shown: Option<(u64, u32)>,
    /// Fragments of it that are missing; 0 when it is complete.
    missing: usize,
    /// One bit a fragment.
    have: Box<[u64]>,
    groups: Box<[Group]>,
    /// One fragment a group: the exclusive or of its fragments that have arrived.
    sums: Box<[u8]>,
    arrived_ns: Option<u64>,
    counters: Counters,
    /// The sender's count of skipped values in its latest datagram.
    skipped: u32,
    /// Counting begins at the next datagram's number.
    joining: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Group {
    fragments: u8,
    parity: bool,
}

/// The counts of all pushes and datagrams. Each push from the first to the newest is in exactly one
/// of `complete`, `incomplete` and `lost`, except one that may still be completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Pushes that were published.
    pub complete: u64,
    /// Pushes of which a fragment was missing when the next one arrived.
    pub incomplete: u64,
    /// Pushes of which no datagram arrived before a later one did.
    pub lost: u64,
    /// Values that the sender did not send, because a later one overtook them.
    pub skipped: u64,
    /// Fragments that were recovered from parity.
    pub recovered: u64,
    /// Repeated datagrams.
    pub repeated: u64,
    /// Datagrams of a push that had ended.
    pub late: u64,
    /// Datagrams from an address that is not the peer's, or without the token.
    pub forged: u64,
    /// Datagrams of an earlier or later agreement about the channel.
    pub other_epoch: u64,
    /// Octets that are no datagram, or contradict themselves or their push.
    pub malformed: u64,
}

impl Counters {
    /// Pushes that did not arrive completely, or not at all.
    #[must_use]
    pub fn not_complete(&self) -> u64 {
        self.lost.saturating_add(self.incomplete)
    }

    /// The sum of these counts and those of another receiver for the same readers.
    #[must_use]
    pub fn plus(&self, other: &Counters) -> Counters {
        let sum = u64::saturating_add;
        Counters {
            complete: sum(self.complete, other.complete),
            incomplete: sum(self.incomplete, other.incomplete),
            lost: sum(self.lost, other.lost),
            skipped: sum(self.skipped, other.skipped),
            recovered: sum(self.recovered, other.recovered),
            repeated: sum(self.repeated, other.repeated),
            late: sum(self.late, other.late),
            forged: sum(self.forged, other.forged),
            other_epoch: sum(self.other_epoch, other.other_epoch),
            malformed: sum(self.malformed, other.malformed),
        }
    }
}

/// The effect of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// A part of a value arrived.
    Part,
    /// A value is complete and was published.
    Complete,
    /// A sign of life only: a heartbeat, or the value that is visible already.
    Alive,
    /// It changed nothing but a counter.
    Ignored(Ignored),
}

/// Why a datagram changed nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ignored {
    /// It is a repetition.
    Repeated,
    /// Its push has ended.
    Late,
    /// It does not come from the peer.
    Forged,
    /// It belongs to another agreement.
    OtherEpoch,
    /// It contradicts itself or its push.
    Malformed,
}

impl Receiver {
    /// A receiver for datagrams of `peer`, with all the memory that it needs.
    ///
    /// # Errors
    /// When the channel is invalid.
    pub fn new(channel: Channel, peer: SocketAddr) -> Result<Receiver, ChannelError> {
        channel.check()?;
        let (fragments, groups) = (channel.fragments(channel.size), channel.groups(channel.size));
        Ok(Receiver {
            channel,
            peer,
            push: 0,
            size: 0,
            sequence: 0,
            writer: 0,
            shown: None,
            missing: 0,
            have: vec![0; fragments.div_ceil(64)].into(),
            groups: vec![Group::default(); groups].into(),
            sums: vec![0; groups * channel.fragment].into(),
            arrived_ns: None,
            counters: Counters::default(),
            skipped: 0,
            joining: false,
        })
    }

    /// Begins to count anew: pushes before the next datagram were for other members of a group that
    /// this receiver joins, and are not counted.
    pub fn rejoin(&mut self) {
        self.leave();
        self.missing = 0;
        self.joining = true;
    }

    /// Handles a datagram from `from`.
    ///
    /// # Real-time
    /// Neither allocates nor blocks. One copy of its payload into the sink, one more where parity
    /// is used; at the first datagram of a push, clearing one bit a fragment.
    pub fn receive(&mut self, from: SocketAddr, octets: &[u8], now_ns: u64, sink: &mut impl Sink) -> Outcome {
        match Datagram::read(octets) {
            Ok(datagram) => self.accept(from, &datagram, now_ns, sink),
            Err(_) => self.ignore(Ignored::Malformed),
        }
    }

    /// [`receive`](Self::receive) for a datagram that was read already, to find its channel.
    pub fn accept(
        &mut self,
        from: SocketAddr,
        datagram: &Datagram<'_>,
        now_ns: u64,
        sink: &mut impl Sink,
    ) -> Outcome {
        if from != self.peer || datagram.token != self.channel.token || datagram.channel != self.channel.id {
            return self.ignore(Ignored::Forged);
        }
        if datagram.epoch != self.channel.epoch {
            return self.ignore(Ignored::OtherEpoch);
        }
        if core::mem::take(&mut self.joining) {
            self.join(datagram);
        }
        if datagram.push < self.push {
            return self.ignore(Ignored::Late);
        }
        self.count_skipped(datagram.skipped);
        match datagram.kind {
            Kind::Heartbeat => self.heartbeat(datagram, now_ns),
            Kind::Fragment | Kind::Parity => self.piece(datagram, now_ns, sink),
            // The receive agent handles answers; the other kinds are sent by receivers.
            Kind::Choice | Kind::Probe | Kind::Answer | Kind::Credit => self.ignore(Ignored::Malformed),
        }
    }

    /// The receive agent has rejected repeated heartbeats.
    pub fn repeated(&mut self) -> Outcome {
        self.ignore(Ignored::Repeated)
    }

    /// This value of this writer was published by another receiver into the same memory.
    pub fn goes_on_from(&mut self, sequence: u64, writer: u32) {
        self.shown = Some((sequence, writer));
    }

    /// The channel ends: a push under way stays incomplete.
    pub fn end(&mut self) {
        self.leave();
        self.missing = 0;
    }

    /// When the peer's last datagram arrived, on this node's monotonic clock.
    pub fn arrived_ns(&self) -> Option<u64> {
        self.arrived_ns
    }

    /// The newest push of which any datagram arrived, and whether it is complete.
    pub fn newest(&self) -> (u64, bool) {
        (self.push, self.missing == 0)
    }

    /// The push up to which all are counted; none before the first datagram after
    /// [`rejoin`](Self::rejoin).
    pub fn counted(&self) -> Option<u64> {
        (!self.joining).then_some(self.push)
    }

    /// The counts.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The channel's parameters.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// The peer's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The first datagram after [`rejoin`](Self::rejoin): a push that it begins is for this
    /// receiver, one under way is not.
    fn join(&mut self, datagram: &Datagram<'_>) {
        let begins = datagram.kind == Kind::Fragment && datagram.index == 0;
        self.push = datagram.push.saturating_sub(u64::from(begins));
        self.skipped = datagram.skipped;
        self.missing = 0;
    }

    /// Datagrams may come out of order, so the count never goes back.
    fn count_skipped(&mut self, skipped: u32) {
        if let new @ 1.. = skipped.wrapping_sub(self.skipped) as i32 {
            self.skipped = skipped;
            self.counters.skipped = self.counters.skipped.saturating_add(new as u64);
        }
    }

    /// A heartbeat follows its push, so pushes before it that did not arrive are lost.
    fn heartbeat(&mut self, datagram: &Datagram<'_>, now_ns: u64) -> Outcome {
        self.arrived_ns = Some(now_ns);
        if datagram.push > self.push {
            self.leave();
            self.counters.lost += datagram.push - self.push;
            self.push = datagram.push;
            self.missing = 0;
        }
        Outcome::Alive
    }

    fn piece(&mut self, datagram: &Datagram<'_>, now_ns: u64, sink: &mut impl Sink) -> Outcome {
        let Some(place) = self.place(datagram) else { return self.ignore(Ignored::Malformed) };
        if datagram.push > self.push {
            self.enter(datagram);
        } else if self.missing == 0 {
            // The push is complete already. A parity datagram after its fragments is no repetition,
            // but adds nothing.
            return match place {
                FragmentSlot::Fragment { .. } => self.ignore(Ignored::Repeated),
                FragmentSlot::Parity { .. } => Outcome::Part,
            };
        } else if (datagram.size, datagram.sequence, datagram.writer)
            != (self.size, self.sequence, self.writer)
        {
            return self.ignore(Ignored::Malformed);
        }
        self.arrived_ns = Some(now_ns);
        match place {
            FragmentSlot::Fragment { index } => {
                if self.has(index) {
                    return self.ignore(Ignored::Repeated);
                }
                sink.put(index * self.channel.fragment, datagram.payload);
                self.mark(index);
                if let Some(group) = index.checked_div(self.channel.parity) {
                    self.add(group, datagram.payload);
                    self.groups[group].fragments += 1;
                    self.heal(group, sink);
                }
            }
            FragmentSlot::Parity { group } => {
                if self.groups[group].parity {
                    return self.ignore(Ignored::Repeated);
                }
                self.add(group, datagram.payload);
                self.groups[group].parity = true;
                self.heal(group, sink);
            }
        }
        if self.missing > 0 {
            return Outcome::Part;
        }
        self.counters.complete += 1;
        if self.shown.replace((self.sequence, self.writer)) == Some((self.sequence, self.writer)) {
            // Pushed again, for readers that missed it.
            return Outcome::Alive;
        }
        sink.publish(self.size as usize, datagram.written_ns, self.sequence, self.writer);
        Outcome::Complete
    }

    /// The range of a piece, if it is valid for the channel.
    fn place(&self, datagram: &Datagram<'_>) -> Option<FragmentSlot> {
        let channel = &self.channel;
        let (size, index) = (datagram.size as usize, datagram.index as usize);
        if size > channel.size || datagram.push == 0 {
            return None;
        }
        let (place, len) = match datagram.kind {
            Kind::Fragment if index < channel.fragments(size) => {
                (FragmentSlot::Fragment { index }, channel.fragment_len(index, size))
            }
            Kind::Parity if index < channel.groups(size) => {
                (FragmentSlot::Parity { group: index }, channel.fragment_len(index * channel.parity, size))
            }
            _ => return None,
        };
        (datagram.payload.len() == len).then_some(place)
    }

    /// Ends the push under way.
    fn leave(&mut self) {
        self.counters.incomplete += u64::from(self.missing > 0);
    }

    fn enter(&mut self, datagram: &Datagram<'_>) {
        self.leave();
        self.counters.lost += datagram.push - self.push - 1;
        self.push = datagram.push;
        self.size = datagram.size;
        self.sequence = datagram.sequence;
        self.writer = datagram.writer;
        let size = datagram.size as usize;
        self.missing = self.channel.fragments(size);
        self.have[..self.missing.div_ceil(64)].fill(0);
        self.groups[..self.channel.groups(size)].fill(Group::default());
    }

    fn has(&self, index: usize) -> bool {
        self.have[index / 64] >> (index % 64) & 1 == 1
    }

    fn mark(&mut self, index: usize) {
        self.have[index / 64] |= 1 << (index % 64);
        self.missing -= 1;
    }

    /// Adds a piece to its group's sum, which begins with the first piece and overwrites the sum of
    /// an earlier push.
    fn add(&mut self, group: usize, piece: &[u8]) {
        let fragment = self.channel.fragment;
        let first = self.groups[group].fragments == 0 && !self.groups[group].parity;
        let sum = &mut self.sums[group * fragment..(group + 1) * fragment];
        if first {
            sum[..piece.len()].copy_from_slice(piece);
            sum[piece.len()..].fill(0);
        } else {
            for (sum, byte) in sum.iter_mut().zip(piece) {
                *sum ^= byte;
            }
        }
    }

    /// Recovers the missing fragment of a group, if parity arrived and only one is missing.
    fn heal(&mut self, group: usize, sink: &mut impl Sink) {
        let size = self.size as usize;
        let first = group * self.channel.parity;
        let members = (self.channel.fragments(size) - first).min(self.channel.parity);
        let Group { fragments, parity } = self.groups[group];
        if !parity || usize::from(fragments) + 1 != members {
            return;
        }
        let Some(index) = (first..first + members).find(|index| !self.has(*index)) else { return };
        let from = group * self.channel.fragment;
        let len = self.channel.fragment_len(index, size);
        sink.put(index * self.channel.fragment, &self.sums[from..from + len]);
        self.mark(index);
        self.groups[group].fragments += 1;
        self.counters.recovered += 1;
    }

    fn ignore(&mut self, why: Ignored) -> Outcome {
        let counters = &mut self.counters;
        *match why {
            Ignored::Repeated => &mut counters.repeated,
            Ignored::Late => &mut counters.late,
            Ignored::Forged => &mut counters.forged,
            Ignored::OtherEpoch => &mut counters.other_epoch,
            Ignored::Malformed => &mut counters.malformed,
        } += 1;
        Outcome::Ignored(why)
    }
}

#[derive(Clone, Copy)]
enum FragmentSlot {
    Fragment { index: usize },
    Parity { group: usize },
}

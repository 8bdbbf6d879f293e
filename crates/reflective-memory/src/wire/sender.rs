//! The sender's half of a channel.

use super::datagram::{Datagram, HEADER, Kind};
use super::{Channel, ChannelError};

/// Cuts values into datagrams.
#[derive(Debug)]
pub struct Sender {
    channel: Channel,
    /// The value of the push under way, copied from its area, where it may change while it is sent.
    value: Box<[u8]>,
    parity: Box<[u8]>,
    push: u64,
    about: Loaded,
    next: Next,
    /// Pushes that a newer value ended before all of their datagrams were made.
    superseded: u64,
    /// Values that a later one overtook before they could be sent, modulo 2^32.
    skipped: u32,
}

/// The description of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Loaded {
    /// Bytes of it.
    pub len: usize,
    /// Its number at the writer.
    pub sequence: u64,
    /// Which writer wrote it.
    pub writer: u32,
    /// The time of writing in nanoseconds on this node's monotonic clock.
    pub written_ns: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    Fragment(usize),
    Parity(usize),
    Nothing,
}

impl Sender {
    /// A sender with memory for one value.
    ///
    /// # Errors
    /// When the channel cannot be.
    pub fn new(channel: Channel) -> Result<Sender, ChannelError> {
        channel.check()?;
        let parity = if channel.parity > 0 { channel.fragment } else { 0 };
        Ok(Sender {
            channel,
            value: vec![0; channel.size].into(),
            parity: vec![0; parity].into(),
            push: 0,
            about: Loaded::default(),
            next: Next::Nothing,
            superseded: 0,
            skipped: 0,
        })
    }

    /// Begins a push. `load` copies the value into the given memory and describes it. If `load`
    /// fails, only the push under way ends.
    ///
    /// # Errors
    /// Those of `load`.
    ///
    /// # Real-time
    /// Neither allocates nor blocks.
    pub fn begin<E>(&mut self, load: impl FnOnce(&mut [u8]) -> Result<Loaded, E>) -> Result<(), E> {
        self.superseded += u64::from(self.is_busy());
        self.next = Next::Nothing;
        let about = load(&mut self.value)?;
        self.about = Loaded { len: about.len.min(self.value.len()), ..about };
        self.push += 1;
        self.next = Next::Fragment(0);
        Ok(())
    }

    /// Makes the next datagram of the push under way and returns its length; `None` if there is
    /// none.
    ///
    /// `out` must have room for [`max_datagram`](Self::max_datagram) octets; less ends the push.
    ///
    /// # Real-time
    /// Neither allocates nor blocks.
    pub fn next(&mut self, now_ns: u64, out: &mut [u8]) -> Option<usize> {
        let (kind, index) = match self.next {
            Next::Fragment(index) => (Kind::Fragment, index),
            Next::Parity(group) => (Kind::Parity, group),
            Next::Nothing => return None,
        };
        let made = match kind {
            Kind::Fragment => self.fragment(index, now_ns, out),
            _ => self.group(index, now_ns, out),
        };
        self.next = if made.is_none() { Next::Nothing } else { self.after(kind, index) };
        made
    }

    /// Makes a heartbeat: the last value is still the latest; `about` is a number about the area,
    /// `flow` the octets that were sent and the number of the last credit.
    pub fn heartbeat(&self, about: u32, flow: (u64, u64), now_ns: u64, out: &mut [u8]) -> Option<usize> {
        let datagram = self.datagram(Kind::Heartbeat, about as usize, now_ns);
        let (sequence, written_ns) = flow;
        Datagram { sequence, written_ns, ..datagram }.write_head(out.first_chunk_mut()?);
        Some(HEADER)
    }

    /// Counts values that a later one overtook before they could be sent. The receiver learns it
    /// from each datagram.
    pub fn skip(&mut self, values: u64) {
        self.skipped = self.skipped.wrapping_add(values as u32);
    }

    /// Whether a push is under way.
    pub fn is_busy(&self) -> bool {
        self.next != Next::Nothing
    }

    /// The value of the last push.
    pub fn loaded(&self) -> Loaded {
        self.about
    }

    /// Pushes so far.
    pub fn pushes(&self) -> u64 {
        self.push
    }

    /// Pushes that a newer one ended before all of their datagrams were made.
    pub fn superseded(&self) -> u64 {
        self.superseded
    }

    /// The channel's parameters.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Octets of the largest datagram.
    pub fn max_datagram(&self) -> usize {
        HEADER + self.channel.fragment.min(self.channel.size)
    }

    /// The successor of a datagram: parity closes each group, then the fragments continue.
    fn after(&self, kind: Kind, index: usize) -> Next {
        let (count, group) = (self.channel.fragments(self.about.len), self.channel.parity);
        let done = match kind {
            Kind::Fragment => index + 1,
            _ => ((index + 1) * group).min(count),
        };
        let closes = done == count || (group > 0 && done.is_multiple_of(group));
        if let (Kind::Fragment, true, Some(group)) = (kind, closes, index.checked_div(group)) {
            Next::Parity(group)
        } else if done < count {
            Next::Fragment(done)
        } else {
            Next::Nothing
        }
    }

    fn fragment(&mut self, index: usize, now_ns: u64, out: &mut [u8]) -> Option<usize> {
        let len = self.channel.fragment_len(index, self.about.len);
        let from = index * self.channel.fragment;
        let piece = self.value.get(from..from + len)?;
        let payload = self.head(Kind::Fragment, index, now_ns, out)?.get_mut(..len)?;
        payload.copy_from_slice(piece);
        if self.channel.parity > 0 {
            if index.is_multiple_of(self.channel.parity) {
                self.parity.fill(0);
            }
            for (sum, byte) in self.parity.iter_mut().zip(piece) {
                *sum ^= byte;
            }
        }
        Some(HEADER + len)
    }

    fn group(&mut self, group: usize, now_ns: u64, out: &mut [u8]) -> Option<usize> {
        // As long as the longest of the group, its first.
        let len = self.channel.fragment_len(group * self.channel.parity, self.about.len);
        let payload = self.head(Kind::Parity, group, now_ns, out)?.get_mut(..len)?;
        payload.copy_from_slice(self.parity.get(..len)?);
        Some(HEADER + len)
    }

    fn head<'o>(&self, kind: Kind, index: usize, now_ns: u64, out: &'o mut [u8]) -> Option<&'o mut [u8]> {
        let (head, payload) = out.split_first_chunk_mut::<HEADER>()?;
        self.datagram(kind, index, now_ns).write_head(head);
        Some(payload)
    }

    fn datagram(&self, kind: Kind, index: usize, now_ns: u64) -> Datagram<'static> {
        Datagram {
            kind,
            channel: self.channel.id,
            epoch: self.channel.epoch,
            token: self.channel.token,
            push: self.push,
            sequence: self.about.sequence,
            written_ns: self.about.written_ns,
            size: self.about.len as u32,
            index: index as u32,
            writer: self.about.writer,
            skipped: self.skipped,
            sent_ns: now_ns,
            payload: &[],
        }
    }
}

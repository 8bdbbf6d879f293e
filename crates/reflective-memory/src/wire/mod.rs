//! The protocol between nodes, without any socket: bytes and the time go in, bytes and values come
//! out.
//!
//! A *push* carries one value of an area, cut into fragments of equal size. A newer push ends an
//! older one: the latest value matters, so nothing is sent again. A channel may send a parity
//! datagram after each group of fragments, from which one lost fragment is recovered.
//!
//! ```text
//!  area ─► Sender: value ─► fragment 0 │ fragment 1 │ parity 0 │ fragment 2 │ …      (Pacer: when)
//!                                   │ network: loses, repeats, reorders, forges
//!  area ◄─ Receiver: whole value, or nothing and a counter
//! ```
//!
//! A value is published when each of its bytes has arrived, and never otherwise. Every push ends in
//! exactly one counter: complete, incomplete, or nothing of it arrived. A datagram from another
//! address than the peer's, or with another token, channel or epoch than agreed through the ORB, is
//! counted and changes nothing. The token is a secret between two nodes and is sent in the clear.
//! It keeps strangers out, unless they can read the network; against those use IPsec or WireGuard.

mod datagram;
mod pacer;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use datagram::{Datagram, HEADER, Kind, Malformed};
pub use pacer::Pacer;
pub use receiver::{Counters, Ignored, Outcome, Receiver, Sink};
pub use sender::{Loaded, Sender};

use core::fmt;

/// The largest fragment that fits into a UDP datagram over IPv4.
pub const MAX_FRAGMENT: usize = 65_507 - HEADER;

/// The fragment size that fits into an Ethernet frame (MTU 1500) over IPv4 and IPv6, a multiple of
/// 8.
pub const ETHERNET_FRAGMENT: usize = 1376;

/// The parameters that both ends of a channel have agreed upon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Channel {
    /// The receiver's number for it.
    pub id: u32,
    /// The number of the agreement: a channel that is set up again has a later one, and datagrams
    /// of earlier ones are void.
    pub epoch: u32,
    /// The secret that each datagram must carry.
    pub token: u64,
    /// Bytes of the largest value.
    pub size: usize,
    /// Bytes of a fragment.
    pub fragment: usize,
    /// Fragments for which there is one parity datagram; 0 for none.
    pub parity: usize,
}

/// An invalid channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChannelError {
    /// The parameter.
    pub what: &'static str,
    /// The requested number.
    pub requested: usize,
    /// The limit.
    pub limit: usize,
}

impl Channel {
    /// Checks the sizes; both ends do so before they allocate.
    ///
    /// # Errors
    /// The number that is wrong, and its limit.
    pub fn check(&self) -> Result<(), ChannelError> {
        let within = |what, requested, limit| match requested {
            1.. if requested <= limit => Ok(()),
            _ => Err(ChannelError { what, requested, limit }),
        };
        within("the size", self.size, isorb_memory_area::MAX_SIZE)?;
        within("the fragment", self.fragment, MAX_FRAGMENT)?;
        if self.parity > 255 {
            return Err(ChannelError { what: "the parity group", requested: self.parity, limit: 255 });
        }
        Ok(())
    }

    /// Fragments of a value of `len` bytes; one for an empty value, which has to arrive too.
    pub fn fragments(&self, len: usize) -> usize {
        len.div_ceil(self.fragment).max(1)
    }

    /// Parity datagrams of a value of `len` bytes.
    pub fn groups(&self, len: usize) -> usize {
        if self.parity == 0 { 0 } else { self.fragments(len).div_ceil(self.parity) }
    }

    /// Datagrams of a value of `len` bytes.
    pub fn datagrams(&self, len: usize) -> usize {
        self.fragments(len) + self.groups(len)
    }

    /// Bytes on the wire of a value of `len` bytes, with UDP, IPv4 and Ethernet around each
    /// datagram. Admission uses it for links.
    pub fn wire_bytes(&self, len: usize) -> usize {
        // 8 UDP, 20 IP; Ethernet 14 + 4 + preamble 8 + gap 12 a frame. Datagrams beyond a frame are
        // cut by IP.
        let around = |payload: usize| {
            let packet = payload + HEADER + 8;
            let frames = packet.div_ceil(1480).max(1);
            packet + frames * (20 + 38)
        };
        let whole = len / self.fragment;
        let rest = len % self.fragment;
        let data = whole * around(self.fragment) + if rest > 0 || len == 0 { around(rest) } else { 0 };
        data + self.groups(len) * around(self.fragment.min(len))
    }

    /// Bytes of fragment `index` of a value of `len` bytes.
    fn fragment_len(&self, index: usize, len: usize) -> usize {
        len.saturating_sub(index * self.fragment).min(self.fragment)
    }
}

impl fmt::Display for ChannelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}: there may be 1 to {}", self.what, self.requested, self.limit)
    }
}

impl core::error::Error for ChannelError {}

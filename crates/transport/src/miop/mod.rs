//! MIOP: a message to all members of a multicast group, in packets of UDP (CORBA 3.3 part 2, clause
//! 11).
//!
//! A sender has a [`Stream`] on which no reply arrives. A member has a [`Member`]: a socket, memory
//! in which messages are reassembled, and a thread of the caller.
//!
//! ```text
//!   Stream::send ── packets ──► group ──► Member::serve: a packet? ─► its message is whole? ─► each(message, sender)
//!                                            │ no: counted            │ not yet: kept, bounded
//! ```
//!
//! Nothing is retransmitted, and the sender does not learn which members received a message. Any
//! host that can send to the group can forge a sender.

mod counts;
mod member;
mod sender;

pub use counts::{GroupCounts, GroupStatistics};
pub use member::{Member, Memory};

use crate::{Capabilities, Listener, Multicast, Stream, Transport};
use isorb_giop::miop::{Limits, PacketHead};
use isorb_giop::profile::TAG_UIPMC;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Octets of a datagram that pass an Ethernet in one piece, over either family.
pub const ETHERNET_PACKET: usize = 1452;

/// Multicast with MIOP's framing. Addresses are `group:port` and `[v6 group]:port`.
#[derive(Clone, Debug)]
pub struct Miop {
    /// On which interface, and how far.
    pub multicast: Multicast,
    /// The longest datagram that is sent, in octets; more than the header's 32.
    pub packet: usize,
    /// The longest message that is sent, and of those under way the longest that a member puts
    /// together, in octets.
    pub message: usize,
    /// Messages under way that a member keeps.
    pub messages: usize,
    /// How long a message may take from its first packet that comes.
    pub age: Duration,
    /// What became of packets and messages.
    pub counts: Arc<GroupCounts>,
}

impl Default for Miop {
    fn default() -> Miop {
        Miop {
            multicast: Multicast::default(),
            packet: ETHERNET_PACKET,
            message: 64 << 10,
            messages: 16,
            age: Duration::from_millis(500),
            counts: Arc::default(),
        }
    }
}

impl Miop {
    /// Becomes a member of a group.
    ///
    /// # Errors
    /// What the operating system gives.
    pub fn join(&self, group: SocketAddr) -> io::Result<Member> {
        Member::join(self, group)
    }

    /// A message may come in packets of 64 octets on the average, which is less than any header.
    fn limits(&self) -> Limits {
        let age_ns = u64::try_from(self.age.as_nanos()).unwrap_or(u64::MAX);
        Limits { messages: self.messages, octets: self.message, packets: (self.message / 64).max(16), age_ns }
    }

    /// Octets of a message that a packet carries.
    fn piece(&self) -> usize {
        self.packet.clamp(PacketHead::LEN + 8, crate::LONGEST_DATAGRAM) - PacketHead::LEN
    }
}

impl Transport for Miop {
    fn name(&self) -> &'static str {
        "miop"
    }

    fn profile_tag(&self) -> u32 {
        TAG_UIPMC
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            reliable: false,
            pollable: true,
            crosses_hosts: true,
            notices_death: false,
            multicast: true,
        }
    }

    /// Does not wait: nothing is sent.
    fn connect(&self, address: &str, _: Option<Duration>) -> io::Result<Box<dyn Stream>> {
        let group = address.parse().map_err(|_| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{address} is no address of a group, with a port"),
            )
        })?;
        Ok(Box::new(sender::Sender::connect(self, group)?))
    }

    /// There are no connections to accept: see [`Miop::join`].
    fn listen(&self, address: &str) -> io::Result<Box<dyn Listener>> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!(
                "{address}: a group accepts no connections; associate an object with the group's reference instead \
                 (Poa::associate_reference_with_id)"
            ),
        ))
    }
}

#[cfg(test)]
mod tests;

//! Requests to all members of a group: the Unreliable Multicast Inter-ORB Protocol (CORBA 3.3 part
//! 2, clause 11).
//!
//! A group's reference has a profile with the address of an IP multicast group and a component that
//! identifies the object group. A request is one GIOP message, which names the group by that
//! profile, cut into the packets of a collection. No member replies.
//!
//! ```text
//!   request ─ PacketHead before each piece ─► datagrams ─► Packet::parse ─ Collector ─► request
//!                                                                          bounded       └ GroupRequest
//! ```
//!
//! As everywhere in this crate there is no socket and no clock: the caller passes datagrams and
//! times.

mod collector;
mod group;
mod packet;
mod request;

pub use collector::{Collector, Limits, Lost, LostCounts, Taken};
pub use group::{Group, GroupRef, TAG_GROUP, TAG_GROUP_IIOP, UipmcProfile};
pub use packet::{ID_LEN, MAX_ID, Packet, PacketError, PacketHead};
pub use request::{GroupRequest, NotForGroup};

//! Federations: channels that forward events to each other.
//!
//! Each member announces the filters of its own consumers. Neighbours pass this on, so every member
//! knows the interests of all others and the routes to them. For each source (a channel where
//! events enter), a member requests the events from one neighbour on the route, for its own
//! consumers and for the members that request them from it. So an event crosses a link only if a
//! consumer beyond wants it, and only over one route, in a line, a tree or a ring.
//!
//! ```text
//!   interests: what is wanted, everywhere          3 ──► 2 ──► 1
//!   requests: to one neighbour, for members beyond 3 ──► 2 ──► 1      (events of 1, for 3)
//!   positions: which requests are granted          1 ──► 2 ──► 3
//!   events: each with its number and the one before it
//! ```
//!
//! The channel where an event enters gives it a number, and each event names the number of the one
//! sent before it. So the receiver knows that an event is new and that none is missing. If one is
//! missing, it requests the events again from its position. The request goes as far as the source,
//! which keeps the last events in a [`History`]. Routes change by the same messages: the new
//! neighbour is asked for the following events, and the old one continues until the new one has
//! begun. So a cut link, a stalled neighbour, or a lost or reordered datagram causes no loss, no
//! repetition and no reordering, as long as the history reaches back. Events that it does not reach
//! are counted.
//!
//! All this exists once for each priority level ([`Levels`]): interests, requests, numbers and
//! history. So no event waits behind a less urgent one. Each consumer belongs to one level and
//! receives a channel's events in order. An event that is wanted at two levels crosses a link
//! twice.
//!
//! A [`Transport`] carries messages and events to a neighbour.

mod builder;
mod event_log;
mod forwarding;
mod gateways;
pub mod growth;
mod interest;
mod level_state;
mod levels;
mod link_log;
mod link_notifier;
mod marks;
mod messages;
mod node;
mod pacing;
mod protocol;
mod renumber;
mod requests;
mod security;
#[cfg(test)]
mod simulation;
mod sorted_map;
mod streams;

pub use builder::{FederationBuilder, Gateways};
pub use interest::{Interest, MAX_FILTERS};
pub use levels::Levels;
pub use marks::LevelMarks;
pub use messages::{ControlMessage, ForwardedEvent, StreamPosition, StreamRequest};
pub use node::{Federation, LinkId, Neighbour};
pub use pacing::{MESSAGE_OVERHEAD, Pace};
#[cfg(not(loom))]
pub(crate) use security::PROOF;
pub use security::{MIN_KEY, MemberKey, Security};

/// The events that a member keeps at each level for repetition, its own and others'.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct History {
    /// The most events.
    pub events: usize,
    /// The most octets of their data. A larger event is lost and counted.
    pub octets: usize,
}

impl Default for History {
    /// 4096 events, 1 MiB.
    fn default() -> History {
        History { events: 4096, octets: 1 << 20 }
    }
}

/// The counts of a member's links.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FederationCounts {
    /// Events sent to neighbours.
    pub forwarded: u64,
    /// Upper bound of wanted events that did not arrive: too large for a link, or no longer in the
    /// history when they were requested again.
    pub lost: u64,
    /// New events from neighbours.
    pub received: u64,
    /// Events that were repeated, or came from a neighbour without a current request, and were
    /// dropped.
    pub repeated: u64,
    /// Events without a hop left.
    pub expired: u64,
    /// Times that the events of a level waited at a link for the rate that [`Pace`] admits.
    pub paced: u64,
    /// Datagrams and joins without the key, or with that of a message that arrived before.
    pub unauthenticated: u64,
}

impl FederationCounts {
    fn and(self, other: FederationCounts) -> FederationCounts {
        FederationCounts {
            forwarded: self.forwarded + other.forwarded,
            lost: self.lost + other.lost,
            received: self.received + other.received,
            repeated: self.repeated + other.repeated,
            expired: self.expired + other.expired,
            paced: self.paced + other.paced,
            unauthenticated: self.unauthenticated + other.unauthenticated,
        }
    }
}

/// A reading of another host's clock, in ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockReading {
    /// This host's clock before the question was sent.
    pub sent_ns: u64,
    /// The other host's clock.
    pub far_ns: u64,
    /// This host's clock when the answer had arrived.
    pub arrived_ns: u64,
}

/// Carries messages and events to one neighbour, or to the members of a multicast group.
pub trait Transport: Send + Sync {
    /// Sends control messages. Events that are sent after a successful return arrive after them.
    ///
    /// # Errors
    /// [`LinkDown`]: they were not delivered. The next [`Federation::tick`] sends them again; until
    /// then no events are forwarded.
    fn announce(&self, messages: &[ControlMessage]) -> Result<(), LinkDown>;

    /// Sends an event. At each level one thread at a time does so. Threads of several levels may do
    /// so at the same time, and should not wait for a less urgent one.
    ///
    /// # Errors
    /// [`ForwardError`].
    fn forward(&self, event: &ForwardedEvent<'_>) -> Result<(), ForwardError>;

    /// Reads the clock of the other end, for the offset between both hosts. `None` by default: the
    /// transport cannot tell. It is called with each tick, and may wait as long as
    /// [`announce`](Self::announce).
    fn read_clock(&self) -> Option<ClockReading> {
        None
    }

    /// Whether the other end is known; true by default. Until then messages are not delivered,
    /// which says nothing of the neighbour.
    fn is_joined(&self) -> bool {
        true
    }

    /// The address of the other end, for tools and log records.
    fn address(&self) -> String {
        String::new()
    }
}

/// The neighbour cannot be reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkDown;

impl std::fmt::Display for LinkDown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the neighbouring channel cannot be reached")
    }
}

impl std::error::Error for LinkDown {}

/// Why an event was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ForwardError {
    /// The neighbour cannot be reached. The event is sent again when it can.
    Down,
    /// The event is larger than the link can send. It is lost beyond the link, and counted.
    TooLarge,
}

impl std::fmt::Display for ForwardError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ForwardError::Down => LinkDown.fmt(f),
            ForwardError::TooLarge => f.write_str("the event is larger than the link can send"),
        }
    }
}

impl std::error::Error for ForwardError {}

//! Channels that forward to each other.
//!
//! Each channel tells its neighbours what its own consumers want; they pass that on, so that every channel knows, for each other,
//! what is wanted there and which neighbour is the way. For each channel where events enter, a channel asks one neighbour for them,
//! the one that is the way there, and says for whose consumers: its own, and those of the neighbours that ask it in turn. So an event
//! crosses a link only if somebody beyond wants it, and by one way only, in a link_entry, a tree, a ring.
//!
//! ```text
//!   interests: what is wanted, everywhere          3 ──► 2 ──► 1
//!   requests: who is asked, by whom, for whom         3 ──► 2 ──► 1      (events of 1, for 3)
//!   positions: whose request is granted, from where    1 ──► 2 ──► 3
//!   events: each with its number and the one before it
//! ```
//!
//! An event has a number that the channel gave it where it entered, and names the number of the one that was sent before it. So who takes it
//! knows that it is new and that nothing is missing; else asks again, from where it is, and that goes as far as the channel where
//! the events entered, which has the last of them in a [`History`]. A way is changed in the same words: the new neighbour is asked for what follows,
//! the old one goes on until it has begun. So a link that is cut, a neighbour that stalls, a datagram that is lost or overtaken leads to neither loss nor doubles
//! nor another order as long as the history reaches back; what it does not reach is counted.
//!
//! All that is there once for each level of urgency ([`Levels`]): a consumer's wish, an event on its way to it, its number, the history. So nothing
//! waits behind what is less urgent, and each consumer, which is of one level, gets a channel's events in order all the same. An event that is
//! wanted at two levels crosses a link twice.
//!
//! How octets come to a neighbour is a [`Transport`]'s business.

mod builder;
mod event_log;
mod forwarding;
mod gateways;
mod interest;
mod level_state;
mod levels;
mod link_notifier;
mod messages;
mod node;
mod protocol;
mod requests;
#[cfg(test)]
mod simulation;
mod streams;

pub use builder::{FederationBuilder, Gateways};
pub use interest::{Interest, MAX_FILTERS};
pub use levels::Levels;
pub use messages::{ControlMessage, ForwardedEvent, StreamPosition, StreamRequest};
pub use node::{Federation, LinkId};

/// How many of the events that are to be passed on a channel remembers at each level, its own and others'.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct History {
    /// So many events at most.
    pub events: usize,
    /// Their data have so many octets at most; an event that has more is lost, and counted.
    pub octets: usize,
}

impl Default for History {
    /// 4096 events, 1 MiB.
    fn default() -> History {
        History { events: 4096, octets: 1 << 20 }
    }
}

/// What crossed the links of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FederationCounts {
    /// Events sent to neighbours.
    pub forwarded: u64,
    /// Events that did not come where they were wanted, at most: too large for a link, or asked for again when the history did not reach back to
    /// them any more.
    pub lost: u64,
    /// Events that came from neighbours and were new.
    pub received: u64,
    /// Events that came again, or from a neighbour that was not asked for them any more, and were dropped.
    pub repeated: u64,
    /// Events that had no hop left.
    pub expired: u64,
}

impl FederationCounts {
    fn and(self, other: FederationCounts) -> FederationCounts {
        FederationCounts {
            forwarded: self.forwarded + other.forwarded,
            lost: self.lost + other.lost,
            received: self.received + other.received,
            repeated: self.repeated + other.repeated,
            expired: self.expired + other.expired,
        }
    }
}

/// The way to one neighbour, or to all that listen to a group.
pub trait Transport: Send + Sync {
    /// Tells the neighbour how things are, at one level or several. When this returns without an error, what is sent from now on comes
    /// after it.
    ///
    /// # Errors
    /// [`LinkDown`]: it was not told. The next [`Federation::tick`] tells it again; until then nothing is forwarded.
    fn announce(&self, messages: &[ControlMessage]) -> Result<(), LinkDown>;

    /// Sends it an event. At each level one thread at a time does so; those of several levels may do so at once, and none should wait
    /// for one that is less urgent.
    ///
    /// # Errors
    /// [`ForwardError`].
    fn forward(&self, event: &ForwardedEvent<'_>) -> Result<(), ForwardError>;
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
    /// The neighbour cannot be reached. It is sent again when it can.
    Down,
    /// It is larger than anything the link can send; it is lost for what lies beyond, and counted.
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

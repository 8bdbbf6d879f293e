//! The messages between neighbours.

use super::Interest;
use crate::event::Event;

/// A member's state for its neighbours. It says how things are, not what changed, so a repetition
/// does no harm.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ControlMessage {
    /// The sending member.
    pub sender: u64,
    /// The priority level.
    pub level: u8,
    /// The interests of members to which the sender is a route.
    pub interests: Vec<Interest>,
    /// The streams that the sender requests.
    pub requests: Vec<StreamRequest>,
    /// How far the sender is with the events that it sends.
    pub positions: Vec<StreamPosition>,
}

/// A request for a source's events to one neighbour, the sender's only route to that source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamRequest {
    /// The channel where the events enter.
    pub source: u64,
    /// The requested neighbour. Other receivers learn that they are not requested (any more).
    pub parent: u64,
    /// The number of the request; a larger one replaces smaller ones.
    pub number: u64,
    /// The last number received of the source; `None` for a subscriber that has received none and
    /// wants future events.
    pub after: Option<u64>,
    /// The members that want the events, sorted. Empty: the request is withdrawn.
    pub consumers: Vec<u64>,
}

/// How far a member is with a source's events on a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamPosition {
    /// The channel where the events enter.
    pub source: u64,
    /// Rises each time the stream begins again at an earlier event.
    pub epoch: u64,
    /// The last number sent in this epoch, or the number at which it begins.
    pub position: u64,
    /// The requests that this epoch grants: neighbour and number.
    pub granted: Vec<(u64, u64)>,
}

/// An event on a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForwardedEvent<'a> {
    /// The level at which it is wanted.
    pub level: u8,
    /// The sending member, which need not be the one where it entered.
    pub sender: u64,
    /// The epoch of its source on this link.
    pub epoch: u64,
    /// The number of the source's event that was sent before. No requested event lies between the
    /// two.
    pub previous: u64,
    /// The event; its stamp has its source and number.
    pub event: Event<'a>,
}

//! What channels say to their neighbours.

use super::Interest;
use crate::event::Event;

/// What one channel tells its neighbours over a link. It says how things are, not what has changed, so it does no harm to be told twice.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ControlMessage {
    /// The channel that says it.
    pub sender: u64,
    /// The level of urgency that it is about.
    pub level: u8,
    /// What channels want, as far as the sender is a way to them.
    pub interests: Vec<Interest>,
    /// Whose events the sender wants from its neighbours.
    pub requests: Vec<StreamRequest>,
    /// How far the sender is with what it sends.
    pub positions: Vec<StreamPosition>,
}

/// A channel asks one neighbour for the events of a third: the neighbour is its way to them, and the only one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamRequest {
    /// The channel where the events enter.
    pub source: u64,
    /// The neighbour that is asked. Others that hear it know that they are not, or not any more.
    pub parent: u64,
    /// Which request this is; a larger one takes the place of those before.
    pub number: u64,
    /// The last number of the source's events that has come; `None` who has had none yet and wants those to come.
    pub after: Option<u64>,
    /// The channels for whose consumers the events are, in order. None: they are not wanted any more.
    pub consumers: Vec<u64>,
}

/// How far a channel is with a source's events on a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamPosition {
    /// The channel where the events enter.
    pub source: u64,
    /// Rises each time the events begin anew at an earlier one.
    pub epoch: u64,
    /// The last number that was sent in this epoch, or where it begins.
    pub position: u64,
    /// Which request of which neighbour this epoch answers.
    pub granted: Vec<(u64, u64)>,
}

/// An event on a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForwardedEvent<'a> {
    /// The level of urgency at which it is wanted.
    pub level: u8,
    /// The channel that sends it, which need not be the one where it entered.
    pub sender: u64,
    /// The epoch of its source on this link.
    pub epoch: u64,
    /// The number of its source's event that was sent before it: between the two there is nothing that was asked for.
    pub previous: u64,
    /// The event; its stamp says where it entered, and its number there.
    pub event: Event<'a>,
}

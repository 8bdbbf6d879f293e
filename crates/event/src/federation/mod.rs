//! Channels that forward to each other.
//!
//! Each channel tells its neighbours what its own consumers want; they pass that on, so that every channel knows, for each other,
//! what is wanted there and which neighbour is the way. For each link the channel has one consumer, a gateway, that subscribes to the
//! union of what is wanted beyond it (conjunctions taken apart, since their events may come from both sides). So an event
//! crosses a link only if somebody beyond it wants it, and the channel's own tables say so.
//!
//! There may be any number of ways between two channels, in a line, a tree, a ring. Each event carries the number of the channel
//! where it entered and its sequence number there; a channel that has seen it drops it. A time-to-live limits the
//! distance besides, but could not do that by itself.
//!
//! How octets come to a neighbour is a [`Link`]'s business.

mod gateways;
mod interest;
mod node;
mod seen;

pub use interest::{Interest, MAX_FILTERS};
pub use node::{Federation, FederationCounts, LinkId};

use crate::event::Event;

/// The way to one neighbour.
pub trait Link: Send + Sync {
    /// Tells the neighbour what is wanted at and beyond this channel. Interests are versioned, so it does no harm to tell one twice.
    ///
    /// # Errors
    /// [`LinkDown`]: it was not told. The next [`Federation::tick`] tells it again.
    fn announce(&self, interests: &[Interest]) -> Result<(), LinkDown>;

    /// Sends it an event.
    ///
    /// # Errors
    /// [`LinkDown`]: the event is lost for what lies beyond, and counted.
    fn forward(&self, event: &Event<'_>) -> Result<(), LinkDown>;
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

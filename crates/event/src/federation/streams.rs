//! The streams of a source's events through a member: the incoming one and the outgoing ones.
//!
//! For each source a member receives the events from one neighbour. The source numbers the events,
//! and each names the one before it. So the receiver knows that none is missing, or requests it
//! again. A request goes as far as the source, which still has its last events.

use super::interest::Peer;
use super::sorted_map::SortedMap;

/// The incoming stream of a source.
#[derive(Default)]
pub(super) struct Upstream {
    /// The current subscription.
    pub current: Option<Subscription>,
    /// The next subscription. The current one continues until this one has begun.
    pub next: Option<Subscription>,
    /// All wanted events up to this number have arrived; `None` before the first.
    pub position: Option<u64>,
    /// The largest number that has arrived.
    pub newest: u64,
    /// Own consumers have received all events up to this number.
    pub delivered: u64,
    /// The process of the source that gave these numbers.
    pub incarnation: Option<u64>,
    /// Events are missing.
    pub gap: bool,
    /// The neighbour's last message was ahead of this position; events may be on their way.
    pub behind: Option<u64>,
    /// Missing events were requested since the last tick and not granted. More requests would only
    /// add traffic.
    pub requested: bool,
}

/// A subscription at a neighbour.
pub(super) struct Subscription {
    pub peer: Peer,
    pub number: u64,
    /// The members that want the events, sorted.
    pub consumers: Vec<u64>,
    pub after: Option<u64>,
    /// The epoch of the neighbour's stream; `None` until it has announced one.
    pub epoch: Option<u64>,
    /// All events up to this number have arrived.
    pub position: u64,
}

impl Upstream {
    pub(super) fn subscriptions(&self) -> impl Iterator<Item = &Subscription> {
        self.next.iter().chain(&self.current)
    }

    /// The subscription over this link.
    pub(super) fn over(&self, link: super::LinkId) -> Option<&Subscription> {
        self.subscriptions().find(|subscription| subscription.peer.link == link)
    }
}

/// The outgoing stream of a source over one link.
#[derive(Default)]
pub(super) struct Downstream {
    /// 0: the stream has not begun or was interrupted.
    pub epoch: u64,
    /// The last number sent.
    pub position: u64,
    /// Events before this log index were not covered by the requests and may have gaps.
    pub since: u64,
    /// The neighbours that requested it.
    pub children: SortedMap<u64, Child>,
}

/// A neighbour that requested a stream.
pub(super) struct Child {
    pub number: u64,
    pub after: Option<u64>,
    /// The members that want the events, sorted.
    pub consumers: Vec<u64>,
    pub state: RequestState,
    /// The earlier request, which holds until this one is granted.
    pub before: Option<u64>,
    /// The time of its last request.
    pub at: u64,
}

/// The state of a neighbour's request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RequestState {
    Pending,
    Granted,
    /// Events for it are lost: it must request again, from its position.
    Lapsed,
}

impl Downstream {
    /// Interrupts the stream: events for it are lost.
    pub(super) fn interrupt(&mut self) {
        self.epoch = 0;
        for child in self
            .children
            .values_mut()
            .filter(|child| child.state == RequestState::Granted || child.before.is_some())
        {
            (child.state, child.before) = (RequestState::Lapsed, None);
        }
    }

    /// Grants the requests that are `ready`, each from the number that `from` returns. Returns the
    /// number at which the stream continues for all, if any was granted.
    pub(super) fn grant(
        &mut self,
        ready: impl Fn(&Child) -> bool,
        from: impl Fn(&Child) -> u64,
    ) -> Option<u64> {
        let shared = self.is_shared().then_some(self.position);
        let mut first = None;
        for child in self.children.values_mut().filter(|child| ready(child)) {
            first = Some(first.map_or(from(child), |first: u64| first.min(from(child))));
            (child.state, child.before) = (RequestState::Granted, None);
        }
        first.map(|first| shared.map_or(first, |shared| shared.min(first)))
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = &Child> {
        self.children.values().filter(|child| child.state == RequestState::Pending)
    }

    /// Returns true if the stream runs already, so that a new request would share it.
    pub(super) fn is_shared(&self) -> bool {
        self.epoch != 0 && self.children.values().any(|child| child.state == RequestState::Granted)
    }
}

/// Returns true if all of `these` are among `those`. Both are sorted.
pub(super) fn within(these: &[u64], those: &[u64]) -> bool {
    these.iter().all(|one| those.binary_search(one).is_ok())
}

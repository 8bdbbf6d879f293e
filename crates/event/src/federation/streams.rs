//! A source's events on their way: where they come in, and where they go out.
//!
//! For each source a channel has one neighbour that it takes the events from. What is between two channels is numbered by the source,
//! and each event names the one before, so that whoever takes it knows that nothing is missing, or asks for it again. Asking
//! goes as far as the source, which has its last events still.

use super::interest::Peer;
use std::collections::BTreeMap;

/// The events of one source, as they come in.
#[derive(Default)]
pub(super) struct Upstream {
    /// Where they come from.
    pub current: Option<Subscription>,
    /// Where they will come from once that neighbour has begun: until then the current one goes on.
    pub next: Option<Subscription>,
    /// All up to this number has come that is wanted; `None` before there was any.
    pub position: Option<u64>,
    /// The largest number that has come.
    pub newest: u64,
    /// Up to this number own consumers have got what they want.
    pub delivered: u64,
    /// Something is missing.
    pub gap: bool,
    /// The neighbour was further than this when it last message_sent so; the events may be on their way.
    pub behind: Option<u64>,
    /// What was missing has been asked for, since the last tick, and not been granted: asking more often would only make more traffic.
    pub asked: bool,
}

/// What a neighbour is asked for.
pub(super) struct Subscription {
    pub peer: Peer,
    pub number: u64,
    /// For whose consumers, in order.
    pub consumers: Vec<u64>,
    pub after: Option<u64>,
    /// Under which epoch the neighbour sends; `None` until it has message_sent so.
    pub epoch: Option<u64>,
    /// The number up to which all has come.
    pub position: u64,
}

impl Upstream {
    pub(super) fn subscriptions(&self) -> impl Iterator<Item = &Subscription> {
        self.next.iter().chain(&self.current)
    }

    /// What a neighbour over this link is asked for now.
    pub(super) fn over(&self, link: super::LinkId) -> Option<&Subscription> {
        self.subscriptions().find(|subscription| subscription.peer.link == link)
    }
}

/// The events of one source, as they go out over one link.
#[derive(Default)]
pub(super) struct Downstream {
    /// 0: they do not go yet, or not any more.
    pub epoch: u64,
    /// The last number that was sent.
    pub position: u64,
    /// What lies before this index of the log was not asked for in the same words, and may have gaps.
    pub since: u64,
    /// Which neighbours want them.
    pub children: BTreeMap<u64, Child>,
}

/// A neighbour that wants events.
pub(super) struct Child {
    pub number: u64,
    pub after: Option<u64>,
    /// For whose consumers, in order.
    pub consumers: Vec<u64>,
    pub state: RequestState,
    /// The request before, which still holds until this one is granted.
    pub before: Option<u64>,
    /// When it asked last.
    pub at: u64,
}

/// What has become of a neighbour's request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RequestState {
    Pending,
    Granted,
    /// Events that were to go to it are gone: it must ask again, from where it is.
    Lapsed,
}

impl Downstream {
    /// Events that were to go are gone.
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

    /// Grants what those ask for who are `ready`, each from where `from` says. Says from where the events go to all then, if there are any.
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

    /// Is somebody sent these events, with whom one who waits would share them?
    pub(super) fn is_shared(&self) -> bool {
        self.epoch != 0 && self.children.values().any(|child| child.state == RequestState::Granted)
    }
}

/// Are all of these among those? Both are in order.
pub(super) fn within(these: &[u64], those: &[u64]) -> bool {
    these.iter().all(|one| those.binary_search(one).is_ok())
}

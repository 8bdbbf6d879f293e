//! A channel's place in a federation, without threads, clocks or locks: what it hears goes in, what it says comes out.
//!
//! The node runs it, and so does the simulation.

use super::event_log::EventLog;
use super::interest::{Interests, Peer, limited};
use super::streams::{Downstream, RequestState, Upstream};
use super::{ControlMessage, FederationCounts, History, Interest, LinkId, StreamPosition, StreamRequest};
use crate::filter::Filter;
use crate::supplier::Publication;
use std::collections::{BTreeMap, BTreeSet};

/// How many channels a federation can have, as far as one of them remembers.
pub(super) const MAX_CHANNELS: usize = 1024;

pub(super) struct Protocol {
    pub(super) id: u64,
    /// The last number that was given to a request or an epoch.
    pub(super) serial: u64,
    /// The number of the last event that entered here, and of the last before this process did.
    pub(super) sequence: u64,
    pub(super) first: u64,
    /// As the last tick message_sent; nothing before the first.
    pub(super) now: Option<u64>,
    /// What this channel's own consumers want, and what its own suppliers push; `None` if that is not known.
    own: Vec<Filter>,
    published: Option<Vec<Publication>>,
    version: u64,
    /// Its own consumers' wishes were announced.
    told: bool,
    pub(super) interests: Interests,
    pub(super) upstreams: BTreeMap<u64, Upstream>,
    pub(super) links: BTreeMap<LinkId, LinkState>,
    pub(super) log: EventLog,
    /// The index of the event that own consumers get next.
    pub(super) local: u64,
    pub(super) counts: FederationCounts,
    /// Something else is wanted of this channel's own suppliers than before.
    pub(super) wanted_changed: bool,
}

/// What a channel knows of a link.
pub(super) struct LinkState {
    /// The last message arrived.
    pub(super) up: bool,
    /// Since which tick none has.
    down_since: Option<u64>,
    /// The index of the event that is next.
    pub(super) cursor: u64,
    /// What goes over it, by source.
    pub(super) streams: BTreeMap<u64, Downstream>,
    /// Sources whose events begin anew, which the neighbours have not heard yet: until then nothing is sent.
    pub(super) fresh: BTreeSet<u64>,
    pub(super) pending: PendingUpdates,
}

/// What has not been message_sent over a link, by channel.
#[derive(Default)]
pub(super) struct PendingUpdates {
    /// Whether it is news, which is passed on whichever route it came.
    interests: BTreeMap<u64, bool>,
    pub(super) requests: BTreeSet<u64>,
    pub(super) positions: BTreeSet<u64>,
}

impl PendingUpdates {
    fn interest(&mut self, channel: u64, news: bool) {
        *self.interests.entry(channel).or_default() |= news;
    }

    fn is_empty(&self) -> bool {
        self.interests.is_empty() && self.requests.is_empty() && self.positions.is_empty()
    }
}

impl Protocol {
    /// `first` is above all that a former process with this number has message_sent.
    pub(super) fn new(id: u64, first: u64, history: History) -> Protocol {
        Protocol {
            id,
            serial: first,
            sequence: first,
            first,
            now: None,
            own: Vec::new(),
            published: None,
            version: first,
            told: false,
            interests: Interests::default(),
            upstreams: BTreeMap::new(),
            links: BTreeMap::new(),
            log: EventLog::new(history.events, history.octets),
            local: 0,
            counts: FederationCounts::default(),
            wanted_changed: false,
        }
    }

    /// Adds a link, which is told all that is known.
    pub(super) fn join(&mut self, id: LinkId) {
        let link_state = LinkState {
            up: true,
            down_since: None,
            cursor: self.log.end(),
            streams: BTreeMap::new(),
            fresh: BTreeSet::new(),
            pending: PendingUpdates::default(),
        };
        self.links.insert(id, link_state);
        self.resend(id);
    }

    /// Notes to say all over a link again.
    pub(super) fn resend(&mut self, link: LinkId) {
        let Some(link_state) = self.links.get_mut(&link) else {
            return;
        };
        let all = std::iter::once(self.id).chain(self.interests.channels());
        all.for_each(|channel| link_state.pending.interest(channel, false));
        let asked = self.upstreams.iter().filter(|(_, up)| up.over(link).is_some());
        link_state.pending.requests.extend(asked.map(|(source, _)| *source));
        link_state.pending.positions.extend(link_state.streams.keys());
    }

    /// Takes a link away: nothing is sent there, and other routes are used where there are any.
    pub(super) fn leave(&mut self, link: LinkId) {
        if self.links.remove(&link).is_none() {
            return;
        }
        self.interests.forget(link);
        self.wanted_changed = true;
        for up in self.upstreams.values_mut() {
            up.next.take_if(|subscription| subscription.peer.link == link);
            up.current.take_if(|subscription| subscription.peer.link == link);
        }
        self.review_all();
    }

    /// A neighbour has message_sent something. `false` for a link that is gone.
    pub(super) fn receive_message(&mut self, link: LinkId, message: &ControlMessage) -> bool {
        if !self.links.contains_key(&link) {
            return false;
        }
        if message.sender == self.id {
            return true;
        }
        let peer = Peer { link, channel: message.sender };
        let (id, now) = (self.id, self.now.unwrap_or(0));
        // None has the number 0.
        for interest in message.interests.iter().filter(|interest| ![0, id].contains(&interest.origin)) {
            let news = self.interests.note(peer, interest, now, self.sequence, MAX_CHANNELS);
            self.wanted_changed |= news.changed;
            if news.newer {
                let others = self.links.iter_mut().filter(|(id, _)| **id != link);
                others.for_each(|(_, link_state)| link_state.pending.interest(interest.origin, true));
            }
            self.review(interest.origin);
        }
        message.requests.iter().for_each(|pull| self.receive_request(peer, pull));
        message.positions.iter().for_each(|head| self.receive_position(peer, head));
        true
    }

    /// Whether anything is to be message_sent over a link that is up.
    pub(super) fn has_updates(&self, link: LinkId) -> bool {
        self.links.get(&link).is_some_and(|link_state| link_state.up && !link_state.pending.is_empty())
    }

    /// What is to be message_sent over a link, if anything: over one that is down, only to `try_again`. [`message_sent`](Self::message_sent) tells what came
    /// of it.
    pub(super) fn message(&mut self, link: LinkId, try_again: bool) -> Option<ControlMessage> {
        let link_state = self.links.get_mut(&link).filter(|link_state| link_state.up || try_again)?;
        if link_state.pending.is_empty() {
            return None;
        }
        let pending = std::mem::take(&mut link_state.pending);
        let message = ControlMessage {
            sender: self.id,
            // Its protocol does not know at which it is.
            level: 0,
            interests: pending
                .interests
                .iter()
                .filter_map(|(id, news)| self.passed(link, *id, *news))
                .collect(),
            requests: pending.requests.iter().map(|source| self.pull(link, *source)).collect(),
            positions: pending.positions.iter().filter_map(|source| self.head(link, *source)).collect(),
        };
        Some(message)
    }

    /// Back over a link goes nothing that came by it: channels would keep each other's memory of a third alive.
    fn passed(&self, link: LinkId, channel: u64, news: bool) -> Option<Interest> {
        if channel == self.id {
            let filters = self.own.clone();
            return Some(Interest { origin: channel, version: self.version, hops: 0, filters });
        }
        let (route, interest) =
            self.interests.passed(channel, news, self.used(channel), |link| self.is_up(link))?;
        (route.link != link).then_some(interest)
    }

    fn pull(&self, link: LinkId, source: u64) -> StreamRequest {
        let up = self.upstreams.get(&source);
        match up.and_then(|up| up.over(link)) {
            Some(subscription) => {
                // Once it has begun: from where it is.
                let after = if subscription.epoch.is_some() {
                    Some(subscription.position)
                } else {
                    subscription.after
                };
                StreamRequest {
                    source,
                    parent: subscription.peer.channel,
                    number: subscription.number,
                    after,
                    consumers: subscription.consumers.clone(),
                }
            }
            None => {
                StreamRequest { source, parent: 0, number: self.serial, after: None, consumers: Vec::new() }
            }
        }
    }

    fn head(&self, link: LinkId, source: u64) -> Option<StreamPosition> {
        let stream = self.links.get(&link)?.streams.get(&source).filter(|stream| stream.epoch != 0)?;
        let granted = stream.children.iter().filter_map(|(id, child)| {
            let number = if child.state == RequestState::Granted { Some(child.number) } else { child.before };
            number.map(|number| (*id, number))
        });
        Some(StreamPosition {
            source,
            epoch: stream.epoch,
            position: stream.position,
            granted: granted.collect(),
        })
    }

    /// What became of a message. Says whether other routes may be better now.
    pub(super) fn message_sent(&mut self, link: LinkId, message: &ControlMessage, arrived: bool) {
        let now = self.now;
        let Some(link_state) = self.links.get_mut(&link) else {
            return;
        };
        let before = link_state.up;
        if arrived {
            for head in &message.positions {
                if link_state.streams.get(&head.source).is_none_or(|stream| stream.epoch == head.epoch) {
                    link_state.fresh.remove(&head.source);
                }
            }
            (link_state.up, link_state.down_since) = (true, None);
        } else {
            let interests = message.interests.iter();
            interests.for_each(|interest| link_state.pending.interest(interest.origin, false));
            link_state.pending.requests.extend(message.requests.iter().map(|pull| pull.source));
            link_state.pending.positions.extend(message.positions.iter().map(|head| head.source));
            link_state.goes_down(now);
        }
        if link_state.up != before {
            self.review_all();
        }
    }

    /// Says that this channel is still there, notes to say again what may have been missed, and forgets who was not heard of for
    /// `patience`.
    pub(super) fn tick(&mut self, now: u64, patience: u64) {
        if self.now.replace(now).is_none() {
            // What was heard before anybody message_sent what the time is was heard just now.
            self.interests.date(now);
            let children = self.links.values_mut().flat_map(|link_state| link_state.streams.values_mut());
            children.flat_map(|stream| stream.children.values_mut()).for_each(|child| child.at = now);
        }
        self.version += 1;
        let since = now.saturating_sub(patience);
        self.wanted_changed |= self.interests.expire(since, MAX_CHANNELS);
        for link_state in self.links.values_mut() {
            for stream in link_state.streams.values_mut() {
                stream.children.retain(|_, child| child.at >= since);
            }
            link_state.streams.retain(|_, stream| !stream.children.is_empty());
            link_state.fresh.retain(|source| link_state.streams.contains_key(source));
        }
        self.upstreams.values_mut().for_each(|up| up.asked = false);
        self.review_all();
        self.forget_upstreams();
        let ids: Vec<LinkId> = self.links.keys().copied().collect();
        ids.iter().for_each(|id| self.resend(*id));
    }

    /// A link that was down for `patience` by the last tick, and is to be left.
    pub(super) fn lost(&self, patience: u64) -> Option<LinkId> {
        let now = self.now?;
        let lost = |link_state: &LinkState| {
            link_state.down_since.is_some_and(|at| now.saturating_sub(at) >= patience)
        };
        self.links.iter().find(|(_, link_state)| lost(link_state)).map(|(id, _)| *id)
    }

    /// Nothing is kept of channels that are neither known nor asked for, beyond so many.
    fn forget_upstreams(&mut self) {
        let interests = &self.interests;
        let mut idle = self.upstreams.len().saturating_sub(MAX_CHANNELS);
        self.upstreams.retain(|source, up| {
            let keep = idle == 0 || interests.knows(*source) || up.subscriptions().next().is_some();
            idle -= usize::from(!keep);
            keep
        });
    }

    /// What this channel's own consumers want.
    pub(super) fn own_changed(&mut self, wanted: &[Filter]) {
        let wanted = limited(wanted.to_vec());
        if self.own == wanted && self.told {
            return;
        }
        self.told = true;
        let began = self.own.is_empty() != wanted.is_empty();
        self.own = wanted;
        self.version += 1;
        let id = self.id;
        self.links.values_mut().for_each(|link_state| link_state.pending.interest(id, true));
        if began {
            self.review_all();
        }
    }

    /// What this channel's own suppliers push.
    pub(super) fn published_changed(&mut self, published: Option<&[Publication]>) {
        if self.published.as_deref() != published {
            self.published = published.map(<[Publication]>::to_vec);
            self.wanted_changed = true;
        }
    }

    /// What is wanted elsewhere of this channel's own suppliers. What others push comes by links, and goes on by links.
    pub(super) fn wanted(&self) -> Vec<Filter> {
        let mut wanted = self.interests.union();
        if let Some(published) = &self.published {
            wanted.retain(|filter| published.iter().any(|publication| publication.may_pass(filter)));
        }
        wanted
    }

    /// Do this channel's own consumers want anything?
    pub(super) fn wants(&self) -> bool {
        !self.own.is_empty()
    }

    pub(super) fn is_up(&self, link: LinkId) -> bool {
        self.links.get(&link).is_some_and(|link_state| link_state.up)
    }

    /// By which neighbour a source's events come or will come.
    pub(super) fn used(&self, source: u64) -> Option<Peer> {
        self.upstreams.get(&source)?.subscriptions().next().map(|subscription| subscription.peer)
    }
}

impl LinkState {
    /// Nothing is sent until a message arrives again.
    pub(super) fn goes_down(&mut self, now: Option<u64>) {
        self.up = false;
        self.down_since = self.down_since.or(now);
    }
}

//! The federation protocol of one member at one level, without threads, clocks or locks: received
//! messages and events go in, messages and events to send come out. The node and the simulation run
//! it.

use super::event_log::EventLog;
use super::interest::{Interests, Peer, limited};
use super::streams::{Downstream, RequestState, Upstream};
use super::{ControlMessage, FederationCounts, History, Interest, LinkId, StreamPosition, StreamRequest};
use crate::filter::Filter;
use crate::supplier::Publication;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most members that one member remembers.
pub(super) const MAX_CHANNELS: usize = 1024;

pub(super) struct Protocol {
    pub(super) id: u64,
    /// The number of this process; see [`Interest::incarnation`].
    incarnation: u64,
    /// Another process with the number of this member.
    duplicate: Option<DuplicateMember>,
    /// The last number given to a request or an epoch.
    pub(super) serial: u64,
    /// The number of the last event that entered here, and of the last one before this process.
    pub(super) sequence: u64,
    pub(super) first: u64,
    /// The time of the last tick; `None` before the first.
    pub(super) now: Option<u64>,
    /// The filters of own consumers and the publications of own suppliers (`None` if unknown).
    own: Arc<[Filter]>,
    published: Option<Vec<Publication>>,
    version: u64,
    /// The own filters have been announced.
    announced: bool,
    pub(super) interests: Interests,
    pub(super) upstreams: BTreeMap<u64, Upstream>,
    pub(super) links: BTreeMap<LinkId, LinkState>,
    pub(super) log: EventLog,
    /// The log index of the next event for own consumers.
    pub(super) local: u64,
    pub(super) counts: FederationCounts,
    /// The filters that other members apply to own suppliers changed.
    pub(super) wanted_changed: bool,
}

/// Another process that announces interests under this member's number.
struct DuplicateMember {
    incarnation: u64,
    version: u64,
    rises: u32,
}

/// How often the version of a duplicate rises before it counts as one that runs. Copies of an
/// earlier process's last versions may still be under way.
const RISES: u32 = 5;

/// The state of a link.
pub(super) struct LinkState {
    /// The last message was delivered.
    pub(super) up: bool,
    /// The tick since which none was.
    down_since: Option<u64>,
    /// The log index of the next event to send.
    pub(super) cursor: u64,
    /// The outgoing streams, by source.
    pub(super) streams: BTreeMap<u64, Downstream>,
    /// Sources with a stream that begins again. Nothing is sent until the neighbours have received
    /// the new position.
    pub(super) fresh: BTreeSet<u64>,
    pub(super) pending: PendingUpdates,
}

/// The updates that have not been sent over a link, by member.
#[derive(Default)]
pub(super) struct PendingUpdates {
    /// With the flag whether it is news, which is passed on whatever route it came by.
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
    /// A protocol for member `id`, of the process `incarnation`. `first` is above all numbers of
    /// earlier processes with this id, unless the clock was set back; then the requests of
    /// neighbours raise it.
    pub(super) fn new(id: u64, incarnation: u64, first: u64, history: History) -> Protocol {
        Protocol {
            id,
            incarnation,
            duplicate: None,
            // Compared for equality only; the incarnation is random.
            serial: incarnation >> 1,
            sequence: first,
            first,
            now: None,
            own: Arc::default(),
            published: None,
            version: 1,
            announced: false,
            interests: Interests::default(),
            upstreams: BTreeMap::new(),
            links: BTreeMap::new(),
            log: EventLog::new(history.events, history.octets),
            local: 0,
            counts: FederationCounts::default(),
            wanted_changed: false,
        }
    }

    /// Adds a link, and prepares to send the whole state over it.
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

    /// Prepares to send the whole state over a link again.
    pub(super) fn resend(&mut self, link: LinkId) {
        let Some(link_state) = self.links.get_mut(&link) else {
            return;
        };
        let all = std::iter::once(self.id).chain(self.interests.channels());
        all.for_each(|channel| link_state.pending.interest(channel, false));
        let requested = self.upstreams.iter().filter(|(_, up)| up.over(link).is_some());
        link_state.pending.requests.extend(requested.map(|(source, _)| *source));
        link_state.pending.positions.extend(link_state.streams.keys());
    }

    /// Removes a link; other routes are used where there are any.
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

    /// Handles a message from a neighbour. Returns false for a link that was removed.
    pub(super) fn receive_message(&mut self, link: LinkId, message: &ControlMessage) -> bool {
        if !self.links.contains_key(&link) {
            return false;
        }
        if message.sender == self.id {
            return true;
        }
        let peer = Peer { link, channel: message.sender };
        let (id, now) = (self.id, self.now.unwrap_or(0));
        message.interests.iter().filter(|interest| interest.origin == id).for_each(|own| self.note_own(own));
        // No member has the number 0.
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

    /// Notes an interest under this member's number.
    fn note_own(&mut self, own: &Interest) {
        let Interest { incarnation, version, .. } = *own;
        match &mut self.duplicate {
            _ if incarnation == self.incarnation => {}
            Some(known) if known.incarnation == incarnation => {
                known.rises += u32::from(version > known.version);
                known.version = known.version.max(version);
            }
            other => *other = Some(DuplicateMember { incarnation, version, rises: 0 }),
        }
    }

    /// Returns true if another running channel has this member's number.
    pub(super) fn has_duplicate(&self) -> bool {
        self.duplicate.as_ref().is_some_and(|duplicate| duplicate.rises >= RISES)
    }

    /// Returns true if there are updates for a link that is up.
    pub(super) fn has_updates(&self, link: LinkId) -> bool {
        self.links.get(&link).is_some_and(|link_state| link_state.up && !link_state.pending.is_empty())
    }

    /// The next message over a link, if there are updates; over a link that is down only to
    /// `try_again`. The caller reports the result to [`message_sent`](Self::message_sent).
    pub(super) fn message(&mut self, link: LinkId, try_again: bool) -> Option<ControlMessage> {
        let link_state = self.links.get_mut(&link).filter(|link_state| link_state.up || try_again)?;
        if link_state.pending.is_empty() {
            return None;
        }
        let pending = std::mem::take(&mut link_state.pending);
        let message = ControlMessage {
            sender: self.id,
            // The caller sets the level.
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

    /// The interest of a member for a link. Nothing goes back over the link that it came by:
    /// members would keep each other's memory of a third alive.
    fn passed(&self, link: LinkId, channel: u64, news: bool) -> Option<Interest> {
        if channel == self.id {
            let (incarnation, filters) = (self.incarnation, self.own.clone());
            return Some(Interest { origin: channel, incarnation, version: self.version, hops: 0, filters });
        }
        let (route, interest) =
            self.interests.passed(channel, news, self.used(channel), |link| self.is_up(link))?;
        (route.link != link).then_some(interest)
    }

    fn pull(&self, link: LinkId, source: u64) -> StreamRequest {
        let up = self.upstreams.get(&source);
        match up.and_then(|up| up.over(link)) {
            Some(subscription) => {
                // Once it has begun, from its position.
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

    /// Records whether a message was delivered.
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

    /// Announces that this member is alive, prepares to repeat what may have been missed, and
    /// removes members that were silent for `timeout`.
    pub(super) fn tick(&mut self, now: u64, timeout: u64) {
        if self.now.replace(now).is_none() {
            // Messages before the first tick count as received now.
            self.interests.date(now);
            let children = self.links.values_mut().flat_map(|link_state| link_state.streams.values_mut());
            children.flat_map(|stream| stream.children.values_mut()).for_each(|child| child.at = now);
        }
        self.version += 1;
        let since = now.saturating_sub(timeout);
        self.wanted_changed |= self.interests.expire(since, MAX_CHANNELS);
        for link_state in self.links.values_mut() {
            for stream in link_state.streams.values_mut() {
                stream.children.retain(|_, child| child.at >= since);
            }
            link_state.streams.retain(|_, stream| !stream.children.is_empty());
            link_state.fresh.retain(|source| link_state.streams.contains_key(source));
        }
        self.upstreams.values_mut().for_each(|up| up.requested = false);
        self.review_all();
        self.forget_upstreams();
        let ids: Vec<LinkId> = self.links.keys().copied().collect();
        ids.iter().for_each(|id| self.resend(*id));
    }

    /// A link that was down for `timeout` at the last tick and must be left.
    pub(super) fn lost(&self, timeout: u64) -> Option<LinkId> {
        let now = self.now?;
        let lost = |link_state: &LinkState| {
            link_state.down_since.is_some_and(|at| now.saturating_sub(at) >= timeout)
        };
        self.links.iter().find(|(_, link_state)| lost(link_state)).map(|(id, _)| *id)
    }

    /// Beyond a limit, removes sources that are neither known nor requested.
    fn forget_upstreams(&mut self) {
        let interests = &self.interests;
        let mut idle = self.upstreams.len().saturating_sub(MAX_CHANNELS);
        self.upstreams.retain(|source, up| {
            let keep = idle == 0 || interests.knows(*source) || up.subscriptions().next().is_some();
            idle -= usize::from(!keep);
            keep
        });
    }

    /// Updates the filters of own consumers.
    pub(super) fn own_changed(&mut self, wanted: &[Filter]) {
        let wanted = limited(wanted.to_vec());
        if *self.own == *wanted && self.announced {
            return;
        }
        self.announced = true;
        let began = self.own.is_empty() != wanted.is_empty();
        self.own = wanted.into();
        self.version += 1;
        let id = self.id;
        self.links.values_mut().for_each(|link_state| link_state.pending.interest(id, true));
        if began {
            self.review_all();
        }
    }

    /// Updates the publications of own suppliers.
    pub(super) fn published_changed(&mut self, published: Option<&[Publication]>) {
        if self.published.as_deref() != published {
            self.published = published.map(<[Publication]>::to_vec);
            self.wanted_changed = true;
        }
    }

    /// The events of own suppliers that are wanted elsewhere. Events of others come and go over
    /// links.
    pub(super) fn wanted(&self) -> Vec<Filter> {
        let mut wanted = self.interests.union();
        if let Some(published) = &self.published {
            wanted.retain(|filter| published.iter().any(|publication| publication.may_pass(filter)));
        }
        wanted
    }

    /// Returns true if own consumers have filters.
    pub(super) fn wants(&self) -> bool {
        !self.own.is_empty()
    }

    pub(super) fn is_up(&self, link: LinkId) -> bool {
        self.links.get(&link).is_some_and(|link_state| link_state.up)
    }

    /// The neighbour by which a source's events come or will come.
    pub(super) fn used(&self, source: u64) -> Option<Peer> {
        self.upstreams.get(&source)?.subscriptions().next().map(|subscription| subscription.peer)
    }
}

impl LinkState {
    /// Stops sending until a message is delivered again.
    pub(super) fn goes_down(&mut self, now: Option<u64>) {
        self.up = false;
        self.down_since = self.down_since.or(now);
    }
}

//! A channel's place in a federation.

use super::interest::{Interests, limited};
use super::seen::Seen;
use super::{Interest, Link};
use crate::admin::{ConsumerQos, ProxyPushConsumer, ProxyPushSupplier, Pushed};
use crate::channel::Channel;
use crate::consumer::{Failure, PushConsumer};
use crate::dispatch::Dispatch;
use crate::error::ConnectError;
use crate::event::{Event, Stamp};
use crate::filter::{Filter, MAX_TERMS};
use crate::observer::Observer;
use crate::placement::Quality;
use crate::supplier::{Publication, SupplierQos};
use isorb_rt::sync::{PiMutex, Turn};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

/// How many channels a federation can have, as far as one of them remembers.
const MAX_CHANNELS: usize = 1024;

/// A link of a channel, by number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub u32);

/// What crossed the links of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FederationCounts {
    /// Events sent to neighbours.
    pub forwarded: u64,
    /// Events that could not be sent.
    pub lost: u64,
    /// Events that came from neighbours and were new.
    pub received: u64,
    /// Events that came again, and were dropped.
    pub repeated: u64,
    /// Events that had no hop left.
    pub expired: u64,
}

/// Joins a channel to its neighbours. Ends with the last clone; the links' consumers leave the channel then.
#[derive(Clone)]
pub struct Federation {
    inner: Arc<Inner>,
}

struct Inner {
    id: u64,
    channel: Channel,
    supplier: ProxyPushConsumer,
    quality: Quality,
    dispatch: Option<Arc<dyn Dispatch>>,
    observer: AtomicU64,
    state: PiMutex<State>,
    subscribing: Turn,
    seen: PiMutex<Seen>,
    counters: Counters,
}

struct State {
    /// What this channel's own consumers want.
    own: Vec<Filter>,
    /// What its own suppliers push; `None` if that is not known.
    published: Option<Vec<Publication>>,
    version: u64,
    interests: Interests,
    links: BTreeMap<LinkId, Joined>,
    next: u32,
    /// As the last tick said; nothing before the first.
    now: Option<u64>,
}

struct Joined {
    link: Arc<dyn Link>,
    /// The last announcement arrived.
    up: bool,
    /// What its consumer subscribes to.
    filters: Vec<Filter>,
    consumers: Vec<ProxyPushSupplier>,
}

#[derive(Default)]
struct Counters {
    forwarded: AtomicU64,
    lost: AtomicU64,
    received: AtomicU64,
    repeated: AtomicU64,
    expired: AtomicU64,
}

impl Federation {
    /// Makes a channel a member. It needs a number of its own in the federation ([`Config::id`](crate::Config::id)). `quality` is that
    /// of its gateways, which the channel dispatches to as to any consumer.
    ///
    /// # Errors
    /// [`ConnectError`]; `Destroyed` also for a channel without a number.
    pub fn new(channel: &Channel, quality: Quality) -> Result<Federation, ConnectError> {
        Federation::with(channel, quality, None)
    }

    /// As [`new`](Self::new), with a dispatcher for the gateways alone: a link that stalls then holds up nobody but its own queue.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(
        channel: &Channel,
        quality: Quality,
        dispatch: Option<Arc<dyn Dispatch>>,
    ) -> Result<Federation, ConnectError> {
        if channel.id() == 0 {
            return Err(ConnectError::Destroyed);
        }
        let inner = Arc::new(Inner {
            id: channel.id(),
            channel: channel.clone(),
            supplier: channel
                .for_suppliers()
                .connect_with(SupplierQos { gateway: true, ..SupplierQos::default() })?,
            quality,
            dispatch,
            observer: AtomicU64::new(0),
            state: PiMutex::new(State {
                own: Vec::new(),
                published: None,
                version: 0,
                interests: Interests::default(),
                links: BTreeMap::new(),
                next: 0,
                now: None,
            }),
            subscribing: Turn::new(),
            seen: PiMutex::new(Seen::new(MAX_CHANNELS)),
            counters: Counters::default(),
        });
        let watch = Arc::new(Watch(Arc::downgrade(&inner)));
        inner.observer.store(channel.append_observer(watch).into(), Relaxed);
        Ok(Federation { inner })
    }

    /// Adds a neighbour, and tells it all that is known.
    pub fn join(&self, link: Arc<dyn Link>) -> LinkId {
        let mut state = self.inner.state.lock();
        state.next += 1;
        let id = LinkId(state.next);
        state
            .links
            .insert(id, Joined { link: link.clone(), up: true, filters: Vec::new(), consumers: Vec::new() });
        let known = state.known(self.inner.id, None);
        drop(state);
        // One that is down now is told with the next tick.
        let _ = link.announce(&known);
        id
    }

    /// Tells a neighbour again all that is known, as when a link is up that was not when it joined.
    pub fn tell(&self, link: LinkId) {
        let state = self.inner.state.lock();
        let Some(joined) = state.links.get(&link) else {
            return;
        };
        let (far, known) = (joined.link.clone(), state.known(self.inner.id, Some(link)));
        drop(state);
        let up = far.announce(&known).is_ok();
        if let Some(joined) = self.inner.state.lock().links.get_mut(&link) {
            joined.up = up;
        }
    }

    /// Takes a neighbour away, or notes that it is lost: nothing is sent there until it joins again, and other ways are used where
    /// there are any.
    pub fn leave(&self, link: LinkId) {
        let mut state = self.inner.state.lock();
        let gone = state.links.remove(&link);
        state.interests.forget(link);
        drop(state);
        drop(gone);
        self.inner.subscribe();
    }

    /// A neighbour has told what is wanted beyond the link.
    pub fn heard(&self, link: LinkId, interests: &[Interest]) {
        self.inner.heard(link, interests);
    }

    /// An event has come over a link. If it is new, it goes to the channel's consumers and on to the neighbours beyond which it is
    /// wanted.
    ///
    /// # Real-time
    /// As [`ProxyPushConsumer::push`], and a lock for the memory of events seen. Allocates for the first event of each channel.
    pub fn received(&self, link: LinkId, event: &Event<'_>) -> Pushed {
        let inner = &self.inner;
        let Stamp { channel, sequence, .. } = event.stamp;
        let new = channel != inner.id && inner.seen.lock().note(channel, sequence);
        if !new {
            inner.counters.repeated.fetch_add(1, Relaxed);
            return Pushed::default();
        }
        inner.counters.received.fetch_add(1, Relaxed);
        inner.supplier.push(&Event { stamp: Stamp { channel, sequence, link: link.0 }, ..*event })
    }

    /// Says that this channel is still there, tells links again what they missed, and forgets channels that were not heard of for
    /// `patience` ns. Call it now and then: three times within the patience. `now` is any clock, in ns.
    pub fn tick(&self, now: u64, patience: u64) {
        let mut state = self.inner.state.lock();
        if state.now.replace(now).is_none() {
            // What was heard before anybody said what the time is was heard just now.
            state.interests.date(now);
        }
        state.version += 1;
        state.interests.expire(now.saturating_sub(patience), MAX_CHANNELS);
        let links = state.all_links(None);
        // Back over a link goes nothing that came by it: channels would keep each other's memory of a third alive.
        let known: Vec<_> = links.iter().map(|(link, _)| state.known(self.inner.id, Some(*link))).collect();
        drop(state);
        self.inner.subscribe();
        for ((id, link), known) in links.iter().zip(&known) {
            // Who is down is told with the next tick.
            let up = link.announce(known).is_ok();
            if let Some(joined) = self.inner.state.lock().links.get_mut(id) {
                joined.up = up;
            }
        }
    }

    /// Whether the neighbour was reached by the last [`tick`](Self::tick); `false` for a link that is gone.
    pub fn is_up(&self, link: LinkId) -> bool {
        self.inner.state.lock().links.get(&link).is_some_and(|joined| joined.up)
    }

    /// The channel's number.
    pub fn id(&self) -> u64 {
        self.inner.id
    }

    /// The number of the supplier that pushes what came over links into the channel, which the trace uses.
    pub fn supplier(&self) -> u32 {
        self.inner.supplier.id()
    }

    /// What crossed its links.
    pub fn counts(&self) -> FederationCounts {
        let c = &self.inner.counters;
        FederationCounts {
            forwarded: c.forwarded.load(Relaxed),
            lost: c.lost.load(Relaxed),
            received: c.received.load(Relaxed),
            repeated: c.repeated.load(Relaxed),
            expired: c.expired.load(Relaxed),
        }
    }

    /// How many channels are known, this one not counted.
    pub fn known(&self) -> usize {
        self.inner.state.lock().interests.best().count()
    }
}

impl fmt::Debug for Federation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Federation").field("id", &self.inner.id).field("counts", &self.counts()).finish()
    }
}

impl State {
    /// All interests as this channel passes them on, but for those whose way is `except`.
    fn known(&self, id: u64, except: Option<LinkId>) -> Vec<Interest> {
        let own = Interest { origin: id, version: self.version, hops: 0, filters: self.own.clone() };
        let others = self.interests.best().filter(|(way, _)| Some(*way) != except);
        let passed = others.map(|(_, interest)| Interest { hops: interest.hops + 1, ..interest.clone() });
        std::iter::once(own).chain(passed).collect()
    }

    /// What the gateway of a link subscribes to: what is wanted beyond it, but for what nothing here can bring. A channel between
    /// others brings theirs, of which it does not know what they push.
    fn subscription(&self, link: LinkId) -> Vec<Filter> {
        let mut wanted = self.interests.beyond(link);
        if let (Some(published), 1) = (&self.published, self.links.len()) {
            wanted.retain(|filter| published.iter().any(|publication| publication.may_pass(filter)));
        }
        wanted
    }

    fn all_links(&self, except: Option<LinkId>) -> Vec<(LinkId, Arc<dyn Link>)> {
        let links = self.links.iter().filter(|(id, _)| Some(**id) != except);
        links.map(|(id, joined)| (*id, joined.link.clone())).collect()
    }
}

impl Inner {
    fn heard(self: &Arc<Self>, link: LinkId, interests: &[Interest]) {
        let mut state = self.state.lock();
        if !state.links.contains_key(&link) {
            return;
        }
        let now = state.now.unwrap_or(0);
        let mut news = Vec::new();
        for interest in interests.iter().filter(|interest| interest.origin != self.id) {
            if state.interests.note(link, interest.clone(), now, MAX_CHANNELS) {
                news.push(Interest { hops: interest.hops.saturating_add(1), ..interest.clone() });
            }
        }
        let links = state.all_links(Some(link));
        drop(state);
        self.subscribe();
        if !news.is_empty() {
            for (_, link) in links {
                let _ = link.announce(&news);
            }
        }
    }

    /// Brings the gateways' subscriptions to what is wanted beyond their links. One thread at a time does so, without the lock,
    /// since connecting has consequences; who comes by meanwhile leaves it to that one.
    fn subscribe(self: &Arc<Self>) {
        if !self.subscribing.take() {
            return;
        }
        loop {
            let ids: Vec<LinkId> = self.state.lock().links.keys().copied().collect();
            ids.into_iter().for_each(|id| self.subscribe_link(id));
            if self.subscribing.pass() {
                return;
            }
        }
    }

    fn subscribe_link(self: &Arc<Self>, id: LinkId) {
        let state = self.state.lock();
        let wanted = state.subscription(id);
        let Some(joined) = state.links.get(&id).filter(|joined| joined.filters != wanted) else {
            return;
        };
        let link = joined.link.clone();
        drop(state);
        // The new one first: an event between is forwarded twice, and recognised; the other way round it were lost. Where there is
        // no room for it the old one stays, and the next tick tries again.
        let Ok(mut consumers) = self.connect(id, &link, &wanted) else {
            return;
        };
        let mut state = self.state.lock();
        if let Some(joined) = state.links.get_mut(&id) {
            std::mem::swap(&mut joined.consumers, &mut consumers);
            joined.filters = wanted;
        }
        drop(state);
        drop(consumers);
    }

    /// One consumer with one registration for each so many filters as a registration holds.
    fn connect(
        self: &Arc<Self>,
        id: LinkId,
        link: &Arc<dyn Link>,
        wanted: &[Filter],
    ) -> Result<Vec<ProxyPushSupplier>, ConnectError> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let gateway = Gateway { federation: Arc::downgrade(self), id, link: link.clone() };
        let qos = ConsumerQos {
            name: format!("gateway {}", id.0),
            filters: wanted.chunks(MAX_TERMS).map(|some| Filter::any_of(some.iter().cloned())).collect(),
            quality: self.quality.clone(),
            gateway: true,
            dispatch: self.dispatch.clone(),
        };
        Ok(vec![self.channel.for_consumers().connect(Arc::new(gateway), qos)?])
    }

    fn published_changed(self: &Arc<Self>, published: Option<&[Publication]>) {
        let mut state = self.state.lock();
        if state.published.as_deref() == published {
            return;
        }
        state.published = published.map(<[Publication]>::to_vec);
        drop(state);
        self.subscribe();
    }

    fn own_changed(self: &Arc<Self>, wanted: &[Filter]) {
        let wanted = limited(wanted.to_vec());
        let mut state = self.state.lock();
        if state.own == wanted && state.version != 0 {
            return;
        }
        state.own = wanted;
        state.version += 1;
        let own = state.known(self.id, None).swap_remove(0);
        let links = state.all_links(None);
        drop(state);
        for (_, link) in links {
            let _ = link.announce(std::slice::from_ref(&own));
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.channel.remove_observer(self.observer.load(Relaxed) as u32);
    }
}

/// Learns what the channel's own consumers want.
struct Watch(Weak<Inner>);

impl Observer for Watch {
    fn wanted(&self, _: u64, wanted: &[Filter]) {
        if let Some(inner) = self.0.upgrade() {
            inner.own_changed(wanted);
        }
    }

    fn published(&self, _: u64, published: Option<&[Publication]>) {
        if let Some(inner) = self.0.upgrade() {
            inner.published_changed(published);
        }
    }
}

/// The channel's consumer for one link.
struct Gateway {
    federation: Weak<Inner>,
    id: LinkId,
    link: Arc<dyn Link>,
}

impl PushConsumer for Gateway {
    fn push(&self, events: &[Event<'_>]) -> Result<(), Failure> {
        let Some(federation) = self.federation.upgrade() else {
            return Ok(());
        };
        let counters = &federation.counters;
        for event in events.iter().filter(|event| event.stamp.link != self.id.0) {
            if event.header.ttl <= 0 {
                counters.expired.fetch_add(1, Relaxed);
                continue;
            }
            let mut forwarded = *event;
            forwarded.header.ttl -= 1;
            match self.link.forward(&forwarded) {
                Ok(()) => counters.forwarded.fetch_add(1, Relaxed),
                Err(_) => counters.lost.fetch_add(1, Relaxed),
            };
        }
        Ok(())
    }
}

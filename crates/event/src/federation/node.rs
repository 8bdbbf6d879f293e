//! A channel's place in a federation.

use super::interest::{Interests, limited};
use super::seen::Seen;
use super::{Interest, Link};
use crate::admin::{ProxyPushConsumer, ProxyPushSupplier, Pushed};
use crate::channel::Channel;
use crate::dispatch::Dispatch;
use crate::error::ConnectError;
use crate::event::{Event, Stamp};
use crate::filter::Filter;
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

pub(super) struct Inner {
    pub(super) id: u64,
    pub(super) channel: Channel,
    pub(super) supplier: ProxyPushConsumer,
    pub(super) quality: Quality,
    pub(super) dispatch: Option<Arc<dyn Dispatch>>,
    pub(super) observer: AtomicU64,
    pub(super) state: PiMutex<State>,
    pub(super) subscribing: Turn,
    pub(super) seen: PiMutex<Seen>,
    pub(super) counters: Counters,
}

pub(super) struct State {
    /// What this channel's own consumers want.
    pub(super) own: Vec<Filter>,
    /// What its own suppliers push; `None` if that is not known.
    pub(super) published: Option<Vec<Publication>>,
    pub(super) version: u64,
    /// Its own consumers' wishes were announced.
    pub(super) told: bool,
    pub(super) interests: Interests,
    pub(super) links: BTreeMap<LinkId, Joined>,
    pub(super) next: u32,
    /// As the last tick said; nothing before the first.
    pub(super) now: Option<u64>,
}

pub(super) struct Joined {
    pub(super) link: Arc<dyn Link>,
    /// The last announcement arrived.
    pub(super) up: bool,
    /// Since which tick none has.
    pub(super) down_since: Option<u64>,
    /// What its consumer subscribes to.
    pub(super) filters: Vec<Filter>,
    pub(super) consumer: Option<ProxyPushSupplier>,
    /// Nothing was wanted beyond it at the last tick.
    pub(super) idle: bool,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) forwarded: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) received: AtomicU64,
    pub(super) repeated: AtomicU64,
    pub(super) expired: AtomicU64,
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
                version: first_version(),
                told: false,
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
        state.links.insert(
            id,
            Joined {
                link: link.clone(),
                up: true,
                down_since: None,
                filters: Vec::new(),
                consumer: None,
                idle: false,
            },
        );
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

    /// A neighbour has told what is wanted beyond the link. `false` for a link that is gone: the neighbour has to join anew.
    pub fn heard(&self, link: LinkId, interests: &[Interest]) -> bool {
        self.inner.heard(link, interests)
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

    /// Says that this channel is still there, tells links again what they missed, forgets channels that were not heard of for
    /// `patience` ns, and leaves neighbours that were not reached for so long: who joined has to join anew then. Call it now and then: three times within the patience. `now` is any clock, in ns.
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
        self.inner.end_idle();
        let mut turned = false;
        for ((id, link), known) in links.iter().zip(&known) {
            // Who is down is told with the next tick.
            let up = link.announce(known).is_ok();
            let mut lost = false;
            if let Some(joined) = self.inner.state.lock().links.get_mut(id) {
                turned |= joined.up != up;
                joined.up = up;
                joined.down_since = joined.down_since.or(Some(now)).filter(|_| !up);
                lost = joined.down_since.is_some_and(|since| now.saturating_sub(since) >= patience);
            }
            if lost {
                self.leave(*id);
            }
        }
        if turned {
            // There may be other ways.
            self.inner.subscribe();
        }
    }

    /// Whether the neighbour was reached by the last [`tick`](Self::tick); `false` for a link that is gone.
    pub fn is_up(&self, link: LinkId) -> bool {
        self.inner.state.lock().is_up(link)
    }

    /// How many neighbours there are, reached or not.
    pub fn links(&self) -> usize {
        self.inner.state.lock().links.len()
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
        self.inner.state.lock().interests.ways(|_| true).count()
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
        let others = self.interests.ways(|link| self.is_up(link)).filter(|(way, _)| Some(*way) != except);
        // As the way has it: a version that came by another says nothing of this one.
        let passed = others
            .map(|(_, interest)| Interest { hops: interest.hops.saturating_add(1), ..interest.clone() });
        std::iter::once(own).chain(passed).collect()
    }

    /// What the gateway of a link subscribes to: what is wanted beyond it, but for what nothing here can bring. A channel between
    /// others brings theirs, of which it does not know what they push.
    pub(super) fn subscription(&self, link: LinkId) -> Vec<Filter> {
        let mut wanted = self.interests.beyond(link, |link| self.is_up(link));
        if let (Some(published), 1) = (&self.published, self.links.len()) {
            wanted.retain(|filter| published.iter().any(|publication| publication.may_pass(filter)));
        }
        wanted
    }

    fn is_up(&self, link: LinkId) -> bool {
        self.links.get(&link).is_some_and(|joined| joined.up)
    }

    fn all_links(&self, except: Option<LinkId>) -> Vec<(LinkId, Arc<dyn Link>)> {
        let links = self.links.iter().filter(|(id, _)| Some(**id) != except);
        links.map(|(id, joined)| (*id, joined.link.clone())).collect()
    }
}

impl Inner {
    fn heard(self: &Arc<Self>, link: LinkId, interests: &[Interest]) -> bool {
        let mut state = self.state.lock();
        if !state.links.contains_key(&link) {
            return false;
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
        true
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
        if state.own == wanted && state.told {
            return;
        }
        state.told = true;
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

/// Above all that a former process with this number has said, which others may remember: microseconds since 1970, of which a version takes
/// far more than one.
fn first_version() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(0))
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

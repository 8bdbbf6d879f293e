//! A channel's place in a federation: the machine, and who drives it.

use super::gateways::Wire;
use super::log::Copied;
use super::machine::Machine;
use super::{FederationCounts, History, Link, Notice, Passed};
use crate::admin::{ProxyPushConsumer, ProxyPushSupplier};
use crate::channel::Channel;
use crate::dispatch::Dispatch;
use crate::error::ConnectError;
use crate::filter::Filter;
use crate::observer::Observer;
use crate::placement::Quality;
use crate::supplier::{Publication, SupplierQos};
use isorb_rt::sync::{PiMutex, Turn};
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

/// A link of a channel, by number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub u32);

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
    observer: AtomicU64,
    pub(super) machine: PiMutex<Machine>,
    wires: PiMutex<Vec<Arc<Wire>>>,
    delivering: Turn,
    /// The event that own consumers are given; of whoever has the turn.
    delivered: PiMutex<Copied>,
    pub(super) subscribing: Turn,
    /// The consumer of what is wanted elsewhere, and what that is.
    pub(super) collector: PiMutex<(Option<ProxyPushSupplier>, Vec<Filter>)>,
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

    /// As [`new`](Self::new), with a dispatcher for the gateways alone: a link that stalls then holds up nobody.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(
        channel: &Channel,
        quality: Quality,
        dispatch: Option<Arc<dyn Dispatch>>,
    ) -> Result<Federation, ConnectError> {
        Federation::remembering(channel, quality, dispatch, History::default())
    }

    /// As [`with`](Self::with), with another history.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn remembering(
        channel: &Channel,
        quality: Quality,
        dispatch: Option<Arc<dyn Dispatch>>,
        history: History,
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
            quality: Quality { failures: 0, ..quality },
            dispatch,
            observer: AtomicU64::new(0),
            machine: PiMutex::new(Machine::new(channel.id(), first_number(), history)),
            wires: PiMutex::new(Vec::new()),
            delivering: Turn::new(),
            delivered: PiMutex::new(Copied::with_capacity(PAYLOAD)),
            subscribing: Turn::new(),
            collector: PiMutex::new((None, Vec::new())),
        });
        let watch = Arc::new(Watch(Arc::downgrade(&inner)));
        inner.observer.store(channel.append_observer(watch).into(), Relaxed);
        Ok(Federation { inner })
    }

    /// Adds a neighbour, and tells it all that is known.
    pub fn join(&self, link: Arc<dyn Link>) -> LinkId {
        let id = self.inner.machine.lock().join();
        let wire = Arc::new(Wire::new(id, link, PAYLOAD));
        self.inner.wires.lock().push(wire);
        // One that is down now is told with the next tick.
        self.inner.settle();
        id
    }

    /// Tells a neighbour again all that is known, as when a link is up that was not when it joined.
    pub fn tell(&self, link: LinkId) {
        self.inner.machine.lock().tell(link);
        if let Some(wire) = self.inner.wires().find(|wire| wire.id == link) {
            self.inner.tell(&wire, true);
        }
        self.inner.settle();
    }

    /// Takes a neighbour away, or notes that it is lost: nothing is sent there until it joins again, and other ways are used where
    /// there are any.
    pub fn leave(&self, link: LinkId) {
        self.inner.machine.lock().leave(link);
        let mut wires = self.inner.wires.lock();
        let at = wires.iter().position(|wire| wire.id == link);
        let gone = at.map(|at| wires.remove(at));
        drop(wires);
        drop(gone);
        self.inner.settle();
    }

    /// A neighbour has told how things are. `false` for a link that is gone: the neighbour has to join anew.
    pub fn heard(&self, link: LinkId, notice: &Notice) -> bool {
        let known = self.inner.machine.lock().heard(link, notice);
        self.inner.settle();
        known
    }

    /// An event has come over a link. If it is new, and nothing is missing before it, it goes to the channel's consumers and on to the
    /// neighbours beyond which it is wanted.
    ///
    /// # Real-time
    /// Copies the event into the history and out again for each link, under the federation's lock; does not allocate unless an event has
    /// more data than any before, or something is missing. One thread at a time gives events to the channel's consumers, in order: who
    /// comes meanwhile leaves its event to that one.
    pub fn received(&self, link: LinkId, event: &Passed<'_>) {
        self.inner.machine.lock().received(link, event);
        self.inner.settle();
    }

    /// Says that this channel is still there, tells links again what they missed, forgets channels that were not heard of for
    /// `patience` ns, and leaves neighbours that were not reached for so long: who joined has to join anew then. Call it now and then:
    /// five times within the patience. `now` is any clock, in ns.
    pub fn tick(&self, now: u64, patience: u64) {
        let inner = &self.inner;
        inner.machine.lock().tick(now, patience);
        for wire in inner.wires() {
            inner.tell(&wire, true);
        }
        while let Some(link) = { inner.machine.lock().lost(patience) } {
            self.leave(link);
        }
        inner.settle();
    }

    /// Whether the neighbour was reached when something was last said or sent to it; `false` for a link that is gone.
    pub fn is_up(&self, link: LinkId) -> bool {
        self.inner.machine.lock().is_up(link)
    }

    /// How many neighbours there are, reached or not.
    pub fn links(&self) -> usize {
        self.inner.wires.lock().len()
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
        self.inner.machine.lock().counts
    }

    /// How many channels are known, this one not counted.
    pub fn known(&self) -> usize {
        self.inner.machine.lock().interests.reached()
    }
}

impl fmt::Debug for Federation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Federation").field("id", &self.inner.id).field("counts", &self.counts()).finish()
    }
}

impl Inner {
    /// The links, one after the other; others may come and go meanwhile.
    pub(super) fn wires(&self) -> impl Iterator<Item = Arc<Wire>> + '_ {
        (0..).map_while(|at| self.wires.lock().get(at).cloned())
    }

    /// Does what the machine has found to do, until there is no more.
    pub(super) fn settle(self: &Arc<Self>) {
        loop {
            self.deliver();
            let told = self.wires().fold(false, |told, wire| {
                self.keep_gateway(&wire);
                self.tell(&wire, false) || told
            });
            if self.machine.lock().wanted_changed {
                self.subscribe();
            }
            self.wake_all();
            if !told {
                return;
            }
        }
    }

    pub(super) fn wake_all(self: &Arc<Self>) {
        self.wires().for_each(|wire| self.wake(&wire));
    }

    /// Gives own consumers what has come for them.
    fn deliver(&self) {
        if !self.delivering.take() {
            return;
        }
        loop {
            let mut copied = self.delivered.lock();
            while self.machine.lock().deliver(&mut copied) {
                self.supplier.push(&copied.event());
            }
            drop(copied);
            if self.delivering.pass() {
                return;
            }
        }
    }
}

/// So many octets of an event are copied without allocating; the first larger one makes more room.
const PAYLOAD: usize = 1024;

/// Above all that a former process with this number has said, which others may remember: sixteen for each microsecond since 1970, of which
/// an event takes one and far more time.
fn first_number() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_micros() << 4).unwrap_or(0))
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
            inner.machine.lock().own_changed(wanted);
            inner.settle();
        }
    }

    fn published(&self, _: u64, published: Option<&[Publication]>) {
        if let Some(inner) = self.0.upgrade() {
            inner.machine.lock().published_changed(published);
            inner.settle();
        }
    }
}

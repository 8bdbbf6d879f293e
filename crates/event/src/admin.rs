//! How suppliers and consumers connect, and the proxies that they hold.

use crate::connection::Connection;
use crate::consumer::PushConsumer;
use crate::core::Core;
use crate::counters::Counts;
use crate::dispatch::Dispatch;
use crate::error::ConnectError;
use crate::event::Event;
use crate::filter::Filter;
use crate::modules::{ModuleSet, Replaceable};
use crate::placement::Quality;
use crate::supplier::{Published, SupplierQos};
use isorb_rt::priority::Priority;
use std::fmt;
use std::sync::Arc;

/// Where consumers connect.
#[derive(Clone)]
pub struct ConsumerAdmin<M: ModuleSet = Replaceable> {
    pub(crate) core: Arc<Core<M>>,
}

/// What a consumer asks for (`ConsumerQOS`).
#[derive(Clone, Default)]
pub struct ConsumerQos {
    /// What it is called by tools and the scheduler.
    pub name: String,
    /// Its registrations, each independent of the others.
    pub filters: Vec<Filter>,
    /// What it declares.
    pub quality: Quality,
    /// It forwards to another channel; what it wants is not told to observers.
    pub gateway: bool,
    /// A dispatcher of its own, whichever the channel has: for consumers that may be slow, such as those behind a network.
    pub dispatch: Option<Arc<dyn Dispatch>>,
}

impl fmt::Debug for ConsumerQos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsumerQos")
            .field("name", &self.name)
            .field("filters", &self.filters)
            .field("quality", &self.quality)
            .field("gateway", &self.gateway)
            .field("own_dispatch", &self.dispatch.is_some())
            .finish()
    }
}

impl ConsumerQos {
    /// A consumer with one registration.
    pub fn new(name: impl Into<String>, filter: Filter) -> ConsumerQos {
        ConsumerQos { name: name.into(), filters: vec![filter], ..ConsumerQos::default() }
    }

    /// With another registration.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> ConsumerQos {
        self.filters.push(filter);
        self
    }

    /// With this quality of service.
    #[must_use]
    pub fn quality(mut self, quality: Quality) -> ConsumerQos {
        self.quality = quality;
        self
    }
}

impl<M: ModuleSet> ConsumerAdmin<M> {
    /// Connects a consumer. It is disconnected when the proxy is dropped.
    ///
    /// # Errors
    /// [`ConnectError`]; nothing has changed then.
    ///
    /// # Real-time
    /// Allocates and takes the administrating side's lock; disturbs no event under way.
    pub fn connect(
        &self,
        consumer: Arc<dyn PushConsumer>,
        qos: ConsumerQos,
    ) -> Result<ProxyPushSupplier<M>, ConnectError> {
        let id = self.core.connect(consumer, qos)?;
        Ok(ProxyPushSupplier { core: self.core.clone(), id, keep: false })
    }
}

/// The channel's end of a consumer's connection: to the consumer, the supplier. Dropping it disconnects the consumer.
pub struct ProxyPushSupplier<M: ModuleSet = Replaceable> {
    core: Arc<Core<M>>,
    id: u32,
    keep: bool,
}

impl<M: ModuleSet> ProxyPushSupplier<M> {
    /// The consumer's number, which the trace uses.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The priority at which the scheduler put it; `None` once it is gone.
    pub fn priority(&self) -> Option<Priority> {
        self.core.priority_of(self.id)
    }

    /// Takes the consumer out of the tables: it costs events nothing, and gets none that come from now on. What waits in its
    /// queue still comes; what its conjunctions hold is kept; its timers rest.
    ///
    /// # Errors
    /// [`ConnectError::Busy`], [`ConnectError::Destroyed`].
    pub fn suspend(&self) -> Result<(), ConnectError> {
        self.core.suspend(self.id, true)
    }

    /// Puts it in again.
    ///
    /// # Errors
    /// As [`suspend`](Self::suspend), and [`ConnectError::TooManyTimers`].
    pub fn resume(&self) -> Result<(), ConnectError> {
        self.core.suspend(self.id, false)
    }

    /// Puts these registrations in the place of those that it has, in one step: each event meets the old ones or the new ones. What waits in
    /// its queue still comes, before what comes later; what conjunctions hold is forgotten, time-outs begin anew.
    ///
    /// # Errors
    /// As for [`connect`](ConsumerAdmin::connect); nothing has changed then.
    pub fn resubscribe(&self, filters: Vec<Filter>) -> Result<(), ConnectError> {
        self.core.resubscribe(self.id, filters)
    }

    /// How many pushes wait for it.
    pub fn waiting(&self) -> usize {
        self.core.waiting(self.id)
    }

    pub(crate) fn core(&self) -> Arc<Core<M>> {
        self.core.clone()
    }

    /// The connection itself, to be poked.
    pub(crate) fn connection(&self) -> Option<Arc<Connection>> {
        self.core.registry.lock().consumers.get(&self.id).map(|entry| entry.connection.clone())
    }

    /// What happened to its events so far.
    pub fn counts(&self) -> Counts {
        self.core.counts(self.id)
    }

    /// Is it still connected? It may have forfeited that.
    pub fn is_connected(&self) -> bool {
        self.core.is_connected(self.id)
    }

    /// Ends the connection. A call under way on another thread ends by itself; none begins after this.
    pub fn disconnect(self) {}

    /// Leaves the consumer connected for as long as the channel lives.
    pub fn detach(mut self) -> u32 {
        self.keep = true;
        self.id
    }
}

impl<M: ModuleSet> Drop for ProxyPushSupplier<M> {
    fn drop(&mut self) {
        if !self.keep {
            self.core.disconnect(self.id, false);
        }
    }
}

impl<M: ModuleSet> fmt::Debug for ProxyPushSupplier<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProxyPushSupplier").field(&self.id).finish()
    }
}

/// Where suppliers connect.
#[derive(Clone)]
pub struct SupplierAdmin<M: ModuleSet = Replaceable> {
    pub(crate) core: Arc<Core<M>>,
}

impl<M: ModuleSet> SupplierAdmin<M> {
    /// Connects a supplier that does not say what it will push: the tables know the consumers.
    ///
    /// # Errors
    /// [`ConnectError::TooMany`], [`ConnectError::Destroyed`].
    pub fn connect(&self) -> Result<ProxyPushConsumer<M>, ConnectError> {
        self.connect_with(SupplierQos::default())
    }

    /// Connects a supplier that says what it will push. Other events of it are counted or refused
    /// ([`Config::undeclared`](crate::Config::undeclared)). Where all suppliers of a channel have said so, observers are told, and a
    /// federation subscribes for its neighbours to nothing that nobody here pushes.
    ///
    /// # Errors
    /// [`ConnectError::TooMany`], [`ConnectError::TooManyPublications`], [`ConnectError::Destroyed`].
    pub fn connect_with(&self, qos: SupplierQos) -> Result<ProxyPushConsumer<M>, ConnectError> {
        let published = Published::new(&qos);
        let id = self.core.connect_supplier(qos)?;
        Ok(ProxyPushConsumer { core: self.core.clone(), id, published })
    }
}

/// The channel's end of a supplier's connection: to the supplier, the consumer.
pub struct ProxyPushConsumer<M: ModuleSet = Replaceable> {
    core: Arc<Core<M>>,
    id: u32,
    published: Option<Published>,
}

/// What became of the pushes that an event led to, by consumer. Conjunctions that wait for more count as taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pushed {
    /// Consumers that took it, or will.
    pub taken: u32,
    /// Consumers whose policy lost it or another for it.
    pub dropped: u32,
    /// Consumers that had no room and want the supplier to know.
    pub refused: u32,
    /// Consumers that did not get it since it would have to wait for them and has more data than
    /// [`Limits::payload`](crate::Limits::payload).
    pub too_large: u32,
    /// 1 if the supplier had not declared it. [`Config::undeclared`](crate::Config::undeclared) says what that entails.
    pub undeclared: u32,
}

impl<M: ModuleSet> ProxyPushConsumer<M> {
    /// The supplier's number, which the trace uses.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Sends an event to all who want it. Without dispatching they have taken it when this returns; with it, it waits for them.
    ///
    /// Threads may share a supplier. What one thread pushes reaches each consumer in that order.
    ///
    /// # Real-time
    /// Does not allocate. Takes no lock to find the consumers; without dispatching, and but for conjunctions, none at all. With
    /// dispatching, the lock of each consumer's queue, and that of its level for a consumer that was idle. Waits for room under
    /// [`Overflow::Block`](isorb_rt::queue::Overflow::Block) only, and no longer than [`Config::block`](crate::Config::block).
    #[inline]
    pub fn push(&self, event: &Event<'_>) -> Pushed {
        if self.published.as_ref().is_some_and(|published| !published.has(&event.header)) {
            return self.core.push_undeclared(self.id, event);
        }
        self.core.push(self.id, event)
    }

    /// Sends an event to those who want it among some of the consumers.
    pub(crate) fn push_among(&self, event: &Event<'_>, among: impl Fn(&Connection) -> bool) -> Pushed {
        self.core.deliver(self.id, event, Some(&among))
    }

    /// [`push`](Self::push)es one after the other.
    pub fn push_all(&self, events: &[Event<'_>]) -> Pushed {
        events.iter().fold(Pushed::default(), |sum, event| {
            let one = self.push(event);
            Pushed {
                taken: sum.taken.saturating_add(one.taken),
                dropped: sum.dropped.saturating_add(one.dropped),
                refused: sum.refused.saturating_add(one.refused),
                too_large: sum.too_large.saturating_add(one.too_large),
                undeclared: sum.undeclared.saturating_add(one.undeclared),
            }
        })
    }

    /// Ends the connection.
    pub fn disconnect(self) {}
}

impl<M: ModuleSet> Drop for ProxyPushConsumer<M> {
    fn drop(&mut self) {
        self.core.disconnect_supplier(self.id);
    }
}

impl<M: ModuleSet> fmt::Debug for ProxyPushConsumer<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProxyPushConsumer").field(&self.id).finish()
    }
}

impl<M: ModuleSet> fmt::Debug for ConsumerAdmin<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsumerAdmin").finish_non_exhaustive()
    }
}

impl<M: ModuleSet> fmt::Debug for SupplierAdmin<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SupplierAdmin").finish_non_exhaustive()
    }
}

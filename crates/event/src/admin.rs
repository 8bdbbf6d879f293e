//! How suppliers and consumers connect, and the proxies that they hold.

use crate::connection::Connection;
use crate::consumer::PushConsumer;
use crate::content::ContentFilter;
use crate::core::Core;
use crate::counters::{Counts, count};
use crate::dispatch::Dispatch;
use crate::error::ConnectError;
use crate::event::Event;
use crate::filter::Filter;
use crate::kernel::FirstLoss;
use crate::modules::{ModuleSet, Replaceable};
use crate::ownership::Ownership;
use crate::placement::Quality;
use crate::retention::HistoryRequest;
use crate::supplier::{Published, SupplierQos, Undeclared};
use isorb_rt::priority::Priority;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Where consumers connect.
#[derive(Clone)]
pub struct ConsumerAdmin<M: ModuleSet = Replaceable> {
    pub(crate) core: Arc<Core<M>>,
}

/// What a consumer subscribes to and declares (`ConsumerQOS`).
#[derive(Clone, Default)]
pub struct ConsumerQos {
    /// Its name for tools and the scheduler.
    pub name: String,
    /// Where it is, for tools; empty for a consumer in the process.
    pub address: String,
    /// Its registrations, each independent of the others.
    pub filters: Vec<Filter>,
    /// A condition on the payload. Events that do not satisfy it are not delivered and not queued,
    /// and conjunctions do not see them. Time-outs are. [`Broadcaster`](crate::Configuration)
    /// channels do not filter.
    pub content: Option<ContentFilter>,
    /// Its timing, queue and priority.
    pub quality: Quality,
    /// It forwards to another channel. Observers do not see its subscriptions.
    pub gateway: bool,
    /// A dispatcher for this consumer only. For consumers that may be slow, such as remote ones. A
    /// processor that the scheduler assigns it to goes first
    /// ([`RunTimeScheduler::processor`](crate::RunTimeScheduler::processor)).
    pub dispatch: Option<Arc<dyn Dispatch>>,
    /// The events of the channel's history that it gets first.
    pub history: HistoryRequest,
}

impl fmt::Debug for ConsumerQos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsumerQos")
            .field("name", &self.name)
            .field("address", &self.address)
            .field("filters", &self.filters)
            .field("content", &self.content)
            .field("quality", &self.quality)
            .field("gateway", &self.gateway)
            .field("own_dispatch", &self.dispatch.is_some())
            .field("history", &self.history)
            .finish()
    }
}

impl ConsumerQos {
    /// A consumer with one registration.
    pub fn new(name: impl Into<String>, filter: Filter) -> ConsumerQos {
        ConsumerQos { name: name.into(), filters: vec![filter], ..ConsumerQos::default() }
    }

    /// Adds a registration.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> ConsumerQos {
        self.filters.push(filter);
        self
    }

    /// Sets the condition on the payload.
    #[must_use]
    pub fn content(mut self, content: ContentFilter) -> ConsumerQos {
        self.content = Some(content);
        self
    }

    /// Asks for events of the channel's history.
    #[must_use]
    pub fn history(mut self, history: HistoryRequest) -> ConsumerQos {
        self.history = history;
        self
    }

    /// Sets its timing, queue and priority.
    #[must_use]
    pub fn quality(mut self, quality: Quality) -> ConsumerQos {
        self.quality = quality;
        self
    }
}

/// Registrations of one consumer that have a queue and a placement together.
#[derive(Clone)]
pub struct Registrations {
    /// The consumer. The pushes of its registrations are not ordered among each other, and run at
    /// the same time where each level has a thread.
    pub consumer: Arc<dyn PushConsumer>,
    /// The filters, the queue and the operation ([`Quality::rt_info`]).
    pub qos: ConsumerQos,
    /// Further operations that these registrations are, by their handles, as for the terms of a
    /// conjunction. All are admitted, and the placement is that of the most urgent one.
    pub operations: Vec<i32>,
}

impl Registrations {
    /// Registrations of one operation.
    pub fn new(consumer: Arc<dyn PushConsumer>, qos: ConsumerQos) -> Registrations {
        Registrations { consumer, qos, operations: Vec::new() }
    }
}

impl fmt::Debug for Registrations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registrations")
            .field("qos", &self.qos)
            .field("operations", &self.operations)
            .finish_non_exhaustive()
    }
}

impl<M: ModuleSet> ConsumerAdmin<M> {
    /// Connects a consumer. It is disconnected when the proxy is dropped.
    ///
    /// # Errors
    /// [`ConnectError`]; the channel is unchanged then.
    ///
    /// # Real-time
    /// Allocates and takes the administrative lock. Does not disturb events. With a
    /// [history](ConsumerQos::history) it waits, at most for 0.1 s, until all pushes have returned
    /// that began before, and runs the consumer without dispatching.
    pub fn connect(
        &self,
        consumer: Arc<dyn PushConsumer>,
        qos: ConsumerQos,
    ) -> Result<ProxyPushSupplier<M>, ConnectError> {
        let id = self.core.connect(consumer, qos)?;
        Ok(ProxyPushSupplier { core: self.core.clone(), id, keep: false })
    }

    /// Connects the registrations of one consumer, each with a queue, a placement and counts of its
    /// own, so that urgent events do not wait behind others. All are admitted and connected, or
    /// none. The proxies come in the order of `registrations`. Each counts as a consumer of
    /// [`Limits::consumers`](crate::Limits::consumers).
    ///
    /// An event that meets several of the registrations is pushed once, by the one that is the most
    /// urgent when they connect. Conjunctions are apart: they may need the event for another one.
    /// The events of one registration stay in order.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    ///
    /// # Real-time
    /// As [`connect`](Self::connect), for each. A push costs what it costs to as many consumers.
    pub fn connect_each(
        &self,
        registrations: Vec<Registrations>,
    ) -> Result<Vec<ProxyPushSupplier<M>>, ConnectError> {
        let ids = self.core.connect_each(registrations)?;
        let proxy = |id| ProxyPushSupplier { core: self.core.clone(), id, keep: false };
        Ok(ids.into_iter().map(proxy).collect())
    }
}

/// The supplier that the channel presents to a consumer. Dropping it disconnects the consumer.
pub struct ProxyPushSupplier<M: ModuleSet = Replaceable> {
    core: Arc<Core<M>>,
    id: u32,
    keep: bool,
}

impl<M: ModuleSet> ProxyPushSupplier<M> {
    /// The consumer's number in the trace.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The priority that the scheduler assigned; `None` after the consumer was disconnected.
    pub fn priority(&self) -> Option<Priority> {
        self.core.priority_of(self.id)
    }

    /// Suspends delivery. New events skip the consumer at no cost. Queued events are still
    /// delivered, conjunctions keep their events, and its timers stop.
    ///
    /// # Errors
    /// [`ConnectError::Busy`], [`ConnectError::Destroyed`].
    pub fn suspend(&self) -> Result<(), ConnectError> {
        self.core.suspend(self.id, true)
    }

    /// Resumes delivery.
    ///
    /// # Errors
    /// As [`suspend`](Self::suspend), and [`ConnectError::TooManyTimers`].
    pub fn resume(&self) -> Result<(), ConnectError> {
        self.core.suspend(self.id, false)
    }

    /// Replaces the consumer's registrations in one step: each event meets the old ones or the new
    /// ones. Queued events are still delivered, before later ones. Events held by conjunctions are
    /// dropped, and timers start anew.
    ///
    /// # Errors
    /// As for [`connect`](ConsumerAdmin::connect); nothing has changed then.
    pub fn resubscribe(&self, filters: Vec<Filter>) -> Result<(), ConnectError> {
        self.core.resubscribe(self.id, filters)
    }

    /// The number of queued pushes.
    pub fn waiting(&self) -> usize {
        self.core.waiting(self.id)
    }

    pub(crate) fn core(&self) -> Arc<Core<M>> {
        self.core.clone()
    }

    /// The connection, for [`Core::poke`].
    pub(crate) fn connection(&self) -> Option<Arc<Connection>> {
        self.core.registry.lock().consumers.get(&self.id).map(|entry| entry.connection.clone())
    }

    /// The counts of its events so far.
    pub fn counts(&self) -> Counts {
        self.core.counts(self.id)
    }

    /// Returns true while it is connected. The channel may have evicted it.
    pub fn is_connected(&self) -> bool {
        self.core.is_connected(self.id)
    }

    /// Disconnects the consumer. A call under way on another thread ends normally; no call begins
    /// later.
    pub fn disconnect(self) {}

    /// Keeps the consumer connected for the life of the channel.
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
    /// Connects a supplier without publications.
    ///
    /// # Errors
    /// [`ConnectError::TooMany`], [`ConnectError::Destroyed`].
    pub fn connect(&self) -> Result<ProxyPushConsumer<M>, ConnectError> {
        self.connect_with(SupplierQos::default())
    }

    /// Connects a supplier that declares its publications. Undeclared events are counted or refused
    /// ([`ChannelBuilder::undeclared`](crate::ChannelBuilder::undeclared)). If all suppliers
    /// declare, observers are notified, and a federation does not subscribe neighbours to events
    /// that no supplier here publishes.
    ///
    /// # Errors
    /// [`ConnectError::TooMany`], [`ConnectError::TooManyPublications`],
    /// [`ConnectError::Destroyed`].
    pub fn connect_with(&self, qos: SupplierQos) -> Result<ProxyPushConsumer<M>, ConnectError> {
        let (published, ownership) = (Published::new(&qos), qos.ownership);
        let id = self.core.connect_supplier(qos)?;
        Ok(ProxyPushConsumer { core: self.core.clone(), id, published, ownership, lost: AtomicU64::new(0) })
    }
}

/// The consumer that the channel presents to a supplier. Dropping it disconnects the supplier.
pub struct ProxyPushConsumer<M: ModuleSet = Replaceable> {
    core: Arc<Core<M>>,
    id: u32,
    published: Option<Published>,
    ownership: Option<Ownership>,
    lost: AtomicU64,
}

/// The outcome of an event, in consumers. A conjunction that waits for more events counts as taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pushed {
    /// Consumers that have received it or will receive it.
    pub taken: u32,
    /// Consumers that dropped it, or an older event in its favour, by their overflow policy.
    pub dropped: u32,
    /// Consumers with a full queue and the policy to refuse.
    pub refused: u32,
    /// Consumers that did not get it because it would have to be queued and has more data than
    /// the largest copies ([`Limits::larger`](crate::Limits::larger)).
    pub too_large: u32,
    /// 1 if the supplier had not declared it. See
    /// [`ChannelBuilder::undeclared`](crate::ChannelBuilder::undeclared).
    pub undeclared: u32,
    /// 1 if it was dropped because a stronger supplier owns its instance.
    pub not_owned: u32,
}

impl<M: ModuleSet> ProxyPushConsumer<M> {
    /// The supplier's number in the trace.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Pushes an event to all consumers that subscribed to it. Without dispatching they have
    /// received it when this returns. With dispatching it is queued for them.
    ///
    /// Threads may share a supplier. Events of one thread reach each consumer in order.
    ///
    /// # Real-time
    /// Does not allocate. Finding the consumers takes no lock. With an
    /// [`Ownership`](SupplierQos::ownership), takes one lock for a short section. With dispatching, takes the lock of
    /// each consumer's queue, and that of its level if the consumer was idle. Without, takes locks
    /// only for conjunctions. Waits for room only under
    /// [`Overflow::Block`](isorb_rt::queue::Overflow::Block), at most for
    /// [`ChannelBuilder::block`](crate::ChannelBuilder::block).
    #[inline]
    pub fn push(&self, event: &Event<'_>) -> Pushed {
        let pushed = if self.published.as_ref().is_some_and(|published| !published.has(&event.header)) {
            self.push_undeclared(event)
        } else if !self.owns(event) {
            Pushed { not_owned: 1, ..Pushed::default() }
        } else {
            self.core.push(self.id, event)
        };
        if pushed.dropped | pushed.refused | pushed.too_large != 0 {
            self.count_loss(event, pushed);
        }
        pushed
    }

    /// Whether it may push an event: no stronger supplier owns the instance.
    #[inline]
    fn owns(&self, event: &Event<'_>) -> bool {
        self.ownership.is_none_or(|ownership| self.core.owns(self.id, ownership, event))
    }

    /// Handles an event that it had not declared.
    #[cold]
    fn push_undeclared(&self, event: &Event<'_>) -> Pushed {
        count(&self.core.kernel.totals.undeclared);
        let pushed = match self.core.undeclared {
            // It takes the instance from no other supplier.
            Undeclared::Refuse => Pushed::default(),
            Undeclared::Count if !self.owns(event) => Pushed { not_owned: 1, ..Pushed::default() },
            Undeclared::Count => self.core.push(self.id, event),
        };
        Pushed { undeclared: 1, ..pushed }
    }

    #[cold]
    fn count_loss(&self, event: &Event<'_>, pushed: Pushed) {
        if self.lost.fetch_add(1, Relaxed) == 0 {
            let (supplier, event_type) = (self.id, event.header.event_type);
            let octets = event.data.octets.len() + event.data.any.len();
            let (too_large, full) = (pushed.too_large, pushed.dropped + pushed.refused);
            self.core.kernel.report_loss(FirstLoss::Supplier {
                supplier,
                event_type,
                octets,
                too_large,
                full,
            });
        }
    }

    /// The number of its events that at least one consumer lost. The first is logged.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Pushes an event to the subscribed consumers that `among` accepts.
    pub(crate) fn push_among(&self, event: &Event<'_>, among: impl Fn(&Connection) -> bool) -> Pushed {
        self.core.deliver(self.id, event, Some(&among))
    }

    /// Pushes each event in turn and adds up the outcomes.
    pub fn push_all(&self, events: &[Event<'_>]) -> Pushed {
        events.iter().fold(Pushed::default(), |sum, event| {
            let one = self.push(event);
            Pushed {
                taken: sum.taken.saturating_add(one.taken),
                dropped: sum.dropped.saturating_add(one.dropped),
                refused: sum.refused.saturating_add(one.refused),
                too_large: sum.too_large.saturating_add(one.too_large),
                undeclared: sum.undeclared.saturating_add(one.undeclared),
                not_owned: sum.not_owned.saturating_add(one.not_owned),
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

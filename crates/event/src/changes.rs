//! The channel behind its handles: connecting, disconnecting, replacing modules.

use crate::admin::ConsumerQos;
use crate::connection::Connection;
use crate::consumer::{PushConsumer, Resume};
use crate::core::Core;
use crate::correlation::Registration;
use crate::counters::Counts;
use crate::dispatch::Redispatch;
use crate::error::{ConnectError, SwapError};
use crate::event::Header;
use crate::filter::{Compiled, Filter};
use crate::kernel::PendingDisconnect;
use crate::modules::{ModuleSet, Pipeline};
use crate::placement::{NotAdmitted, Placement};
use crate::registrations::{Admitted, rank};
use crate::registry::{Entry, Registry};
use crate::retention::HistoryRequest;
use crate::supplier::{MAX_PUBLICATIONS, SupplierQos};
use crate::view::View;
use isorb_rt::priority::Priority;
use isorb_rt::sched::{SpawnError, ThreadSpec};
use isorb_rt::sync::{Busy, PiGuard};
use isorb_rt::time::{Deadline, now_ns, sleep_until};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long a change waits for a free version of the view.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// How long a consumer that connects waits for pushes that began before, for the history.
const MAX_SETTLE: Duration = Duration::from_millis(100);

/// The registration that checks the instances of a consumer which declared their period.
fn check(connection: &Arc<Connection>) -> Option<Arc<Registration>> {
    let period = connection.quality.instance_period?;
    Registration::checking(connection.clone(), period).map(Arc::new)
}

/// A consumer that is to get events of the history.
struct LateJoiner {
    connection: Arc<Connection>,
    registrations: Vec<Arc<Registration>>,
    history: HistoryRequest,
    /// The first view that lists it.
    view: u64,
}

/// Says once that the channel is full; clients of other ORBs see no reason.
fn report_full(reported: &mut bool, role: &str, limit: usize) {
    if !std::mem::replace(reported, true) {
        isorb_rt::log::warn(
            "isorb::event",
            format_args!(
                "a {role} was refused, as others will be until one leaves: the channel has {limit}; raise \
                 Limits::{role}s"
            ),
        );
    }
}

impl<M: ModuleSet> Core<M> {
    pub(crate) fn connect(
        self: &Arc<Self>,
        consumer: Arc<dyn PushConsumer>,
        qos: ConsumerQos,
    ) -> Result<u32, ConnectError> {
        self.sweep_before_connecting();
        let admitted = Admitted::admit(&*self.scheduler, &qos, &[])?;
        self.connect_admitted(consumer, qos, admitted)
    }

    /// Connects a consumer that the scheduler admitted. If that fails, the admission ends.
    pub(crate) fn connect_admitted(
        self: &Arc<Self>,
        consumer: Arc<dyn PushConsumer>,
        qos: ConsumerQos,
        admitted: Admitted,
    ) -> Result<u32, ConnectError> {
        let numbers = admitted.numbers.clone();
        let connected = self.enter_admitted(consumer, qos, admitted);
        if connected.is_err() {
            numbers.iter().for_each(|number| self.scheduler.leave(*number));
        }
        connected
    }

    fn enter_admitted(
        self: &Arc<Self>,
        consumer: Arc<dyn PushConsumer>,
        qos: ConsumerQos,
        admitted: Admitted,
    ) -> Result<u32, ConnectError> {
        let history = qos.history;
        if history.last > 0 && self.kernel.history().is_none() {
            return Err(ConnectError::NoHistory);
        }
        let compiled: Vec<Compiled> = qos.filters.iter().map(Compiled::new).collect::<Result<_, _>>()?;
        let placement = admitted.placement.unwrap_or_else(|| Placement::least_urgent(&qos.quality));
        let gateway = qos.gateway;
        let processor = self.processor_of(&admitted)?;
        let dispatch = match processor {
            // Its promise holds on that processor's threads only.
            Some(at) => self.processors.get(at).map(|processor| processor.dispatch.clone()),
            None => qos.dispatch,
        };
        let connected = self.enter(|registry| {
            if registry.consumers.len() >= self.limits.consumers {
                report_full(&mut registry.reported.consumers, "consumer", self.limits.consumers);
                return Err(ConnectError::TooMany);
            }
            registry.next = registry.next.wrapping_add(1).max(1);
            let id = registry.next;
            let kernel = self.kernel.clone();
            consumer.priority_changed(placement.priority);
            let connection =
                Connection::new(id, qos.name, qos.quality, placement, consumer, dispatch, kernel)?;
            let connection = Arc::new(connection.with_content(qos.content));
            let channel: Weak<dyn Redispatch> = Arc::downgrade(self) as _;
            connection.notify_connected(Resume::new(&connection, channel));
            if history.last > 0 {
                connection.await_history();
            }
            let registrations: Vec<_> = compiled
                .into_iter()
                .map(|compiled| Arc::new(Registration::new(connection.clone(), compiled)))
                .chain(check(&connection))
                .collect();
            let entry = Entry {
                connection,
                registrations,
                filters: qos.filters,
                address: qos.address,
                suspended: false,
                gateway: qos.gateway,
                admitted: admitted.numbers,
                processor: processor.and_then(|at| self.processors.get(at)).map(|processor| processor.cpus),
            };
            if registry.tables.exceeds(&entry.patterns(), self.limits.masks) {
                return Err(ConnectError::TooManyMasks);
            }
            self.arm(&entry)?;
            self.reserve(registry.consumers.len() + 1);
            if let Some(own) = entry.connection.own_dispatch() {
                own.reserve(registry.consumers.len() + 1);
            }
            registry.consumers.insert(id, entry);
            registry.list(id, self.limits.parts);
            if let Err(error) = self.publish(registry) {
                registry.unlist(id);
                if let Some(entry) = registry.consumers.remove(&id) {
                    self.disarm(&entry);
                }
                return Err(error);
            }
            self.apply_placements(registry);
            let late = registry.consumers.get(&id).filter(|_| history.last > 0).map(|entry| LateJoiner {
                connection: entry.connection.clone(),
                registrations: entry.registrations.clone(),
                history,
                view: self.version.load(Relaxed),
            });
            Ok((id, late))
        });
        let (id, late) = connected?;
        if !gateway {
            self.notify_observers();
        }
        if let Some(late) = late {
            self.serve_history(&late);
        }
        Ok(id)
    }

    /// The processor on which a consumer was admitted, by its number.
    fn processor_of(&self, admitted: &Admitted) -> Result<Option<usize>, ConnectError> {
        let mut all = admitted.numbers.iter().filter_map(|number| self.scheduler.processor(*number));
        let Some(at) = all.next() else { return Ok(None) };
        let count = self.processors.len();
        let why = if at >= count {
            format!(
                "its scheduler admitted it on processor {at}, and the channel has {count}: give it all of them \
                 (ChannelBuilder::processors)"
            )
        } else if let Some(other) = all.find(|other| *other != at) {
            // They have one queue, which one thread serves.
            let name = |at: usize| self.processors.get(at).map_or_else(String::new, |at| at.cpus.to_string());
            format!(
                "a conjunction of operations on the processors {} and {} cannot run on both: have them depend on \
                 each other in the schedule, so that they are placed on one",
                name(at),
                name(other)
            )
        } else {
            return Ok(Some(at));
        };
        Err(NotAdmitted(why).into())
    }

    /// Gives a consumer the events of the history that it asked for, and those that were queued for
    /// it meanwhile.
    fn serve_history(&self, late: &LateJoiner) {
        // An event of an older view is kept before the first consumer runs, so this waits for
        // suppliers that were pre-empted before that.
        if !self.view.settle(Deadline::after(MAX_SETTLE)) {
            isorb_rt::log::warn(
                "isorb::event",
                format_args!(
                    "consumer {} connects while another one runs for long: of the events that are pushed just now it may \
                     miss some of the history",
                    late.connection.name
                ),
            );
        }
        if let Some(history) = self.kernel.history() {
            let wants = |event: &Header| late.registrations.iter().any(|of| of.is_met_by(event));
            let at = (late.view, self.kernel.clock.now_ns());
            late.connection.begin_history(history.collect(&late.history, at, wants));
        }
        self.serve_consumer(&late.connection);
    }

    /// Applies the scheduler's placements: a new consumer may change those of others.
    fn apply_placements(&self, registry: &Registry) {
        let places: BTreeMap<u64, Placement> = self.scheduler.placements().into_iter().collect();
        for entry in registry.consumers.values() {
            let own = entry.admitted.iter().filter_map(|number| places.get(number));
            if let Some(placement) = own.max_by_key(|placement| rank(placement)) {
                entry.connection.set_placement(placement);
            }
        }
    }

    /// Runs `change` under the administrative lock, unless the channel is destroyed.
    fn enter<T>(
        &self,
        change: impl FnOnce(&mut Registry) -> Result<T, ConnectError>,
    ) -> Result<T, ConnectError> {
        let mut registry = self.registry.lock();
        if registry.destroyed {
            return Err(ConnectError::Destroyed);
        }
        change(&mut registry)
    }

    fn arm(self: &Arc<Self>, entry: &Entry) -> Result<(), ConnectError> {
        for registration in &entry.registrations {
            let armed = self.timers.arm(registration, self.kernel.clock.now_ns());
            let failed = match armed {
                Ok(Some((band, true))) if self.own_threads => {
                    self.start_timer_thread(band).err().map(|error| {
                        self.timers.has_no_thread(band);
                        ConnectError::Thread(error)
                    })
                }
                Ok(_) => None,
                Err(_) => Some(ConnectError::TooManyTimers),
            };
            if let Some(error) = failed {
                self.disarm(entry);
                return Err(error);
            }
        }
        Ok(())
    }

    fn disarm(&self, entry: &Entry) {
        entry.registrations.iter().for_each(|registration| self.timers.disarm(registration));
    }

    fn start_timer_thread(self: &Arc<Self>, band: usize) -> Result<(), SpawnError> {
        let priority = self.kernel.levels[band];
        let (timers, core, kernel) = (self.timers.clone(), Arc::downgrade(self), self.kernel.clone());
        let body = move || {
            timers.drive(
                band,
                || kernel.clock.now_ns(),
                |due| core.upgrade().map(|core| core.timeout(&due)).is_some(),
            );
        };
        self.setup.spawn(format!("event-timer-{}", priority.get()), priority, body).map(drop)
    }

    pub(crate) fn start_sweeper(self: &Arc<Self>) -> Result<(), SpawnError> {
        let (core, kernel) = (Arc::downgrade(self), self.kernel.clone());
        // An ordinary thread of the lowest priority: no thread waits for it.
        let setup = crate::dispatch::ThreadSetup { mapping: None, ..self.setup.clone() };
        let body = move || {
            loop {
                kernel.sweeper.park_until(Deadline::NONE);
                match core.upgrade() {
                    Some(core) if !core.registry.lock().destroyed => drop(core.sweep()),
                    _ => return,
                }
            }
        };
        setup.spawn("event-sweep".into(), Priority::MIN, body).map(drop)
    }

    /// Publishes the registry's tables and pipeline to new events.
    fn publish(&self, registry: &Registry) -> Result<(), ConnectError> {
        // Set before the first event meets the view.
        let version = self.version.fetch_add(1, Relaxed) + 1;
        let (tables, pipeline) = (registry.tables.clone(), registry.pipeline.clone());
        let mut view = View { tables, pipeline, version };
        let until = Deadline::after(MAX_WAIT);
        while let Err(Busy(back)) = self.view.replace(view) {
            if until.is_past() {
                return Err(ConnectError::Busy);
            }
            view = back;
            sleep_until(Deadline::at_ns(now_ns() + 1_000_000));
        }
        Ok(())
    }

    pub(crate) fn suspend(self: &Arc<Self>, id: u32, suspend: bool) -> Result<(), ConnectError> {
        self.enter(|registry| {
            let Some(entry) = registry.consumers.get_mut(&id) else {
                return Ok(());
            };
            if entry.suspended == suspend {
                return Ok(());
            }
            entry.suspended = suspend;
            if suspend {
                self.disarm(entry);
                registry.unlist(id);
            } else {
                if let Err(error) = self.arm(entry) {
                    entry.suspended = true;
                    return Err(error);
                }
                registry.list(id, self.limits.parts);
            }
            self.publish(registry)
        })?;
        self.notify_observers();
        Ok(())
    }

    pub(crate) fn resubscribe(self: &Arc<Self>, id: u32, filters: Vec<Filter>) -> Result<(), ConnectError> {
        let compiled: Vec<Compiled> = filters.iter().map(Compiled::new).collect::<Result<_, _>>()?;
        let (mut registrations, mut filters) = (Vec::new(), filters);
        let gateway = self.enter(|registry| {
            let Some(entry) = registry.consumers.get_mut(&id) else {
                return Err(ConnectError::Destroyed);
            };
            let connection = &entry.connection;
            let new = compiled.into_iter().map(|c| Arc::new(Registration::new(connection.clone(), c)));
            registrations = new.chain(check(connection)).collect();
            let (listed, gateway) = (!entry.suspended, entry.gateway);
            if listed {
                // Remove the old ones first: the new ones may need their timers and masks.
                self.disarm(entry);
                registry.unlist(id);
            }
            let swapped = self.swap(registry, id, &mut registrations, &mut filters, listed);
            if swapped.is_err() && listed {
                registry.unlist(id);
                // The old registrations fit before, so they fit now.
                let _ = self.swap(registry, id, &mut registrations, &mut filters, listed);
            }
            swapped.map(|()| gateway)
        })?;
        // After the swap these are the old registrations.
        registrations.iter().for_each(|registration| registration.clear());
        if !gateway {
            self.notify_observers();
        }
        Ok(())
    }

    /// Swaps a consumer's registrations, and publishes them if it is `listed`.
    fn swap(
        self: &Arc<Self>,
        registry: &mut Registry,
        id: u32,
        registrations: &mut Vec<Arc<Registration>>,
        filters: &mut Vec<Filter>,
        listed: bool,
    ) -> Result<(), ConnectError> {
        let Some(entry) = registry.consumers.get_mut(&id) else {
            return Err(ConnectError::Destroyed);
        };
        self.disarm(entry);
        std::mem::swap(&mut entry.registrations, registrations);
        std::mem::swap(&mut entry.filters, filters);
        let patterns = entry.patterns();
        if registry.tables.exceeds(&patterns, self.limits.masks) {
            return Err(ConnectError::TooManyMasks);
        }
        if !listed {
            return Ok(());
        }
        let Some(entry) = registry.consumers.get(&id) else {
            return Err(ConnectError::Destroyed);
        };
        self.arm(entry)?;
        registry.list(id, self.limits.parts);
        self.publish(registry)
    }

    pub(crate) fn waiting(&self, id: u32) -> usize {
        self.registry.lock().consumers.get(&id).map_or(0, |entry| entry.connection.waiting())
    }

    /// Disconnects a consumer. With `notify`, calls [`PushConsumer::disconnected`]: the channel
    /// disconnected it.
    pub(crate) fn disconnect(&self, id: u32, notify: bool) {
        let Some(gone) = self.remove_consumer(id) else {
            return;
        };
        if notify {
            gone.notify_disconnected();
        }
    }

    /// Removes a consumer from the channel without notifying it.
    fn remove_consumer(&self, id: u32) -> Option<Arc<Connection>> {
        let mut registry = self.registry.lock();
        if !registry.consumers.get(&id).is_some_and(|entry| entry.suspended) {
            registry.unlist(id);
        }
        let entry = registry.consumers.remove(&id)?;
        registry.reported.consumers = false;
        entry.connection.leave();
        self.disarm(&entry);
        // Without a free version it leaves the tables with the next change. It is not called
        // meanwhile.
        let _ = self.publish(&registry);
        drop(registry);
        // A reader may still hold the tables, so free the events of its conjunctions now.
        entry.registrations.iter().for_each(|registration| registration.clear());
        entry.admitted.iter().for_each(|number| self.scheduler.leave(*number));
        if !entry.gateway {
            self.notify_observers();
        }
        Some(entry.connection)
    }

    /// Disconnects evicted consumers, notifies them, and disconnects suppliers that could not
    /// disconnect themselves. Logs first losses. Returns the number of consumers.
    pub(crate) fn sweep(&self) -> usize {
        let swept = self.remove_pending();
        self.notify_evicted();
        self.kernel.log_losses();
        swept
    }

    /// As [`sweep`](Self::sweep), before a connection. The caller does not wait for notifications,
    /// since an evicted consumer may not answer.
    pub(crate) fn sweep_before_connecting(&self) {
        if self.remove_pending() == 0 {
            return;
        }
        if self.own_threads { self.kernel.sweeper.unpark() } else { self.notify_evicted() }
    }

    fn remove_pending(&self) -> usize {
        let mut swept = 0;
        while let Some(leaving) = self.kernel.next_pending_disconnect() {
            match leaving {
                PendingDisconnect::Consumer(id) => {
                    if let Some(gone) = self.remove_consumer(id) {
                        isorb_rt::log::warn(
                            "isorb::event",
                            format_args!(
                                "consumer {} is disconnected: {}",
                                gone.name,
                                gone.why_disconnected()
                            ),
                        );
                        self.kernel.notify_later(gone);
                    }
                    swept += 1;
                }
                PendingDisconnect::Supplier(id) => self.remove_supplier(self.registry.lock(), id),
            }
        }
        swept
    }

    fn notify_evicted(&self) {
        while let Some(gone) = self.kernel.next_to_notify() {
            gone.notify_disconnected();
        }
    }

    pub(crate) fn counts(&self, id: u32) -> Counts {
        self.registry.lock().consumers.get(&id).map(|entry| entry.connection.counts()).unwrap_or_default()
    }

    pub(crate) fn is_connected(&self, id: u32) -> bool {
        self.registry.lock().consumers.get(&id).is_some_and(|entry| !entry.connection.is_gone())
    }

    pub(crate) fn connect_supplier(&self, qos: SupplierQos) -> Result<u32, ConnectError> {
        if qos.publications.len() > MAX_PUBLICATIONS {
            return Err(ConnectError::TooManyPublications);
        }
        self.sweep_before_connecting();
        let (id, changed) = self.enter(|registry| {
            if registry.suppliers.len() >= self.limits.suppliers {
                report_full(&mut registry.reported.suppliers, "supplier", self.limits.suppliers);
                return Err(ConnectError::TooMany);
            }
            registry.next = registry.next.wrapping_add(1).max(1);
            let before = registry.published();
            if qos.ownership.is_some() {
                self.expect_owners();
            }
            registry.suppliers.insert(registry.next, qos);
            Ok((registry.next, before != registry.published()))
        })?;
        if changed {
            self.notify_observers();
        }
        Ok(id)
    }

    pub(crate) fn disconnect_supplier(&self, id: u32) {
        match self.registry.lock_until(Deadline::NONE) {
            Ok(registry) => self.remove_supplier(registry, id),
            // This thread holds the lock: it drops old tables and with them a consumer that owns
            // the supplier.
            Err(_) => self.kernel.request_disconnect(PendingDisconnect::Supplier(id)),
        }
    }

    fn remove_supplier(&self, mut registry: PiGuard<'_, Registry>, id: u32) {
        let before = registry.published();
        registry.suppliers.remove(&id);
        self.leave_instances(id);
        registry.reported.suppliers = false;
        let changed = before != registry.published();
        drop(registry);
        if changed {
            self.notify_observers();
        }
    }

    /// Replaces the pipeline, then closes the old one.
    pub(crate) fn install(&self, pipeline: Pipeline, within: Deadline) -> Result<(), SwapError> {
        let mut registry = self.registry.lock();
        if registry.destroyed {
            return Err(SwapError::Destroyed);
        }
        pipeline.dispatch.reserve(registry.consumers.len());
        let old = std::mem::replace(&mut registry.pipeline, pipeline);
        if self.publish(&registry).is_err() {
            registry.pipeline = old;
            return Err(SwapError::Busy);
        }
        drop(registry);
        // Its queues hand their consumers to the new dispatcher, so it can be closed with events
        // under way. Its threads end when their consumers return.
        let settled = self.view.settle(within);
        if settled {
            old.dispatch.close();
            Ok(())
        } else {
            ThreadSpec::inheriting("event-close")
                .spawn(move || old.dispatch.close())
                .map_err(|_| SwapError::Unfinished)?;
            Err(SwapError::Unfinished)
        }
    }

    pub(crate) fn destroy(&self) {
        let mut registry = self.registry.lock();
        if std::mem::replace(&mut registry.destroyed, true) {
            return;
        }
        registry.observers.clear();
        let ids: Vec<u32> = registry.consumers.keys().copied().collect();
        drop(registry);
        ids.into_iter().for_each(|id| self.disconnect(id, true));
        self.notify_evicted();
        self.timers.stop();
        self.kernel.sweeper.unpark();
        self.close_dispatch();
    }
}

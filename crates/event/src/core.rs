//! The channel behind its handles: the delivery of an event.

use crate::admin::Pushed;
use crate::batch::{Batch, LastEvent, event_lists};
use crate::config::ChannelBuilder;
use crate::connection::{Connection, PushOutcome};
use crate::correlation::Registration;
use crate::counters::{ThreadNumber, count, thread_number};
use crate::designator;
use crate::dispatch::{
    Direct, Dispatch, MAX_LEVELS, Queued, ReadyConsumer, Redispatch, Strategy, ThreadSetup,
};
use crate::error::StartError;
use crate::event::{CurrentEvent, Event, EventPool, Header, Stamp};
use crate::kernel::Kernel;
use crate::modules::ModuleSet;
use crate::ownership::{Claim, Owners, Ownership};
use crate::placement::RunTimeScheduler;
use crate::registry::Registry;
use crate::retention::Retention;
use crate::supplier::Undeclared;
use crate::table::TableEntry;
use crate::timer::{ExpiredTimer, Timers};
use crate::view::View;
use isorb_rt::priority::Priority;
use isorb_rt::sched::{Cpus, SpawnError};
use isorb_rt::sync::{PiMutex, Snapshot, Turn};
use isorb_sched::Preemption;
use isorb_trace::{Record, RecordKind, Recorder, RecorderLimits};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

/// The most versions of the view while readers hold old ones.
const VERSIONS: usize = 16;

pub(crate) struct Core<M: ModuleSet> {
    pub kernel: Arc<Kernel>,
    pub view: Snapshot<View>,
    pub registry: PiMutex<Registry>,
    pub timers: Arc<Timers>,
    pub scheduler: Arc<dyn RunTimeScheduler>,
    /// The processors that the scheduler assigns consumers to, by its numbers.
    pub processors: Vec<Processor>,
    pub setup: ThreadSetup,
    pub limits: crate::config::Limits,
    pub own_threads: bool,
    pub undeclared: Undeclared,
    pub id: u64,
    /// The thread that holds this turn notifies observers. Others do not wait, since observers may
    /// cause changes themselves.
    pub notifying: Turn,
    /// The version of the newest view, set under the administrative lock.
    pub version: AtomicU64,
    /// The owners of instances, once a supplier competes for them.
    owners: OnceLock<Owners>,
    sequence: AtomicU64,
    modules: M,
}

/// The number of processors that the trace distinguishes. A loom model has one.
fn traced_processors(trace_threads: usize) -> usize {
    #[cfg(not(loom))]
    return if trace_threads > 0 { isorb_rt::sched::possible_cpus() } else { 0 };
    #[cfg(loom)]
    return trace_threads.min(1);
}

/// A processor with threads of its own.
pub(crate) struct Processor {
    pub cpus: Cpus,
    /// Has a thread for each level, bound to it.
    pub dispatch: Arc<dyn Dispatch>,
}

impl Processor {
    fn start(cpus: &[Cpus], levels: &[Priority], setup: &ThreadSetup) -> Result<Vec<Processor>, SpawnError> {
        let mut processors = Vec::with_capacity(cpus.len());
        for cpus in cpus {
            let strategy = Strategy::Threads { per_level: 1 };
            let queued = Queued::alone(strategy, levels, &setup.clone().on(*cpus))?;
            let dispatch = queued.map(|queued| Arc::new(queued) as Arc<dyn Dispatch>);
            processors.extend(dispatch.map(|dispatch| Processor { cpus: *cpus, dispatch }));
        }
        Ok(processors)
    }
}

impl<M: ModuleSet> Core<M> {
    pub(crate) fn start(config: ChannelBuilder, modules: M) -> Result<Arc<Core<M>>, StartError> {
        let levels = config.levels;
        let ascend = levels.windows(2).all(|pair| pair[0] < pair[1]);
        if levels.is_empty() || levels.len() > MAX_LEVELS || !ascend {
            return Err(StartError::Levels { count: levels.len() });
        }
        let setup = config.threads.for_levels(&levels);
        let processors = Processor::start(&config.processors, &levels, &setup)?;
        let limits = config.limits;
        let events = EventPool::new(limits.size_classes()).ok_or(StartError::Memory)?;
        let retention = Retention::new(config.history, &config.lifespans);
        let retention = retention.map_err(|_| StartError::HistoryMemory)?;
        let kernel = Arc::new(Kernel::new(
            config.clock,
            Recorder::new(
                RecorderLimits {
                    threads: limits.trace_threads,
                    records: limits.trace_records,
                    processors: traced_processors(limits.trace_threads),
                    levels: levels.len(),
                },
                config.trace,
            ),
            events,
            event_lists(limits.sets),
            levels.into(),
            config.block,
            config.counting,
            config.latencies,
            retention,
            [limits.consumers, limits.suppliers, limits.instances],
        ));
        let timers = Arc::new(Timers::new(kernel.levels.len(), limits.timers));
        let core = Arc::new(Core {
            view: Snapshot::new(VERSIONS, View::default()),
            registry: PiMutex::new(Registry::default()),
            timers,
            scheduler: config.scheduler,
            processors,
            setup,
            limits,
            own_threads: config.own_threads,
            undeclared: config.undeclared,
            id: config.id,
            notifying: Turn::new(),
            version: AtomicU64::new(0),
            owners: OnceLock::new(),
            sequence: AtomicU64::new(0),
            modules,
            kernel,
        });
        if core.own_threads {
            core.start_sweeper()?;
        }
        Ok(core)
    }

    /// Makes room for the owners of instances, before the first supplier that competes for them.
    pub(crate) fn expect_owners(&self) {
        let _ = self.owners.set(Owners::new(self.limits.instances));
    }

    /// Frees the instances of a supplier.
    pub(crate) fn leave_instances(&self, supplier: u32) {
        if let Some(owners) = self.owners.get() {
            owners.leave(supplier);
        }
    }

    /// Whether a supplier may push an event, because it owns the instance.
    #[inline(never)]
    pub(crate) fn owns(&self, supplier: u32, ownership: Ownership, event: &Event<'_>) -> bool {
        let Some(owners) = self.owners.get() else { return true };
        let totals = &self.kernel.totals;
        match owners.claim(supplier, ownership, &event.header, self.kernel.clock.now_ns()) {
            Claim::Owned => {}
            Claim::Taken => count(&totals.owners_changed),
            Claim::Unknown => count(&totals.owners_unknown),
            Claim::Refused => {
                count(&totals.not_owned);
                return false;
            }
        }
        true
    }

    /// Pushes a supplier's event to all consumers that subscribed to it.
    #[inline]
    pub(crate) fn push(&self, supplier: u32, event: &Event<'_>) -> Pushed {
        if self.id != 0 && event.stamp == Stamp::default() {
            // In a federation, copies of the event are recognised by this number, whatever route
            // they take.
            let sequence = self.sequence.fetch_add(1, Relaxed) + 1;
            let stamp = Stamp { channel: self.id, sequence, link: 0 };
            return self.deliver(supplier, &Event { stamp, ..*event }, None);
        }
        self.deliver(supplier, event, None)
    }

    /// Delivers an event to the subscribed consumers, or to those `among` them.
    ///
    /// There is one function for both cases: with two, the compiler would not inline the delivery.
    #[inline]
    pub(crate) fn deliver(
        &self,
        supplier: u32,
        event: &Event<'_>,
        among: Option<&dyn Fn(&Connection) -> bool>,
    ) -> Pushed {
        let view = self.view.read();
        let mut delivery = self.delivery(&view, event, 0);
        if let Some(retention) = &self.kernel.retention {
            // First of all: a consumer that connects finds the events of older views there.
            delivery.now = self.kernel.clock.now_ns();
            let (new, now) = (among.is_none(), delivery.now);
            if retention.admit(&mut delivery.current, new, view.version, now) {
                self.kernel.sweeper.unpark();
            }
        }
        if delivery.traced {
            if delivery.now == 0 {
                delivery.now = self.kernel.clock.now_ns();
            }
            let h = &event.header;
            let a = u64::from(h.event_type as u32) << 32 | u64::from(h.source as u32);
            let (at, kind) = (delivery.now, RecordKind::Push);
            self.kernel.recorder.record(Record { at, kind, level: 0, id: supplier, a, b: 0 });
        }
        match among {
            None if self.modules.filters(&view) => view.tables.find(&event.header, |entries| {
                delivery.each(entries, Delivery::entry, |entry| &entry.connection);
            }),
            None => {
                view.tables.everyone(|all| delivery.each(all, Delivery::single, |connection| connection));
            }
            Some(among) if self.modules.filters(&view) => view.tables.find(&event.header, |entries| {
                let one = |delivery: &mut Delivery<'_, M, _>, entry: &TableEntry| {
                    if among(&entry.connection) {
                        delivery.entry_among(entry);
                    }
                };
                delivery.each(entries, one, |entry| &entry.connection);
            }),
            Some(among) => view.tables.everyone(|all| {
                let one = |delivery: &mut Delivery<'_, M, _>, connection: &Arc<Connection>| {
                    if among(connection) {
                        delivery.single_among(connection);
                    }
                };
                delivery.each(all, one, |connection| connection);
            }),
        }
        delivery.pushed
    }

    #[inline(always)]
    fn delivery<'a>(
        &'a self,
        view: &'a View,
        event: &'a Event<'a>,
        now: u64,
    ) -> Delivery<'a, M, M::Dispatch> {
        let dispatch = self.modules.dispatch(view);
        Delivery {
            core: self,
            dispatch,
            inline: dispatch.runs_inline(),
            correlates: self.modules.correlates(view),
            traced: self.kernel.recorder.is_on(),
            counted: self.kernel.counting.then(thread_number),
            current: CurrentEvent::new(event, &self.kernel.events),
            now,
            pushed: Pushed::default(),
        }
    }

    /// Delivers a time-out to its consumer.
    pub(crate) fn timeout(&self, expired: &ExpiredTimer) {
        let registration = &expired.registration;
        if registration.checks_instances() {
            return self.tell_silent(registration.connection());
        }
        let Some(timer) = registration.timer(expired.leaf) else {
            return;
        };
        let event_type =
            if timer.deadline { designator::DEADLINE_TIMEOUT } else { designator::INTERVAL_TIMEOUT };
        // As in the filter, the creation time has the period.
        let header = Header { event_type, source: 0, ttl: 0, creation_time: timer.period_ns / 100 };
        let now = self.kernel.clock.now_ns();
        let (late, deadline) = (now.saturating_sub(expired.at), u64::from(timer.deadline));
        registration.connection().record(RecordKind::Timeout, now, late, deadline);
        let view = self.view.read();
        let last = LastEvent::Timer(header);
        let batch = if registration.is_plain() || !self.modules.correlates(&view) {
            Some(Batch::of(last))
        } else {
            // A time-out needs no copy, so this cannot fail.
            registration.offer(last, Some(expired.leaf)).unwrap_or_default()
        };
        if let Some(batch) = batch {
            let event = Event { header, ..Event::default() };
            self.delivery(&view, &event, now).batch(registration.connection(), batch);
        }
    }

    /// Tells a consumer the instances that fell silent.
    fn tell_silent(&self, connection: &Arc<Connection>) {
        let now = self.kernel.clock.now_ns();
        let mut from = 0;
        while let Some((at, event_type, source)) = connection.next_silent(from, now) {
            from = at + 1;
            let creation_time = u64::from(event_type as u32);
            let header = Header { event_type: designator::INSTANCE_TIMEOUT, source, ttl: 0, creation_time };
            let view = self.view.read();
            let event = Event { header, ..Event::default() };
            self.delivery(&view, &event, now).batch(connection, Batch::of(LastEvent::Timer(header)));
        }
    }

    /// Calls a consumer through its own dispatcher with only a header. Returns true if it will run.
    pub(crate) fn poke(&self, connection: &Arc<Connection>, header: Header) -> bool {
        let view = self.view.read();
        let event = Event { header, ..Event::default() };
        let mut delivery = self.delivery(&view, &event, 0);
        // Like a time-out, it needs no copy, so this cannot fail.
        delivery.batch(connection, Batch::of(LastEvent::Timer(header)));
        delivery.pushed.taken != 0
    }

    pub(crate) fn step(&self) -> bool {
        self.modules.dispatch(&self.view.read()).step()
    }

    /// Fires all timers that are due, the most urgent first.
    pub(crate) fn expire(&self) -> usize {
        let mut fired = 0;
        for band in (0..self.timers.bands()).rev() {
            while let Some(expired) = self.timers.next_due(band, self.kernel.clock.now_ns()) {
                self.timeout(&expired);
                fired += 1;
            }
        }
        fired
    }

    pub(crate) fn close_dispatch(&self) {
        self.modules.dispatch(&self.view.read()).close();
    }

    /// Has a consumer with queued pushes served.
    pub(crate) fn serve_consumer(&self, connection: &Arc<Connection>) {
        let consumer = ReadyConsumer(connection.clone());
        let inline = self.modules.dispatch(&self.view.read()).runs_inline();
        let ready = match connection.own_dispatch() {
            Some(dispatch) => dispatch.ready(consumer),
            // Without a view: others wait until it is free, and a history may be long.
            None if inline => Direct.ready(consumer),
            None => self.modules.dispatch(&self.view.read()).ready(consumer),
        };
        if let Err(consumer) = ready {
            self.redispatch(consumer);
        }
    }

    pub(crate) fn preemption(&self) -> Option<Preemption> {
        self.modules.dispatch(&self.view.read()).preemption()
    }

    pub(crate) fn reserve(&self, consumers: usize) {
        self.modules.dispatch(&self.view.read()).reserve(consumers);
    }

    pub(crate) fn priority_of(&self, consumer: u32) -> Option<Priority> {
        self.registry.lock().consumers.get(&consumer).map(|entry| entry.connection.priority())
    }
}

impl<M: ModuleSet> Redispatch for Core<M> {
    fn redispatch(&self, consumer: ReadyConsumer) {
        let mut consumer = consumer;
        loop {
            match self.modules.dispatch(&self.view.read()).ready(consumer) {
                Ok(()) => return,
                // This dispatcher is closed: either it has been replaced, or the channel is
                // destroyed.
                Err(back) if !self.registry.lock().destroyed => consumer = back,
                Err(_) => return,
            }
        }
    }
}

impl<M: ModuleSet> Drop for Core<M> {
    fn drop(&mut self) {
        self.timers.stop();
        self.kernel.sweeper.unpark();
    }
}

/// The delivery of one event to its consumers.
struct Delivery<'a, M: ModuleSet, D: Dispatch + ?Sized> {
    core: &'a Core<M>,
    dispatch: &'a D,
    inline: bool,
    correlates: bool,
    traced: bool,
    counted: Option<ThreadNumber>,
    current: CurrentEvent<'a>,
    /// The time of the last look at the clock; 0 before the first.
    now: u64,
    pushed: Pushed,
}

impl<M: ModuleSet, D: Dispatch + ?Sized> Delivery<'_, M, D> {
    /// Calls `one` for each target, also after one that panics. One guard serves all of them: a
    /// guard each would cost as much as the call.
    #[inline]
    fn each<T>(
        &mut self,
        targets: &[T],
        one: impl Fn(&mut Self, &T),
        connection: impl Fn(&T) -> &Arc<Connection>,
    ) {
        let mut at = 0;
        while at < targets.len() {
            let guarded = AssertUnwindSafe(|| self.each_from(targets, &mut at, &one));
            if catch_unwind(guarded).is_err() {
                connection(&targets[at]).failed();
                self.pushed.taken += 1;
                at += 1;
            }
        }
    }

    /// Calls `one` for each target from `at` on, and leaves there the one that panicked. A function
    /// of its own, so that the compiler knows: no consumer changes what the loop reads.
    #[inline]
    fn each_from<T>(&mut self, targets: &[T], at: &mut usize, one: &impl Fn(&mut Self, &T)) {
        for (number, target) in targets.iter().enumerate().skip(*at) {
            *at = number;
            one(self, target);
        }
        *at = targets.len();
    }

    /// Delivers to a registration with a matching pattern.
    #[inline(always)]
    fn entry(&mut self, entry: &TableEntry) {
        if entry.simple {
            return self.single(&entry.connection);
        }
        let registration = &entry.registration;
        if entry.ask && !registration.is_first(entry.leaf as usize, &self.current.event.header) {
            return;
        }
        if !entry.connection.admits(self.current.event) {
            return;
        }
        if entry.connection.watches_instances() {
            entry.connection.instance_seen(&self.current.event.header, &mut self.now);
        }
        if registration.is_plain() || !self.correlates {
            if registration.has_deadline() {
                registration.set_satisfied(self.core.kernel.clock.now_ns());
            }
            self.single(registration.connection());
        } else {
            self.correlate(registration);
        }
    }

    /// Delivers the event alone to one consumer. In the loop over many, a call of its own would
    /// cost as much as the consumer's.
    #[inline(always)]
    fn single(&mut self, connection: &Arc<Connection>) {
        let outcome = if connection.is_direct(self.inline) {
            connection.push_now(&self.current, &mut self.now, self.traced, self.counted)
        } else {
            connection.enqueue_one(&self.current, &mut self.now)
        };
        if outcome == PushOutcome::Accepted {
            self.pushed.taken += 1;
        } else {
            self.record_outcome(connection, outcome);
        }
    }

    /// [`entry`](Self::entry) for events of a federation. Not inlined, so that local pushes still
    /// are.
    #[inline(never)]
    fn entry_among(&mut self, entry: &TableEntry) {
        self.entry(entry);
    }

    #[inline(never)]
    fn single_among(&mut self, connection: &Arc<Connection>) {
        self.single(connection);
    }

    fn correlate(&mut self, registration: &Arc<Registration>) {
        let connection = registration.connection();
        match registration.offer(LastEvent::Event(&self.current), None) {
            Ok(None) => self.pushed.taken += 1,
            Ok(Some(batch)) => {
                if registration.has_deadline() {
                    registration.set_satisfied(self.core.kernel.clock.now_ns());
                }
                // The batch refers to the current event, so the two are passed apart.
                let outcome = if connection.is_direct(self.inline) {
                    connection.push_batch_now(batch, &mut self.now)
                } else {
                    connection.enqueue(batch, &mut self.now)
                };
                self.record_outcome(connection, outcome);
            }
            Err(cause) => {
                let outcome = connection.copy_failed(cause, self.now);
                self.record_outcome(connection, outcome);
            }
        }
    }

    /// Delivers the events that satisfied a registration.
    fn batch(&mut self, connection: &Arc<Connection>, batch: Batch<'_, '_>) {
        let outcome = if connection.is_direct(self.inline) {
            connection.push_batch_now(batch, &mut self.now)
        } else {
            connection.enqueue(batch, &mut self.now)
        };
        self.record_outcome(connection, outcome);
    }

    #[inline(never)]
    fn record_outcome(&mut self, connection: &Arc<Connection>, outcome: PushOutcome) {
        match outcome {
            PushOutcome::Accepted => self.pushed.taken += 1,
            PushOutcome::ConsumerReady => {
                self.pushed.taken += 1;
                let consumer = ReadyConsumer(connection.clone());
                let ready = match connection.own_dispatch() {
                    Some(dispatch) => dispatch.ready(consumer),
                    None => self.dispatch.ready(consumer),
                };
                if let Err(consumer) = ready {
                    self.core.redispatch(consumer);
                }
            }
            PushOutcome::Dropped => self.pushed.dropped += 1,
            PushOutcome::Refused => self.pushed.refused += 1,
            PushOutcome::TooLarge => self.pushed.too_large += 1,
            PushOutcome::Disconnected | PushOutcome::TooSoon => {}
        }
    }
}

//! The channel behind its handles: the way of an event.

use crate::admin::Pushed;
use crate::batch::{Batch, Last, sets};
use crate::config::Config;
use crate::connection::{Connection, Fate};
use crate::correlation::Registration;
use crate::counters::{Me, count, me};
use crate::designator;
use crate::dispatch::{Dispatch, MAX_LEVELS, Route, ThreadSetup, Work};
use crate::error::StartError;
use crate::event::{Current, Event, EventPool, Header, Stamp};
use crate::kernel::Kernel;
use crate::modules::{Modules, Rack};
use crate::placement::RunTimeScheduler;
use crate::registry::Registry;
use crate::supplier::Undeclared;
use crate::table::Hit;
use crate::timer::{Due, Timers};
use crate::view::View;
use isorb_rt::priority::Priority;
use isorb_rt::sync::{PiMutex, Snapshot, Turn};
use isorb_sched::Preemption;
use isorb_trace::{Record, RecordKind, Recorder, RecorderLimits};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// How many versions of the view there can be while readers hold old ones.
const VERSIONS: usize = 16;

pub(crate) struct Core<R: Rack> {
    pub kernel: Arc<Kernel>,
    pub view: Snapshot<View>,
    pub registry: PiMutex<Registry>,
    pub timers: Arc<Timers>,
    pub scheduler: Arc<dyn RunTimeScheduler>,
    pub setup: ThreadSetup,
    pub limits: crate::config::Limits,
    pub own_threads: bool,
    pub undeclared: Undeclared,
    pub id: u64,
    /// Whose turn it is to tell observers. They may cause changes themselves, so nobody waits for them.
    pub telling: Turn,
    sequence: AtomicU64,
    rack: R,
}

/// How many processors a trace that so many threads write to must know; a model has none.
fn processors(trace_threads: usize) -> usize {
    #[cfg(not(loom))]
    return if trace_threads > 0 { isorb_rt::sched::possible_cpus() } else { 0 };
    #[cfg(loom)]
    return trace_threads.min(1);
}

impl<R: Rack> Core<R> {
    pub(crate) fn start(config: Config, rack: R) -> Result<Arc<Core<R>>, StartError> {
        let levels = config.levels;
        let ascend = levels.windows(2).all(|pair| pair[0] < pair[1]);
        if levels.is_empty() || levels.len() > MAX_LEVELS || !ascend {
            return Err(StartError::Levels { count: levels.len() });
        }
        let setup = config.threads.for_levels(&levels);
        let limits = config.limits;
        if !EventPool::fits(limits.events, limits.payload) {
            return Err(StartError::Memory);
        }
        let kernel = Arc::new(Kernel::new(
            config.clock,
            Recorder::new(
                RecorderLimits {
                    threads: limits.trace_threads,
                    records: limits.trace_records,
                    processors: processors(limits.trace_threads),
                    levels: levels.len(),
                },
                config.trace,
            ),
            EventPool::new(limits.events, limits.payload),
            sets(limits.sets),
            levels.into(),
            config.block,
            config.counting,
            config.latencies,
            limits.consumers,
        ));
        let timers = Arc::new(Timers::new(kernel.levels.len(), limits.timers));
        let core = Arc::new(Core {
            view: Snapshot::new(VERSIONS, View::default()),
            registry: PiMutex::new(Registry::default()),
            timers,
            scheduler: config.scheduler,
            setup,
            limits,
            own_threads: config.own_threads,
            undeclared: config.undeclared,
            id: config.id,
            telling: Turn::new(),
            sequence: AtomicU64::new(0),
            rack,
            kernel,
        });
        if core.own_threads {
            core.start_sweeper()?;
        }
        Ok(core)
    }

    /// An event that its supplier had not declared.
    #[cold]
    pub(crate) fn push_undeclared(&self, supplier: u32, event: &Event<'_>) -> Pushed {
        count(&self.kernel.totals.undeclared);
        let pushed = match self.undeclared {
            Undeclared::Count => self.push(supplier, event),
            Undeclared::Refuse => Pushed::default(),
        };
        Pushed { undeclared: 1, ..pushed }
    }

    /// An event on its way from a supplier to all who want it.
    #[inline]
    pub(crate) fn push(&self, supplier: u32, event: &Event<'_>) -> Pushed {
        if self.id != 0 && event.stamp == Stamp::default() {
            // Federated: copies of it will be recognised by this number, whichever way they take.
            let sequence = self.sequence.fetch_add(1, Relaxed) + 1;
            let stamp = Stamp { channel: self.id, sequence, link: 0 };
            return self.pass(supplier, &Event { stamp, ..*event }, None);
        }
        self.pass(supplier, event, None)
    }

    /// To all who want it `among` the consumers. (There is one of this function, since the ways of two of them would not be inlined into them.)
    #[inline]
    pub(crate) fn pass(
        &self,
        supplier: u32,
        event: &Event<'_>,
        among: Option<&dyn Fn(&Connection) -> bool>,
    ) -> Pushed {
        let view = self.view.read();
        let modules = self.rack.modules(&view);
        let mut way = Way {
            core: self,
            dispatch: modules.dispatch(),
            inline: modules.dispatch().runs_inline(),
            correlates: modules.correlates(),
            traced: self.kernel.recorder.is_on(),
            counted: self.kernel.counting.then(me),
            current: Current::new(event, &self.kernel.events),
            now: 0,
            pushed: Pushed::default(),
        };
        if way.traced {
            way.now = self.kernel.clock.now_ns();
            let h = &event.header;
            let a = u64::from(h.event_type as u32) << 32 | u64::from(h.source as u32);
            self.kernel.recorder.record(Record {
                at: way.now,
                kind: RecordKind::Push,
                level: 0,
                id: supplier,
                a,
                b: 0,
            });
        }
        match among {
            None if modules.filters() => {
                view.tables.find(&event.header, |hits| way.each(hits, Way::hit, |hit| &hit.connection));
            }
            None => view.tables.everyone(|all| way.each(all, Way::single, |connection| connection)),
            Some(among) if modules.filters() => view.tables.find(&event.header, |hits| {
                let one = |way: &mut Way<'_, R, _>, hit: &Hit| {
                    if among(&hit.connection) {
                        way.hit_among(hit);
                    }
                };
                way.each(hits, one, |hit| &hit.connection);
            }),
            Some(among) => view.tables.everyone(|all| {
                let one = |way: &mut Way<'_, R, _>, connection: &Arc<Connection>| {
                    if among(connection) {
                        way.single_among(connection);
                    }
                };
                way.each(all, one, |connection| connection);
            }),
        }
        way.pushed
    }

    /// A time-out on its way to its consumer.
    pub(crate) fn timeout(&self, due: &Due) {
        let registration = &due.registration;
        let Some(timer) = registration.timer(due.leaf) else {
            return;
        };
        let view = self.view.read();
        let modules = self.rack.modules(&view);
        let event_type =
            if timer.deadline { designator::DEADLINE_TIMEOUT } else { designator::INTERVAL_TIMEOUT };
        // As in the filter: the period travels in the creation time.
        let header = Header { event_type, source: 0, ttl: 0, creation_time: timer.period_ns / 100 };
        let event = Event { header, ..Event::default() };
        let mut now = self.kernel.clock.now_ns();
        let connection = registration.connection();
        connection.record(RecordKind::Timeout, now, now.saturating_sub(due.at), u64::from(timer.deadline));
        let last = Last::Timer(header);
        let batch = if registration.is_plain() || !modules.correlates() {
            Some(Batch::of(last))
        } else {
            // Timers need no copy, so nothing can be lacking for them.
            registration.offer(last, Some(due.leaf)).unwrap_or_default()
        };
        let Some(batch) = batch else {
            return;
        };
        let mut way = Way {
            core: self,
            dispatch: modules.dispatch(),
            inline: modules.dispatch().runs_inline(),
            correlates: modules.correlates(),
            traced: self.kernel.recorder.is_on(),
            counted: self.kernel.counting.then(me),
            current: Current::new(&event, &self.kernel.events),
            now,
            pushed: Pushed::default(),
        };
        let fate = if connection.is_direct(way.inline) {
            connection.run_batch_now(batch, &mut now)
        } else {
            connection.enqueue(batch, &mut now)
        };
        way.settle(connection, fate);
    }

    /// Has a consumer called by its own dispatching, with no more than a header. Says whether it is.
    pub(crate) fn poke(&self, connection: &Arc<Connection>, header: Header) -> bool {
        let view = self.view.read();
        let modules = self.rack.modules(&view);
        let event = Event { header, ..Event::default() };
        let mut way = Way {
            core: self,
            dispatch: modules.dispatch(),
            inline: modules.dispatch().runs_inline(),
            correlates: false,
            traced: self.kernel.recorder.is_on(),
            counted: self.kernel.counting.then(me),
            current: Current::new(&event, &self.kernel.events),
            now: 0,
            pushed: Pushed::default(),
        };
        // As a time-out: it needs no copy, so nothing can be lacking for it.
        let batch = Batch::of(Last::Timer(header));
        let mut now = 0;
        let fate = if connection.is_direct(way.inline) {
            connection.run_batch_now(batch, &mut now)
        } else {
            connection.enqueue(batch, &mut now)
        };
        way.settle(connection, fate);
        way.pushed.taken != 0
    }

    pub(crate) fn step(&self) -> bool {
        let view = self.view.read();
        self.rack.modules(&view).dispatch().step()
    }

    pub(crate) fn expire(&self) -> usize {
        let mut fired = 0;
        // The most urgent first.
        for band in (0..self.timers.bands()).rev() {
            while let Some(due) = self.timers.next_due(band, self.kernel.clock.now_ns()) {
                self.timeout(&due);
                fired += 1;
            }
        }
        fired
    }

    /// Closes the dispatching of a row that is by type.
    pub(crate) fn close_dispatch(&self) {
        let view = self.view.read();
        self.rack.modules(&view).dispatch().close();
    }

    /// How its dispatching hands the processor over.
    pub(crate) fn preemption(&self) -> Option<Preemption> {
        let view = self.view.read();
        self.rack.modules(&view).dispatch().preemption()
    }

    pub(crate) fn reserve(&self, consumers: usize) {
        let view = self.view.read();
        self.rack.modules(&view).dispatch().reserve(consumers);
    }

    pub(crate) fn priority_of(&self, consumer: u32) -> Option<Priority> {
        self.registry.lock().consumers.get(&consumer).map(|entry| entry.connection.priority())
    }
}

impl<R: Rack> Route for Core<R> {
    fn route(&self, work: Work) {
        let mut work = work;
        loop {
            let view = self.view.read();
            match self.rack.modules(&view).dispatch().ready(work) {
                Ok(()) => return,
                // Closed: it has been replaced since, or the channel is at its end.
                Err(back) if !self.registry.lock().destroyed => work = back,
                Err(_) => return,
            }
        }
    }
}

impl<R: Rack> Drop for Core<R> {
    fn drop(&mut self) {
        self.timers.stop();
        self.kernel.sweeper.unpark();
    }
}

/// One event on its way.
struct Way<'a, R: Rack, D: Dispatch + ?Sized> {
    core: &'a Core<R>,
    dispatch: &'a D,
    inline: bool,
    correlates: bool,
    traced: bool,
    counted: Option<Me>,
    current: Current<'a>,
    /// The time that was last looked at; 0 is none.
    now: u64,
    pushed: Pushed,
}

impl<R: Rack, D: Dispatch + ?Sized> Way<'_, R, D> {
    /// To each of them, also behind one that panics. (One guard for all of them: one each would cost as much as the call.)
    #[inline]
    fn each<T>(
        &mut self,
        them: &[T],
        one: impl Fn(&mut Self, &T),
        connection: impl Fn(&T) -> &Arc<Connection>,
    ) {
        let mut at = 0;
        while at < them.len() {
            let guarded = AssertUnwindSafe(|| {
                while let Some(it) = them.get(at) {
                    one(self, it);
                    at += 1;
                }
            });
            if catch_unwind(guarded).is_err() {
                connection(&them[at]).failed();
                self.pushed.taken += 1;
                at += 1;
            }
        }
    }

    /// A registration may want it.
    #[inline]
    fn hit(&mut self, hit: &Hit) {
        if hit.simple {
            return self.single(&hit.connection);
        }
        let registration = &hit.registration;
        if hit.ask && !registration.is_first(hit.leaf as usize, &self.current.event.header) {
            return;
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

    /// To one consumer, by itself.
    #[inline]
    fn single(&mut self, connection: &Arc<Connection>) {
        let fate = if connection.is_direct(self.inline) {
            connection.run_now(&self.current, &mut self.now, self.traced, self.counted)
        } else {
            connection.enqueue_one(&self.current, &mut self.now)
        };
        if fate == Fate::Taken {
            self.pushed.taken += 1;
        } else {
            self.settle(connection, fate);
        }
    }

    /// [`hit`](Self::hit) from the longer way of links between channels, which must not cost the other its inlining.
    #[inline(never)]
    fn hit_among(&mut self, hit: &Hit) {
        self.hit(hit);
    }

    #[inline(never)]
    fn single_among(&mut self, connection: &Arc<Connection>) {
        self.single(connection);
    }

    fn correlate(&mut self, registration: &Arc<Registration>) {
        let connection = registration.connection();
        let fate = match registration.offer(Last::Event(&self.current), None) {
            Ok(None) => Fate::Taken,
            Ok(Some(batch)) => {
                if registration.has_deadline() {
                    registration.set_satisfied(self.core.kernel.clock.now_ns());
                }
                if connection.is_direct(self.inline) {
                    connection.run_batch_now(batch, &mut self.now)
                } else {
                    connection.enqueue(batch, &mut self.now)
                }
            }
            Err(cause) => connection.not_kept(cause, self.now),
        };
        self.settle(connection, fate);
    }

    fn settle(&mut self, connection: &Arc<Connection>, fate: Fate) {
        match fate {
            Fate::Taken => self.pushed.taken += 1,
            Fate::Ready => {
                self.pushed.taken += 1;
                let work = Work(connection.clone());
                let ready = match connection.own_dispatch() {
                    Some(dispatch) => dispatch.ready(work),
                    None => self.dispatch.ready(work),
                };
                if let Err(work) = ready {
                    self.core.route(work);
                }
            }
            Fate::Dropped => self.pushed.dropped += 1,
            Fate::Refused => self.pushed.refused += 1,
            Fate::TooLarge => self.pushed.too_large += 1,
            Fate::Gone => {}
        }
    }
}

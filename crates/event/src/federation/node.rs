//! A member of a federation: its levels and links, and the threads that drive them.

use super::gateways::LevelLink;
use super::level_state::LevelState;
use super::levels::Levels;
use super::link_log::LinkLog;
use super::link_notifier::LinkNotifier;
use super::pacing::PacingThread;
use super::{
    ClockReading, ControlMessage, FederationBuilder, FederationCounts, ForwardedEvent, Pace, Security,
    Transport,
};
use crate::admin::ProxyPushConsumer;
use crate::channel::Channel;
use crate::dispatch::ThreadSetup;
use crate::error::ConnectError;
use crate::filter::Filter;
use crate::observer::Observer;
use crate::placement::Quality;
use crate::supplier::{Publication, SupplierQos};
use isorb_rt::clock_sync::{Offset, OffsetEstimator, RoundTrips};
use isorb_rt::log;
use isorb_rt::priority::Priority;
use isorb_rt::sync::{PiMutex, Turn};
use isorb_trace::{NeighbourClock, Recording};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock, Weak};

/// The number of a member's link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub u32);

/// A member of a federation. It ends with the last clone; its gateways are disconnected then.
#[derive(Clone)]
pub struct Federation {
    inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) id: u64,
    pub(super) channel: Channel,
    supplier: ProxyPushConsumer,
    pub(super) quality: Quality,
    levels: Levels,
    /// How notifier threads are started, if links have them.
    notifier_setup: Option<ThreadSetup>,
    pub(super) level_states: Box<[LevelState]>,
    observer: AtomicU64,
    link_entries: PiMutex<Vec<Arc<Link>>>,
    next: AtomicU32,
    security: Security,
    paces: Vec<Pace>,
    /// The thread that wakes gateways when their rate admits the next event.
    pacing: OnceLock<PacingThread>,
    unauthenticated: AtomicU64,
    /// What was logged last.
    logged: PiMutex<Logged>,
}

/// The member at the other end of a link, or the members of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Neighbour {
    /// The link.
    pub link: LinkId,
    /// The address of its other end; empty if the transport does not tell.
    pub address: String,
    /// Their numbers. Empty if none has announced itself, or all fell silent.
    pub channels: Vec<u64>,
    /// The last message and event over the link were delivered.
    pub up: bool,
    /// The offset of its host's clock, with its bound: what an analysis of the federation calls the
    /// clock error of the link. `None` before its first answer, and over
    /// datagrams.
    pub clock: Option<Offset>,
}

/// A link for all levels. One thread at a time sends messages over it. Otherwise neighbours that
/// send to each other would wait for each other.
struct Link {
    id: LinkId,
    link: Arc<dyn Transport>,
    notifying: Turn,
    /// Messages are to be sent even though the link is down.
    again: AtomicBool,
    /// A message was sent since the other end is known, with whatever outcome.
    tried: AtomicBool,
    /// The thread that sends messages. Without one, the thread that has updates sends them.
    notifier: Option<LinkNotifier>,
    clock: PiMutex<RoundTrips>,
}

impl Link {
    /// Reads the neighbour's clock.
    fn compare_clocks(&self) {
        if let Some(ClockReading { sent_ns, far_ns, arrived_ns }) = self.link.read_clock() {
            let mut clock = self.clock.lock();
            clock.arrived(far_ns, arrived_ns);
            clock.answered(sent_ns, far_ns, arrived_ns);
        }
    }
}

impl Federation {
    /// Begins to make `channel` a member. It needs a number of its own in the federation
    /// ([`ChannelBuilder::id`](crate::ChannelBuilder::id)).
    pub fn builder(channel: &Channel) -> FederationBuilder {
        FederationBuilder::new(channel)
    }

    pub(super) fn start(membership: FederationBuilder) -> Result<Federation, ConnectError> {
        let channel = &membership.channel;
        if channel.id() == 0 {
            return Err(ConnectError::Destroyed);
        }
        let process = (isorb_rt::random_u64(), first_number());
        let begins = membership.levels.begins().iter().enumerate();
        let level_states = begins
            .map(|(level, begin)| LevelState::new(level as u8, *begin, channel.id(), process, &membership));
        let inner = Arc::new(Inner {
            id: channel.id(),
            channel: channel.clone(),
            supplier: channel
                .for_suppliers()
                .connect_with(SupplierQos { gateway: true, ..SupplierQos::default() })?,
            level_states: level_states.collect::<Result<_, _>>()?,
            quality: Quality { failures: 0, ..membership.quality },
            levels: membership.levels,
            notifier_setup: membership.gateways.notifiers(),
            observer: AtomicU64::new(0),
            link_entries: PiMutex::new(Vec::new()),
            next: AtomicU32::new(0),
            security: membership.security,
            paces: membership.paces,
            pacing: OnceLock::new(),
            unauthenticated: AtomicU64::new(0),
            logged: PiMutex::default(),
        });
        let watch = Arc::new(ChannelObserver(Arc::downgrade(&inner)));
        if !inner.paces.is_empty() {
            inner.start_pacing();
        }
        inner.observer.store(channel.append_observer(watch)?.into(), Relaxed);
        Ok(Federation { inner })
    }

    /// Adds a link to a neighbour and sends the whole state over it.
    pub fn join(&self, link: Arc<dyn Transport>) -> LinkId {
        let inner = &self.inner;
        let id = LinkId(inner.next.fetch_add(1, Relaxed) + 1);
        inner.level_states.iter().for_each(|level_state| {
            let pace = inner.paces.iter().rfind(|pace| pace.level == level_state.level);
            level_state.join(LevelLink::new(id, link.clone(), PAYLOAD, pace.copied()));
        });
        let top = inner.levels.begins().last().copied().unwrap_or(Priority::MIN);
        let start = |setup| LinkNotifier::start(Arc::downgrade(inner), id, setup, top);
        let notifier = inner.notifier_setup.as_ref().and_then(start);
        let (notifying, again) = (Turn::new(), AtomicBool::new(false));
        inner.link_entries.lock().push(Arc::new(Link {
            id,
            link,
            notifying,
            again,
            tried: AtomicBool::new(false),
            notifier,
            clock: PiMutex::default(),
        }));
        // If the link is down now, the next tick sends the state.
        inner.process_all();
        id
    }

    /// Sends the whole state again, for a link that comes up after it joined.
    pub fn resend(&self, link: LinkId) {
        self.inner.level_states.iter().for_each(|level_state| level_state.protocol.lock().resend(link));
        if let Some(link_entry) = self.inner.link_entries().find(|link_entry| link_entry.id == link) {
            self.inner.try_again(&link_entry);
        }
        self.inner.process_all();
    }

    /// Removes a link. Nothing is sent over it until it joins again; other routes are used where
    /// there are any.
    pub fn leave(&self, link: LinkId) {
        self.inner.level_states.iter().for_each(|level_state| level_state.leave(link));
        let mut link_entries = self.inner.link_entries.lock();
        let at = link_entries.iter().position(|link_entry| link_entry.id == link);
        let gone = at.map(|at| link_entries.remove(at));
        drop(link_entries);
        drop(gone);
        self.inner.process_all();
    }

    /// Handles a message from a neighbour. Returns false for a link that was removed: the neighbour
    /// must join again.
    pub fn receive_message(&self, link: LinkId, message: &ControlMessage) -> bool {
        let known = self.accept_message(link, message);
        self.process(message.level);
        known
    }

    /// As [`receive_message`](Self::receive_message), but the caller calls
    /// [`process`](Self::process).
    pub fn accept_message(&self, link: LinkId, message: &ControlMessage) -> bool {
        match self.inner.level_states.get(message.level as usize) {
            Some(level_state) => level_state.protocol.lock().receive_message(link, message),
            // A level that this member lacks does not mean that the link is down.
            None => true,
        }
    }

    /// Handles an event that arrived over a link. If it is new and none is missing before it, it
    /// goes to the channel's consumers of its level, and to the neighbours beyond which it is
    /// wanted at that level.
    ///
    /// # Real-time
    /// Copies the event into the level's history, and out again for each link, under the level's
    /// lock. Allocates only if the event has more data than any before, or if events are missing.
    /// At each level one thread at a time delivers to the channel's consumers, in order; other
    /// threads leave their events to it. Levels do not wait for each other.
    pub fn receive_event(&self, link: LinkId, event: &ForwardedEvent<'_>) {
        self.accept_event(link, event);
        self.process(event.level);
    }

    /// As [`receive_event`](Self::receive_event), but the caller calls [`process`](Self::process):
    /// for threads that receive several levels.
    ///
    /// # Real-time
    /// Copies the event under the level's lock; runs no consumer and sends nothing.
    pub fn accept_event(&self, link: LinkId, event: &ForwardedEvent<'_>) {
        if let Some(level_state) = self.inner.level_states.get(event.level as usize) {
            level_state.protocol.lock().receive_event(link, event);
        }
    }

    /// Delivers received events of a level to consumers, and sends what is to be sent.
    pub fn process(&self, level: u8) {
        if let Some(level_state) = self.inner.level_states.get(level as usize) {
            self.inner.process(level_state);
        }
    }

    /// Announces that this member is alive, repeats what links missed, removes members that were
    /// silent for `timeout` ns, and leaves neighbours that were unreachable for so long: they must
    /// join again. Call it at least five times within that time. `now` is any clock, in ns.
    pub fn tick(&self, now: u64, timeout: u64) {
        let inner = &self.inner;
        inner.level_states.iter().for_each(|level_state| level_state.protocol.lock().tick(now, timeout));
        inner.link_entries().for_each(|link_entry| inner.try_again(&link_entry));
        for level_state in &inner.level_states {
            while let Some(link) = { level_state.protocol.lock().lost(timeout) } {
                self.leave(link);
            }
        }
        inner.process_all();
        inner.log_changes(&self.neighbours());
    }

    /// The links and the members at their other ends.
    pub fn neighbours(&self) -> Vec<Neighbour> {
        let neighbour = |entry: Arc<Link>| {
            let mut channels = BTreeSet::new();
            for level_state in &self.inner.level_states {
                channels.extend(level_state.protocol.lock().interests.neighbours(entry.id));
            }
            let (link, channels) = (entry.id, channels.into_iter().collect());
            let clock = entry.clock.lock().offset(isorb_rt::time::now_ns());
            let clock = clock.filter(|offset| offset.bound_ns.is_some());
            Neighbour { link, address: entry.link.address(), channels, up: self.is_up(link), clock }
        };
        self.inner.link_entries().map(neighbour).collect()
    }

    /// A copy of the channel's trace so far, as [`Channel::recording`] has it, with this member's
    /// number and the clocks of its neighbours: `isorb timeline` puts traces of several hosts on
    /// one axis.
    pub fn recording(&self, name: impl Into<String>, suppliers: &[(u32, &str)]) -> Recording {
        let at = isorb_rt::time::now_ns();
        let clocks = self.neighbours().into_iter().filter_map(|neighbour| {
            // The members of a group have a clock each.
            let (&[member], Offset { ns: offset, bound_ns }) = (&*neighbour.channels, neighbour.clock?)
            else {
                return None;
            };
            Some(NeighbourClock { member, at, offset, bound: bound_ns? })
        });
        let clocks = clocks.collect();
        Recording { member: self.inner.id, clocks, ..self.inner.channel.recording(name, suppliers) }
    }

    /// Which hosts it exchanges events with.
    pub fn security(&self) -> &Security {
        &self.inner.security
    }

    /// A number above all that earlier processes of this member have used.
    #[cfg(not(loom))]
    pub(crate) fn first_number(&self) -> u64 {
        first_number()
    }

    /// Counts a message without the key; logs the first.
    pub(crate) fn count_unauthenticated(&self, message: fmt::Arguments<'_>) {
        if self.inner.unauthenticated.fetch_add(1, Relaxed) == 0 {
            log::warn(
                TARGET,
                format_args!(
                    "channel {}: {message}; it is ignored, and later ones are counted only",
                    self.inner.id
                ),
            );
        }
    }

    /// Returns true if the last message and event over the link were delivered, at all levels;
    /// false for a link that was removed.
    pub fn is_up(&self, link: LinkId) -> bool {
        self.inner.level_states.iter().all(|level_state| level_state.protocol.lock().is_up(link))
    }

    /// The number of links, up or down.
    pub fn links(&self) -> usize {
        self.inner.link_entries.lock().len()
    }

    /// The member's number.
    pub fn id(&self) -> u64 {
        self.inner.id
    }

    /// Its priority levels.
    pub fn levels(&self) -> &Levels {
        &self.inner.levels
    }

    /// The number, in the trace, of the supplier that pushes received events into the channel.
    pub fn supplier(&self) -> u32 {
        self.inner.supplier.id()
    }

    /// The counts of its links. An event that is wanted at several levels crosses at each of them
    /// and counts each time.
    pub fn counts(&self) -> FederationCounts {
        let unauthenticated = self.inner.unauthenticated.load(Relaxed);
        let counts = FederationCounts { unauthenticated, ..FederationCounts::default() };
        let level_states = self.inner.level_states.iter();
        level_states.fold(counts, |sum, level_state| sum.and(level_state.protocol.lock().counts))
    }

    /// The number of members that are reachable at all levels, this one excluded.
    pub fn known(&self) -> usize {
        let level_states = self.inner.level_states.iter();
        level_states
            .map(|level_state| level_state.protocol.lock().interests.reached().count())
            .min()
            .unwrap_or(0)
    }
}

impl fmt::Debug for Federation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Federation").field("id", &self.inner.id).field("counts", &self.counts()).finish()
    }
}

impl Inner {
    /// Starts the thread that wakes gateways. Without it they send with the next event or tick.
    fn start_pacing(self: &Arc<Self>) {
        let top = self.levels.begins().last().copied().unwrap_or(Priority::MIN);
        let setup = self.notifier_setup.clone().unwrap_or_default();
        match PacingThread::start(Arc::downgrade(self), &setup, top) {
            Some(thread) => drop(self.pacing.set(thread)),
            None => log::warn(
                TARGET,
                format_args!(
                    "channel {}: the thread that paces its links did not start; what waits for its rate is sent \
                     with the next event or tick",
                    self.id
                ),
            ),
        }
    }

    /// Has the pacing thread see what is due.
    pub(super) fn watch_paced(&self) {
        if let Some(thread) = self.pacing.get() {
            thread.notify();
        }
    }

    fn link_entries(&self) -> impl Iterator<Item = Arc<Link>> + '_ {
        (0..).map_while(|at| self.link_entries.lock().get(at).cloned())
    }

    /// Processes all levels, the most urgent first.
    pub(super) fn process_all(self: &Arc<Self>) {
        self.level_states.iter().rev().for_each(|level_state| self.process(level_state));
    }

    /// Processes a level until nothing is left to do. Events are sent before messages, since a
    /// neighbour may take long to reply. Events that must follow a message are not due before it.
    pub(super) fn process(self: &Arc<Self>, level_state: &LevelState) {
        loop {
            level_state
                .deliver(&self.supplier, |consumer| self.levels.of(consumer.priority()) == level_state.level);
            if !self.arrange(level_state) {
                return;
            }
        }
    }

    /// As `process`, once, without delivery to consumers. Returns true if a message was sent.
    fn arrange(self: &Arc<Self>, level_state: &LevelState) -> bool {
        level_state.level_links().for_each(|level_link| self.keep_gateway(level_state, &level_link));
        self.wake_all(level_state);
        let announced =
            self.link_entries().filter(|link_entry| self.announce_to(level_state, link_entry)).count() > 0;
        if level_state.protocol.lock().wanted_changed {
            self.subscribe(level_state);
        }
        announced
    }

    /// Has the messages of a level sent. Returns true if this thread sent them.
    fn announce_to(&self, level_state: &LevelState, link_entry: &Link) -> bool {
        match &link_entry.notifier {
            Some(notifier) => {
                if level_state.protocol.lock().has_updates(link_entry.id) {
                    notifier.notify();
                }
                false
            }
            None => self.resend(link_entry) != 0,
        }
    }

    /// Has all messages sent, even over a link that is down.
    fn try_again(&self, link_entry: &Link) {
        link_entry.again.store(true, Release);
        match &link_entry.notifier {
            Some(notifier) => notifier.notify(),
            None => {
                self.resend(link_entry);
            }
        }
    }

    /// The work of a link's notifier thread. Events, and messages over other links, are left to
    /// other threads.
    pub(super) fn notify_neighbour(self: &Arc<Self>, link: LinkId) {
        let Some(link_entry) = self.link_entries().find(|link_entry| link_entry.id == link) else {
            return;
        };
        let announced = self.resend(&link_entry);
        drop(link_entry);
        self.level_states
            .iter()
            .rev()
            .filter(|level_state| announced & 1 << level_state.level != 0)
            .for_each(|level_state| {
                self.arrange(level_state);
            });
    }

    pub(super) fn wake_all(self: &Arc<Self>, level_state: &LevelState) {
        level_state.level_links().for_each(|level_link| self.wake(level_state, &level_link));
    }

    /// Sends the updates of a link; over one that is down only if it is to be tried again. Returns
    /// the levels that had any, as bits.
    fn resend(&self, link_entry: &Link) -> u8 {
        if !link_entry.notifying.take() {
            return 0;
        }
        let mut announced = 0;
        loop {
            let again = link_entry.again.swap(false, AcqRel);
            let mut arrived = true;
            while arrived {
                let messages: Vec<ControlMessage> = self
                    .level_states
                    .iter()
                    .filter_map(|level_state| self.message(level_state, link_entry.id, again))
                    .collect();
                if messages.is_empty() {
                    break;
                }
                let joined = link_entry.link.is_joined();
                arrived = link_entry.link.announce(&messages).is_ok();
                link_entry.tried.fetch_or(joined, AcqRel);
                for message in &messages {
                    self.level_states[message.level as usize].protocol.lock().message_sent(
                        link_entry.id,
                        message,
                        arrived,
                    );
                    announced |= 1 << message.level;
                }
            }
            if again && arrived {
                link_entry.compare_clocks();
            }
            // Updates that other threads found meanwhile wait for the next tick if the neighbour is
            // down.
            if link_entry.notifying.pass()
                || !arrived && !link_entry.again.load(Acquire) && link_entry.notifying.pass()
            {
                return announced;
            }
        }
    }

    fn message(&self, level_state: &LevelState, link: LinkId, try_again: bool) -> Option<ControlMessage> {
        let message = level_state.protocol.lock().message(link, try_again)?;
        Some(ControlMessage { level: level_state.level, ..message })
    }
}

/// The part of the program in log records.
const TARGET: &str = "isorb::federation";

/// What was logged last, so that each change is logged once.
#[derive(Default)]
struct Logged {
    links: LinkLog,
    has_duplicate: bool,
}

impl Inner {
    /// Logs the links that changed since the last call.
    fn log_changes(&self, neighbours: &[Neighbour]) {
        let mut logged = self.logged.lock();
        let id = self.id;
        let has_duplicate =
            self.level_states.iter().any(|level_state| level_state.protocol.lock().has_duplicate());
        let is_new_duplicate = has_duplicate && !std::mem::replace(&mut logged.has_duplicate, has_duplicate);
        let was_tried = |link| self.link_entries().any(|entry| entry.id == link && entry.tried.load(Acquire));
        let changes = logged.links.changes(neighbours, was_tried);
        drop(logged);
        for (level, sentence) in changes {
            log::write(level, TARGET, format_args!("channel {id}: {sentence}"));
        }
        if is_new_duplicate {
            log::error(
                TARGET,
                format_args!(
                    "channel {id}: another channel in the federation has the number {id}, too, so that events of \
                     both are lost; give each a number of its own (--id)"
                ),
            );
        }
    }
}

impl fmt::Display for Neighbour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.channels {
            [] => f.write_str("the neighbour")?,
            [one] => write!(f, "channel {one}")?,
            many => write!(f, "channels {many:?}")?,
        }
        if self.address.is_empty() {
            write!(f, " (link {})", self.link.0)
        } else {
            write!(f, " at {}", self.address)
        }
    }
}

/// The octets of an event that are copied without allocation. The first larger one allocates.
pub(super) const PAYLOAD: usize = 1024;

/// A number above all that earlier processes with this id have sent and others may remember:
/// sixteen for each microsecond since 1970. An event uses one, and takes far longer than a
/// sixteenth of a microsecond. After the clock was set back, requests of neighbours raise it.
fn first_number() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_micros() << 4).unwrap_or(0))
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.channel.remove_observer(self.observer.load(Relaxed) as u32);
    }
}

/// Observes the subscriptions and publications of the channel.
struct ChannelObserver(Weak<Inner>);

impl Observer for ChannelObserver {
    fn update_consumers(&self, _: u64, _: &[Filter]) {}

    fn update_consumers_by_priority(&self, _: u64, wanted: &[(Priority, Vec<Filter>)]) {
        if let Some(inner) = self.0.upgrade() {
            for level_state in &inner.level_states {
                level_state.own_changed(wanted, |priority| inner.levels.of(priority) == level_state.level);
            }
            inner.process_all();
        }
    }

    fn update_suppliers(&self, _: u64, published: Option<&[Publication]>) {
        if let Some(inner) = self.0.upgrade() {
            inner
                .level_states
                .iter()
                .for_each(|level_state| level_state.protocol.lock().published_changed(published));
            inner.process_all();
        }
    }
}

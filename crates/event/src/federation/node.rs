//! A channel's place in a federation: its levels, its links, and who drives them.

use super::gateways::LevelLink;
use super::level_state::LevelState;
use super::levels::Levels;
use super::link_notifier::LinkNotifier;
use super::{ControlMessage, FederationBuilder, FederationCounts, ForwardedEvent, Transport};
use crate::admin::ProxyPushConsumer;
use crate::channel::Channel;
use crate::dispatch::ThreadSetup;
use crate::error::ConnectError;
use crate::filter::Filter;
use crate::observer::Observer;
use crate::placement::Quality;
use crate::supplier::{Publication, SupplierQos};
use isorb_rt::priority::Priority;
use isorb_rt::sync::{PiMutex, Turn};
use std::fmt;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
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
    supplier: ProxyPushConsumer,
    pub(super) quality: Quality,
    levels: Levels,
    /// How threads that tell neighbours are started, where links have them.
    notifier_setup: Option<ThreadSetup>,
    pub(super) level_states: Box<[LevelState]>,
    observer: AtomicU64,
    link_entries: PiMutex<Vec<Arc<Link>>>,
    next: AtomicU32,
}

/// A link, over which what concerns all levels is message_sent by one thread at a time: neighbours that speak to each other would wait for
/// each other otherwise.
struct Link {
    id: LinkId,
    link: Arc<dyn Transport>,
    notifying: Turn,
    /// It is to be told though it is down.
    again: AtomicBool,
    /// Who says it; without one, who finds that there is something to say.
    notifier: Option<LinkNotifier>,
}

impl Federation {
    /// Begins to make `channel` a member. It needs a number of its own in the federation
    /// ([`Config::id`](crate::Config::id)).
    pub fn builder(channel: &Channel) -> FederationBuilder {
        FederationBuilder::new(channel)
    }

    pub(super) fn start(membership: FederationBuilder) -> Result<Federation, ConnectError> {
        let channel = &membership.channel;
        if channel.id() == 0 {
            return Err(ConnectError::Destroyed);
        }
        let first = first_number();
        let begins = membership.levels.begins().iter().enumerate();
        let level_states = begins
            .map(|(level, begin)| LevelState::new(level as u8, *begin, channel.id(), first, &membership));
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
        });
        let watch = Arc::new(ChannelObserver(Arc::downgrade(&inner)));
        inner.observer.store(channel.append_observer(watch)?.into(), Relaxed);
        Ok(Federation { inner })
    }

    /// Adds a neighbour, and tells it all that is known.
    pub fn join(&self, link: Arc<dyn Transport>) -> LinkId {
        let inner = &self.inner;
        let id = LinkId(inner.next.fetch_add(1, Relaxed) + 1);
        inner
            .level_states
            .iter()
            .for_each(|level_state| level_state.join(LevelLink::new(id, link.clone(), PAYLOAD)));
        let top = inner.levels.begins().last().copied().unwrap_or(Priority::MIN);
        let start = |setup| LinkNotifier::start(Arc::downgrade(inner), id, setup, top);
        let notifier = inner.notifier_setup.as_ref().and_then(start);
        let (notifying, again) = (Turn::new(), AtomicBool::new(false));
        inner.link_entries.lock().push(Arc::new(Link { id, link, notifying, again, notifier }));
        // One that is down now is told with the next tick.
        inner.process_all();
        id
    }

    /// Tells a neighbour again all that is known, as when a link is up that was not when it link_state.
    pub fn resend(&self, link: LinkId) {
        self.inner.level_states.iter().for_each(|level_state| level_state.protocol.lock().resend(link));
        if let Some(link_entry) = self.inner.link_entries().find(|link_entry| link_entry.id == link) {
            self.inner.try_again(&link_entry);
        }
        self.inner.process_all();
    }

    /// Takes a neighbour away, or notes that it is lost: nothing is sent there until it joins again, and other ways are used where
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

    /// A neighbour has told how things are. `false` for a link that is gone: the neighbour has to join anew.
    pub fn receive_message(&self, link: LinkId, message: &ControlMessage) -> bool {
        let known = self.accept_message(link, message);
        self.process(message.level);
        known
    }

    /// As [`heard`](Self::heard), but [`settle`](Self::settle) is left to the caller.
    pub fn accept_message(&self, link: LinkId, message: &ControlMessage) -> bool {
        match self.inner.level_states.get(message.level as usize) {
            Some(level_state) => level_state.protocol.lock().receive_message(link, message),
            // Who has more levels than this channel is not told so by a link that is down.
            None => true,
        }
    }

    /// An event has come over a link. If it is new, and nothing is missing before it, it goes to the channel's consumers of its level and
    /// on to the neighbours beyond which it is wanted at that level.
    ///
    /// # Real-time
    /// Copies the event into the level's history and out again for each link, under the level's lock; does not allocate unless an event has
    /// more data than any before, or something is missing. At each level one thread at a time gives events to the channel's consumers, in
    /// order: who comes meanwhile leaves its event to that one. Levels do not wait for each other.
    pub fn receive_event(&self, link: LinkId, event: &ForwardedEvent<'_>) {
        self.accept_event(link, event);
        self.process(event.level);
    }

    /// As [`received`](Self::received), but [`settle`](Self::settle) is left to the caller: for threads that hear several levels.
    ///
    /// # Real-time
    /// Copies the event under the level's lock; runs no consumer and sends nothing.
    pub fn accept_event(&self, link: LinkId, event: &ForwardedEvent<'_>) {
        if let Some(level_state) = self.inner.level_states.get(event.level as usize) {
            level_state.protocol.lock().receive_event(link, event);
        }
    }

    /// Gives consumers of a level what has come for them, says and sends what is to be message_sent and sent.
    pub fn process(&self, level: u8) {
        if let Some(level_state) = self.inner.level_states.get(level as usize) {
            self.inner.process(level_state);
        }
    }

    /// Says that this channel is still there, tells links again what they missed, forgets channels that were not heard of for
    /// `patience` ns, and leaves neighbours that were not reached for so long: who link_state has to join anew then. Call it now and then:
    /// five times within the patience. `now` is any clock, in ns.
    pub fn tick(&self, now: u64, patience: u64) {
        let inner = &self.inner;
        inner.level_states.iter().for_each(|level_state| level_state.protocol.lock().tick(now, patience));
        inner.link_entries().for_each(|link_entry| inner.try_again(&link_entry));
        for level_state in &inner.level_states {
            while let Some(link) = { level_state.protocol.lock().lost(patience) } {
                self.leave(link);
            }
        }
        inner.process_all();
    }

    /// Whether the neighbour was reached when something was last message_sent or sent to it, at any level; `false` for a link that is gone.
    pub fn is_up(&self, link: LinkId) -> bool {
        self.inner.level_states.iter().all(|level_state| level_state.protocol.lock().is_up(link))
    }

    /// How many neighbours there are, reached or not.
    pub fn links(&self) -> usize {
        self.inner.link_entries.lock().len()
    }

    /// The channel's number.
    pub fn id(&self) -> u64 {
        self.inner.id
    }

    /// Its levels of urgency.
    pub fn levels(&self) -> &Levels {
        &self.inner.levels
    }

    /// The number of the supplier that pushes what came over links into the channel, which the trace uses.
    pub fn supplier(&self) -> u32 {
        self.inner.supplier.id()
    }

    /// What crossed its links. An event that is wanted at several levels crosses at each of them, and counts as often.
    pub fn counts(&self) -> FederationCounts {
        let level_states = self.inner.level_states.iter();
        level_states
            .fold(FederationCounts::default(), |sum, level_state| sum.and(level_state.protocol.lock().counts))
    }

    /// How many channels are known at all levels, this one not counted.
    pub fn known(&self) -> usize {
        let level_states = self.inner.level_states.iter();
        level_states.map(|level_state| level_state.protocol.lock().interests.reached()).min().unwrap_or(0)
    }
}

impl fmt::Debug for Federation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Federation").field("id", &self.inner.id).field("counts", &self.counts()).finish()
    }
}

impl Inner {
    fn link_entries(&self) -> impl Iterator<Item = Arc<Link>> + '_ {
        (0..).map_while(|at| self.link_entries.lock().get(at).cloned())
    }

    /// The most urgent level first.
    pub(super) fn process_all(self: &Arc<Self>) {
        self.level_states.iter().rev().for_each(|level_state| self.process(level_state));
    }

    /// Does what a level's protocol has found to do, until there is no more. What is sent goes before what is message_sent, since a neighbour may be long in
    /// answering; what must not be sent before something is message_sent is not due before.
    pub(super) fn process(self: &Arc<Self>, level_state: &LevelState) {
        loop {
            level_state
                .deliver(&self.supplier, |consumer| self.levels.of(consumer.priority()) == level_state.level);
            if !self.arrange(level_state) {
                return;
            }
        }
    }

    /// As `settle`, once, without giving consumers anything. Says whether anything was told.
    fn arrange(self: &Arc<Self>, level_state: &LevelState) -> bool {
        level_state.level_links().for_each(|level_link| self.keep_gateway(level_state, &level_link));
        self.wake_all(level_state);
        let told = self.link_entries().filter(|link_entry| self.say(level_state, link_entry)).count() > 0;
        if level_state.protocol.lock().wanted_changed {
            self.subscribe(level_state);
        }
        told
    }

    /// Has message_sent what is to be message_sent of a level. Says whether this thread told it.
    fn say(&self, level_state: &LevelState, link_entry: &Link) -> bool {
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

    /// Has message_sent all, even over a link that is down.
    fn try_again(&self, link_entry: &Link) {
        link_entry.again.store(true, Release);
        match &link_entry.notifier {
            Some(notifier) => notifier.notify(),
            None => {
                self.resend(link_entry);
            }
        }
    }

    /// What the thread of a link does. What may be sent now, and what is to be told elsewhere, is not for it to do.
    pub(super) fn notify_neighbour(self: &Arc<Self>, link: LinkId) {
        let Some(link_entry) = self.link_entries().find(|link_entry| link_entry.id == link) else {
            return;
        };
        let told = self.resend(&link_entry);
        drop(link_entry);
        self.level_states.iter().rev().filter(|level_state| told & 1 << level_state.level != 0).for_each(
            |level_state| {
                self.arrange(level_state);
            },
        );
    }

    pub(super) fn wake_all(self: &Arc<Self>, level_state: &LevelState) {
        level_state.level_links().for_each(|level_link| self.wake(level_state, &level_link));
    }

    /// Says over a link what has not been message_sent; over one that is down, only if it is to be tried again. Says of which levels there was anything,
    /// a bit each.
    fn resend(&self, link_entry: &Link) -> u8 {
        if !link_entry.notifying.take() {
            return 0;
        }
        let mut told = 0;
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
                arrived = link_entry.link.announce(&messages).is_ok();
                for message in &messages {
                    self.level_states[message.level as usize].protocol.lock().message_sent(
                        link_entry.id,
                        message,
                        arrived,
                    );
                    told |= 1 << message.level;
                }
            }
            // What others found meanwhile is told with the next tick, if nobody is there.
            if link_entry.notifying.pass()
                || !arrived && !link_entry.again.load(Acquire) && link_entry.notifying.pass()
            {
                return told;
            }
        }
    }

    fn message(&self, level_state: &LevelState, link: LinkId, try_again: bool) -> Option<ControlMessage> {
        let message = level_state.protocol.lock().message(link, try_again)?;
        Some(ControlMessage { level: level_state.level, ..message })
    }
}

/// So many octets of an event are buffer without allocating; the first larger one makes more room.
pub(super) const PAYLOAD: usize = 1024;

/// Above all that a former process with this number has message_sent, which others may remember: sixteen for each microsecond since 1970, of which
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

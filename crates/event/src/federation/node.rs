//! A channel's place in a federation: its levels, its links, and who drives them.

use super::gateways::Wire;
use super::levels::Levels;
use super::plane::Plane;
use super::teller::Teller;
use super::{FederationCounts, Gateways, History, Link, Membership, Notice, Passed};
use crate::admin::ProxyPushConsumer;
use crate::channel::Channel;
use crate::dispatch::{Dispatch, ThreadSetup};
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
    tellers: Option<ThreadSetup>,
    pub(super) planes: Box<[Plane]>,
    observer: AtomicU64,
    lines: PiMutex<Vec<Arc<Line>>>,
    next: AtomicU32,
}

/// A link, over which what concerns all levels is said by one thread at a time: neighbours that speak to each other would wait for
/// each other otherwise.
struct Line {
    id: LinkId,
    link: Arc<dyn Link>,
    telling: Turn,
    /// It is to be told though it is down.
    again: AtomicBool,
    /// Who says it; without one, who finds that there is something to say.
    teller: Option<Teller>,
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
        let gateways = dispatch.map_or(Gateways::Channel, Gateways::Dispatcher);
        Federation::member(channel, Membership { quality, history, gateways, ..Membership::default() })
    }

    /// As [`new`](Self::new), with all that can be said of it.
    ///
    /// # Errors
    /// As [`new`](Self::new), and [`ConnectError::Thread`] where the gateways' threads could not be started.
    pub fn member(channel: &Channel, membership: Membership) -> Result<Federation, ConnectError> {
        if channel.id() == 0 {
            return Err(ConnectError::Destroyed);
        }
        let first = first_number();
        let begins = membership.levels.begins().iter().enumerate();
        let planes =
            begins.map(|(level, begin)| Plane::new(level as u8, *begin, channel.id(), first, &membership));
        let inner = Arc::new(Inner {
            id: channel.id(),
            channel: channel.clone(),
            supplier: channel
                .for_suppliers()
                .connect_with(SupplierQos { gateway: true, ..SupplierQos::default() })?,
            planes: planes.collect::<Result<_, _>>()?,
            quality: Quality { failures: 0, ..membership.quality },
            levels: membership.levels,
            tellers: membership.gateways.tellers(),
            observer: AtomicU64::new(0),
            lines: PiMutex::new(Vec::new()),
            next: AtomicU32::new(0),
        });
        let watch = Arc::new(Watch(Arc::downgrade(&inner)));
        inner.observer.store(channel.append_observer(watch)?.into(), Relaxed);
        Ok(Federation { inner })
    }

    /// Adds a neighbour, and tells it all that is known.
    pub fn join(&self, link: Arc<dyn Link>) -> LinkId {
        let inner = &self.inner;
        let id = LinkId(inner.next.fetch_add(1, Relaxed) + 1);
        inner.planes.iter().for_each(|plane| plane.join(Wire::new(id, link.clone(), PAYLOAD)));
        let top = inner.levels.begins().last().copied().unwrap_or(Priority::MIN);
        let start = |setup| Teller::start(Arc::downgrade(inner), id, setup, top);
        let teller = inner.tellers.as_ref().and_then(start);
        let (telling, again) = (Turn::new(), AtomicBool::new(false));
        inner.lines.lock().push(Arc::new(Line { id, link, telling, again, teller }));
        // One that is down now is told with the next tick.
        inner.settle_all();
        id
    }

    /// Tells a neighbour again all that is known, as when a link is up that was not when it joined.
    pub fn tell(&self, link: LinkId) {
        self.inner.planes.iter().for_each(|plane| plane.machine.lock().tell(link));
        if let Some(line) = self.inner.lines().find(|line| line.id == link) {
            self.inner.try_again(&line);
        }
        self.inner.settle_all();
    }

    /// Takes a neighbour away, or notes that it is lost: nothing is sent there until it joins again, and other ways are used where
    /// there are any.
    pub fn leave(&self, link: LinkId) {
        self.inner.planes.iter().for_each(|plane| plane.leave(link));
        let mut lines = self.inner.lines.lock();
        let at = lines.iter().position(|line| line.id == link);
        let gone = at.map(|at| lines.remove(at));
        drop(lines);
        drop(gone);
        self.inner.settle_all();
    }

    /// A neighbour has told how things are. `false` for a link that is gone: the neighbour has to join anew.
    pub fn heard(&self, link: LinkId, notice: &Notice) -> bool {
        let known = self.note(link, notice);
        self.settle(notice.level);
        known
    }

    /// As [`heard`](Self::heard), but [`settle`](Self::settle) is left to the caller.
    pub fn note(&self, link: LinkId, notice: &Notice) -> bool {
        match self.inner.planes.get(notice.level as usize) {
            Some(plane) => plane.machine.lock().heard(link, notice),
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
    pub fn received(&self, link: LinkId, event: &Passed<'_>) {
        self.take_in(link, event);
        self.settle(event.level);
    }

    /// As [`received`](Self::received), but [`settle`](Self::settle) is left to the caller: for threads that hear several levels.
    ///
    /// # Real-time
    /// Copies the event under the level's lock; runs no consumer and sends nothing.
    pub fn take_in(&self, link: LinkId, event: &Passed<'_>) {
        if let Some(plane) = self.inner.planes.get(event.level as usize) {
            plane.machine.lock().received(link, event);
        }
    }

    /// Gives consumers of a level what has come for them, says and sends what is to be said and sent.
    pub fn settle(&self, level: u8) {
        if let Some(plane) = self.inner.planes.get(level as usize) {
            self.inner.settle(plane);
        }
    }

    /// Says that this channel is still there, tells links again what they missed, forgets channels that were not heard of for
    /// `patience` ns, and leaves neighbours that were not reached for so long: who joined has to join anew then. Call it now and then:
    /// five times within the patience. `now` is any clock, in ns.
    pub fn tick(&self, now: u64, patience: u64) {
        let inner = &self.inner;
        inner.planes.iter().for_each(|plane| plane.machine.lock().tick(now, patience));
        inner.lines().for_each(|line| inner.try_again(&line));
        for plane in &inner.planes {
            while let Some(link) = { plane.machine.lock().lost(patience) } {
                self.leave(link);
            }
        }
        inner.settle_all();
    }

    /// Whether the neighbour was reached when something was last said or sent to it, at any level; `false` for a link that is gone.
    pub fn is_up(&self, link: LinkId) -> bool {
        self.inner.planes.iter().all(|plane| plane.machine.lock().is_up(link))
    }

    /// How many neighbours there are, reached or not.
    pub fn links(&self) -> usize {
        self.inner.lines.lock().len()
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
        let planes = self.inner.planes.iter();
        planes.fold(FederationCounts::default(), |sum, plane| sum.and(plane.machine.lock().counts))
    }

    /// How many channels are known at all levels, this one not counted.
    pub fn known(&self) -> usize {
        let planes = self.inner.planes.iter();
        planes.map(|plane| plane.machine.lock().interests.reached()).min().unwrap_or(0)
    }
}

impl fmt::Debug for Federation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Federation").field("id", &self.inner.id).field("counts", &self.counts()).finish()
    }
}

impl Inner {
    fn lines(&self) -> impl Iterator<Item = Arc<Line>> + '_ {
        (0..).map_while(|at| self.lines.lock().get(at).cloned())
    }

    /// The most urgent level first.
    pub(super) fn settle_all(self: &Arc<Self>) {
        self.planes.iter().rev().for_each(|plane| self.settle(plane));
    }

    /// Does what a level's machine has found to do, until there is no more. What is sent goes before what is said, since a neighbour may be long in
    /// answering; what must not be sent before something is said is not due before.
    pub(super) fn settle(self: &Arc<Self>, plane: &Plane) {
        loop {
            plane.deliver(&self.supplier, |consumer| self.levels.of(consumer.priority()) == plane.level);
            if !self.arrange(plane) {
                return;
            }
        }
    }

    /// As `settle`, once, without giving consumers anything. Says whether anything was told.
    fn arrange(self: &Arc<Self>, plane: &Plane) -> bool {
        plane.wires().for_each(|wire| self.keep_gateway(plane, &wire));
        self.wake_all(plane);
        let told = self.lines().filter(|line| self.say(plane, line)).count() > 0;
        if plane.machine.lock().wanted_changed {
            self.subscribe(plane);
        }
        told
    }

    /// Has said what is to be said of a level. Says whether this thread told it.
    fn say(&self, plane: &Plane, line: &Line) -> bool {
        match &line.teller {
            Some(teller) => {
                if plane.machine.lock().has_news(line.id) {
                    teller.ring();
                }
                false
            }
            None => self.tell(line) != 0,
        }
    }

    /// Has said all, even over a link that is down.
    fn try_again(&self, line: &Line) {
        line.again.store(true, Release);
        match &line.teller {
            Some(teller) => teller.ring(),
            None => {
                self.tell(line);
            }
        }
    }

    /// What the thread of a link does. What may be sent now, and what is to be told elsewhere, is not for it to do.
    pub(super) fn tell_now(self: &Arc<Self>, link: LinkId) {
        let Some(line) = self.lines().find(|line| line.id == link) else {
            return;
        };
        let told = self.tell(&line);
        drop(line);
        self.planes.iter().rev().filter(|plane| told & 1 << plane.level != 0).for_each(|plane| {
            self.arrange(plane);
        });
    }

    pub(super) fn wake_all(self: &Arc<Self>, plane: &Plane) {
        plane.wires().for_each(|wire| self.wake(plane, &wire));
    }

    /// Says over a link what has not been said; over one that is down, only if it is to be tried again. Says of which levels there was anything,
    /// a bit each.
    fn tell(&self, line: &Line) -> u8 {
        if !line.telling.take() {
            return 0;
        }
        let mut told = 0;
        loop {
            let again = line.again.swap(false, AcqRel);
            let mut arrived = true;
            while arrived {
                let notices: Vec<Notice> =
                    self.planes.iter().filter_map(|plane| self.notice(plane, line.id, again)).collect();
                if notices.is_empty() {
                    break;
                }
                arrived = line.link.announce(&notices).is_ok();
                for notice in &notices {
                    self.planes[notice.level as usize].machine.lock().said(line.id, notice, arrived);
                    told |= 1 << notice.level;
                }
            }
            // What others found meanwhile is told with the next tick, if nobody is there.
            if line.telling.pass() || !arrived && !line.again.load(Acquire) && line.telling.pass() {
                return told;
            }
        }
    }

    fn notice(&self, plane: &Plane, link: LinkId, try_again: bool) -> Option<Notice> {
        let notice = plane.machine.lock().notice(link, try_again)?;
        Some(Notice { level: plane.level, ..notice })
    }
}

/// So many octets of an event are copied without allocating; the first larger one makes more room.
pub(super) const PAYLOAD: usize = 1024;

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
    fn wanted(&self, _: u64, _: &[Filter]) {}

    fn wanted_at(&self, _: u64, wanted: &[(Priority, Vec<Filter>)]) {
        if let Some(inner) = self.0.upgrade() {
            for plane in &inner.planes {
                plane.own_changed(wanted, |priority| inner.levels.of(priority) == plane.level);
            }
            inner.settle_all();
        }
    }

    fn published(&self, _: u64, published: Option<&[Publication]>) {
        if let Some(inner) = self.0.upgrade() {
            inner.planes.iter().for_each(|plane| plane.machine.lock().published_changed(published));
            inner.settle_all();
        }
    }
}

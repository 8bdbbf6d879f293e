//! The channel's consumers that forward events: a collector, which logs events that are wanted
//! elsewhere, and a gateway for each link, which sends them.

use super::event_log::EventBuffer;
use super::level_state::LevelState;
use super::node::Inner;
use super::pacing::{MESSAGE_OVERHEAD, Pacer};
use super::{ForwardedEvent, LinkId, Pace, Transport};
use crate::admin::{ConsumerQos, ProxyPushSupplier};
use crate::connection::Connection;
use crate::consumer::{Failure, PushConsumer};
use crate::dispatch::Direct;
use crate::event::{Event, Header};
use crate::filter::{Filter, MAX_TERMS};
use crate::placement::Quality;
use isorb_rt::sync::{PiMutex, Turn};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Weak};

/// A link at one level, and its gateway.
pub(super) struct LevelLink {
    pub id: LinkId,
    pub link: Arc<dyn Transport>,
    sending: Turn,
    /// The event that is being sent, used by the thread that has the turn.
    buffer: PiMutex<EventBuffer>,
    /// The gateway was called and has not begun.
    awake: AtomicBool,
    gateway: PiMutex<Option<(ProxyPushSupplier, Arc<Connection>)>>,
    /// The rate of the level, used by the thread that has the turn of sending.
    pacer: Option<PiMutex<Pacer>>,
    /// When the next event may be sent; `NEVER` if none waits for that.
    due_at: AtomicU64,
}

/// No event waits for the rate.
const NEVER: u64 = u64::MAX;

impl LevelLink {
    pub(super) fn new(id: LinkId, link: Arc<dyn Transport>, payload: usize, pace: Option<Pace>) -> LevelLink {
        LevelLink {
            id,
            link,
            sending: Turn::new(),
            buffer: PiMutex::new(EventBuffer::with_capacity(payload)),
            awake: AtomicBool::new(false),
            gateway: PiMutex::new(None),
            pacer: pace.map(|pace| PiMutex::new(Pacer::new(pace))),
            due_at: AtomicU64::new(NEVER),
        }
    }
}

impl Inner {
    /// Has the events of a link sent, by its gateway if it has one.
    pub(super) fn wake(self: &Arc<Self>, level_state: &LevelState, level_link: &Arc<LevelLink>) {
        if !level_state.protocol.lock().is_due(level_link.id) {
            return;
        }
        let gateway = level_link.gateway.lock();
        let Some((proxy, connection)) = &*gateway else {
            drop(gateway);
            return self.send(level_state, level_link);
        };
        if level_link.awake.swap(true, AcqRel) {
            return;
        }
        let (core, connection) = (proxy.core(), connection.clone());
        drop(gateway);
        if !core.poke(&connection, Header::default()) {
            level_link.awake.store(false, Release);
        }
    }

    /// Sends the events of a link, unless another thread is sending.
    fn send(self: &Arc<Self>, level_state: &LevelState, level_link: &LevelLink) {
        if !level_link.sending.take() {
            return;
        }
        let mut failed = false;
        loop {
            let mut buffer = level_link.buffer.lock();
            loop {
                if !self.is_admitted(level_state, level_link) {
                    break;
                }
                let Some(sending) = level_state.protocol.lock().send(level_link.id, &mut buffer) else {
                    break;
                };
                let (level, sender) = (level_state.level, self.id);
                let (epoch, previous, event) = (sending.epoch, sending.previous, buffer.event());
                let result =
                    level_link.link.forward(&ForwardedEvent { level, sender, epoch, previous, event });
                failed |= result.is_err();
                level_state.protocol.lock().sent(level_link.id, sending, result);
            }
            drop(buffer);
            if level_link.sending.pass() {
                break;
            }
        }
        if failed {
            // There may be other routes.
            self.process(level_state);
        }
    }

    /// Whether the rate of the level admits its next event over this link. If not, the pacing
    /// thread wakes the gateway when it does.
    fn is_admitted(&self, level_state: &LevelState, level_link: &LevelLink) -> bool {
        let Some(pacer) = &level_link.pacer else { return true };
        let Some(octets) = level_state.protocol.lock().next_octets(level_link.id) else { return true };
        let admitted = pacer.lock().admit(octets + MESSAGE_OVERHEAD, isorb_rt::time::now_ns());
        let Err(due) = admitted else { return true };
        if level_link.due_at.swap(due, AcqRel) == NEVER {
            level_state.protocol.lock().counts.paced += 1;
        }
        self.watch_paced();
        false
    }

    /// Wakes the gateways with events that their rate admits now. Returns when the next one is due.
    pub(super) fn wake_paced(self: &Arc<Self>, now: u64) -> Option<u64> {
        let mut next = NEVER;
        for level_state in self.level_states.iter().rev() {
            for level_link in level_state.level_links() {
                let due = level_link.due_at.load(Acquire);
                if due <= now {
                    // A thread that finds the next event too early stores its time after this.
                    level_link.due_at.store(NEVER, Release);
                    self.wake(level_state, &level_link);
                } else {
                    next = next.min(due);
                }
            }
        }
        (next != NEVER).then_some(next)
    }

    /// Connects a link's gateway if events are wanted beyond it, and disconnects it if not. Without
    /// room for a gateway, the thread that has events sends them; the next tick tries again.
    pub(super) fn keep_gateway(self: &Arc<Self>, level_state: &LevelState, level_link: &Arc<LevelLink>) {
        let wanted = level_state
            .protocol
            .lock()
            .links
            .get(&level_link.id)
            .is_some_and(|link_state| !link_state.streams.is_empty());
        let there = level_link.gateway.lock().is_some();
        if wanted == there {
            return;
        }
        let mut gateway = None;
        if wanted {
            let (federation, level) = (Arc::downgrade(self), level_state.level);
            let consumer = Gateway { federation, level, level_link: Arc::downgrade(level_link) };
            let qos = ConsumerQos {
                name: format!("gateway {} level {}", level_link.id.0, level_state.level),
                address: level_link.link.address(),
                filters: Vec::new(),
                content: None,
                quality: self.quality.clone(),
                gateway: true,
                dispatch: level_state.dispatch.clone(),
                ..ConsumerQos::default()
            };
            let connected = self.channel.for_consumers().connect(Arc::new(consumer), qos).ok();
            gateway = connected.and_then(|proxy| proxy.connection().map(|connection| (proxy, connection)));
        }
        let former = std::mem::replace(&mut *level_link.gateway.lock(), gateway);
        level_link.awake.store(false, Release);
        drop(former);
    }

    /// Updates the collector's subscription to the interests of other members. One thread at a time
    /// does so, without the lock, since connecting notifies observers. Other threads leave it to
    /// that one.
    pub(super) fn subscribe(self: &Arc<Self>, level_state: &LevelState) {
        if !level_state.subscribing.take() {
            return;
        }
        loop {
            let mut protocol = level_state.protocol.lock();
            let wanted = std::mem::take(&mut protocol.wanted_changed).then(|| protocol.wanted());
            drop(protocol);
            if let Some(wanted) = wanted {
                self.collect(level_state, wanted);
            }
            if level_state.subscribing.pass() {
                return;
            }
        }
    }

    /// If the channel has no room, nothing changes and the next tick tries again.
    fn collect(self: &Arc<Self>, level_state: &LevelState, wanted: Vec<Filter>) {
        let (known, filters) = std::mem::take(&mut *level_state.collector.lock());
        if filters == wanted {
            *level_state.collector.lock() = (known, filters);
            return;
        }
        let registrations: Vec<Filter> =
            wanted.chunks(MAX_TERMS).map(|some| Filter::any_of(some.iter().cloned())).collect();
        let (proxy, changed) = match known {
            _ if wanted.is_empty() => (None, true),
            Some(proxy) => {
                let changed = proxy.resubscribe(registrations).is_ok();
                (Some(proxy), changed)
            }
            None => {
                let qos = ConsumerQos {
                    name: format!("federation level {}", level_state.level),
                    filters: registrations,
                    content: None,
                    quality: Quality { failures: 0, ..self.quality.clone() },
                    gateway: true,
                    // On the supplier's thread, so that events are logged in order.
                    dispatch: Some(Arc::new(Direct)),
                    ..ConsumerQos::default()
                };
                let collector = Collector { federation: Arc::downgrade(self), level: level_state.level };
                let proxy = self.channel.for_consumers().connect(Arc::new(collector), qos).ok();
                let changed = proxy.is_some();
                (proxy, changed)
            }
        };
        if !changed {
            level_state.protocol.lock().wanted_changed = true;
        }
        *level_state.collector.lock() = (proxy, if changed { wanted } else { filters });
    }
}

/// The channel's consumer for the events of a level that are wanted elsewhere.
struct Collector {
    federation: Weak<Inner>,
    level: u8,
}

impl PushConsumer for Collector {
    fn push(&self, events: &[Event<'_>]) -> Result<(), Failure> {
        let Some(federation) = self.federation.upgrade() else {
            return Ok(());
        };
        let level_state = &federation.level_states[self.level as usize];
        let mut own = false;
        for event in events {
            // Events that arrived over a link are in the log already.
            if event.stamp.link == 0 {
                level_state.protocol.lock().pushed(event);
                own = true;
            }
        }
        if own {
            federation.wake_all(level_state);
        }
        Ok(())
    }
}

/// The channel's consumer for one link and level. A call means that there are events to send; they
/// are in the log.
struct Gateway {
    federation: Weak<Inner>,
    level: u8,
    level_link: Weak<LevelLink>,
}

impl PushConsumer for Gateway {
    fn push(&self, _: &[Event<'_>]) -> Result<(), Failure> {
        if let (Some(federation), Some(level_link)) = (self.federation.upgrade(), self.level_link.upgrade()) {
            level_link.awake.store(false, Release);
            federation.send(&federation.level_states[self.level as usize], &level_link);
        }
        Ok(())
    }
}

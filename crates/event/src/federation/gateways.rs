//! The consumers by which a channel sends to its neighbours: one that writes down what is wanted elsewhere, and one a link that sends.

use super::log::Copied;
use super::node::Inner;
use super::plane::Plane;
use super::{Link, LinkId, Passed};
use crate::admin::{ConsumerQos, ProxyPushSupplier};
use crate::connection::Connection;
use crate::consumer::{Failure, PushConsumer};
use crate::dispatch::Direct;
use crate::event::{Event, Header};
use crate::filter::{Filter, MAX_TERMS};
use crate::placement::Quality;
use isorb_rt::sync::{PiMutex, Turn};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Release};
use std::sync::{Arc, Weak};

/// A link, and who is at it.
pub(super) struct Wire {
    pub id: LinkId,
    pub link: Arc<dyn Link>,
    sending: Turn,
    /// The event that is being sent; of whoever has the turn.
    copied: PiMutex<Copied>,
    /// The gateway was called, and has not begun.
    awake: AtomicBool,
    gateway: PiMutex<Option<(ProxyPushSupplier, Arc<Connection>)>>,
}

impl Wire {
    pub(super) fn new(id: LinkId, link: Arc<dyn Link>, payload: usize) -> Wire {
        Wire {
            id,
            link,
            sending: Turn::new(),
            copied: PiMutex::new(Copied::with_capacity(payload)),
            awake: AtomicBool::new(false),
            gateway: PiMutex::new(None),
        }
    }
}

impl Inner {
    /// Has sent what is to be sent over a link.
    pub(super) fn wake(self: &Arc<Self>, plane: &Plane, wire: &Arc<Wire>) {
        if !plane.machine.lock().is_due(wire.id) {
            return;
        }
        let gateway = wire.gateway.lock();
        let Some((proxy, connection)) = &*gateway else {
            drop(gateway);
            return self.send(plane, wire);
        };
        if wire.awake.swap(true, AcqRel) {
            return;
        }
        let (core, connection) = (proxy.core(), connection.clone());
        drop(gateway);
        if !core.poke(&connection, Header::default()) {
            wire.awake.store(false, Release);
        }
    }

    /// Sends what is to be sent over a link, unless somebody does.
    fn send(self: &Arc<Self>, plane: &Plane, wire: &Wire) {
        if !wire.sending.take() {
            return;
        }
        let mut failed = false;
        loop {
            let mut copied = wire.copied.lock();
            loop {
                let Some(sending) = plane.machine.lock().send(wire.id, &mut copied) else {
                    break;
                };
                let (level, sender) = (plane.level, self.id);
                let (epoch, previous, event) = (sending.epoch, sending.previous, copied.event());
                let result = wire.link.forward(&Passed { level, sender, epoch, previous, event });
                failed |= result.is_err();
                plane.machine.lock().sent(wire.id, sending, result);
            }
            drop(copied);
            if wire.sending.pass() {
                break;
            }
        }
        if failed {
            // There may be other ways.
            self.settle(plane);
        }
    }

    /// Connects a link's gateway where anything is wanted beyond it, and ends it where nothing is. Where there is no room for it, whoever
    /// finds that there is something to send sends it; the next tick tries again.
    pub(super) fn keep_gateway(self: &Arc<Self>, plane: &Plane, wire: &Arc<Wire>) {
        let wanted =
            plane.machine.lock().links.get(&wire.id).is_some_and(|joined| !joined.streams.is_empty());
        let there = wire.gateway.lock().is_some();
        if wanted == there {
            return;
        }
        let mut gateway = None;
        if wanted {
            let (federation, level) = (Arc::downgrade(self), plane.level);
            let consumer = Gateway { federation, level, wire: Arc::downgrade(wire) };
            let qos = ConsumerQos {
                name: format!("gateway {} level {}", wire.id.0, plane.level),
                filters: Vec::new(),
                quality: self.quality.clone(),
                gateway: true,
                dispatch: plane.dispatch.clone(),
            };
            let connected = self.channel.for_consumers().connect(Arc::new(consumer), qos).ok();
            gateway = connected.and_then(|proxy| proxy.connection().map(|connection| (proxy, connection)));
        }
        let former = std::mem::replace(&mut *wire.gateway.lock(), gateway);
        wire.awake.store(false, Release);
        drop(former);
    }

    /// Brings the collector's subscription to what is wanted elsewhere. One thread at a time does so, without the lock, since connecting
    /// has consequences; who comes by meanwhile leaves it to that one.
    pub(super) fn subscribe(self: &Arc<Self>, plane: &Plane) {
        if !plane.subscribing.take() {
            return;
        }
        loop {
            let mut machine = plane.machine.lock();
            let wanted = std::mem::take(&mut machine.wanted_changed).then(|| machine.wanted());
            drop(machine);
            if let Some(wanted) = wanted {
                self.collect(plane, wanted);
            }
            if plane.subscribing.pass() {
                return;
            }
        }
    }

    /// Where there is no room for it all stays as it is, and the next tick tries again.
    fn collect(self: &Arc<Self>, plane: &Plane, wanted: Vec<Filter>) {
        let (known, filters) = std::mem::take(&mut *plane.collector.lock());
        if filters == wanted {
            *plane.collector.lock() = (known, filters);
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
                    name: format!("federation level {}", plane.level),
                    filters: registrations,
                    quality: Quality { failures: 0, ..self.quality.clone() },
                    gateway: true,
                    // On the supplier's thread: what is written down is in order then, and a gateway that has to wait holds up nobody.
                    dispatch: Some(Arc::new(Direct)),
                };
                let collector = Collector { federation: Arc::downgrade(self), level: plane.level };
                let proxy = self.channel.for_consumers().connect(Arc::new(collector), qos).ok();
                let changed = proxy.is_some();
                (proxy, changed)
            }
        };
        if !changed {
            plane.machine.lock().wanted_changed = true;
        }
        *plane.collector.lock() = (proxy, if changed { wanted } else { filters });
    }
}

/// The channel's consumer of what is wanted elsewhere at a level.
struct Collector {
    federation: Weak<Inner>,
    level: u8,
}

impl PushConsumer for Collector {
    fn push(&self, events: &[Event<'_>]) -> Result<(), Failure> {
        let Some(federation) = self.federation.upgrade() else {
            return Ok(());
        };
        let plane = &federation.planes[self.level as usize];
        let mut own = false;
        for event in events {
            // What came by a link is in the log already.
            if event.stamp.link == 0 {
                plane.machine.lock().pushed(event);
                own = true;
            }
        }
        if own {
            federation.wake_all(plane);
        }
        Ok(())
    }
}

/// The channel's consumer for one link and level. It is called when there is something to send; what that is it finds in the log.
struct Gateway {
    federation: Weak<Inner>,
    level: u8,
    wire: Weak<Wire>,
}

impl PushConsumer for Gateway {
    fn push(&self, _: &[Event<'_>]) -> Result<(), Failure> {
        if let (Some(federation), Some(wire)) = (self.federation.upgrade(), self.wire.upgrade()) {
            wire.awake.store(false, Release);
            federation.send(&federation.planes[self.level as usize], &wire);
        }
        Ok(())
    }
}

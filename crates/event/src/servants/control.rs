//! Pings remote consumers, suppliers and observers, and removes those that do not answer.

use super::EventServiceOptions;
use super::proxies::ProxyTable;
use isorb::{Kind, Object, Policies, Result, SystemException};
use isorb_rt::sync::{Parker, PiMutex};
use isorb_rt::time::Deadline;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A connection to a monitored peer.
pub(super) trait MonitoredPeer: Send + Sync {
    /// Ends the connection: the peer is lost.
    fn lost(&self);

    /// Returns true if the peer called since the last check. Then it is not pinged.
    fn was_active(&self) -> bool {
        false
    }
}

/// The most pings at a time.
const MAX_PINGS: usize = 16;

pub(super) struct Control {
    watched: PiMutex<BTreeMap<u64, Watched>>,
    next: PiMutex<u64>,
    limit: u32,
    timeout: Duration,
    proxies: Arc<ProxyTable>,
    parker: Arc<Parker>,
    stopped: Arc<AtomicBool>,
}

struct Watched {
    peer: Object,
    connected: Weak<dyn MonitoredPeer>,
    failures: u32,
}

impl Control {
    pub(super) fn start(options: &EventServiceOptions, proxies: &Arc<ProxyTable>) -> Result<Arc<Control>> {
        let control = Arc::new(Control {
            watched: PiMutex::default(),
            next: PiMutex::default(),
            limit: options.pings.max(1),
            timeout: options.ping_timeout,
            proxies: proxies.clone(),
            parker: Arc::default(),
            stopped: Arc::default(),
        });
        if let Some(period) = options.ping {
            let (parker, stopped) = (control.parker.clone(), control.stopped.clone());
            let weak = Arc::downgrade(&control);
            let body = move || {
                while !stopped.load(Acquire) {
                    parker.park_until(Deadline::after(period));
                    match weak.upgrade() {
                        Some(control) if !stopped.load(Acquire) => drop(control.check()),
                        _ => return,
                    }
                }
            };
            std::thread::Builder::new()
                .name("event-control".into())
                .spawn(body)
                .map_err(|error| SystemException::from(Kind::NoResources).detail(error.to_string()))?;
        }
        Ok(control)
    }

    /// Monitors a peer, until the result is passed to `forget`.
    pub(super) fn watch(&self, peer: &Object, connected: Weak<dyn MonitoredPeer>) -> u64 {
        let mut next = self.next.lock();
        *next += 1;
        // A live peer answers within this time.
        let policies = Policies { round_trip_timeout: Some(self.timeout), ..Policies::default() };
        let watched = Watched { peer: peer.with_policies(policies), connected, failures: 0 };
        self.watched.lock().insert(*next, watched);
        *next
    }

    pub(super) fn forget(&self, number: u64) {
        let gone = self.watched.lock().remove(&number);
        drop(gone);
    }

    /// Pings all peers, up to [`MAX_PINGS`] at a time. A round takes at most the time-out for every
    /// [`MAX_PINGS`] peers. Also removes proxies to which no peer connected.
    pub(super) fn check(&self) -> usize {
        self.proxies.expire();
        let peers: Vec<(u64, Object)> =
            self.watched.lock().iter().map(|(number, watched)| (*number, watched.peer.clone())).collect();
        let (next, removed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let ping = || {
            while let Some((number, peer)) = peers.get(next.fetch_add(1, Relaxed)) {
                removed.fetch_add(usize::from(self.ping(*number, peer)), Relaxed);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..peers.len().min(MAX_PINGS) {
                let helper = std::thread::Builder::new().name("event-control".into());
                // Without this thread the round takes longer.
                if helper.spawn_scoped(scope, ping).is_err() {
                    break;
                }
            }
            ping();
        });
        removed.into_inner()
    }

    /// Pings one peer. Returns true if it was disconnected.
    fn ping(&self, number: u64, peer: &Object) -> bool {
        let active = || self.watched.lock().get(&number)?.connected.upgrade().map(|it| it.was_active());
        let answer = if active() == Some(true) { Ok(false) } else { peer.non_existent() };
        let mut watched = self.watched.lock();
        let Some(entry) = watched.get_mut(&number) else { return false };
        let gone = match answer {
            Ok(false) => {
                entry.failures = 0;
                false
            }
            // The peer itself reports that it does not exist.
            Ok(true) => true,
            Err(_) => {
                entry.failures += 1;
                entry.failures >= self.limit
            }
        };
        if !gone {
            return false;
        }
        let connected = entry.connected.upgrade();
        let forgotten = watched.remove(&number);
        drop(watched);
        drop(forgotten);
        connected.inspect(|connected| connected.lost()).is_some()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stopped.store(true, Release);
        self.parker.unpark();
    }
}

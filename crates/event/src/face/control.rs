//! Asks remote consumers, suppliers and observers whether they are still there, and removes those that are not.

use super::FaceOptions;
use super::proxies::Proxies;
use isorb::{Kind, Object, Policies, Result, SystemException};
use isorb_rt::sync::{Parker, PiMutex};
use isorb_rt::time::Deadline;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Something that can be disconnected, since its other end is gone.
pub(super) trait Connected: Send + Sync {
    /// Ends the connection.
    fn lost(&self);

    /// Whether it was heard of since this was asked last; then it need not be asked.
    fn was_heard(&self) -> bool {
        false
    }
}

/// So many are asked at a time.
const ASKING: usize = 16;

pub(super) struct Control {
    watched: PiMutex<BTreeMap<u64, Watched>>,
    next: PiMutex<u64>,
    limit: u32,
    timeout: Duration,
    proxies: Arc<Proxies>,
    parker: Arc<Parker>,
    stopped: Arc<AtomicBool>,
}

struct Watched {
    peer: Object,
    connected: Weak<dyn Connected>,
    failures: u32,
}

impl Control {
    pub(super) fn start(options: &FaceOptions, proxies: &Arc<Proxies>) -> Result<Arc<Control>> {
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

    /// Watches a peer, until the result is given to `forget`.
    pub(super) fn watch(&self, peer: &Object, connected: Weak<dyn Connected>) -> u64 {
        let mut next = self.next.lock();
        *next += 1;
        // The answer of one that is there takes no longer than this.
        let policies = Policies { round_trip_timeout: Some(self.timeout), ..Policies::default() };
        let watched = Watched { peer: peer.with_policies(policies), connected, failures: 0 };
        self.watched.lock().insert(*next, watched);
        *next
    }

    pub(super) fn forget(&self, number: u64) {
        let gone = self.watched.lock().remove(&number);
        drop(gone);
    }

    /// Asks all, several at a time: those that do not answer take the others' time only where more than [`ASKING`] of them are. A round
    /// takes no longer than the time-out for every [`ASKING`] peers. Proxies that nobody connects to are taken away as well.
    pub(super) fn check(&self) -> usize {
        self.proxies.expire();
        let peers: Vec<(u64, Object)> =
            self.watched.lock().iter().map(|(number, watched)| (*number, watched.peer.clone())).collect();
        let (next, removed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let ask = || {
            while let Some((number, peer)) = peers.get(next.fetch_add(1, Relaxed)) {
                removed.fetch_add(usize::from(self.ask(*number, peer)), Relaxed);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..peers.len().min(ASKING) {
                let helper = std::thread::Builder::new().name("event-control".into());
                // Without it the others ask longer.
                if helper.spawn_scoped(scope, ask).is_err() {
                    break;
                }
            }
            ask();
        });
        removed.into_inner()
    }

    /// Asks one. Says whether it was disconnected.
    fn ask(&self, number: u64, peer: &Object) -> bool {
        let heard = || self.watched.lock().get(&number)?.connected.upgrade().map(|it| it.was_heard());
        let answer = if heard() == Some(true) { Ok(false) } else { peer.non_existent() };
        let mut watched = self.watched.lock();
        let Some(entry) = watched.get_mut(&number) else { return false };
        let gone = match answer {
            Ok(false) => {
                entry.failures = 0;
                false
            }
            // It says so itself.
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

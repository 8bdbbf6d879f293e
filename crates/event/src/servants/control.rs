//! Pings remote consumers, suppliers and observers, and removes those that do not answer.

use super::EventServiceOptions;
use super::proxies::ProxyTable;
use isorb::{Kind, Object, Policies, Result, SystemException};
use isorb_rt::log::warn;
use isorb_rt::sched::ThreadSpec;
use isorb_rt::sync::{Parker, PiMutex};
use isorb_rt::time::Deadline;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A connection to a monitored peer.
pub(super) trait MonitoredPeer: Send + Sync {
    /// Ends the connection: the peer is lost.
    fn lost(&self);

    /// Returns true if the peer called since the last check. Then it is not pinged, unless it is
    /// suspected: a process that was killed has called, too.
    fn was_active(&self) -> bool {
        false
    }

    /// It answered a ping.
    fn answered(&self) {}
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
    /// The consumer's operations.
    operations: Box<[i32]>,
    failures: u32,
    /// A push to it failed, or its connection ended: it is pinged at once.
    suspect: bool,
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
                let mut round = Deadline::after(period);
                while !stopped.load(Acquire) {
                    parker.park_until(round);
                    let Some(control) = weak.upgrade() else { return };
                    if stopped.load(Acquire) {
                        return;
                    }
                    control.check_suspects();
                    if round.is_past() {
                        control.check();
                        round = Deadline::after(period);
                    }
                }
            };
            ThreadSpec::inheriting("event-control")
                .spawn_supervised(body)
                .map_err(|error| SystemException::from(Kind::NoResources).detail(error.to_string()))?;
        }
        Ok(control)
    }

    /// Monitors a peer, until the result is passed to `forget`. `operations` are those as which a
    /// consumer is connected.
    pub(super) fn watch(&self, peer: &Object, connected: Weak<dyn MonitoredPeer>, operations: &[i32]) -> u64 {
        let mut next = self.next.lock();
        *next += 1;
        // A live peer answers within this time.
        let policies = Policies { round_trip_timeout: Some(self.timeout), ..Policies::default() };
        let peer = peer.with_policies(policies);
        let watched = Watched { peer, connected, operations: operations.into(), failures: 0, suspect: false };
        self.watched.lock().insert(*next, watched);
        *next
    }

    pub(super) fn forget(&self, number: u64) {
        let gone = self.watched.lock().remove(&number);
        drop(gone);
    }

    /// Has a peer pinged at once: a push to it failed, or its connection ended.
    pub(super) fn suspect(&self, number: u64) {
        if let Some(entry) = self.watched.lock().get_mut(&number) {
            entry.suspect = true;
        }
        self.parker.unpark();
    }

    fn check_suspects(&self) {
        while let Some((number, peer)) = {
            let mut watched = self.watched.lock();
            let mut suspects = watched.iter_mut().filter(|(_, entry)| entry.suspect);
            suspects.next().map(|(number, entry)| {
                entry.suspect = false;
                (*number, entry.peer.clone())
            })
        } {
            self.ping_until_sure(number, &peer);
        }
    }

    /// Pings the consumers that are connected as one of these operations, because another one wants
    /// to be. Returns true if all are gone. Takes at most the time-out of a ping for each.
    pub(super) fn are_vacated(&self, operations: &[i32]) -> bool {
        let watched = self.watched.lock();
        let rivals: Vec<(u64, Object)> = watched
            .iter()
            .filter(|(_, entry)| entry.operations.iter().any(|operation| operations.contains(operation)))
            .map(|(number, entry)| (*number, entry.peer.clone()))
            .collect();
        drop(watched);
        !rivals.is_empty() && rivals.iter().all(|(number, peer)| self.ping_until_sure(*number, peer))
    }

    /// Pings a peer as often as it takes to disconnect it, but only while it fails without a
    /// time-out, as the address of a process that ended does. Returns true if it was disconnected.
    fn ping_until_sure(&self, number: u64, peer: &Object) -> bool {
        (0..self.limit).find_map(|_| match self.ping(number, peer, true) {
            PingOutcome::Disconnected => Some(true),
            PingOutcome::Failed => None,
            PingOutcome::Alive | PingOutcome::TimedOut | PingOutcome::Unknown => Some(false),
        }) == Some(true)
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
                let gone = self.ping(*number, peer, false) == PingOutcome::Disconnected;
                removed.fetch_add(usize::from(gone), Relaxed);
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

    /// Pings one peer: one that is `suspected` in any case, others unless they called by
    /// themselves.
    fn ping(&self, number: u64, peer: &Object, suspected: bool) -> PingOutcome {
        let connected = || self.watched.lock().get(&number)?.connected.upgrade();
        let is_active = !suspected && connected().is_some_and(|connected| connected.was_active());
        let answer = if is_active { Ok(false) } else { peer.non_existent() };
        let mut watched = self.watched.lock();
        let Some(entry) = watched.get_mut(&number) else { return PingOutcome::Disconnected };
        let gone = match &answer {
            Ok(false) => {
                entry.failures = 0;
                let connected = entry.connected.upgrade().filter(|_| !is_active);
                drop(watched);
                if let Some(connected) = connected {
                    connected.answered();
                }
                return PingOutcome::Alive;
            }
            // The peer itself reports that it does not exist.
            Ok(true) => true,
            // As without a descriptor for a connection.
            Err(exception) if exception.is_shortage() => return PingOutcome::Unknown,
            Err(_) => {
                entry.failures += 1;
                entry.failures >= self.limit
            }
        };
        if !gone {
            let timed_out = answer.as_ref().is_err_and(|exception| exception.kind == Kind::Timeout);
            return if timed_out { PingOutcome::TimedOut } else { PingOutcome::Failed };
        }
        let connected = entry.connected.upgrade();
        let forgotten = watched.remove(&number);
        drop(watched);
        let address = forgotten.and_then(|of| of.peer.address()).unwrap_or_default();
        let why: &dyn Display = match &answer {
            Err(exception) => exception,
            Ok(_) => &"it exists no more",
        };
        warn("isorb::event", format_args!("{address}: the channel disconnects the peer there: {why}"));
        if let Some(connected) = connected {
            connected.lost();
        }
        PingOutcome::Disconnected
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PingOutcome {
    Alive,
    /// It did not answer in time, and may yet.
    TimedOut,
    /// This process could not ask it.
    Unknown,
    /// It cannot be reached.
    Failed,
    /// It is gone, and disconnected.
    Disconnected,
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stopped.store(true, Release);
        self.parker.unpark();
    }
}

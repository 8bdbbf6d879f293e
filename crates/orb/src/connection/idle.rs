//! Detection of idle connections.
//!
//! Each request sets a mark, which is one store. The idle reaper removes the mark and counts the
//! time from then. So it notices an idle connection up to a quarter of the limit late, and no
//! request reads a clock for it.

use super::{Connection, LOG, Ordering, Side};
use crate::log::warn;
use isorb_rt::atomic_enum;
use isorb_rt::net::{Interest, wait_ready};
use isorb_rt::sync::AtomicEnum;
use isorb_rt::time::Deadline;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Grace period in nanoseconds: a connection that was opened or used within it is evicted after all
/// others.
const GRACE_NS: u64 = 1_000_000_000;

/// Whether the client has sent requests, and whether one of them found its object.
#[derive(Debug, Default)]
pub(super) struct Activity {
    requests: AtomicEnum<Requests>,
    found: AtomicBool,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Requests {
    None,
    /// All before the idle reaper's latest visit.
    Earlier,
    Recent,
}

atomic_enum!(Requests: None, Earlier, Recent);

impl Activity {
    #[inline(always)]
    pub fn mark(&self) {
        self.requests.store(Requests::Recent, Ordering::Relaxed);
    }

    /// Whether a request has arrived.
    pub fn ever(&self) -> bool {
        !self.requests.is(Requests::None, Ordering::Relaxed)
    }

    /// Whether a request has arrived since the last call.
    fn recent(&self) -> bool {
        self.requests.change(Requests::Recent, Requests::Earlier, Ordering::Relaxed)
    }
}

/// Which of the idle connections is evicted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Idleness {
    /// For longer than the grace period.
    Long,
    /// The first request may be on its way; but one that only connects must not take the place of a
    /// client in service.
    NewAndSilent,
    JustUsed,
}

/// How long a client may leave a connection unused; `None` for no limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdleLimits {
    /// Before its first request.
    pub first: Option<Duration>,
    /// After a request.
    pub between: Option<Duration>,
}

impl IdleLimits {
    /// The shorter of both.
    pub fn shortest(self) -> Option<Duration> {
        self.first.into_iter().chain(self.between).min()
    }
}

impl Connection {
    /// Records a request of the client.
    #[inline(always)]
    pub fn mark_used(&self) {
        self.activity.mark();
    }

    /// Records that a request found its object.
    #[inline(always)]
    pub fn mark_found(&self) {
        self.activity.found.store(true, Ordering::Relaxed);
    }

    /// Whether all its requests named objects that do not exist, and the ORB does not call back
    /// over it.
    pub fn found_nothing(&self) -> bool {
        !self.activity.found.load(Ordering::Relaxed)
            && self.side == Side::Acceptor
            && !self.bidirectional.load(Ordering::Acquire)
    }

    /// Whether the connection may be evicted for a new one at `now`, and since when it is idle: the
    /// least goes first. `None` where it is in use, by call-backs too. A use is noticed by the next
    /// call of this method or of [`close_if_idle`](Self::close_if_idle).
    #[cold]
    pub fn idleness(&self, now: u64) -> Option<(Idleness, u64)> {
        let is_in_use = self.side == Side::Connector
            || self.lossy
            || self.serving.load(Ordering::SeqCst) > 0
            || self.in_flight.load(Ordering::SeqCst) > 0
            || self.bidirectional.load(Ordering::Acquire)
            // A client that has not sent one whole request is not in service yet.
            || self.activity.ever() && self.account.is_busy();
        if is_in_use {
            return None;
        }
        if self.activity.recent() {
            self.used_at.store(now, Ordering::Relaxed);
        }
        let since = self.used_at.load(Ordering::Relaxed);
        let idleness = match (now.saturating_sub(since) >= GRACE_NS, self.activity.ever()) {
            (true, _) => Idleness::Long,
            (false, false) => Idleness::NewAndSilent,
            (false, true) => Idleness::JustUsed,
        };
        Some((idleness, since))
    }

    /// Whether octets wait to be read. A client that waits for a busy thread is not silent.
    #[cold]
    pub fn waits_to_be_read(&self) -> bool {
        // A ring that a lane polls makes no event.
        self.stream.polled().is_some_and(|ring| ring.ready())
            || wait_ready(self.stream.fd(), Interest::READ, Deadline::at_ns(0)).unwrap_or(true)
    }

    /// Closes the connection in order if its client has left it unused for too long at `now`, in
    /// nanoseconds. Otherwise returns when to look again; `None` means not before the shorter
    /// limit.
    ///
    /// Exempt are connections that this ORB opened, those that it calls back over, and those of
    /// datagrams. Messages under way have limits of their own.
    pub fn close_if_idle(&self, now: u64, limits: IdleLimits) -> Option<u64> {
        if self.side == Side::Connector || self.lossy || !self.is_open() {
            return None;
        }
        let served_before = self.activity.ever();
        let limit = if served_before { limits.between } else { limits.first };
        let limit = limit?;
        let used = self.activity.recent()
            || self.serving.load(Ordering::SeqCst) > 0
            || self.in_flight.load(Ordering::SeqCst) > 0
            || self.bidirectional.load(Ordering::Acquire);
        if served_before && used {
            self.used_at.store(now, Ordering::Relaxed);
        }
        let due = after(self.used_at.load(Ordering::Relaxed), limit);
        if due > now || self.account.is_busy() {
            let look = after(now, if served_before || due <= now { limit / 4 } else { limit });
            return Some(if due > now { due.min(look) } else { look });
        }
        if !served_before {
            let peer = self.peer();
            warn(LOG, format_args!("{peer}: closed; it sent no request in time (first_request_timeout_ms)"));
        }
        self.close();
        None
    }
}

fn after(at: u64, limit: Duration) -> u64 {
    at.saturating_add(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX))
}

//! Whether the client of a connection still uses it.
//!
//! A request leaves a mark, which is one store; whoever looks takes the mark away and counts the time from then. So an idle
//! connection is noticed up to a quarter of the limit late, and no request reads a clock for it.

use super::{Connection, Ordering, Side};
use isorb_rt::net::{Interest, wait_ready};
use isorb_rt::time::Deadline;
use std::sync::atomic::AtomicU8;
use std::time::Duration;

/// A connection may be silent for so long and not give way to another: its first request is on its way.
pub(crate) const GRACE_NS: u64 = 1_000_000_000;

/// What was heard of the client.
#[derive(Debug, Default)]
pub(super) struct Activity(AtomicU8);

const EVER: u8 = 1;
const LATELY: u8 = 2;

impl Activity {
    #[inline(always)]
    pub fn mark(&self) {
        self.0.store(EVER | LATELY, Ordering::Relaxed);
    }

    /// Whether a request has ever come.
    pub fn ever(&self) -> bool {
        self.0.load(Ordering::Relaxed) & EVER != 0
    }

    /// Whether one has come since this was asked last.
    fn lately(&self) -> bool {
        self.0.fetch_and(!LATELY, Ordering::Relaxed) & LATELY != 0
    }
}

/// How long a client may leave a connection unused; `None` for as long as it likes.
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
    /// Takes note that the client asks for something.
    #[inline(always)]
    pub fn mark_used(&self) {
        self.activity.mark();
    }

    /// Since when the peer has been connected without sending a request; `None` when it has sent one.
    pub fn silent_since(&self) -> Option<u64> {
        let activity = self.activity.ever() || self.side == Side::Connector;
        (!activity).then(|| self.used_at.load(Ordering::Relaxed))
    }

    /// Whether something has come that nobody has read yet: who waits for a busy thread is not silent.
    #[cold]
    pub fn waits_to_be_read(&self) -> bool {
        wait_ready(self.stream.fd(), Interest::READ, Deadline::at_ns(0)).unwrap_or(true)
    }

    /// Closes the connection in order when its client has left it unused for too long by `now`, in nanoseconds; otherwise when to
    /// look again. `None` is no sooner than the shorter limit from now.
    ///
    /// Left alone are connections that this ORB opened, those that it calls back over, and those of datagrams. What has begun to
    /// arrive, and what the client has yet to read, have limits of their own.
    pub fn close_if_idle(&self, now: u64, limits: IdleLimits) -> Option<u64> {
        if self.side == Side::Connector || self.lossy || !self.is_open() {
            return None;
        }
        let served_before = self.activity.ever();
        let limit = if served_before { limits.between } else { limits.first };
        let limit = limit?;
        let used = self.activity.lately()
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
            crate::log::note(format_args!(
                "{}: closed; it has sent no request in time (first_request_timeout_ms)",
                self.peer()
            ));
        }
        self.close();
        None
    }
}

fn after(at: u64, limit: Duration) -> u64 {
    at.saturating_add(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX))
}

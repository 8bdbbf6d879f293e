//! Closes idle connections, as Ice's active connection management and omniORB's scavenger do.
//!
//! Each ORB has one such thread, of the ordinary class, if one of the limits is set. It delays no
//! real-time thread. It sleeps until the first connection can be due.

use crate::connection::IdleLimits;
use crate::{Orb, Result, SystemException};
use isorb_giop::Kind;
use isorb_rt::sched::{SchedClass, ThreadSpec};
use isorb_rt::sync::{PiCondvar, PiMutex};
use isorb_rt::time::{Deadline, now_ns};
use std::sync::Arc;
use std::time::Duration;

/// Shortest sleep.
const SHORTEST: Duration = Duration::from_millis(5);

/// Ends the thread.
#[derive(Default)]
pub(super) struct IdleReaper(Arc<Stop>);

#[derive(Default)]
struct Stop {
    stopped: PiMutex<bool>,
    changed: PiCondvar,
}

impl IdleReaper {
    /// Starts the thread if one of the limits is set.
    pub fn start(&self, orb: &Orb, limits: IdleLimits) -> Result<()> {
        let Some(shortest) = limits.shortest() else { return Ok(()) };
        let (orb, stop) = (orb.clone(), self.0.clone());
        let spawned = ThreadSpec::new("isorb-idle")
            .class(SchedClass::Other)
            .spawn_supervised(move || close_idle(&orb, &stop, limits, shortest.max(SHORTEST)));
        spawned.map(drop).map_err(|error| SystemException::from(Kind::NoResources).detail(error.to_string()))
    }

    /// Asks the thread to end; does not wait for it.
    pub fn stop(&self) {
        *self.0.stopped.lock() = true;
        self.0.changed.notify_all(&self.0.stopped);
    }
}

fn close_idle(orb: &Orb, stop: &Stop, limits: IdleLimits, shortest: Duration) {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let mut stopped = stop.stopped.lock();
    while !*stopped {
        drop(stopped);
        let now = now_ns();
        let all = orb.accepted().all();
        // A later connection is not due before the shortest limit has passed.
        let next = all.iter().filter_map(|connection| connection.close_if_idle(now, limits));
        let next = next.min().unwrap_or(u64::MAX).min(now.saturating_add(ns(shortest)));
        drop(all);
        let next = Deadline::at_ns(next.max(now.saturating_add(ns(SHORTEST))));
        stopped = stop.stopped.lock();
        while !*stopped && stop.changed.wait_until(&mut stopped, next) {}
    }
}

//! The deadline of each instance: a consumer learns that a type and source fell silent (DEADLINE of
//! DDS 1.4, 2.2.3.7).

use super::Connection;
use crate::counters::count;
use crate::event::Header;
use crate::instances::Instances;
use isorb_rt::sync::PiMutex;
use std::time::Duration;

/// The instances of a consumer that declared [`Quality::instance_period`].
///
/// [`Quality::instance_period`]: crate::Quality::instance_period
pub(super) struct InstanceWatch {
    period: u64,
    known: PiMutex<Instances<LastSeen>>,
}

#[derive(Clone, Copy)]
struct LastSeen {
    /// When the next event is due.
    due: u64,
    /// The consumer knows that it did not come.
    told: bool,
}

impl InstanceWatch {
    pub fn new(period: Option<Duration>, instances: usize) -> Option<Box<InstanceWatch>> {
        let period = u64::try_from(period?.as_nanos()).unwrap_or(u64::MAX).max(1);
        Some(Box::new(InstanceWatch { period, known: PiMutex::new(Instances::new(instances)) }))
    }
}

impl Connection {
    #[inline]
    pub(crate) fn watches_instances(&self) -> bool {
        self.instances.is_some()
    }

    /// Notes an event of an instance.
    ///
    /// # Real-time
    /// Does not allocate. One PI lock for at most eight comparisons.
    #[inline(never)]
    pub(crate) fn instance_seen(&self, header: &Header, now: &mut u64) {
        let Some(watch) = &self.instances else { return };
        if *now == 0 {
            *now = self.kernel.clock.now_ns();
        }
        let seen = LastSeen { due: now.saturating_add(watch.period), told: false };
        let key = (header.event_type, header.source);
        match watch.known.lock().entry(key, seen, |known| known.told) {
            Some(known) => *known = seen,
            None => count(&self.counters.not_watched),
        }
    }

    /// The next instance from the place `from` on that is silent for longer than its period and was
    /// not told, and its place. Counts it.
    ///
    /// # Real-time
    /// One PI lock, for a look at each instance that may be known.
    pub(crate) fn next_silent(&self, from: usize, now: u64) -> Option<(usize, i32, i32)> {
        let watch = self.instances.as_ref()?;
        let is_silent = |seen: &mut LastSeen| seen.due <= now && !std::mem::replace(&mut seen.told, true);
        let (at, instance) = watch.known.lock().find_from(from, is_silent)?;
        count(&self.counters.instances_missed);
        count(&self.kernel.totals.instances_missed);
        Some((at, instance.event_type, instance.source))
    }
}

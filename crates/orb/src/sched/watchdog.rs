//! A thread that supervises running upcalls.

use super::priorities::{Priorities, checked};
use crate::{Result, SystemException};
use isorb_giop::Kind;
use isorb_rt::sched::{Cpus, Thread, ThreadSpec};
use isorb_rt::sync::{PiCondvar, PiMutex};
use isorb_rt::time::{Deadline, now_ns};
use std::sync::Arc;
use std::time::Duration;

/// The options of a watchdog.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchdogOptions {
    /// Its CORBA priority. It must be above those of the supervised threads, or it does not run
    /// while they do.
    pub priority: i16,
    /// The period of its checks. An overrun is found within one period.
    pub period: Duration,
    /// Processors that it may use.
    pub cpus: Option<Cpus>,
}

impl Default for WatchdogOptions {
    /// The highest priority, every millisecond, on any processor.
    fn default() -> WatchdogOptions {
        WatchdogOptions { priority: i16::MAX, period: Duration::from_millis(1), cpus: None }
    }
}

/// The watchdog of an ORB, if one is running.
#[derive(Default)]
pub(crate) struct Watchdog(PiMutex<Option<Running>>);

struct Running {
    stop: Arc<(PiMutex<bool>, PiCondvar)>,
    thread: Thread<()>,
}

/// The shortest period, so that the watchdog leaves time for the supervised threads.
const SHORTEST: Duration = Duration::from_micros(50);

impl Watchdog {
    /// Starts it, in place of a running one. Its thread calls `check_running` once in each period.
    ///
    /// # Errors
    /// BAD_PARAM, NO_PERMISSION, NO_RESOURCES.
    pub fn start(
        &self,
        priorities: &Priorities,
        options: &WatchdogOptions,
        check_running: impl Fn() + Send + 'static,
    ) -> Result<()> {
        if options.period < SHORTEST {
            return Err(SystemException::from(Kind::BadParam)
                .detail(format!("the watchdog's period is at least {SHORTEST:?}")));
        }
        priorities.granted()?;
        let class = priorities.class(checked(options.priority)?)?;
        let spec = ThreadSpec::new("isorb-watchdog").class(class);
        let spec = match options.cpus {
            Some(cpus) => spec.cpus(cpus),
            None => spec,
        };
        self.stop();
        let stop = Arc::new((PiMutex::new(false), PiCondvar::new()));
        let (stop_signal, period) = (stop.clone(), options.period);
        let thread = spec
            .spawn_supervised(move || watch(&check_running, &stop_signal, period))
            .map_err(|error| SystemException::from(Kind::NoResources).detail(error.to_string()))?;
        *self.0.lock() = Some(Running { stop, thread });
        Ok(())
    }

    /// Stops it and waits for its end, unless the caller is the watchdog's own thread, in an
    /// observer.
    pub fn stop(&self) {
        let running = self.0.lock().take();
        if let Some(Running { stop, thread }) = running {
            *stop.0.lock() = true;
            stop.1.notify_all(&stop.0);
            if thread.native_id() as i32 != isorb_rt::sched::ThreadId::current().get() {
                // Its function does not return before.
                let _ = thread.join();
            }
        }
    }
}

fn watch(check_running: &dyn Fn(), (stop, changed): &(PiMutex<bool>, PiCondvar), period: Duration) {
    let period = period.as_nanos() as u64;
    let mut next = now_ns() + period;
    let mut stopped = stop.lock();
    while !*stopped {
        if changed.wait_until(&mut stopped, Deadline::at_ns(next)) {
            continue;
        }
        drop(stopped);
        check_running();
        // Missed periods are skipped.
        next = (next + period).max(now_ns());
        stopped = stop.lock();
    }
}

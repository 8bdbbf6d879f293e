//! The timers of a node's server. One thread waits for all of them, together with its sockets, and
//! never for another process.

use isorb_rt::Errno;
use isorb_rt::net::{Event, Events, Poller};
use isorb_rt::sync::PiMutex;
use isorb_rt::time::Deadline;
use isorb_rt::timers::{TimerHandle, TimerHeap};

/// A node's timers. Each is set once at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Timer {
    /// Channels of destroyed areas are to end.
    EndDestroyed,
    /// A replica on the ORB's paths may have become stale, or its writer's node silent.
    CheckReplicas,
    /// Adopted areas may have lost their writer.
    FindDeadWriters,
    /// The coordinator is to be called.
    CallCoordinator,
    /// Readers' nodes are to be pinged.
    PingReaders,
    /// Silent channels are to be opened again.
    ReopenSilent,
    /// Sessions are to be accepted again after the descriptors were exhausted.
    ResumeAccept,
}

const COUNT: usize = Timer::ResumeAccept as usize + 1;

struct ArmedTimers {
    heap: TimerHeap<Timer>,
    /// The handle and the time of each timer.
    timers: [Option<(TimerHandle, u64)>; COUNT],
}

/// The timers, and the poller that their thread waits in.
pub(super) struct Timers {
    armed: PiMutex<ArmedTimers>,
    pub poller: Poller,
    /// Has every wait fail.
    #[cfg(test)]
    pub is_broken: std::sync::atomic::AtomicBool,
}

impl Timers {
    pub fn new() -> Result<Timers, Errno> {
        let armed = ArmedTimers { heap: TimerHeap::with_capacity(COUNT), timers: [None; COUNT] };
        Ok(Timers {
            armed: PiMutex::new(armed),
            poller: Poller::new()?,
            #[cfg(test)]
            is_broken: Default::default(),
        })
    }

    /// Sets a timer, unless it is set to an earlier time.
    pub fn set(&self, timer: Timer, at_ns: u64) {
        let is_first = {
            let mut armed = self.armed.lock();
            let ArmedTimers { heap, timers } = &mut *armed;
            let before = heap.next_at();
            match timers[timer as usize] {
                Some((_, at)) if at <= at_ns => {}
                Some((handle, _)) => {
                    heap.change_key(handle, at_ns);
                    timers[timer as usize] = Some((handle, at_ns));
                }
                // There is room for each timer once.
                None => timers[timer as usize] = heap.push(at_ns, timer).ok().map(|handle| (handle, at_ns)),
            }
            before.is_none_or(|before| at_ns < before)
        };
        if is_first {
            self.poller.wake();
        }
    }

    /// Takes a timer that is due.
    pub fn pop_due(&self, now_ns: u64) -> Option<Timer> {
        let mut armed = self.armed.lock();
        let (_, timer) = armed.heap.pop_due(now_ns)?;
        armed.timers[timer as usize] = None;
        Some(timer)
    }

    /// Waits for a socket, or until the next timer is due.
    ///
    /// # Errors
    /// Those of [`Poller::wait`].
    pub fn wait<'e, const N: usize>(
        &self,
        events: &'e mut Events<N>,
    ) -> Result<impl Iterator<Item = Event> + use<'e, N>, Errno> {
        #[cfg(test)]
        if self.is_broken.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(Errno::NOMEM);
        }
        self.poller.wait(events, self.next())
    }

    fn next(&self) -> Deadline {
        self.armed.lock().heap.next_at().map_or(Deadline::NONE, Deadline::at_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_keeps_the_earliest_time_until_it_is_taken() {
        let timers = Timers::new().unwrap();
        timers.set(Timer::PingReaders, 50);
        timers.set(Timer::ReopenSilent, 40);
        timers.set(Timer::PingReaders, 60);
        timers.set(Timer::PingReaders, 30);
        assert_eq!(timers.pop_due(29), None);
        assert_eq!(timers.pop_due(100), Some(Timer::PingReaders));
        assert_eq!(timers.pop_due(100), Some(Timer::ReopenSilent));
        assert_eq!(timers.pop_due(100), None);
        timers.set(Timer::PingReaders, 200);
        assert_eq!(timers.next(), Deadline::at_ns(200));
    }
}

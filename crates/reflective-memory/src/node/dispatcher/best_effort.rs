//! The thread that receives best-effort datagrams.
//!
//! The dispatching thread is more urgent than the readers that it wakes. If it received best-effort
//! datagrams too, a guaranteed reader that it has just woken would wait for them. So a real-time
//! dispatching thread leaves the common sockets to another thread, with a priority below all
//! admitted threads and above ordinary ones. Both share one lock, which they hold for one datagram
//! at a time and which has priority inheritance.

use super::intake::Received;
use super::{GROUPS, Inner, SECOND, SOCKET};
use crate::agents::INTAKE;
use crate::node::multicast::Groups;
use crate::wire::{HEADER, MAX_FRAGMENT};
use isorb_rt::net::Events;
use isorb_rt::sched::{NativeRange, SchedClass};
use isorb_rt::time::Deadline;
use std::net::UdpSocket;
use std::sync::atomic::Ordering;

/// The class of the thread beside a dispatching thread of class `dispatching`; none where the
/// dispatching thread itself receives best effort.
pub(super) fn class(dispatching: SchedClass) -> Option<SchedClass> {
    let lowest = NativeRange::system().min;
    match dispatching {
        SchedClass::Other => None,
        SchedClass::Fifo(priority) | SchedClass::Rr(priority) if priority <= lowest => None,
        SchedClass::Rr(_) => Some(SchedClass::Rr(lowest)),
        SchedClass::Fifo(_) | SchedClass::Reserved(_) => Some(SchedClass::Fifo(lowest)),
    }
}

impl Inner {
    /// Runs until the dispatcher is stopped.
    ///
    /// # Real-time
    /// Allocates nothing after it has begun. Takes the lock for one datagram at a time.
    pub(super) fn receive_best_effort(&self) {
        let Some(poller) = &self.best_effort else { return };
        let mut input = vec![0; HEADER + MAX_FRAGMENT];
        let mut events = Events::<4>::new();
        while !self.stop.load(Ordering::Acquire) {
            let Ok(ready) = poller.wait(&mut events, Deadline::NONE) else { continue };
            for event in ready {
                let Some(socket) = self.common(event.token) else { continue };
                // Level-triggered: remaining datagrams are reported again, after the other sockets.
                let mut room = INTAKE;
                while room > 0 {
                    room -= 1;
                    match self.receive_one(socket, &mut input) {
                        Received::Nothing => break,
                        Received::One { sooner: true, .. } => self.poller.wake(),
                        Received::One { .. } => {}
                    }
                }
            }
        }
    }

    /// The common socket with this token.
    fn common(&self, token: u64) -> Option<&UdpSocket> {
        match token {
            SOCKET => Some(&self.socket),
            SECOND => self.second.as_ref(),
            GROUPS => self.groups.as_ref().map(Groups::socket),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_real_time_thread_has_another_beside_it() {
        let lowest = NativeRange::system().min;
        assert_eq!(class(SchedClass::Other), None);
        assert_eq!(class(SchedClass::Fifo(lowest)), None);
        assert_eq!(class(SchedClass::Fifo(lowest + 1)), Some(SchedClass::Fifo(lowest)));
        assert_eq!(class(SchedClass::Rr(lowest + 9)), Some(SchedClass::Rr(lowest)));
    }
}

//! What comes for best effort, taken in by a thread of its own.
//!
//! The dispatching thread is more urgent than the readers that it wakes. If it took in best effort
//! as well, a reader of a guaranteed channel that has just been woken would wait while it does:
//! real-time threads would wait for best effort. So where the dispatching thread is real-time,
//! another one, below all that are admitted and above ordinary ones, watches the common sockets.
//! Both have one lock, for one datagram at a time and with priority inheritance.

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

/// How the thread is scheduled beside a dispatching one of class `dispatching`; none where that one
/// may do it as well.
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
    /// Until it is stopped.
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
                // By level: what is left is reported again, after the other sockets.
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

//! A call that was begun: its slot on its connection, and the ways to wait for its reply.

use super::slots::NoSlot;
use super::{Arrived, Connection, ReadError};
use crate::policy::Timeout;
use isorb_rt::time::Deadline;
use isorb_scope::Buffer;
use isorb_transport::Wait;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

/// So many calls are begun before replies are read.
const READ_EACH: usize = 16;

/// The slot of a call that was begun. The call counts as in flight until this is dropped.
pub(crate) struct PendingRequest {
    connection: Arc<Connection>,
    index: usize,
    id: u32,
}

impl PendingRequest {
    /// `None` if as many calls are begun on the connection as may be.
    pub fn claim(connection: &Arc<Connection>) -> Option<PendingRequest> {
        let (index, id) = connection.slots.claim_pending()?;
        connection.in_flight.fetch_add(1, Ordering::Relaxed);
        Some(PendingRequest { connection: connection.clone(), index, id })
    }

    /// Whether replies are to be read before the next request: a client that only sends would stop
    /// the server, which waits for it to read.
    pub fn reads_first(&self) -> bool {
        self.index % READ_EACH == READ_EACH - 1
    }

    pub fn id(&self) -> u32 {
        self.id
    }

    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Whether a wait would end at once: the reply was delivered, or none will come.
    pub fn is_ready(&self) -> bool {
        self.is_answered() || !self.connection.is_open()
    }

    /// Whether the reply was delivered.
    pub fn is_answered(&self) -> bool {
        let pending = self.connection.slots.pending();
        pending.is_some_and(|pending| pending.delivery(self.index).is_full())
    }

    /// Wakes `waker` when the reply was delivered, and at `deadline`. The caller looks for the
    /// reply after this.
    pub fn register(&self, waker: &Waker, deadline: Deadline) {
        if let Some(pending) = self.connection.slots.pending() {
            pending.register(self.index, waker, deadline.as_ns().unwrap_or(u64::MAX));
        }
    }

    /// Forgets the waker.
    pub fn forget_waker(&self) {
        if let Some(pending) = self.connection.slots.pending() {
            pending.forget(self.index);
        }
    }

    /// Waits for the reply, as [`Connection::await_reply`] does.
    pub fn wait(
        &self,
        deadline: Deadline,
        into: &mut Buffer,
        other: &mut dyn FnMut(Arrived, &mut Buffer),
    ) -> Result<Arrived, ReadError> {
        let (connection, slots) = (&*self.connection, &self.connection.slots);
        // The thread parks as the waiter of a slot of its own.
        let own_slot = match slots.claim() {
            Some(slot) => slot,
            None => slots.claim_queued(deadline).map_err(|why| match why {
                NoSlot::TimedOut => ReadError::TimedOut,
                NoSlot::Full => ReadError::NoSlot,
            })?,
        };
        let (Some(pending), Some(slot)) =
            (slots.pending(), slots.pending_slot((self.index, self.id), &own_slot))
        else {
            return Err(ReadError::Lost);
        };
        pending.set_waiter(self.index, Some(own_slot.waiter()));
        let read = match slot.arrived_hint(into) {
            Some(arrived) => Ok(arrived),
            None => {
                let left = Timeout::until(deadline);
                match connection.await_next_reply(&slot, deadline, left, into, None) {
                    Ok(arrived) => Ok(arrived),
                    Err(begun) => connection.await_reply(&slot, deadline, left, into, begun, other),
                }
            }
        };
        pending.set_waiter(self.index, None);
        read
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        if let Some(pending) = self.connection.slots.pending() {
            pending.give(self.index);
        }
        self.connection.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Which thread reads a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// None: what had arrived is delivered.
    None,
    /// Another one, at this moment.
    Another,
}

impl Connection {
    /// Delivers the replies that have arrived, without waiting. A message that is not a reply is
    /// handed to `other`, as by [`await_reply`](Self::await_reply).
    pub fn read_replies(&self, into: &mut Buffer, other: &mut dyn FnMut(Arrived, &mut Buffer)) -> Reader {
        loop {
            let Ok(mut inbox) = self.inbox.try_lock() else { return Reader::Another };
            let read = inbox.next(&*self.stream, self.pool(), Wait::No, Deadline::NONE, Timeout::NONE, into);
            self.note(&read);
            if let Ok(arrived) = &read
                && arrived.is_reply()
            {
                self.slots.deliver(*arrived, into, self.pool());
            }
            drop(inbox);
            self.hand_over();
            match read {
                Ok(arrived) if arrived.is_reply() => {}
                Ok(arrived) => other(arrived, into),
                Err(ReadError::TurnOver) => {}
                Err(ReadError::WouldBlock) => return Reader::None,
                Err(_) => {
                    self.break_off();
                    return Reader::None;
                }
            }
            if !self.is_open() {
                return Reader::None;
            }
        }
    }

    /// Wakes the wakers with a time that has passed. Returns the earliest time that is left, in
    /// nanoseconds.
    pub fn expire_pending(&self, now_ns: u64) -> u64 {
        self.slots.pending().map_or(u64::MAX, |pending| pending.expire(now_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::super::still::connection_to;
    use super::*;
    use isorb_scope::BufferPool;

    #[test]
    fn a_call_that_may_not_wait_for_its_reply_says_so() {
        let connection = connection_to(std::fs::File::open("/dev/null").unwrap().into());
        let begun = PendingRequest::claim(&connection).unwrap();
        let waiting: Vec<_> = std::iter::from_fn(|| connection.slots.claim()).collect();
        assert!(!waiting.is_empty());
        let mut into = BufferPool::new(1 << 20, 0).take(64).unwrap();
        let wait = begun.wait(Deadline::NONE, &mut into, &mut |_, _| unreachable!());
        assert_eq!(wait.err(), Some(ReadError::NoSlot));
    }
}

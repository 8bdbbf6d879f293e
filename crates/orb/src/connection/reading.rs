//! Reading a connection: by its own thread, by a lane's, or by the calls that wait for replies.

use super::slots::SlotRef;
use super::*;
use crate::lent::LentParts;
use isorb_giop::MessageKind;
use isorb_transport::Wait;
use std::hint::cold_path;

impl Connection {
    /// Reads the next message that is not a reply into `into`, for the connection's own thread.
    /// Replies are delivered while the inbox is held: a caller that gets the inbox must find its
    /// reply delivered. Parts of a request that the peer lends are put into `lent`.
    #[inline(always)]
    pub fn read(&self, into: &mut Buffer, lent: &mut LentParts) -> Result<Arrived, ReadError> {
        self.read_held(self.inbox.lock(), Wait::Block, into, Some(lent)).0
    }

    /// As [`Connection::read`], without waiting. Also says whether the socket is known to be empty
    /// behind the message, the end of the stream aside. If a caller holds the inbox, the poller
    /// reports the connection again when the caller releases it, so that no lane thread waits for a
    /// caller.
    ///
    /// With `exclusive`, this thread owns the connection until its socket is empty, and has
    /// received from it since the last event. Otherwise the edge-triggered event for later octets
    /// may have gone to another thread, or may be older than the last receive, and the thread must
    /// receive once more to learn that the socket is empty.
    ///
    /// Parts of a request that the peer lends are put into `lent`, or without it into the message.
    pub fn read_arrived(
        &self,
        into: &mut Buffer,
        exclusive: bool,
        lent: Option<&mut LentParts>,
    ) -> (Result<Arrived, ReadError>, bool) {
        if let Ok(mut inbox) = self.inbox.try_lock() {
            inbox.emptied &= exclusive;
            return self.read_held(inbox, Wait::No, into, lent);
        }
        self.missed.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        match self.inbox.try_lock() {
            Ok(mut inbox) => {
                inbox.emptied &= exclusive;
                self.read_held(inbox, Wait::No, into, lent)
            }
            Err(_) => (Err(ReadError::WouldBlock), false),
        }
    }

    #[inline(always)]
    fn read_held<'c>(
        &'c self,
        mut inbox: PiGuard<'c, Inbox>,
        wait: Wait,
        into: &mut Buffer,
        mut lent: Option<&mut LentParts>,
    ) -> (Result<Arrived, ReadError>, bool) {
        if let Some(lent) = &mut lent
            && !lent.is_empty()
        {
            lent.clear();
        }
        let until = (wait, Deadline::NONE, Timeout::NONE);
        let read = loop {
            match inbox.next_with_lent(&*self.stream, self.pool(), until, into, lent.as_deref_mut()) {
                Ok(arrived) if arrived.is_reply() => {
                    cold_path();
                    if let Some(lent) = &mut lent
                        && !lent.is_empty()
                    {
                        lent.fill(&mut into.bytes_mut()[..arrived.len], &*self.stream);
                        lent.clear();
                    }
                    self.slots.deliver(arrived, into, self.pool());
                    if wait == Wait::Block && self.slots.has_loans() {
                        // A more urgent call reads on; while this thread waits for the inbox, it
                        // lends that call its own priority.
                        self.release(inbox);
                        inbox = self.inbox.lock();
                    }
                }
                read => break read,
            }
        };
        let last = wait == Wait::No && inbox.is_empty() && {
            // The thread polls the ring, or arms it, before it does anything else.
            self.stream.polled().is_some_and(|ring| ring.is_polled())
                || inbox.emptied && self.stream.capabilities().short_read_empties
        };
        // After a refused request the next one can be read.
        if !matches!(read, Err(ReadError::Refused { .. })) {
            self.note(&read);
        }
        drop(inbox);
        // The message may take long to serve, or wait for a call that waits here.
        if self.bidirectional.load(Ordering::Relaxed) {
            cold_path();
            self.hand_over();
        }
        (read, last)
    }

    /// Sets the poller that watches the connection, and its token there.
    pub fn watched_by(&self, poller: &Arc<Poller>, token: u64) {
        *self.watch.lock() = Some((poller.clone(), token));
    }

    /// Waits for the reply to the request of `slot`, if no other thread reads and the reply is the
    /// next message. Parts of it that the peer lends are put into `lent`, or without it into the
    /// message. Otherwise the caller passes the result, the message that was read instead, to
    /// [`await_reply`](Self::await_reply).
    #[inline(always)]
    pub fn await_next_reply(
        &self,
        slot: &SlotRef<'_>,
        deadline: Deadline,
        timeout: Timeout,
        into: &mut Buffer,
        mut lent: Option<&mut LentParts>,
    ) -> Result<Arrived, Option<OtherMessage<'_>>> {
        let Ok(mut inbox) = self.inbox.try_lock() else {
            cold_path();
            return Err(None);
        };
        // The reply may have been delivered before this thread held the inbox.
        if slot.is_full() {
            cold_path();
            self.release(inbox);
            return Err(None);
        }
        let until = (Wait::Block, deadline, timeout);
        let read = inbox.next_with_lent(&*self.stream, self.pool(), until, into, lent.as_deref_mut());
        match read {
            Ok(arrived) if arrived.is_reply_to(slot.id()) => {
                self.release(inbox);
                Ok(arrived)
            }
            read => {
                cold_path();
                if let (Ok(arrived), Some(lent)) = (&read, lent)
                    && !lent.is_empty()
                {
                    lent.fill(&mut into.bytes_mut()[..arrived.len], &*self.stream);
                    lent.clear();
                }
                Err(Some((inbox, read)))
            }
        }
    }

    /// Waits for the reply to the request of `slot`, and delivers replies to other calls meanwhile.
    /// The reply is put into `into`. A message that is not a reply is handed to `other` with the
    /// inbox released, and may be answered there. `begun` is the result of
    /// [`await_next_reply`](Self::await_next_reply).
    #[inline(never)]
    pub fn await_reply<'c>(
        &'c self,
        slot: &SlotRef<'_>,
        deadline: Deadline,
        timeout: Timeout,
        into: &mut Buffer,
        mut begun: Option<OtherMessage<'c>>,
        other: &mut dyn FnMut(Arrived, &mut Buffer),
    ) -> Result<Arrived, ReadError> {
        // A call that waited before has less than the usual time left.
        let mut late = false;
        let mut held = None;
        loop {
            if let Some((inbox, read)) = begun.take() {
                late = true;
                self.note(&read);
                if let Ok(arrived) = &read
                    && arrived.is_reply()
                    && !arrived.is_reply_to(slot.id())
                {
                    self.slots.deliver(*arrived, into, self.pool());
                    if !self.slots.has_loans() {
                        held = Some(inbox);
                    } else if let Some(outcome) = self.yield_inbox(inbox, slot, deadline, into) {
                        return outcome;
                    }
                } else {
                    self.release(inbox);
                    match read {
                        Ok(arrived) if arrived.is_reply_to(slot.id()) => return Ok(arrived),
                        Ok(arrived) => other(arrived, into),
                        // The end of the stream follows CloseConnection, which `other` took.
                        Err(ReadError::End | ReadError::Lost) if self.closed_in_order() => {
                            return Err(ReadError::ClosedInOrder);
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
            if held.is_none() {
                held = self.inbox.try_lock().ok();
            }
            if held.is_none() {
                // The wait is announced before the second attempt: a holder that leaves in between
                // sees either the announcement or a free lock.
                let waiting = slot.announce();
                held = self.inbox.try_lock().ok();
                if held.is_none() {
                    let woken = waiting.park(&self.inbox, deadline);
                    late = true;
                    drop(waiting);
                    if let Some(outcome) = self.waited(woken, slot, into) {
                        return outcome;
                    }
                }
            }
            let Some(mut inbox) = held.take() else { continue };
            // The reply may have been delivered before this thread held the inbox.
            if let Some(arrived) = slot.arrived_hint(into) {
                self.release(inbox);
                return Ok(arrived);
            }
            let timeout = if late { inbox.timeout_for(deadline) } else { timeout };
            let read = inbox.next(&*self.stream, self.pool(), Wait::Block, deadline, timeout, into);
            begun = Some((inbox, read));
        }
    }

    /// Leaves the inbox to a more urgent call, between two messages, and waits. Returns the outcome
    /// of the call if there is one.
    #[cold]
    fn yield_inbox(
        &self,
        inbox: PiGuard<'_, Inbox>,
        slot: &SlotRef<'_>,
        deadline: Deadline,
        into: &mut Buffer,
    ) -> Option<Result<Arrived, ReadError>> {
        let waiting = slot.announce();
        self.release(inbox);
        let woken = waiting.park_behind(deadline);
        drop(waiting);
        self.waited(woken, slot, into)
    }

    /// The outcome of a call that has waited for another reader. `None` if it is to read now,
    /// perhaps because a send failed. Earlier messages are read all the same: one may be the reply,
    /// or CloseConnection.
    fn waited(
        &self,
        woken: bool,
        slot: &SlotRef<'_>,
        into: &mut Buffer,
    ) -> Option<Result<Arrived, ReadError>> {
        let outcome = match slot.arrived(into) {
            Some(arrived) => Ok(arrived),
            None if !woken => Err(ReadError::TimedOut),
            None if self.closed_in_order() => Err(ReadError::ClosedInOrder),
            None => return None,
        };
        self.hand_over();
        Some(outcome)
    }

    /// Releases the inbox, and hands it to the most urgent call that waits.
    #[inline(always)]
    fn release(&self, inbox: PiGuard<'_, Inbox>) {
        drop(inbox);
        self.hand_over();
    }

    /// Whether the peer has left the connection open, as far as can be known without waiting. For a
    /// connection that was idle for a while, before a request is sent on it.
    ///
    /// # Real-time
    /// One receive system call that does not wait.
    #[cold]
    pub fn still_open(&self) -> bool {
        // A bidirectional connection always has a reader, and so has one with its inbox held.
        if !self.bidirectional.load(Ordering::Acquire)
            && let Ok(mut inbox) = self.inbox.try_lock()
        {
            // Into a block of this thread, since a new one might have to be allocated.
            let look = |buffers: &mut CallBuffers| -> crate::Result<()> {
                self.drain(&mut inbox, &mut buffers.block);
                Ok(())
            };
            // Fails if calls are nested too deeply; the call itself then fails, too.
            let _ = with_buffers(self.pool(), look);
            self.release(inbox);
        }
        self.is_open()
    }

    /// Reads the messages that have arrived on an idle connection.
    fn drain(&self, inbox: &mut Inbox, block: &mut Buffer) {
        loop {
            let read = inbox.next(&*self.stream, self.pool(), Wait::No, Deadline::NONE, Timeout::NONE, block);
            match read.map(|arrived| (arrived, arrived.header.kind)) {
                Ok((arrived, MessageKind::Reply | MessageKind::LocateReply)) => {
                    self.slots.deliver(arrived, block, self.pool());
                }
                Ok((_, MessageKind::CancelRequest)) => {}
                Ok((_, MessageKind::CloseConnection)) => self.close_in_order(),
                Err(ReadError::TurnOver) => {}
                Err(ReadError::WouldBlock) => return,
                Ok(_) | Err(_) => {
                    self.break_off();
                    return;
                }
            }
        }
    }
}

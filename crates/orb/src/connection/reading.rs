//! Who reads a connection, and who waits for what others read.

use super::*;
use std::hint::cold_path;

impl Connection {
    /// Reads the next message that is no reply into `into`, for a thread of its own. Replies go to those who wait for them while
    /// the inbox is still held: a caller that gets the inbox must find its reply delivered, or wait for it in vain.
    #[inline(always)]
    pub fn read(&self, into: &mut Buffer) -> Result<Arrived, ReadError> {
        self.read_held(self.inbox.lock(), Wait::Block, into).0
    }

    /// As [`Connection::read`], without waiting, and says whether it is known that nothing was behind the message, the end of the
    /// stream aside. Where a caller holds the inbox, the poller reports the connection again when that caller lets go: no
    /// thread of a lane waits for what a caller waits for.
    ///
    /// Who is `alone` keeps the connection until nothing more is known to be there. Others leave it after each message, and what
    /// came in between them was perhaps reported to somebody who left it alone: to them only a receive of their own says that nothing
    /// was behind the message.
    pub fn read_arrived(&self, into: &mut Buffer, alone: bool) -> (Result<Arrived, ReadError>, bool) {
        if let Ok(mut inbox) = self.inbox.try_lock() {
            inbox.emptied &= alone;
            return self.read_held(inbox, Wait::No, into);
        }
        self.missed.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        match self.inbox.try_lock() {
            Ok(mut inbox) => {
                inbox.emptied &= alone;
                self.read_held(inbox, Wait::No, into)
            }
            Err(_) => (Err(ReadError::WouldBlock), false),
        }
    }

    #[inline(always)]
    fn read_held(
        &self,
        mut inbox: PiGuard<'_, Inbox>,
        wait: Wait,
        into: &mut Buffer,
    ) -> (Result<Arrived, ReadError>, bool) {
        let read = loop {
            match inbox.next(&*self.stream, &self.pool, wait, Deadline::NONE, Timeout::NONE, into) {
                Ok(arrived) if arrived.is_reply() => {
                    cold_path();
                    self.slots.deliver(arrived, into, &self.pool);
                }
                read => break read,
            }
        };
        let last = wait == Wait::No
            && inbox.emptied
            && inbox.is_empty()
            && self.stream.capabilities().short_read_empties;
        self.note(&read);
        drop(inbox);
        // What was read may take long, or wait for one who waits here.
        if self.bidirectional.load(Ordering::Relaxed) {
            cold_path();
            self.hand_over();
        }
        (read, last)
    }

    /// Tells by which poller the connection is watched.
    pub fn watched_by(&self, poller: &Arc<Poller>, token: u64) {
        *self.watch.lock() = Some((poller.clone(), token));
    }

    /// Waits for the reply to the request of `slot` where nobody else reads and the reply is what comes next. Anything else
    /// is for [`await_reply`](Self::await_reply), which is to be given what this gave: what was read instead.
    #[inline(always)]
    pub fn await_reply_alone(
        &self,
        slot: &Slot<'_>,
        deadline: Deadline,
        timeout: Timeout,
        into: &mut Buffer,
    ) -> Result<Arrived, Option<Instead<'_>>> {
        let Ok(mut inbox) = self.inbox.try_lock() else {
            cold_path();
            return Err(None);
        };
        // Somebody may have delivered here before we held the inbox.
        if slot.is_full() {
            cold_path();
            return Err(None);
        }
        let read = inbox.next(&*self.stream, &self.pool, Wait::Block, deadline, timeout, into);
        match read {
            Ok(arrived) if arrived.is_reply_to(slot.id()) => {
                drop(inbox);
                self.hand_over();
                Ok(arrived)
            }
            read => {
                cold_path();
                Err(Some((inbox, read)))
            }
        }
    }

    /// Waits for the reply to the request of `slot`, reading for others meanwhile. The message lies in `into`. What is
    /// no reply is handed to `other`, with the inbox free, and may be answered there. `begun` is a message that was read and not
    /// looked at, and the inbox it came from.
    #[inline(never)]
    pub fn await_reply<'c>(
        &'c self,
        slot: &Slot<'_>,
        deadline: Deadline,
        timeout: Timeout,
        into: &mut Buffer,
        mut begun: Option<Instead<'c>>,
        other: &mut dyn FnMut(Arrived, &mut Buffer),
    ) -> Result<Arrived, ReadError> {
        let mut late = false;
        loop {
            if let Some((inbox, read)) = begun.take() {
                late = true;
                self.note(&read);
                if let Ok(arrived) = &read
                    && arrived.is_reply()
                    && !arrived.is_reply_to(slot.id())
                {
                    self.slots.deliver(*arrived, into, &self.pool);
                    continue;
                }
                drop(inbox);
                self.hand_over();
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
            let mut held = self.inbox.try_lock().ok();
            if held.is_none() {
                // Announce the wait first, then look again: a holder that leaves in between sees either us or an empty lock.
                let waiting = slot.announce();
                held = self.inbox.try_lock().ok();
                if held.is_none() {
                    let woken = waiting.park(deadline);
                    late = true;
                    drop(waiting);
                    if let Some(arrived) = slot.arrived(into) {
                        self.hand_over();
                        return Ok(arrived);
                    }
                    if !woken || self.closed_in_order() {
                        self.hand_over();
                        return Err(if woken { ReadError::ClosedInOrder } else { ReadError::TimedOut });
                    }
                    // Woken to read. That may be because a send failed: what arrived before is read all the same, since it
                    // may be the reply, or CloseConnection.
                    continue;
                }
            }
            let Some(mut inbox) = held else { continue };
            // Somebody may have delivered here before we held the inbox.
            if let Some(arrived) = slot.arrived_hint(into) {
                drop(inbox);
                self.hand_over();
                return Ok(arrived);
            }
            // Who waited before has less than the usual time left.
            let timeout = if late { inbox.timeout_for(deadline) } else { timeout };
            let read = inbox.next(&*self.stream, &self.pool, Wait::Block, deadline, timeout, into);
            begun = Some((inbox, read));
        }
    }

    /// Whether the peer has left the connection open, as far as can be known without waiting. For a connection on which
    /// nobody waited for a while, before a request is trusted to it.
    ///
    /// # Real-time
    /// One receive system call that does not wait.
    #[cold]
    pub fn still_open(&self) -> bool {
        // One with bidirectional GIOP is read at all times; one whose inbox is held is being read.
        if !self.bidirectional.load(Ordering::Acquire)
            && let Ok(mut inbox) = self.inbox.try_lock()
        {
            // Into a block of this thread: a fresh one might have to be allocated.
            let look = |buffers: &mut CallBuffers| -> crate::Result<()> {
                self.look(&mut inbox, &mut buffers.block);
                Ok(())
            };
            // Refused where calls are nested too deeply, which the call itself will be as well.
            let _ = with_buffers(&self.pool, look);
            drop(inbox);
            self.hand_over();
        }
        self.is_open()
    }

    /// Takes in what has arrived on a connection on which nobody waits.
    fn look(&self, inbox: &mut Inbox, block: &mut Buffer) {
        loop {
            let read = inbox.next(&*self.stream, &self.pool, Wait::No, Deadline::NONE, Timeout::NONE, block);
            match read.map(|arrived| (arrived, arrived.header.kind)) {
                Ok((arrived, MessageKind::Reply | MessageKind::LocateReply)) => {
                    self.slots.deliver(arrived, block, &self.pool);
                }
                Ok((_, MessageKind::CancelRequest)) => {}
                Ok((_, MessageKind::CloseConnection)) => self.close_in_order(),
                Err(ReadError::WouldBlock) => return,
                Ok(_) | Err(_) => {
                    self.break_off();
                    return;
                }
            }
        }
    }
}

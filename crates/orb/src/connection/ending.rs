//! How a connection ends: in order after the replies to running requests, by the peer, or at once.

use super::peer_account::{PeerLimit, Share};
use super::{Arrived, Connection, LOG, ReadError, State, outbox};
use crate::log::warn;
use isorb_cdr::Version;
use isorb_giop::MessageKind;
use isorb_rt::time::Deadline;
use std::hint::cold_path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long an orderly close waits for clients to read kept replies.
const ORDERLY_CLOSE: Duration = Duration::from_secs(1);

impl Connection {
    /// Counts a request as running, as long as the result lives.
    ///
    /// # Errors
    /// Closing when the connection closes; CloseConnection then tells the peer that the request was
    /// not processed. OverLimit when the client has too much at this server.
    ///
    /// # Real-time
    /// Two atomic operations, and two more for a client with limits.
    #[inline(always)]
    pub fn serving(&self, arrived: &Arrived) -> Result<Serving<'_>, NotServed> {
        self.mark_used();
        let share = match &self.client {
            None => Share::NONE,
            Some(client) => {
                cold_path();
                client.share(arrived).map_err(NotServed::OverLimit)?
            }
        };
        self.serving.fetch_add(1, Ordering::SeqCst);
        let serving = Serving { connection: self, share };
        // In one order with `close`: either it sees the request, or the request sees that it
        // closes.
        if self.state.is(State::Open, Ordering::SeqCst) { Ok(serving) } else { Err(NotServed::Closing) }
    }

    /// Lets the request that this thread serves run on after its upcall, as long as the result
    /// lives. `None` when as many do as `limit` says.
    #[cold]
    pub fn defer(self: &Arc<Self>, limit: usize) -> Option<DeferredRequest> {
        if self.deferred.fetch_add(1, Ordering::Relaxed) as usize >= limit {
            self.deferred.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        self.serving.fetch_add(1, Ordering::SeqCst);
        Some(DeferredRequest(self.clone()))
    }

    /// Closes in order (clause 9.4.6): the threads of running requests send their replies first.
    /// Kept octets for which the peer has no room are lost.
    ///
    /// # Real-time
    /// Does not wait. Some system calls.
    pub fn close(&self) {
        if self.begin_to_close() && !self.closed_at_once() {
            self.finish_close();
        }
    }

    /// Closes all of these in order, as [`close`](Self::close) does, and waits for the peers to
    /// read kept replies: for [`ORDERLY_CLOSE`] at most in all.
    pub fn close_all(connections: &[Arc<Connection>]) {
        let by = Deadline::after(ORDERLY_CLOSE);
        // All are closing before the first wait.
        let mut left: Vec<_> = connections.iter().filter(|one| one.begin_to_close()).collect();
        left.retain(|one| !one.closed_at_once());
        left.iter().for_each(|one| one.close_by(by));
    }

    fn begin_to_close(&self) -> bool {
        self.state.change(State::Open, State::Closing, Ordering::SeqCst)
    }

    /// Ends it if it has nothing to send; `true` when there is no more to do here. The thread of a
    /// running request ends the connection itself.
    fn closed_at_once(&self) -> bool {
        if self.serving.load(Ordering::SeqCst) != 0 {
            return true;
        }
        let flushed = self.outbox.try_lock().map(|mut outbox| outbox::flush(&mut outbox, &*self.stream));
        let done = !matches!(flushed, Ok(Ok(false)) | Err(_));
        if done {
            self.finish_close();
        }
        done
    }

    /// Whether it closes as soon as the requests that run are answered.
    pub fn is_closing(&self) -> bool {
        self.state.is(State::Closing, Ordering::Acquire)
    }

    /// Ends it when the peer has read the kept octets, or at `by`.
    #[cold]
    fn close_by(&self, by: Deadline) {
        // A sender holds the lock for as long as the peer does not read.
        if self.is_closing()
            && let Ok(mut outbox) = self.outbox.lock_until(by)
        {
            // A lane's client may not have read its replies yet.
            outbox::flush_by(&mut outbox, &*self.stream, by);
        }
        self.finish_close();
    }

    pub(super) fn finish_close(&self) {
        if self.state.change(State::Closing, State::Broken, Ordering::AcqRel) {
            self.account.end();
            match self.outbox.try_lock() {
                Ok(outbox) if outbox.is_empty() => {
                    self.shut_down_with(&isorb_giop::message::close_connection(Version::V1_0));
                }
                // It would follow octets for which the peer has no room.
                _ => self.shut_down(),
            }
            self.slots.wake_all();
            self.notify_end();
        }
    }

    /// Whether the peer closed in order, so that a request without an answer was not processed.
    pub fn closed_in_order(&self) -> bool {
        self.state.is(State::ClosedByPeer, Ordering::Acquire)
    }

    /// The peer announced that it closes: nothing more is sent, and waiting calls learn that they
    /// were not processed.
    pub fn close_in_order(&self) {
        // Also if it is broken: the message is older than the break, and says more.
        self.state.store(State::ClosedByPeer, Ordering::Release);
        self.account.end();
        self.shut_down();
        self.slots.wake_all();
        self.notify_end();
    }

    /// Ends both directions and wakes all waiting threads.
    pub fn break_off(&self) {
        for state in [State::Open, State::Closing] {
            self.state.change(state, State::Broken, Ordering::AcqRel);
        }
        self.account.end();
        self.shut_down();
        self.slots.wake_all();
        self.notify_end();
    }

    fn shut_down(&self) {
        self.shut_down_with(&[]);
    }

    /// Ends both directions of the stream, after these octets. The kernel reports each call to the
    /// poller anew, so there is one.
    fn shut_down_with(&self, last: &[u8]) {
        if !self.shut_down.load(Ordering::Acquire) {
            self.stream.shutdown_with(last);
            self.shut_down.store(true, Ordering::Release);
        }
    }

    /// When it is to be broken off unless it makes progress, in nanoseconds. For connections on
    /// which no thread blocks.
    #[inline]
    pub fn abandoned_at(&self) -> Option<u64> {
        self.account.abandoned_at(self.limits.message_timeout, self.limits.send_timeout)
    }

    /// Breaks it off, since it made no progress in time.
    pub fn abandon(&self) {
        let peer = self.peer();
        let why = "a message did not arrive whole, or a reply was not read, in time";
        warn(LOG, format_args!("{peer}: broken off; {why} (message_timeout_ms, send_timeout_ms)"));
        self.break_off();
    }

    /// Returns the blocks of a broken connection, unless a thread is about to.
    pub fn discard(&self) {
        if let Ok(mut inbox) = self.inbox.try_lock() {
            inbox.discard(self.pool());
            drop(inbox);
            self.hand_over();
        }
        if let Ok(mut outbox) = self.outbox.try_lock() {
            outbox.clear();
        }
    }

    /// Records the end of the connection while the inbox is held. The next reader after
    /// CloseConnection finds the end of the stream, and must know that the close was orderly.
    #[inline]
    pub(super) fn note(&self, read: &Result<Arrived, ReadError>) {
        if !matches!(read, Ok(arrived) if arrived.header.kind != MessageKind::CloseConnection) {
            self.note_end(read);
        }
    }

    #[cold]
    fn note_end(&self, read: &Result<Arrived, ReadError>) {
        match read {
            Ok(_) => self.close_in_order(),
            // The reading thread first sends MessageError.
            Err(
                ReadError::TimedOut | ReadError::WouldBlock | ReadError::TurnOver | ReadError::Protocol(_),
            ) => {}
            Err(_) => self.break_off(),
        }
    }
}

/// Why a request does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotServed {
    Closing,
    /// It would exceed a limit of its client.
    OverLimit(PeerLimit),
}

/// A running request.
pub(crate) struct Serving<'a> {
    connection: &'a Connection,
    /// What it counts for its client.
    share: Share,
}

impl Serving<'_> {
    /// The request was deferred: it counts for its client until the [`DeferredRequest`] ends.
    #[cold]
    pub fn leave_to_deferred(&mut self) {
        self.share.calls = 0;
    }
}

impl Drop for Serving<'_> {
    #[inline]
    fn drop(&mut self) {
        let connection = self.connection;
        if let Some(client) = &connection.client {
            cold_path();
            client.release(self.share);
        }
        if connection.serving.fetch_sub(1, Ordering::SeqCst) == 1
            && connection.state.is(State::Closing, Ordering::SeqCst)
        {
            cold_path();
            connection.close_by(Deadline::after(ORDERLY_CLOSE));
        }
    }
}

/// A request of the peer that runs on after its upcall. The count of the call for its client is its
/// own; [`Serving::leave_to_deferred`] hands it over.
pub(crate) struct DeferredRequest(Arc<Connection>);

impl DeferredRequest {
    pub fn connection(&self) -> &Arc<Connection> {
        &self.0
    }
}

impl Drop for DeferredRequest {
    fn drop(&mut self) {
        self.0.deferred.fetch_sub(1, Ordering::Relaxed);
        drop(Serving { connection: &self.0, share: Share { calls: 1, octets: 0 } });
    }
}

#[cfg(test)]
mod tests {
    use super::super::still::{connection_to, counted_connection_to};
    use super::*;

    /// Its thread does not wait for blocks any more, and returns those that it holds.
    #[test]
    fn however_a_connection_ends_its_account_ends() {
        let new = || connection_to(std::fs::File::open("/dev/null").unwrap().into());
        let ends: [fn(&Connection); 3] = [Connection::break_off, Connection::close_in_order, |connection| {
            connection.state.store(State::Closing, Ordering::Release);
            connection.finish_close();
        }];
        for end in ends {
            let connection = new();
            assert!(!connection.account.has_ended());
            end(&connection);
            assert!(connection.account.has_ended() && !connection.is_open());
        }
    }

    /// A lane's poller reports each shutdown: a thread would look after the same end again.
    #[test]
    fn a_stream_is_shut_down_once() {
        let (connection, shut_down) = counted_connection_to(std::fs::File::open("/dev/null").unwrap().into());
        assert_eq!(shut_down.load(Ordering::Relaxed), 0);
        connection.close();
        connection.break_off();
        connection.close_in_order();
        assert_eq!(shut_down.load(Ordering::Relaxed), 1);
    }
}

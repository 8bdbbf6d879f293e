//! How messages are sent: by a thread that waits for the peer, or kept for later.

use super::outbox::{SendError, SendTimeout};
use super::{Connection, outbox};
use crate::policy::Timeout;
use isorb_cdr::{Message, Version};
use isorb_rt::sync::LockError;
use isorb_rt::time::Deadline;
use isorb_transport::Wait;
use std::hint::cold_path;
use std::io::IoSlice;
use std::time::Duration;

/// How long an offer waits for a thread that sends.
const OFFER: Duration = Duration::from_millis(1);

impl Connection {
    /// Sends a message, whole, waiting for the peer as long as the send time-out says.
    ///
    /// # Real-time
    /// One PI lock, one system call when the socket takes it all.
    pub fn send(&self, message: &Message<'_>) -> Result<(), SendError> {
        let within = SendTimeout { deadline: Deadline::NONE, each: self.send_timeout };
        let sent = self.send_in(message, within);
        if sent == Err(SendError::NotSent) {
            cold_path();
            // There is no caller to report it to.
            self.break_off();
        }
        sent
    }

    /// As [`Connection::send`], for a call that waits until `deadline` in all, and `timeout` from
    /// its start. When that passes before anything was sent, the connection stays good for others,
    /// unless its stream keeps what it refuses.
    ///
    /// # Real-time
    /// As [`Connection::send`], and bounded by the deadline besides. One more system call where
    /// calls with different time-outs share a connection.
    pub fn send_by(
        &self,
        message: &Message<'_>,
        deadline: Deadline,
        timeout: Timeout,
    ) -> Result<(), SendError> {
        let sent = self.send_in(message, SendTimeout { deadline, each: timeout.min(self.send_timeout) });
        if sent == Err(SendError::NotSent) {
            self.not_sent(deadline);
        }
        sent
    }

    /// Keeps the connection for others if the deadline passed before anything was sent.
    #[cold]
    fn not_sent(&self, deadline: Deadline) {
        if !deadline.is_past() {
            self.break_off();
        }
    }

    /// The usual case: nothing waits to be sent, no other thread sends, and the socket takes it
    /// all.
    #[inline(always)]
    fn send_in(&self, message: &Message<'_>, within: SendTimeout) -> Result<(), SendError> {
        let fragment = self.limits.fragment;
        if self.takes_replies()
            && let Some(octets) = message.contiguous()
            // A fragment is a multiple of eight octets long.
            && (fragment == 0 || octets.len() <= fragment & !7)
            && let Ok(mut outbox) = self.outbox.try_lock()
            && outbox.is_ready(within.each)
        {
            let first = self.stream.send(&[IoSlice::new(octets)], Wait::Block);
            if matches!(first, Ok(sent) if sent == octets.len()) {
                return Ok(());
            }
            cold_path();
            let sent = outbox::go_on(&mut outbox, &*self.stream, octets, first, within);
            drop(outbox);
            return self.note_sent(sent);
        }
        cold_path();
        self.send_any(message, within)
    }

    #[inline(never)]
    fn send_any(&self, message: &Message<'_>, within: SendTimeout) -> Result<(), SendError> {
        if !self.takes_replies() {
            return Err(SendError::Closed);
        }
        let mut outbox = match self.outbox.lock_until(within.deadline) {
            Ok(outbox) => outbox,
            Err(LockError::TimedOut) => return Err(SendError::NotSent),
            // The kernel has no PI lock with a deadline.
            Err(_) => self.outbox.lock(),
        };
        let sent = outbox::send(&mut outbox, &*self.stream, message, self.limits.fragment, within);
        drop(outbox);
        self.note_sent(sent)
    }

    fn note_sent(&self, sent: Result<(), SendError>) -> Result<(), SendError> {
        if !matches!(sent, Ok(()) | Err(SendError::NotSent | SendError::TooLong)) {
            self.break_off();
        }
        sent
    }

    /// Sends a short whole message of the protocol's own, such as CloseConnection, as far as that
    /// is possible without waiting.
    pub fn send_control(&self, message: &[u8]) {
        if let Ok(mut outbox) = self.outbox.try_lock() {
            let sent = outbox::put_bytes(&mut outbox, &*self.stream, message);
            drop(outbox);
            if sent.is_err() {
                self.break_off();
            }
        }
    }

    /// Sends CancelRequest: the caller no longer waits for the reply.
    #[cold]
    pub fn cancel(&self, version: Version, id: u32) {
        self.send_control(&isorb_giop::message::cancel_request(version, id));
    }

    /// Sends a message without waiting for the peer. Octets that the socket does not take are kept,
    /// up to one message's limit. `Ok(true)` when nothing is left to send.
    pub fn send_or_keep(&self, message: &Message<'_>) -> Result<bool, SendError> {
        if !self.takes_replies() {
            return Err(SendError::Closed);
        }
        let mut outbox = self.outbox.lock();
        let limits = &self.limits;
        let sent = outbox::send_or_keep(&mut outbox, &*self.stream, message, limits.fragment, limits.message);
        if sent == Err(SendError::TooLong) {
            return sent;
        }
        if sent.is_err() {
            drop(outbox);
            self.break_off();
        }
        sent
    }

    /// Sends a request without waiting for the peer. Octets that the socket does not take are kept
    /// and `Ok(false)` says so. While octets of an earlier message wait, nothing is sent:
    /// [`SendError::NotSent`].
    ///
    /// # Real-time
    /// As [`Connection::send`], without its wait. Waits up to 1 ms for a thread that sends on the
    /// same connection.
    pub fn offer(&self, message: &Message<'_>) -> Result<bool, SendError> {
        if !self.is_open() {
            return Err(SendError::Closed);
        }
        let mut outbox = match self.outbox.lock_until(Deadline::after(OFFER)) {
            Ok(outbox) => outbox,
            Err(LockError::TimedOut) => return Err(SendError::NotSent),
            // The kernel has no PI lock with a deadline.
            Err(_) => self.outbox.lock(),
        };
        let limits = &self.limits;
        let sent = match outbox::flush(&mut outbox, &*self.stream) {
            Ok(true) => {
                outbox::send_or_keep(&mut outbox, &*self.stream, message, limits.fragment, limits.message)
            }
            Ok(false) => Err(SendError::NotSent),
            Err(error) => Err(error),
        };
        drop(outbox);
        self.note_sent(sent.map(drop))?;
        sent
    }

    /// Sends what [`Connection::send_or_keep`] kept; `Ok(true)` when nothing is left.
    pub fn flush(&self) -> Result<bool, SendError> {
        let sent = outbox::flush(&mut self.outbox.lock(), &*self.stream);
        if sent.is_err() {
            self.break_off();
        }
        sent
    }
}

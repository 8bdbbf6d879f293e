//! From whole messages to octets on the stream.

use super::LOG;
use super::table::BufferAccount;
use crate::log::warn;
use crate::policy::Timeout;
use isorb_cdr::Message;
use isorb_giop::fragment::split;
use isorb_rt::Errno;
use isorb_rt::time::{Deadline, now_ns};
use isorb_scope::Buffer;
use isorb_transport::{Stream, Wait};
use std::hint::cold_path;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendError {
    /// The connection is closed; nothing was sent.
    Closed,
    /// The peer did not read in time, and may have a part of the message.
    TimedOut,
    /// The peer did not read in time; nothing was sent, and the connection is as it was.
    NotSent,
    /// The stream broke.
    Lost,
    /// No datagram holds the message; nothing was sent, and the connection is as it was.
    TooLong,
    /// More than two messages' limit waits for the peer to read, or the pool has no block for it.
    Backlog,
}

/// Most pieces that go out in one system call: those of a message, and a fragment's header.
const PIECES: usize = Message::MAX_PIECES + 1;

/// With more kept octets than these, control messages are not sent.
const BACKLOG_OF_CONTROL: usize = 1024;

/// Octets of messages that the socket has not taken yet.
#[derive(Debug)]
pub(crate) struct Outbox {
    kept: Option<Buffer>,
    /// The octets in `kept`, and how many of them were sent.
    len: usize,
    sent: usize,
    /// Octets that were sent and are not in `kept` any more, since it began to be kept. Only what
    /// the peer reads is progress, and not that a longer block begins with the rest.
    gone: usize,
    /// When it began to be kept, in nanoseconds.
    since: u64,
    account: Arc<BufferAccount>,
    /// The stream's present send time-out; `None` before it was set.
    timeout: Option<Timeout>,
}

/// How long a send may wait for the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendTimeout {
    /// For the whole message.
    pub deadline: Deadline,
    /// For each step until the peer takes some octets; not beyond the deadline.
    pub each: Timeout,
}

impl Outbox {
    pub fn new(account: Arc<BufferAccount>) -> Outbox {
        Outbox { kept: None, len: 0, sent: 0, gone: 0, since: 0, account, timeout: None }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sent == self.len
    }

    /// How many octets wait to be sent.
    fn waiting(&self) -> usize {
        self.len - self.sent
    }

    fn rest(&self) -> &[u8] {
        self.kept.as_ref().map_or(&[], |kept| &kept.bytes()[self.sent..self.len])
    }

    pub fn clear(&mut self) {
        (self.kept, self.len, self.sent, self.gone) = (None, 0, 0, 0);
        self.account.leaving.clear();
    }

    /// Keeps `octets` behind those that wait already.
    #[cold]
    fn keep(&mut self, octets: &[u8]) -> Result<(), SendError> {
        if octets.is_empty() {
            return Ok(());
        }
        if self.is_empty() {
            (self.len, self.sent, self.gone, self.since) = (0, 0, 0, now_ns());
        }
        if self.kept.as_ref().map_or(0, Buffer::capacity) < self.len + octets.len() {
            let rest = self.rest();
            let mut larger =
                self.account.take(rest.len() + octets.len(), Wait::No).ok_or(SendError::Backlog)?;
            larger.bytes_mut()[..rest.len()].copy_from_slice(rest);
            let left = rest.len();
            self.gone += self.sent;
            (self.len, self.sent) = (left, 0);
            self.kept = Some(larger);
        }
        if let Some(kept) = &mut self.kept {
            kept.bytes_mut()[self.len..self.len + octets.len()].copy_from_slice(octets);
            self.len += octets.len();
        }
        self.update_account();
        Ok(())
    }

    /// Updates the account of the blocks that the peer has yet to read.
    fn update_account(&self) {
        let held = self.kept.as_ref().map_or(0, Buffer::capacity);
        self.account.leaving.note(self.since, now_ns(), self.gone + self.sent, held);
    }

    /// Whether a message can be sent directly: no octets are kept, and the stream has this send
    /// time-out.
    #[inline]
    pub fn is_ready(&self, timeout: Timeout) -> bool {
        self.is_empty() && self.timeout == Some(timeout)
    }

    /// Sets the stream's send time-out; a system call when it changes.
    #[inline]
    fn arm(&mut self, stream: &dyn Stream, timeout: Timeout) -> Result<(), SendError> {
        if self.timeout != Some(timeout) {
            stream.set_send_timeout(timeout.duration()).map_err(|error| lost(stream, &error))?;
            self.timeout = Some(timeout);
        }
        Ok(())
    }

    /// Sends the kept octets, waiting.
    #[cold]
    fn send_kept(&mut self, stream: &dyn Stream, within: SendTimeout) -> Result<(), SendError> {
        let kept = self.kept.take();
        let (len, sent) = (self.len, self.sent);
        self.clear();
        let rest = kept.as_ref().map_or(&[][..], |kept| &kept.bytes()[sent..len]);
        // A part of a message was sent before.
        send_all(self, stream, &[IoSlice::new(rest)], within).map_err(in_the_middle)
    }
}

fn in_the_middle(error: SendError) -> SendError {
    if error == SendError::NotSent { SendError::TimedOut } else { error }
}

pub(crate) fn send(
    outbox: &mut Outbox,
    stream: &dyn Stream,
    message: &Message<'_>,
    fragment: usize,
    within: SendTimeout,
) -> Result<(), SendError> {
    if !outbox.is_empty() {
        outbox.send_kept(stream, within)?;
    }
    outbox.arm(stream, within.each)?;
    match message.contiguous() {
        // A fragment is a multiple of eight octets long.
        Some(bytes) if fragment == 0 || bytes.len() <= (fragment & !7) => {
            send_all(outbox, stream, &[IoSlice::new(bytes)], within)
        }
        _ => send_pieces(outbox, stream, message, fragment, within),
    }
}

/// Sends a message that is long, or lies in pieces.
fn send_pieces(
    outbox: &mut Outbox,
    stream: &dyn Stream,
    message: &Message<'_>,
    fragment: usize,
    within: SendTimeout,
) -> Result<(), SendError> {
    if fragment != 0
        && let Some(fragments) = split(message, fragment)
    {
        for (i, fragment) in fragments.into_iter().enumerate() {
            let mut pieces = [IoSlice::new(&[]); PIECES];
            let n = gather(std::iter::once(fragment.head()).chain(fragment.pieces()), &mut pieces);
            let sent = send_all(outbox, stream, &pieces[..n], within);
            if i == 0 { sent? } else { sent.map_err(in_the_middle)? }
        }
        return Ok(());
    }
    let mut pieces = [IoSlice::new(&[]); PIECES];
    let n = gather(message.pieces(), &mut pieces);
    send_all(outbox, stream, &pieces[..n], within)
}

/// Sends a short whole message without waiting. Octets that the socket does not take are kept, or
/// the whole message is left out. On an error the connection is lost: a part of the message was
/// sent, and there is no memory for the rest.
pub(crate) fn put_bytes(outbox: &mut Outbox, stream: &dyn Stream, message: &[u8]) -> Result<(), SendError> {
    let mut taken = 0;
    let mut begun = false;
    if outbox.is_empty() {
        let sent = stream.send(&[IoSlice::new(message)], Wait::No);
        taken = *sent.as_ref().unwrap_or(&0);
        begun = sent.is_ok() || stream.capabilities().retains_refused;
    }
    // No thread waits for these messages; behind a long backlog they would be of no use.
    if outbox.waiting() < BACKLOG_OF_CONTROL {
        let kept = outbox.keep(&message[taken..]);
        return if begun { kept } else { Ok(()) };
    }
    Ok(())
}

/// As [`send`], but octets that the socket does not take now are kept; `true` when there are none.
pub(crate) fn send_or_keep(
    outbox: &mut Outbox,
    stream: &dyn Stream,
    message: &Message<'_>,
    fragment: usize,
    limit: usize,
) -> Result<bool, SendError> {
    let mut put = |pieces: &[IoSlice<'_>]| {
        let mut taken = 0;
        if outbox.is_empty() {
            match stream.send(pieces, Wait::No) {
                Ok(n) => taken = n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(broken(stream, &error)),
            }
        }
        for piece in pieces {
            let rest = piece.get(taken..).unwrap_or(&[]);
            taken -= taken.min(piece.len());
            note_copied(stream, rest);
            outbox.keep(rest)?;
        }
        if outbox.waiting() > 2 * limit { Err(SendError::Backlog) } else { Ok(()) }
    };
    let mut pieces = [IoSlice::new(&[]); PIECES];
    match (fragment != 0).then(|| split(message, fragment)).flatten() {
        Some(fragments) => {
            for fragment in fragments {
                let n = gather(std::iter::once(fragment.head()).chain(fragment.pieces()), &mut pieces);
                put(&pieces[..n])?;
                pieces = [IoSlice::new(&[]); PIECES];
            }
        }
        None => {
            let n = gather(message.pieces(), &mut pieces);
            put(&pieces[..n])?;
        }
    }
    Ok(outbox.is_empty())
}

/// Counts octets of a loan that are kept, and so copied, because the peer does not read and the
/// sender must not wait.
fn note_copied(stream: &dyn Stream, octets: &[u8]) {
    if !octets.is_empty()
        && let Some(arena) = stream.arena()
        && arena.contains(octets)
        && arena.count_copied() == 0
    {
        cold_path();
        let (peer, octets) = (stream.peer(), octets.len());
        warn(
            LOG,
            format_args!(
                "{octets} octets of a loan were copied: {peer} reads too slowly for a send that must not wait (the \
                 reply of a lane, a oneway call with SYNC_NONE); further ones are only counted"
            ),
        );
    }
}

/// Sends the kept octets without waiting; `true` when none are left.
pub(crate) fn flush(outbox: &mut Outbox, stream: &dyn Stream) -> Result<bool, SendError> {
    while !outbox.is_empty() {
        match stream.send(&[IoSlice::new(outbox.rest())], Wait::No) {
            Ok(n) => outbox.sent += n,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                outbox.update_account();
                return Ok(false);
            }
            // Of a message that no datagram holds, the octets would stay for ever.
            Err(error) => return Err(lost(stream, &error)),
        }
    }
    outbox.clear();
    Ok(true)
}

/// Sends the kept octets that the peer reads until `by`.
pub(crate) fn flush_by(outbox: &mut Outbox, stream: &dyn Stream, by: Deadline) {
    // The connection closes in either case.
    if flush(outbox, stream) == Ok(false)
        && let Some(left) = by.remaining().filter(|left| !left.is_zero())
    {
        let within = SendTimeout { deadline: by, each: left.into() };
        let _ = outbox.arm(stream, within.each).and_then(|()| outbox.send_kept(stream, within));
    }
}

fn gather<'a>(from: impl Iterator<Item = &'a [u8]>, pieces: &mut [IoSlice<'a>; PIECES]) -> usize {
    let mut n = 0;
    for (place, piece) in pieces.iter_mut().zip(from) {
        *place = IoSlice::new(piece);
        n += 1;
    }
    n
}

/// Sends all octets, within the time-out.
#[inline]
fn send_all(
    outbox: &mut Outbox,
    stream: &dyn Stream,
    pieces: &[IoSlice<'_>],
    within: SendTimeout,
) -> Result<(), SendError> {
    let total: usize = pieces.iter().map(|piece| piece.len()).sum();
    let sent = send_some(stream, pieces)?;
    if sent < total { send_rest(outbox, stream, pieces, sent, total, within) } else { Ok(()) }
}

/// Continues after the first send of a message in one piece.
#[cold]
pub(crate) fn go_on(
    outbox: &mut Outbox,
    stream: &dyn Stream,
    message: &[u8],
    first: io::Result<usize>,
    within: SendTimeout,
) -> Result<(), SendError> {
    send_rest(outbox, stream, &[IoSlice::new(message)], taken(stream, first)?, message.len(), within)
}

/// Continues when the socket did not take all, or a signal interrupted the send.
#[cold]
fn send_rest(
    outbox: &mut Outbox,
    stream: &dyn Stream,
    pieces: &[IoSlice<'_>],
    mut sent: usize,
    total: usize,
    within: SendTimeout,
) -> Result<(), SendError> {
    // After a signal: until when the peer must take some octets. Repeated signals give it no more
    // time.
    let mut interrupted = None;
    while sent < total {
        let each = interrupted.map_or(within.each, Timeout::until);
        let left = each.min(within.deadline.remaining().into());
        if left.duration() == Some(Duration::ZERO) {
            return Err(if sent == 0 { too_late(stream) } else { SendError::TimedOut });
        }
        outbox.arm(stream, left)?;
        let mut skip = sent;
        let mut rest = [IoSlice::new(&[]); PIECES];
        let mut n = 0;
        for piece in pieces {
            if skip < piece.len() {
                rest[n] = IoSlice::new(&piece[skip..]);
                n += 1;
            }
            skip -= skip.min(piece.len());
        }
        match send_some(stream, &rest[..n]) {
            Ok(0) => {
                interrupted.get_or_insert_with(|| Deadline::after_opt(within.each.duration()));
            }
            Ok(n) => (sent, interrupted) = (sent + n, None),
            Err(error) => return Err(if sent == 0 { error } else { in_the_middle(error) }),
        }
    }
    Ok(())
}

fn send_some(stream: &dyn Stream, pieces: &[IoSlice<'_>]) -> Result<usize, SendError> {
    taken(stream, stream.send(pieces, Wait::Block))
}

/// The result of the first send of a message; 0 if a signal interrupted it.
fn taken(stream: &dyn Stream, sent: io::Result<usize>) -> Result<usize, SendError> {
    match sent {
        Ok(n) => Ok(n),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            Err(too_late(stream))
        }
        Err(error) => Err(broken(stream, &error)),
    }
}

/// The error when the time is up and the stream took nothing.
fn too_late(stream: &dyn Stream) -> SendError {
    // A stream that keeps refused octets may send them later, so the message may arrive.
    if stream.capabilities().retains_refused { SendError::TimedOut } else { SendError::NotSent }
}

/// The error for a failed send.
#[cold]
fn broken(stream: &dyn Stream, error: &io::Error) -> SendError {
    if error.raw_os_error() == Some(Errno::MSGSIZE.raw_os_error()) {
        SendError::TooLong
    } else {
        lost(stream, error)
    }
}

/// The error that ends a connection. One that says more than that the peer is gone is logged.
#[cold]
fn lost(stream: &dyn Stream, error: &io::Error) -> SendError {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected};
    if !matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected) {
        let peer = stream.peer();
        warn(LOG, format_args!("{peer}: a message was not sent ({error}); the connection ends"));
    }
    SendError::Lost
}

#[cfg(test)]
mod tests {
    use super::super::still::refusing;
    use super::*;
    use isorb_scope::BufferPool;

    /// Kept octets that no datagram holds would otherwise be tried again for ever.
    #[test]
    fn kept_octets_that_can_never_be_sent_end_the_connection() {
        let pool = BufferPool::new(1 << 20, 1 << 20);
        let mut outbox = Outbox::new(BufferAccount::new(&Arc::default(), &pool, None));
        outbox.keep(&[1; 100]).unwrap();
        assert_eq!(flush(&mut outbox, &refusing(Errno::AGAIN)), Ok(false));
        for errno in [Errno::MSGSIZE, Errno::NOBUFS, Errno::PIPE] {
            assert_eq!(flush(&mut outbox, &refusing(errno)), Err(SendError::Lost), "{errno}");
        }
    }

    /// What the ORB itself does with octets that a client does not read gives it no more time.
    #[test]
    fn a_longer_block_is_no_progress_of_the_peer() {
        let pool = BufferPool::new(1 << 20, 1 << 20);
        let account = BufferAccount::new(&Arc::default(), &pool, None);
        let abandoned_at = || account.abandoned_at(None, Some(Duration::from_secs(1)));
        let later = || {
            let now = now_ns();
            while now_ns() == now {}
        };
        let mut outbox = Outbox::new(account.clone());
        outbox.keep(&[1; 100]).unwrap();
        outbox.sent = 60;
        outbox.update_account();
        let at = abandoned_at();
        assert!(at.is_some());
        later();
        let longer = outbox.kept.as_ref().map_or(0, Buffer::capacity) + 1;
        outbox.keep(&vec![2; longer]).unwrap();
        assert_eq!((outbox.sent, outbox.waiting()), (0, 40 + longer));
        assert_eq!(abandoned_at(), at, "it has read nothing");
        later();
        outbox.sent = 1;
        outbox.update_account();
        assert!(abandoned_at() > at, "it has read an octet");
    }
}

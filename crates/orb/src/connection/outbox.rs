//! Whole messages to bytes on the stream.

use isorb_cdr::Message;
use isorb_giop::fragment::split;
use isorb_transport::{Stream, Wait};
use std::io::{self, IoSlice};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendError {
    /// The connection is closed; nothing was sent.
    Closed,
    /// The peer did not read in time.
    TimedOut,
    /// The stream broke.
    Lost,
    /// More than a message's limit waits for the peer to read.
    Backlog,
}

/// Most pieces that go out in one system call: those of a message, and a fragment's header.
const PIECES: usize = Message::MAX_PIECES + 1;

/// Bytes that the socket did not take yet, of messages that were sent without waiting.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    kept: Vec<u8>,
    sent: usize,
}

impl Outbox {
    fn is_empty(&self) -> bool {
        self.sent == self.kept.len()
    }
}

pub(crate) fn send(
    outbox: &mut Outbox,
    stream: &dyn Stream,
    message: &Message<'_>,
    fragment: usize,
) -> Result<(), SendError> {
    if !outbox.is_empty() {
        send_all(stream, &[IoSlice::new(&outbox.kept[outbox.sent..])])?;
        *outbox = Outbox::default();
    }
    match message.contiguous() {
        // A fragment is a multiple of eight octets long.
        Some(bytes) if fragment == 0 || bytes.len() <= (fragment & !7) => {
            send_all(stream, &[IoSlice::new(bytes)])
        }
        _ => send_pieces(stream, message, fragment),
    }
}

/// Sends a message that is long, or lies in pieces.
fn send_pieces(stream: &dyn Stream, message: &Message<'_>, fragment: usize) -> Result<(), SendError> {
    if fragment != 0
        && let Some(fragments) = split(message, fragment)
    {
        return fragments.into_iter().try_for_each(|fragment| {
            let mut pieces = [IoSlice::new(&[]); PIECES];
            let n = gather(std::iter::once(fragment.head()).chain(fragment.pieces()), &mut pieces);
            send_all(stream, &pieces[..n])
        });
    }
    let mut pieces = [IoSlice::new(&[]); PIECES];
    let n = gather(message.pieces(), &mut pieces);
    send_all(stream, &pieces[..n])
}

/// Sends octets that are a whole message.
pub(crate) fn send_bytes(outbox: &mut Outbox, stream: &dyn Stream, message: &[u8]) -> Result<(), SendError> {
    if !outbox.is_empty() {
        send_all(stream, &[IoSlice::new(&outbox.kept[outbox.sent..])])?;
        *outbox = Outbox::default();
    }
    send_all(stream, &[IoSlice::new(message)])
}

/// As [`send`], but what the socket does not take now is kept; `true` when nothing is.
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
                Err(_) => return Err(SendError::Lost),
            }
        }
        for piece in pieces {
            let rest = piece.get(taken..).unwrap_or(&[]);
            taken -= taken.min(piece.len());
            outbox.kept.extend_from_slice(rest);
        }
        if outbox.kept.len() - outbox.sent > 2 * limit { Err(SendError::Backlog) } else { Ok(()) }
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

/// Sends what was kept; `true` when nothing is left.
pub(crate) fn flush(outbox: &mut Outbox, stream: &dyn Stream) -> Result<bool, SendError> {
    while !outbox.is_empty() {
        match stream.send(&[IoSlice::new(&outbox.kept[outbox.sent..])], Wait::No) {
            Ok(n) => outbox.sent += n,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(_) => return Err(SendError::Lost),
        }
    }
    *outbox = Outbox::default();
    Ok(true)
}

fn gather<'a>(from: impl Iterator<Item = &'a [u8]>, pieces: &mut [IoSlice<'a>; PIECES]) -> usize {
    let mut n = 0;
    for (place, piece) in pieces.iter_mut().zip(from) {
        *place = IoSlice::new(piece);
        n += 1;
    }
    n
}

/// Sends all bytes, waiting as the stream's time-out says, each time the peer takes some anew.
#[inline]
fn send_all(stream: &dyn Stream, pieces: &[IoSlice<'_>]) -> Result<(), SendError> {
    let total: usize = pieces.iter().map(|piece| piece.len()).sum();
    let sent = send_some(stream, pieces)?;
    if sent < total { send_rest(stream, pieces, sent, total) } else { Ok(()) }
}

/// Goes on when the socket did not take all at once.
#[cold]
fn send_rest(
    stream: &dyn Stream,
    pieces: &[IoSlice<'_>],
    mut sent: usize,
    total: usize,
) -> Result<(), SendError> {
    while sent < total {
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
        sent += send_some(stream, &rest[..n])?;
    }
    Ok(())
}

fn send_some(stream: &dyn Stream, pieces: &[IoSlice<'_>]) -> Result<usize, SendError> {
    match stream.send(pieces, Wait::Block) {
        Ok(n) => Ok(n),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            Err(SendError::TimedOut)
        }
        Err(_) => Err(SendError::Lost),
    }
}

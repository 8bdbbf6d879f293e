//! Whole messages to bytes on the stream.

use super::fragment::fragments;
use isorb_cdr::Message;
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
    message: &mut Message<'_>,
    request_id: u32,
    fragment: usize,
) -> Result<(), SendError> {
    if !outbox.is_empty() {
        send_all(stream, &[IoSlice::new(&outbox.kept[outbox.sent..])])?;
        *outbox = Outbox::default();
    }
    if fragment != 0 && message.len() > fragment {
        return fragments(message, request_id, fragment, |pieces| send_all(stream, pieces));
    }
    match message.contiguous() {
        Some(bytes) => send_all(stream, &[IoSlice::new(bytes)]),
        None => {
            let mut pieces = [IoSlice::new(&[]); Message::MAX_PIECES];
            let n = gather(message, &mut pieces);
            send_all(stream, &pieces[..n])
        }
    }
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
    message: &mut Message<'_>,
    request_id: u32,
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
    if fragment != 0 && message.len() > fragment {
        fragments(message, request_id, fragment, put)?;
    } else {
        let mut pieces = [IoSlice::new(&[]); Message::MAX_PIECES];
        let n = gather(message, &mut pieces);
        put(&pieces[..n])?;
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

fn gather<'a>(message: &'a Message<'_>, pieces: &mut [IoSlice<'a>; Message::MAX_PIECES]) -> usize {
    let mut n = 0;
    for (place, piece) in pieces.iter_mut().zip(message.pieces()) {
        *place = IoSlice::new(piece);
        n += 1;
    }
    n
}

/// Sends all bytes, waiting as the stream's time-out says, each time the peer takes some anew.
fn send_all(stream: &dyn Stream, pieces: &[IoSlice<'_>]) -> Result<(), SendError> {
    let total: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mut sent = send_some(stream, pieces)?;
    while sent < total {
        let mut skip = sent;
        let mut rest = [IoSlice::new(&[]); Message::MAX_PIECES];
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

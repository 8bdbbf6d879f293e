//! A connection after its handshake.
//!
//! The lock of the TLS state is held only to encrypt or decrypt, and while the socket accepts
//! octets without waiting. Received octets that are not decrypted yet, and encrypted octets that
//! are not sent yet, each have a separate lock. So no thread waits for the TLS state while another
//! waits for the peer.
//!
//! An ordinary message is not copied here: it is encrypted from the caller's memory, and sent from
//! the buffer of the encryption. Only octets that the socket does not accept are kept.
//!
//! Encrypted octets cannot be taken back. A piece that the socket did not accept whole is not
//! reported as sent. The caller sends the same piece again, and the rest of it goes out; or it
//! closes the stream without knowing whether the piece left
//! ([`StreamCapabilities::retains_refused`]). Sending a different piece breaks the stream.

use isorb_rt::sync::PiMutex;
use isorb_transport::{PeerIdentity, Stream, StreamCapabilities, Wait};
use rustls::Connection;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Largest piece that is encrypted at a time, in bytes, and so the most that waits here for the
/// peer.
const PIECE: usize = 64 << 10;

/// How much is received at a time, in bytes: a TLS record with its header; more if more was there.
const RECORD: usize = (16 << 10) + 512;
const RECORDS: usize = 4 * RECORD;

/// Parts of a message that are encrypted together. Further parts follow in the next piece.
const PARTS: usize = 16;

#[derive(Debug)]
pub(crate) struct TlsStream {
    stream: Box<dyn Stream>,
    /// The peer's address, marked as TLS.
    peer: Box<str>,
    identity: PeerIdentity,
    tls: PiMutex<Connection>,
    incoming: PiMutex<Incoming>,
    outgoing: PiMutex<Outgoing>,
}

/// Encrypted octets that are not sent yet.
#[derive(Debug, Default)]
struct Outgoing {
    octets: Vec<u8>,
    /// The caller's octets in them, if the caller's send returned without room.
    refused: Vec<u8>,
}

/// Received octets that are not decrypted yet.
#[derive(Debug)]
struct Incoming {
    octets: Box<[u8]>,
    start: usize,
    end: usize,
    ended: bool,
    /// An error of the peer.
    broken: Option<rustls::Error>,
}

impl Incoming {
    /// Receives, when the buffer is empty.
    fn receive(&mut self, stream: &dyn Stream, wait: Wait) -> io::Result<()> {
        if self.end == self.octets.len() && self.end < RECORDS {
            self.octets = vec![0; RECORDS].into();
        }
        (self.start, self.end) = (0, stream.recv(&mut self.octets, wait)?);
        self.ended = self.end == 0;
        Ok(())
    }
}

impl TlsStream {
    pub fn new(stream: Box<dyn Stream>, tls: Connection) -> TlsStream {
        let incoming =
            Incoming { octets: vec![0; RECORD].into(), start: 0, end: 0, ended: false, broken: None };
        TlsStream {
            peer: format!("ssl:{}", stream.peer()).into(),
            identity: crate::identity::of(&*stream, &tls),
            stream,
            tls: PiMutex::new(tls),
            incoming: PiMutex::new(incoming),
            outgoing: PiMutex::new(Outgoing::default()),
        }
    }

    /// Sends waiting octets as far as possible without blocking. A thread that is sending does it
    /// anyway.
    fn flush(&self) {
        if let Ok(mut outgoing) = self.outgoing.try_lock() {
            let octets = &mut outgoing.octets;
            let _ = self.flush_tls(octets).and_then(|()| self.drain(octets, Wait::No));
        }
    }

    /// Sends the output of TLS as far as the socket accepts it without waiting, and appends the
    /// rest to `octets`.
    fn flush_tls(&self, octets: &mut Vec<u8>) -> io::Result<()> {
        self.move_out(&mut self.tls.lock(), octets)
    }

    fn move_out(&self, tls: &mut Connection, octets: &mut Vec<u8>) -> io::Result<()> {
        let mut direct = octets.is_empty();
        while tls.wants_write() {
            if direct {
                match tls.write_tls(&mut NonBlocking(&*self.stream)) {
                    Ok(_) => continue,
                    // The next send to the socket reports its error.
                    Err(_) => direct = false,
                }
            }
            tls.write_tls(octets)?;
        }
        Ok(())
    }

    fn drain(&self, octets: &mut Vec<u8>, wait: Wait) -> io::Result<()> {
        let mut sent = 0;
        let result = loop {
            if sent == octets.len() {
                break Ok(());
            }
            match self.stream.send(&[IoSlice::new(&octets[sent..])], wait) {
                Ok(n) => sent += n,
                Err(error) => break Err(error),
            }
        };
        octets.drain(..sent);
        result
    }
}

/// Writes to a socket without waiting.
struct NonBlocking<'a>(&'a dyn Stream);

impl Write for NonBlocking<'_> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0.send(&[IoSlice::new(octets)], Wait::No)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.send(pieces, Wait::No)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Puts the part of the pieces that is encrypted next into `parts`. Returns how many there are.
fn first_parts<'p>(pieces: &'p [IoSlice<'p>], parts: &mut [IoSlice<'p>; PARTS]) -> usize {
    let mut left = PIECE;
    let mut n = 0;
    for (part, piece) in parts.iter_mut().zip(pieces) {
        let len = piece.len().min(left);
        *part = IoSlice::new(&piece[..len]);
        n += 1;
        left -= len;
    }
    n
}

/// Whether the concatenated pieces begin with `start`.
fn begin_with(pieces: &[IoSlice<'_>], mut start: &[u8]) -> bool {
    for piece in pieces {
        let n = piece.len().min(start.len());
        if piece[..n] != start[..n] {
            return false;
        }
        start = &start[n..];
    }
    start.is_empty()
}

impl Stream for TlsStream {
    fn recv(&self, into: &mut [u8], wait: Wait) -> io::Result<usize> {
        let mut incoming = self.incoming.lock();
        // A lane calls here when there is room to send again.
        self.flush();
        if let Some(error) = &incoming.broken {
            return Err(io::Error::new(io::ErrorKind::InvalidData, error.clone()));
        }
        loop {
            let mut got = 0;
            let mut tls = self.tls.lock();
            // Return decrypted octets at once.
            loop {
                match tls.reader().read(&mut into[got..]) {
                    Ok(n) => {
                        got += n;
                        if n == 0 || got == into.len() {
                            return Ok(got);
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock && !incoming.ended => {}
                    // After an end without close_notify, the length of a message shows whether it
                    // is whole.
                    Err(error) if incoming.ended || error.kind() == io::ErrorKind::UnexpectedEof => {
                        return Ok(got);
                    }
                    Err(error) => return Err(error),
                }
                if incoming.start == incoming.end {
                    break;
                }
                let mut octets = &incoming.octets[incoming.start..incoming.end];
                let read = tls.read_tls(&mut octets)?;
                incoming.start += read;
                if let Err(error) = tls.process_new_packets() {
                    drop(tls);
                    incoming.broken = Some(error.clone());
                    // Sends the alert.
                    self.flush();
                    let error = io::Error::new(io::ErrorKind::InvalidData, error);
                    // Octets before the error are good.
                    return if got > 0 { Ok(got) } else { Err(error) };
                }
            }
            drop(tls);
            if got > 0 {
                return Ok(got);
            }
            incoming.receive(&*self.stream, wait)?;
        }
    }

    fn send(&self, pieces: &[IoSlice<'_>], wait: Wait) -> io::Result<usize> {
        let mut outgoing = self.outgoing.lock();
        let Outgoing { octets, refused } = &mut *outgoing;
        if !refused.is_empty() {
            if !begin_with(pieces, refused) {
                return Err(io::Error::new(
                    io::ErrorKind::ConnectionAborted,
                    "another piece was sent instead of the rest of the one before",
                ));
            }
            self.flush_tls(octets)?;
            self.drain(octets, wait)?;
            let sent = refused.len();
            refused.clear();
            return Ok(sent);
        }
        let mut parts = [IoSlice::new(&[]); PARTS];
        let parts = {
            let n = first_parts(pieces, &mut parts);
            &parts[..n]
        };
        let taken = {
            let mut tls = self.tls.lock();
            // Earlier output, such as a ticket, goes first and leaves its room.
            self.move_out(&mut tls, octets)?;
            let taken = tls.writer().write_vectored(parts)?;
            self.move_out(&mut tls, octets)?;
            taken
        };
        if let Err(error) = self.drain(octets, wait) {
            let mut left = taken;
            for part in parts {
                let len = part.len().min(left);
                refused.extend_from_slice(&part[..len]);
                left -= len;
            }
            return Err(error);
        }
        Ok(taken)
    }

    fn capabilities(&self) -> StreamCapabilities {
        StreamCapabilities { retains_refused: true, ..StreamCapabilities::default() }
    }

    fn set_recv_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.stream.set_recv_timeout(timeout)
    }

    fn set_send_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.stream.set_send_timeout(timeout)
    }

    fn shutdown(&self) {
        if let Ok(mut tls) = self.tls.try_lock() {
            tls.send_close_notify();
        }
        self.flush();
        self.stream.shutdown();
    }

    fn peer(&self) -> &str {
        &self.peer
    }

    fn identity(&self) -> PeerIdentity {
        self.identity.clone()
    }

    fn watched(&self) {
        self.stream.watched();
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.stream.fd()
    }
}

impl Drop for TlsStream {
    fn drop(&mut self) {
        self.tls.lock().send_close_notify();
        self.flush();
    }
}

//! A connection after its handshake.
//!
//! Two locks are never waited for while the peer is: the state of TLS is held only for the moment of encrypting or decrypting, and
//! while the socket takes at once what it has room for. What one receiver has got from the socket, and what one sender has not got
//! rid of, each has a lock of its own.
//!
//! The usual message is copied by nobody here: it is encrypted from where it lies, and sent from where it was encrypted to. Only what
//! the socket does not take is kept.
//!
//! What is encrypted cannot be taken back. A piece that the socket did not take whole is not reported as sent: whoever sent it
//! sends the same again, and then the rest of it goes out; or else gives the stream up, not knowing whether it left
//! ([`StreamCapabilities::retains_refused`]). Who sends something else instead has a broken stream.

use isorb_rt::sync::PiMutex;
use isorb_transport::{Stream, StreamCapabilities, Wait};
use rustls::Connection;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Largest piece that is encrypted at a time, in bytes: what may wait here when the peer takes no more.
const PIECE: usize = 64 << 10;

/// How much is received at a time, in bytes: a record of TLS and its head; more where more was there.
const RECORD: usize = (16 << 10) + 512;
const RECORDS: usize = 4 * RECORD;

/// Parts of a message that are encrypted together; further ones follow in the next piece.
const PARTS: usize = 16;

#[derive(Debug)]
pub(crate) struct TlsStream {
    stream: Box<dyn Stream>,
    /// Who is at the other end, and that TLS is between.
    peer: Box<str>,
    tls: PiMutex<Connection>,
    incoming: PiMutex<Incoming>,
    outgoing: PiMutex<Outgoing>,
}

/// Encrypted and not sent yet.
#[derive(Debug, Default)]
struct Outgoing {
    octets: Vec<u8>,
    /// What the caller wanted to send by it, if the caller was told that it had no room.
    promised: Vec<u8>,
}

/// Received and not decrypted yet.
#[derive(Debug)]
struct Incoming {
    octets: Box<[u8]>,
    start: usize,
    end: usize,
    ended: bool,
    /// What the peer did wrong.
    broken: Option<rustls::Error>,
}

impl Incoming {
    /// Receives, when nothing is left here.
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
            stream,
            tls: PiMutex::new(tls),
            incoming: PiMutex::new(incoming),
            outgoing: PiMutex::new(Outgoing::default()),
        }
    }

    /// Sends what waits, as far as that is possible without waiting; who is sending already does it anyway.
    fn flush(&self) {
        if let Ok(mut outgoing) = self.outgoing.try_lock() {
            let octets = &mut outgoing.octets;
            let _ = self.encrypted(octets).and_then(|()| self.drain(octets, Wait::No));
        }
    }

    /// Sends what TLS has to say as far as the socket takes it at once, and takes the rest.
    fn encrypted(&self, octets: &mut Vec<u8>) -> io::Result<()> {
        self.move_out(&mut self.tls.lock(), octets)
    }

    fn move_out(&self, tls: &mut Connection, octets: &mut Vec<u8>) -> io::Result<()> {
        let mut direct = octets.is_empty();
        while tls.wants_write() {
            if direct {
                match tls.write_tls(&mut AtOnce(&*self.stream)) {
                    Ok(_) => continue,
                    // The socket's own error comes up again where it is sent to next.
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

/// The socket as far as it takes something without waiting.
struct AtOnce<'a>(&'a dyn Stream);

impl Write for AtOnce<'_> {
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

/// Puts as much of the pieces as is encrypted at a time into `parts`; how many those are.
fn front<'p>(pieces: &'p [IoSlice<'p>], parts: &mut [IoSlice<'p>; PARTS]) -> usize {
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

/// Whether the pieces, one behind the other, begin so.
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
            // Whatever is here already goes to the caller at once.
            loop {
                match tls.reader().read(&mut into[got..]) {
                    Ok(n) => {
                        got += n;
                        if n == 0 || got == into.len() {
                            return Ok(got);
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock && !incoming.ended => {}
                    // Where the peer has left without a farewell, the messages say themselves whether they are whole.
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
                    // The peer hears why.
                    self.flush();
                    let error = io::Error::new(io::ErrorKind::InvalidData, error);
                    // What came before it was good.
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
        let Outgoing { octets, promised } = &mut *outgoing;
        if !promised.is_empty() {
            if !begin_with(pieces, promised) {
                return Err(io::Error::new(
                    io::ErrorKind::ConnectionAborted,
                    "the rest of what was sent before is missing",
                ));
            }
            self.encrypted(octets)?;
            self.drain(octets, wait)?;
            let sent = promised.len();
            promised.clear();
            return Ok(sent);
        }
        let mut parts = [IoSlice::new(&[]); PARTS];
        let parts = {
            let n = front(pieces, &mut parts);
            &parts[..n]
        };
        let taken = {
            let mut tls = self.tls.lock();
            // What was there before, such as a ticket, goes first and leaves its room.
            self.move_out(&mut tls, octets)?;
            let taken = tls.writer().write_vectored(parts)?;
            self.move_out(&mut tls, octets)?;
            taken
        };
        if let Err(error) = self.drain(octets, wait) {
            let mut left = taken;
            for part in parts {
                let len = part.len().min(left);
                promised.extend_from_slice(&part[..len]);
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

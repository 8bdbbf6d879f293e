//! A connection after its handshake.
//!
//! Two locks are never waited for while the peer is: the state of TLS is held only for the moment of encrypting or decrypting.
//! What one receiver has got from the socket, and what one sender has not got rid of, each has a lock of its own.
//!
//! What is encrypted cannot be taken back. A piece that the socket did not take whole is not reported as sent: whoever sent it
//! sends the same again, as with any stream that had no room, and then the rest of it goes out. Who sends something else instead
//! has a broken stream.

use isorb_rt::sync::PiMutex;
use isorb_transport::{Stream, Wait};
use rustls::Connection;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Largest piece that is encrypted at a time, in bytes: what may wait here when the peer takes no more.
const PIECE: usize = 64 << 10;

/// How much is received at a time, in bytes: a record of TLS and its head.
const RECORD: usize = (16 << 10) + 512;

#[derive(Debug)]
pub(crate) struct TlsStream {
    stream: Box<dyn Stream>,
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
}

impl TlsStream {
    pub fn new(stream: Box<dyn Stream>, tls: Connection) -> TlsStream {
        let incoming = Incoming { octets: vec![0; RECORD].into(), start: 0, end: 0, ended: false };
        TlsStream {
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

    /// Takes what TLS has to say.
    fn encrypted(&self, octets: &mut Vec<u8>) -> io::Result<()> {
        let mut tls = self.tls.lock();
        while tls.wants_write() {
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
        loop {
            {
                let mut tls = self.tls.lock();
                match tls.reader().read(into) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock && !incoming.ended => {}
                    // Where the peer has left without a farewell, the messages say themselves whether they are whole.
                    Err(error) if incoming.ended || error.kind() == io::ErrorKind::UnexpectedEof => {
                        return Ok(0);
                    }
                    other => return other,
                }
                if incoming.start < incoming.end {
                    let mut octets = &incoming.octets[incoming.start..incoming.end];
                    let read = tls.read_tls(&mut octets)?;
                    incoming.start += read;
                    let processed = tls.process_new_packets();
                    drop(tls);
                    if let Err(error) = processed {
                        // The peer hears why.
                        self.flush();
                        return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                    }
                    continue;
                }
            }
            let Incoming { octets, start, end, ended } = &mut *incoming;
            (*start, *end) = (0, self.stream.recv(octets, wait)?);
            *ended = *end == 0;
        }
    }

    fn send(&self, pieces: &[IoSlice<'_>], wait: Wait) -> io::Result<usize> {
        let mut outgoing = self.outgoing.lock();
        let Outgoing { octets, promised } = &mut *outgoing;
        if promised.is_empty() {
            for piece in pieces {
                let room = PIECE - promised.len();
                promised.extend_from_slice(&piece[..piece.len().min(room)]);
            }
            self.tls.lock().writer().write_all(promised)?;
        } else if !begin_with(pieces, promised) {
            return Err(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "the rest of what was sent before is missing",
            ));
        }
        self.encrypted(octets)?;
        self.drain(octets, wait)?;
        let sent = promised.len();
        promised.clear();
        Ok(sent)
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
        self.stream.peer()
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

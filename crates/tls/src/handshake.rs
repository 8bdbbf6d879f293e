//! One handshake, step by step, without waiting.

use crate::stream::TlsStream;
use isorb_transport::{Stream, Wait};
use rustls::Connection;
use std::io::{self, IoSlice};

/// What became of a step.
pub(crate) enum Step {
    /// The peer must say more, or take more.
    Pending(Handshake),
    /// Both sides know each other.
    Done(TlsStream),
}

/// A handshake under way.
#[derive(Debug)]
pub(crate) struct Handshake {
    stream: Box<dyn Stream>,
    tls: Connection,
    /// What the peer has not taken yet.
    out: Vec<u8>,
    heard: bool,
}

impl Handshake {
    pub fn new(stream: Box<dyn Stream>, tls: Connection) -> Handshake {
        Handshake { stream, tls, out: Vec::new(), heard: false }
    }

    pub fn stream(&self) -> &dyn Stream {
        &*self.stream
    }

    /// Whether the peer has said anything.
    pub fn has_heard(&self) -> bool {
        self.heard
    }

    /// Whether something waits to be sent; else the peer is waited for.
    pub fn wants_to_send(&self) -> bool {
        !self.out.is_empty()
    }

    /// Goes as far as it goes without waiting.
    ///
    /// # Errors
    /// `InvalidData` where the peer is not whom it should be, or speaks no TLS; else the stream's. The peer is told, as far as that
    /// is possible without waiting.
    pub fn step(mut self) -> io::Result<Step> {
        loop {
            while self.tls.wants_write() {
                self.tls.write_tls(&mut self.out)?;
            }
            if !self.out.is_empty() {
                match self.stream.send(&[IoSlice::new(&self.out)], Wait::No) {
                    Ok(n) => drop(self.out.drain(..n)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        return Ok(Step::Pending(self));
                    }
                    Err(error) => return Err(error),
                }
                continue;
            }
            if !self.tls.is_handshaking() {
                return Ok(Step::Done(TlsStream::new(self.stream, self.tls)));
            }
            let mut octets = [0; 4096];
            match self.stream.recv(&mut octets, Wait::No) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    self.heard = true;
                    self.take(&octets[..n])?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Step::Pending(self)),
                Err(error) => return Err(error),
            }
        }
    }

    fn take(&mut self, mut octets: &[u8]) -> io::Result<()> {
        while !octets.is_empty() {
            self.tls.read_tls(&mut octets)?;
            if let Err(error) = self.tls.process_new_packets() {
                let _ = self.tls.write_tls(&mut self.out);
                let _ = self.stream.send(&[IoSlice::new(&self.out)], Wait::No);
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
        Ok(())
    }
}

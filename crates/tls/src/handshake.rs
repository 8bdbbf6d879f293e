//! One handshake, without blocking.

use crate::stream::TlsStream;
use isorb_transport::{Stream, Wait};
use rustls::Connection;
use std::io::{self, IoSlice};

/// The result of [`Handshake::advance`].
#[expect(clippy::large_enum_variant, reason = "it is returned once for each connection")]
pub(crate) enum Progress {
    /// The peer must send more, or receive more.
    Pending(Handshake),
    /// Both sides are authenticated.
    Done(TlsStream),
}

/// A handshake under way.
#[derive(Debug)]
pub(crate) struct Handshake {
    stream: Box<dyn Stream>,
    tls: Connection,
    /// Octets that the socket has not accepted yet.
    unsent: Vec<u8>,
    answered: bool,
}

impl Handshake {
    pub fn new(stream: Box<dyn Stream>, tls: Connection) -> Handshake {
        Handshake { stream, tls, unsent: Vec::new(), answered: false }
    }

    pub fn stream(&self) -> &dyn Stream {
        &*self.stream
    }

    /// Whether something was sent to the peer: at a server, whether its first message has come
    /// whole.
    pub fn has_answered(&self) -> bool {
        self.answered
    }

    /// Whether the handshake waits to send; otherwise it waits for the peer.
    pub fn wants_to_send(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Continues as far as possible without blocking.
    ///
    /// # Errors
    /// `InvalidData` if the peer is not trusted or does not use TLS; else the error of the stream.
    /// The peer gets an alert, if that is possible without blocking.
    pub fn advance(mut self) -> io::Result<Progress> {
        loop {
            while self.tls.wants_write() {
                self.tls.write_tls(&mut self.unsent)?;
            }
            if !self.unsent.is_empty() {
                match self.stream.send(&[IoSlice::new(&self.unsent)], Wait::No) {
                    Ok(n) => {
                        self.answered = true;
                        drop(self.unsent.drain(..n));
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        return Ok(Progress::Pending(self));
                    }
                    Err(error) => return Err(error),
                }
                continue;
            }
            if !self.tls.is_handshaking() {
                return Ok(Progress::Done(TlsStream::new(self.stream, self.tls)));
            }
            let mut octets = [0; 4096];
            match self.stream.recv(&mut octets, Wait::No) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.take(&octets[..n])?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Progress::Pending(self));
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn take(&mut self, mut octets: &[u8]) -> io::Result<()> {
        while !octets.is_empty() {
            self.tls.read_tls(&mut octets)?;
            if let Err(error) = self.tls.process_new_packets() {
                let _ = self.tls.write_tls(&mut self.unsent);
                let _ = self.stream.send(&[IoSlice::new(&self.unsent)], Wait::No);
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
        Ok(())
    }
}

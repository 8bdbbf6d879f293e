//! The transport.

use crate::config::{TlsConfig, TlsError};
use crate::context::Context;
use crate::handshake::{Handshake, Progress};
use crate::listener::TlsListener;
use crate::stream::TlsStream;
use isorb_rt::net::{Interest, wait_ready};
use isorb_rt::sched::{SchedClass, ThreadSpec};
use isorb_rt::time::Deadline;
use isorb_transport::{Capabilities, Listener, PrepareSocket, Stream, Tcp, Transport, Unprotected};
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The tag by which an ORB distinguishes routes over TLS from others. References have no profile
/// with this tag: the address is in the component TAG_SSL_SEC_TRANS of the IIOP profile.
pub const TAG_TLS: u32 = 20;

/// TLS 1.2 and 1.3 over TCP. Addresses are those of [`Tcp`].
#[derive(Clone, Debug)]
pub struct Tls {
    context: Arc<Context>,
}

impl Tls {
    /// Reads the files.
    ///
    /// The files are checked again before each handshake, so certificates are renewed by replacing
    /// the files. If the new files are unusable, the previous certificates stay in use.
    ///
    /// # Errors
    /// [`TlsError`], with the file that is wrong.
    pub fn new(config: TlsConfig) -> Result<Tls, TlsError> {
        Ok(Tls { context: Arc::new(Context::new(config)?) })
    }
}

impl Transport for Tls {
    fn name(&self) -> &'static str {
        "ssl"
    }

    fn profile_tag(&self) -> u32 {
        TAG_TLS
    }

    fn capabilities(&self) -> Capabilities {
        Tcp.capabilities()
    }

    fn connect(&self, address: &str, timeout: Option<Duration>) -> io::Result<Box<dyn Stream>> {
        self.connect_prepared(address, timeout, &|_| Ok(()))
    }

    fn connect_prepared(
        &self,
        address: &str,
        timeout: Option<Duration>,
        prepare: PrepareSocket<'_>,
    ) -> io::Result<Box<dyn Stream>> {
        let limit = self.context.config().handshake_timeout;
        let deadline = Deadline::after(timeout.map_or(limit, |timeout| timeout.min(limit)));
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(|error| {
            Unprotected::Untrusted(format!("no certificate can be for this address: {error}"))
        })?;
        let stream = Tcp.connect_prepared(address, timeout, prepare)?;
        let context = self.context.clone();
        // From here on a server answered: no error may make the caller use an address without TLS.
        let shake_hands = move || client_handshake(&context, stream, name, deadline).map_err(unprotected);
        let stream = match SchedClass::current() {
            Ok(SchedClass::Other) => shake_hands()?,
            // A real-time thread must not spend milliseconds on cryptography: an ordinary thread
            // does it.
            _ => {
                let spec = ThreadSpec::new("isorb-tls-call").class(SchedClass::Other);
                let handshake =
                    spec.spawn(shake_hands).map_err(|error| unprotected(io::Error::other(error)))?;
                handshake
                    .join()
                    .map_err(|_| unprotected(io::Error::other("the handshake's thread panicked")))??
            }
        };
        Ok(Box::new(stream))
    }

    fn listen(&self, address: &str) -> io::Result<Box<dyn Listener>> {
        if self.context.current().0.server.is_none() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a TLS endpoint needs a certificate and its key",
            ));
        }
        Ok(Box::new(TlsListener::new(Tcp.listen(address)?, self.context.clone())?))
    }
}

/// Distinguishes a lack of trust from an interrupted handshake.
fn unprotected(error: io::Error) -> io::Error {
    use rustls::AlertDescription::{CloseNotify, InternalError, UserCanceled};
    let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let why = match of_tls {
        None | Some(rustls::Error::AlertReceived(CloseNotify | InternalError | UserCanceled)) => {
            Unprotected::Unfinished(format!("the TLS handshake was not completed: {error}"))
        }
        Some(_) => Unprotected::Untrusted(error.to_string()),
    };
    why.into()
}

/// The client's side of a handshake.
fn client_handshake(
    context: &Context,
    stream: Box<dyn Stream>,
    name: ServerName<'static>,
    deadline: Deadline,
) -> io::Result<TlsStream> {
    let (roles, _) = context.current();
    let tls = ClientConnection::new(roles.client, name).map_err(io::Error::other)?;
    let mut handshake = Handshake::new(stream, tls.into());
    loop {
        handshake = match handshake.advance()? {
            Progress::Done(stream) => return Ok(stream),
            Progress::Pending(handshake) => handshake,
        };
        let interest = if handshake.wants_to_send() { Interest::WRITE } else { Interest::READ };
        if !wait_ready(handshake.stream().fd(), interest, deadline)? {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the server did not continue in time"));
        }
    }
}

//! The transport.

use crate::config::{TlsConfig, TlsError};
use crate::context::Context;
use crate::handshake::{Handshake, Step};
use crate::listener::TlsListener;
use crate::stream::TlsStream;
use isorb_rt::net::{Interest, wait_ready};
use isorb_rt::sched::{SchedClass, ThreadSpec};
use isorb_rt::time::Deadline;
use isorb_transport::{Capabilities, Listener, Stream, Tcp, Transport, Unprotected};
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// By which an ORB tells routes over TLS from others. References have no profile of this tag: the address is in the component
/// TAG_SSL_SEC_TRANS of the IIOP profile.
pub const TAG_TLS: u32 = 20;

/// TLS 1.2 and 1.3 over TCP. Addresses are those of [`Tcp`].
#[derive(Clone, Debug)]
pub struct Tls {
    context: Arc<Context>,
}

impl Tls {
    /// Reads the files.
    ///
    /// The files are looked at again before each handshake, so that certificates are renewed by replacing them; when what is there is of
    /// no use, the ones from before stay.
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
        let limit = self.context.config().handshake_timeout;
        let deadline = Deadline::after(timeout.map_or(limit, |timeout| timeout.min(limit)));
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(|error| {
            Unprotected::Untrusted(format!("no certificate can be for this address: {error}"))
        })?;
        let stream = Tcp.connect(address, timeout)?;
        let context = self.context.clone();
        // From here on somebody is there: whatever happens, nobody goes on to an address without TLS.
        let greet = move || greet(&context, stream, name, deadline).map_err(unprotected);
        let stream = match SchedClass::current() {
            Ok(SchedClass::Other) => greet()?,
            // Milliseconds of cryptography are nothing for a real-time thread: it waits while an ordinary one does that.
            _ => {
                let spec = ThreadSpec::new("isorb-tls-call").class(SchedClass::Other);
                let greeting = spec.spawn(greet).map_err(|error| unprotected(io::Error::other(error)))?;
                greeting
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
                "an endpoint of TLS needs a certificate and its key",
            ));
        }
        Ok(Box::new(TlsListener::new(Tcp.listen(address)?, self.context.clone())?))
    }
}

/// Why a handshake was in vain: for whom the peers are, or by chance.
fn unprotected(error: io::Error) -> io::Error {
    use rustls::AlertDescription::{CloseNotify, InternalError, UserCanceled};
    let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let why = match of_tls {
        None | Some(rustls::Error::AlertReceived(CloseNotify | InternalError | UserCanceled)) => {
            Unprotected::Unfinished(format!("the TLS handshake came to no end: {error}"))
        }
        Some(_) => Unprotected::Untrusted(error.to_string()),
    };
    why.into()
}

/// The client's side of a handshake, to its end.
fn greet(
    context: &Context,
    stream: Box<dyn Stream>,
    name: ServerName<'static>,
    deadline: Deadline,
) -> io::Result<TlsStream> {
    let (roles, _) = context.current();
    let tls = ClientConnection::new(roles.client, name).map_err(io::Error::other)?;
    let mut handshake = Handshake::new(stream, tls.into());
    loop {
        handshake = match handshake.step()? {
            Step::Done(stream) => return Ok(stream),
            Step::Pending(handshake) => handshake,
        };
        let interest = if handshake.wants_to_send() { Interest::WRITE } else { Interest::READ };
        if !wait_ready(handshake.stream().fd(), interest, deadline)? {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "nothing more was heard in time"));
        }
    }
}

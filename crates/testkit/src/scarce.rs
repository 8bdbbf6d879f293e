//! A transport that runs out of descriptors.

use isorb::transport::{Capabilities, Listener, Stream, Tcp, Transport};
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// TCP of a process that may have no descriptor for a further connection. Endpoints are
/// [`ScarceTransport::ENDPOINT`].
#[derive(Debug, Default)]
pub struct ScarceTransport {
    exhausted: AtomicBool,
    opened: Mutex<Vec<TcpStream>>,
}

impl ScarceTransport {
    /// A free port.
    pub const ENDPOINT: &str = "giop:scarce:127.0.0.1:0";

    /// One that connects.
    pub fn new() -> Arc<ScarceTransport> {
        Arc::default()
    }

    /// From now on there is no descriptor for a connection, or there is again. The connections that
    /// were opened end.
    pub fn set_exhausted(&self, exhausted: bool) {
        self.exhausted.store(exhausted, Ordering::SeqCst);
        for stream in self.opened.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // The peer may have ended it.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Transport for ScarceTransport {
    fn name(&self) -> &'static str {
        "scarce"
    }

    fn profile_tag(&self) -> u32 {
        0x1234_5678
    }

    fn capabilities(&self) -> Capabilities {
        Tcp.capabilities()
    }

    fn connect(&self, address: &str, timeout: Option<Duration>) -> io::Result<Box<dyn Stream>> {
        const EMFILE: i32 = 24;
        if self.exhausted.load(Ordering::SeqCst) {
            return Err(io::Error::from_raw_os_error(EMFILE));
        }
        let stream = Tcp.connect(address, timeout)?;
        let same = stream.fd().try_clone_to_owned()?;
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).push(same.into());
        Ok(stream)
    }

    fn listen(&self, address: &str) -> io::Result<Box<dyn Listener>> {
        Tcp.listen(address)
    }
}

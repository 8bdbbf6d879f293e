//! The control of a remote channel: the same two hops and threads over plain TCP.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use super::{Flight, PAYLOAD};
use crate::protocol::{exit_at_end_of_input, ready};

/// As many octets as the request with which isorb pushes an event of [`PAYLOAD`] octets.
const MESSAGE: usize = 216;
const _: () = assert!(MESSAGE > PAYLOAD);

/// Passes on what the first connection brings over the second.
pub(super) fn serve() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    exit_at_end_of_input();
    ready(listener.local_addr()?)?;
    let (mut from, _) = listener.accept()?;
    let (mut to, _) = listener.accept()?;
    to.set_nodelay(true)?;
    let mut message = [0; MESSAGE];
    loop {
        match from.read_exact(&mut message).and_then(|()| to.write_all(&message)) {
            // The ends have gone; the process stays until it is told to end, as others do.
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => std::thread::park(),
            other => other?,
        }
    }
}

/// Both ends of it.
pub(super) fn ends(address: &str) -> io::Result<()> {
    let (mut out, mut back) = (TcpStream::connect(address)?, TcpStream::connect(address)?);
    out.set_nodelay(true)?;
    let flight = Arc::new(Flight::default());
    let landing = flight.clone();
    std::thread::spawn(move || {
        let mut message = [0; MESSAGE];
        while back.read_exact(&mut message).is_ok() {
            landing.land(&message);
        }
    });
    let mut message = [0; MESSAGE];
    flight.obey(|octets| {
        message[..octets.len()].copy_from_slice(octets);
        out.write_all(&message)
    })
}

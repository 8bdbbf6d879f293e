//! The control of a remote channel: the same two hops and threads over plain TCP.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use super::{InFlight, PAYLOAD};
use crate::protocol::{exit_at_end_of_input, ready};

/// As many octets as the request with which isorb pushes an event of [`PAYLOAD`] octets.
const MESSAGE: usize = 216;
const _: () = assert!(MESSAGE > PAYLOAD);

/// Passes on what the first connection brings over the second; `through` another such program, if
/// its address is given.
pub(super) fn serve(through: Option<&str>) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    exit_at_end_of_input();
    // That one takes the first connection for what comes, and the second for what goes.
    let beyond = match through {
        Some(address) => Some((TcpStream::connect(address)?, TcpStream::connect(address)?)),
        None => None,
    };
    ready(listener.local_addr()?)?;
    let (from, _) = listener.accept()?;
    let (to, _) = listener.accept()?;
    match beyond {
        Some((there, back)) => {
            std::thread::spawn(move || pass_on(from, there));
            pass_on(back, to)
        }
        None => pass_on(from, to),
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream) -> io::Result<()> {
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
pub(super) fn supplier_consumer(address: &str) -> io::Result<()> {
    let (mut out, mut back) = (TcpStream::connect(address)?, TcpStream::connect(address)?);
    out.set_nodelay(true)?;
    let flight = Arc::new(InFlight::default());
    let arriving = flight.clone();
    std::thread::spawn(move || {
        let mut message = [0; MESSAGE];
        while back.read_exact(&mut message).is_ok() {
            arriving.arrive(&message);
        }
    });
    let mut message = [0; MESSAGE];
    flight.obey(|octets| {
        message[..octets.len()].copy_from_slice(octets);
        out.write_all(&message)
    })
}

//! The control of the attacks: accepts every connection and sends back what it receives, a thread
//! each, without an ORB and without a limit.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;

use super::tls;
use crate::descriptors;
use crate::protocol::{exit_at_end_of_input, ready};

/// Enough for the handshake of TLS.
const STACK: usize = 128 << 10;

/// Serves until standard input ends, over TLS with the certificates of a folder.
pub fn serve(tls: Option<PathBuf>) -> io::Result<()> {
    exit_at_end_of_input();
    descriptors::raise()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    ready(listener.local_addr()?)?;
    loop {
        // A peer that has gone before it was accepted, or no descriptor: the next one may do.
        let Ok((stream, _)) = listener.accept() else { continue };
        let folder = tls.clone();
        // Without a thread the connection is closed.
        let _ = thread::Builder::new().stack_size(STACK).spawn(move || accepted(stream, folder.as_deref()));
    }
}

fn accepted(stream: TcpStream, tls: Option<&Path>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match tls {
        Some(folder) => echo(tls::accepted(folder, stream)?),
        None => echo(stream),
    }
}

fn echo(mut stream: impl Read + Write) -> io::Result<()> {
    let mut octets = vec![0; 16 << 10];
    loop {
        match stream.read(&mut octets)? {
            0 => return Ok(()),
            count => stream.write_all(&octets[..count])?,
        }
        stream.flush()?;
    }
}

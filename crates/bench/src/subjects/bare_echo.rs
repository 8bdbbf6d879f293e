//! The control of the attacks: accepts every connection and sends back each message, a thread each,
//! without an ORB and without a limit.

use std::io::{self, BufReader, Read, Write};
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

/// Octets of the header of a message.
const HEADER: usize = 12;
/// Where the flags of a request say whether it wants a reply (CORBA 3.3 part 2, clause 9.4.2).
const RESPONSE_AT: usize = 16;

/// Reads message by message, as an ORB has to, and sends those back that want a reply.
fn echo(stream: impl Read + Write) -> io::Result<()> {
    let mut stream = BufReader::with_capacity(16 << 10, stream);
    let mut message = Vec::new();
    loop {
        let mut header = [0; HEADER];
        stream.read_exact(&mut header)?;
        let size = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
        message.clear();
        message.extend(header);
        // As many as come: a length takes no memory.
        stream.by_ref().take(size.into()).read_to_end(&mut message)?;
        let wants_reply = message.get(RESPONSE_AT).is_some_and(|flags| flags & 3 != 0);
        if header[7] == 0 && wants_reply {
            stream.get_mut().write_all(&message)?;
            stream.get_mut().flush()?;
        }
    }
}

//! Clients that connect and ask for nothing: half of them say nothing at all, the others send a
//! message octet by octet.
//!
//! ```text
//!   harness ── open 1000 ──► opened 1000      connects so often, and keeps what it got
//!           ── count     ──► alive 12         of all, those that the server has not closed
//! ```

use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::descriptors;
use crate::protocol::ready;

/// Descriptors that the process needs beside its connections.
const SPARE: u64 = 100;
/// How long a connect may take.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Between two octets of a client that sends octet by octet.
const PAUSE: Duration = Duration::from_secs(1);
/// What it sends: the head of a message of a kilobyte, and then its octets.
const HEAD: [u8; 12] = *b"GIOP\x01\x02\x01\x00\x00\x04\x00\x00";
/// Over TLS: the head of a record of half a kilobyte, and of the client's hello in it.
const CLIENT_HELLO: [u8; 11] = *b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

/// How the crowd connects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Transport {
    Tcp,
    Tls,
    Unix,
}

impl Transport {
    fn connect(self, address: &str) -> io::Result<Box<dyn Connection>> {
        if self == Transport::Unix {
            // Waits while the server's backlog is full.
            let stream = UnixStream::connect(address)?;
            stream.set_nonblocking(true)?;
            return Ok(Box::new(stream));
        }
        let address = address.parse().map_err(io::Error::other)?;
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_nonblocking(true)?;
        Ok(Box::new(stream))
    }

    /// What a client that sends sends, an octet at a time; then noughts.
    fn head(self) -> &'static [u8] {
        if self == Transport::Tls { &CLIENT_HELLO } else { &HEAD }
    }
}

trait Connection: Read + Write + Send {}
impl<T: Read + Write + Send> Connection for T {}

/// One of the crowd.
struct One {
    stream: Box<dyn Connection>,
    /// Octets that it has sent; `None` if it sends none.
    sent: Option<usize>,
}

/// How many connections a process that this one starts may have, at least `wanted` where the limit
/// may be raised for that.
pub fn most(wanted: usize) -> usize {
    let limits = getrlimit(Resource::Nofile);
    let needed = wanted as u64 + SPARE;
    if limits.maximum.is_some_and(|hard| hard < needed) {
        // Only root may; the caller sees what there is.
        let _ = setrlimit(Resource::Nofile, Rlimit { maximum: Some(needed), ..limits });
    }
    let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    usize::try_from(hard.saturating_sub(SPARE)).unwrap_or(usize::MAX)
}

/// Arguments of the crowd.
#[derive(clap::Args, Debug)]
pub struct StormArgs {
    transport: Transport,
    /// The server's: an address with a port, or a path
    address: String,
}

/// Obeys the harness until standard input ends.
pub fn obey(args: &StormArgs) -> io::Result<()> {
    descriptors::raise()?;
    let crowd = Arc::new(Mutex::new(Vec::new()));
    let (talkers, head) = (crowd.clone(), args.transport.head());
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(PAUSE);
            talk(&mut talkers.lock().unwrap_or_else(PoisonError::into_inner), head);
        }
    });
    ready("")?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let answer = match line.split_once(' ') {
            Some(("open", number)) => {
                let number = number.parse().map_err(|_| ErrorKind::InvalidInput)?;
                format!("opened {}", open(args, number, &crowd))
            }
            None if line == "count" => {
                let mut crowd = crowd.lock().unwrap_or_else(PoisonError::into_inner);
                crowd.retain_mut(is_alive);
                format!("alive {}", crowd.len())
            }
            _ => return Err(ErrorKind::InvalidInput.into()),
        };
        let mut output = io::stdout().lock();
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
    Ok(())
}

/// Connects so often; how many connections there were.
fn open(args: &StormArgs, number: usize, crowd: &Mutex<Vec<One>>) -> usize {
    let mut opened = 0;
    for i in 0..number {
        let Ok(stream) = args.transport.connect(&args.address) else { continue };
        let sent = (i % 2 == 1).then_some(0);
        crowd.lock().unwrap_or_else(PoisonError::into_inner).push(One { stream, sent });
        opened += 1;
    }
    opened
}

/// Each of those that send sends its next octet.
fn talk(crowd: &mut [One], head: &[u8]) {
    for One { stream, sent } in crowd {
        if let Some(sent) = sent {
            // A closed connection is counted as closed.
            let _ = stream.write(&[head.get(*sent).copied().unwrap_or(0)]);
            *sent += 1;
        }
    }
}

/// Whether the server has not closed it yet.
fn is_alive(one: &mut One) -> bool {
    let mut last = [0; 64];
    loop {
        match one.stream.read(&mut last) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_closed_connection_is_counted_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let crowd = Mutex::new(Vec::new());
        let address = listener.local_addr().unwrap().to_string();
        let args = StormArgs { transport: Transport::Tcp, address };
        assert_eq!(open(&args, 4, &crowd), 4);
        let mut crowd = crowd.into_inner().unwrap();
        let mut served: Vec<_> = (0..4).map(|_| listener.accept().unwrap().0).collect();
        talk(&mut crowd, args.transport.head());
        let mut octet = [0];
        served[1].read_exact(&mut octet).unwrap();
        assert_eq!(octet, *b"G");
        crowd.retain_mut(is_alive);
        assert_eq!(crowd.len(), 4, "none was closed");
        served.truncate(1);
        while crowd.len() > 1 {
            crowd.retain_mut(is_alive);
        }
    }
}

//! Many clients of one server, all played by one thread that does nothing else, so that the server
//! is what is measured.
//!
//! Each client is a connection with one request under way. Requests are octets that are made once,
//! and replies are received by their length only.
//!
//! ```text
//!   harness ── open 64          ──► opened 64          connections in all, each called once
//!           ── echo 1024 500    ──► calls 61234 500123456   two-way calls, and the nanoseconds
//!           ── feed 1024 500    ──► calls 91234 500123456   oneways, each connection's in bursts
//! ```

use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::time::Duration;

use isorb_cdr::{Encoder, Text};
use isorb_giop::message::{self, Response};
use isorb_rt::time::now_ns;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};

use crate::descriptors;
use crate::protocol::ready;
use crate::workload::attack::octets_of;

/// Oneways of a burst, before a call waits for their arrival. All of a burst fit in the buffers of
/// a socket.
pub const BURST: u64 = 16;
/// Octets of a GIOP header.
const HEADER: usize = 12;
/// Where a header has its flags, and the one of a message that goes on in another.
const FLAGS: usize = 6;
const MORE_FRAGMENTS: u8 = 2;
/// The longest message that is received.
const LONGEST: usize = (1 << 20) + 4096;
/// How long all connections together may be silent.
const SILENCE: Duration = Duration::from_secs(10);

/// Arguments of the clients.
#[derive(clap::Args, Debug)]
pub struct ManyArgs {
    /// The server's address with its port
    address: String,
    /// The object's key, in hexadecimal digits
    key: String,
}

/// Obeys the harness until standard input ends.
pub fn obey(args: &ManyArgs) -> io::Result<()> {
    descriptors::raise()?;
    let mut clients = Clients::new(&args.address, &args.key)?;
    ready("")?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        let number = |word: &str| word.parse::<u32>().map_err(|_| ErrorKind::InvalidInput);
        let answer = match words[..] {
            ["open", count] => format!("opened {}", clients.open(number(count)? as usize)?),
            [kind @ ("echo" | "feed"), size, ms] => {
                let length = Duration::from_millis(number(ms)?.into());
                let (calls, ns) = clients.run(kind == "feed", number(size)? as usize, length)?;
                format!("calls {calls} {ns}")
            }
            _ => return Err(ErrorKind::InvalidInput.into()),
        };
        let mut output = io::stdout().lock();
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
    Ok(())
}

/// A connection, and how far its request and reply are.
struct Client {
    stream: TcpStream,
    sent: usize,
    reply: ReplyEnd,
    busy: bool,
}

/// Finds the end of a reply, which may come in fragments.
#[derive(Default)]
struct ReplyEnd {
    header: [u8; HEADER],
    /// Octets of the header that are there.
    filled: usize,
    /// Octets of the message that are still to come.
    left: usize,
}

struct Clients {
    address: String,
    key: Vec<u8>,
    epoll: OwnedFd,
    all: Vec<Client>,
    buffer: Vec<u8>,
}

impl Clients {
    fn new(address: &str, key: &str) -> io::Result<Clients> {
        Ok(Clients {
            address: address.to_owned(),
            key: octets_of(key)?,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            all: Vec::new(),
            buffer: vec![0; 256 << 10],
        })
    }

    /// Opens or closes connections until there are so many. Each new one makes a call.
    fn open(&mut self, count: usize) -> io::Result<usize> {
        while self.all.len() > count {
            self.all.pop();
        }
        let request = self.request(Response::Target, "ping", None)?;
        while self.all.len() < count {
            let mut stream = TcpStream::connect(&self.address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(SILENCE))?;
            stream.write_all(&request)?;
            let mut header = [0; HEADER];
            stream.read_exact(&mut header)?;
            let mut rest = vec![0; length_of(&header)? - HEADER];
            stream.read_exact(&mut rest)?;
            stream.set_nonblocking(true)?;
            let data = EventData::new_u64(self.all.len() as u64);
            epoll::add(&self.epoll, &stream, data, EventFlags::IN | EventFlags::OUT | EventFlags::ET)?;
            self.all.push(Client { stream, sent: 0, reply: ReplyEnd::default(), busy: false });
        }
        Ok(self.all.len())
    }

    /// Calls on all connections for so long; how many calls ended, and the nanoseconds.
    fn run(&mut self, oneways: bool, size: usize, length: Duration) -> io::Result<(u64, u64)> {
        let request = if oneways {
            let feed = self.request(Response::None, "feed", Some(size))?;
            let mut burst = feed.repeat(BURST as usize);
            burst.extend(self.request(Response::Target, "fed", None)?);
            burst
        } else {
            self.request(Response::Target, "echo", Some(size))?
        };
        let calls_each = if oneways { BURST } else { 1 };
        let begin = now_ns();
        let until = begin + u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        let (mut calls, mut ended, mut busy) = (0, begin, 0);
        for client in &mut self.all {
            client.begin(&request)?;
            busy += 1;
        }
        let mut events = Vec::with_capacity(256);
        let silence = rustix::event::Timespec { tv_sec: SILENCE.as_secs().cast_signed(), tv_nsec: 0 };
        while busy > 0 {
            events.clear();
            epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&silence))?;
            if events.is_empty() {
                return Err(io::Error::other("the server is silent"));
            }
            for event in &events {
                // Events of connections that are closed are gone with them.
                let Some(client) = self.all.get_mut(event.data.u64() as usize) else { continue };
                if !client.go_on(&request, &mut self.buffer)? {
                    continue;
                }
                ended = now_ns();
                if ended < until {
                    calls += calls_each;
                    client.begin(&request)?;
                } else {
                    // What ends after the time is not counted, but waited for.
                    busy -= 1;
                }
            }
        }
        Ok((calls, ended.min(until) - begin))
    }

    /// A request in GIOP 1.2, with so many octets as its argument.
    fn request(&self, response: Response, operation: &str, octets: Option<usize>) -> io::Result<Vec<u8>> {
        let argument = vec![1u8; octets.unwrap_or_default()];
        let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
        message::write_request(&mut e, 1, response, &self.key, operation, &[]);
        let body = message::begin_body(&mut e);
        if octets.is_some() {
            e.plain_seq(&argument);
        }
        message::end_body(&mut e, body);
        let mut request = e.finish().map_err(|(error, _)| io::Error::other(error.to_string()))?;
        message::finish_header(&mut request).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(request.pieces().collect::<Vec<_>>().concat())
    }
}

impl Client {
    fn begin(&mut self, request: &[u8]) -> io::Result<()> {
        (self.sent, self.busy) = (0, true);
        self.send(request)
    }

    fn send(&mut self, request: &[u8]) -> io::Result<()> {
        while self.sent < request.len() {
            match self.stream.write(&request[self.sent..]) {
                Ok(octets) => self.sent += octets,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends and receives what it can; whether the reply is whole.
    fn go_on(&mut self, request: &[u8], buffer: &mut [u8]) -> io::Result<bool> {
        if !self.busy {
            return Ok(false);
        }
        self.send(request)?;
        loop {
            let count = match self.stream.read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            };
            if self.reply.ends_within(&buffer[..count])? {
                self.busy = false;
                return Ok(true);
            }
        }
    }
}

impl ReplyEnd {
    /// Takes what was received; whether the reply ends with it.
    fn ends_within(&mut self, mut octets: &[u8]) -> io::Result<bool> {
        loop {
            if self.filled < HEADER {
                let taken = octets.len().min(HEADER - self.filled);
                let (head, rest) = octets.split_at(taken);
                self.header[self.filled..self.filled + taken].copy_from_slice(head);
                (self.filled, octets) = (self.filled + taken, rest);
                if self.filled < HEADER {
                    return Ok(false);
                }
                self.left = length_of(&self.header)? - HEADER;
            }
            let taken = octets.len().min(self.left);
            (self.left, octets) = (self.left - taken, &octets[taken..]);
            if self.left > 0 {
                return Ok(false);
            }
            self.filled = 0;
            if self.header[FLAGS] & MORE_FRAGMENTS == 0 {
                // One call, one reply: nothing of the next one is there.
                return if octets.is_empty() { Ok(true) } else { Err(ErrorKind::InvalidData.into()) };
            }
        }
    }
}

/// The length of the message with this header.
pub fn length_of(header: &[u8; HEADER]) -> io::Result<usize> {
    let size = [header[8], header[9], header[10], header[11]];
    let little = header[FLAGS] & 1 == 1;
    let size = if little { u32::from_le_bytes(size) } else { u32::from_be_bytes(size) };
    let length = size as usize + HEADER;
    let is_valid = header.starts_with(b"GIOP") && length <= LONGEST;
    if is_valid { Ok(length) } else { Err(ErrorKind::InvalidData.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subjects::raw_epoll;

    #[test]
    fn calls_of_many_connections_end() {
        let (address, _server) = raw_epoll::started().unwrap();
        let mut clients = Clients::new(&address, "00ff").unwrap();
        assert_eq!(clients.open(5).unwrap(), 5);
        // On a busy machine no call may end within a short time.
        let run = |clients: &mut Clients, oneways, size| {
            let mut time = Duration::from_millis(30);
            loop {
                let (calls, ns) = clients.run(oneways, size, time).unwrap();
                if calls > 0 || time > Duration::from_secs(60) {
                    return (calls, ns);
                }
                time *= 2;
            }
        };
        for (oneways, size) in [(false, 0), (false, 64 << 10), (true, 100), (false, 300_000)] {
            let (calls, ns) = run(&mut clients, oneways, size);
            assert!(calls > 0 && ns > 0, "{size}");
        }
        assert_eq!(clients.open(2).unwrap(), 2);
        assert!(run(&mut clients, false, 16).0 > 0);
    }

    #[test]
    fn keys_and_headers_that_are_none_are_refused() {
        for key in ["x", "0", "0g"] {
            assert!(Clients::new("127.0.0.1:1", key).is_err(), "{key}");
        }
        assert_eq!(length_of(b"GIOP\x01\x02\x01\x01\x04\x00\x00\x00").unwrap(), 16);
        assert_eq!(length_of(b"GIOP\x01\x02\x00\x01\x00\x00\x00\x04").unwrap(), 16);
        assert!(length_of(b"HTTP\x01\x02\x01\x01\x04\x00\x00\x00").is_err());
        assert!(length_of(b"GIOP\x01\x02\x01\x01\xff\xff\xff\xff").is_err());
    }

    #[test]
    fn a_reply_ends_with_its_last_fragment() {
        let octets = *b"GIOP\x01\x02\x03\x01\x02\x00\x00\x00abGIOP\x01\x02\x01\x07\x01\x00\x00\x00c";
        for size in 1..=octets.len() {
            let mut reply = ReplyEnd::default();
            let mut pieces = octets.chunks(size).peekable();
            while let Some(piece) = pieces.next() {
                assert_eq!(reply.ends_within(piece).unwrap(), pieces.peek().is_none(), "{size}");
            }
        }
        assert!(ReplyEnd::default().ends_within(&[&octets[..], b"G"].concat()).is_err());
    }
}

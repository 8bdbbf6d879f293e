//! The control for many connections: one thread with epoll that sends as many octets back as it
//! receives, without an ORB.
//!
//! It knows a message by the length in its header, and by a flag whether it wants a reply.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};

use crate::protocol::{exit_at_end_of_input, ready};
use crate::workload::many_clients::length_of;

const HEADER: usize = 12;
/// Octets of a reply before its body.
const REPLY: usize = 24;
/// Where the flags of a request say whether it wants a reply (CORBA 3.3 part 2, clause 9.4.2).
const RESPONSE_AT: usize = 16;
/// Octets of a request with this client's keys before its body; the exact number is no matter.
const REQUEST: usize = 72;

/// Serves until standard input ends.
pub fn serve() -> io::Result<()> {
    exit_at_end_of_input();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    ready(listener.local_addr()?)?;
    answer(&listener)
}

/// A server on a thread of its own, and where it listens.
#[cfg(test)]
pub fn started() -> io::Result<(String, std::thread::JoinHandle<io::Result<()>>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    Ok((address, std::thread::spawn(move || answer(&listener))))
}

fn answer(listener: &TcpListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let key = |socket: &dyn AsRawFd| u64::from(socket.as_raw_fd().unsigned_abs());
    let acceptor = key(listener);
    epoll::add(&epoll, listener, EventData::new_u64(acceptor), EventFlags::IN)?;
    let mut connections: HashMap<u64, Connection> = HashMap::new();
    let mut events = Vec::with_capacity(64);
    loop {
        events.clear();
        // A wait that a signal ends is repeated.
        let _ = epoll::wait(&epoll, spare_capacity(&mut events), None);
        for event in &events {
            let data = event.data.u64();
            if data == acceptor {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nodelay(true)?;
                    stream.set_nonblocking(true)?;
                    let key = key(&stream);
                    let both = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
                    epoll::add(&epoll, &stream, EventData::new_u64(key), both)?;
                    connections.insert(key, Connection::new(stream));
                }
                continue;
            }
            let ended = connections.get_mut(&data).is_some_and(|connection| connection.serve().is_err());
            if ended {
                connections.remove(&data);
            }
        }
    }
}

struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    filled: usize,
    reply: Vec<u8>,
    sent: usize,
}

impl Connection {
    fn new(stream: TcpStream) -> Connection {
        Connection { stream, received: vec![0; 4096], filled: 0, reply: Vec::new(), sent: 0 }
    }

    /// Sends and receives what it can, until either would wait.
    fn serve(&mut self) -> io::Result<()> {
        loop {
            while self.sent < self.reply.len() {
                match self.stream.write(&self.reply[self.sent..]) {
                    Ok(octets) => self.sent += octets,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
            if self.take_request()? {
                continue;
            }
            match self.stream.read(&mut self.received[self.filled..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(octets) => self.filled += octets,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes the next request out of what was received, and makes its reply, if there is one.
    fn take_request(&mut self) -> io::Result<bool> {
        let Some(header) = self.received[..self.filled].first_chunk() else { return Ok(false) };
        let length = length_of(header)?;
        if self.received.len() < length {
            self.received.resize(length, 0);
        }
        if self.filled < length {
            return Ok(false);
        }
        self.sent = 0;
        let wants_reply = self.received.get(RESPONSE_AT).is_some_and(|&flags| flags != 0);
        self.reply.clear();
        if wants_reply {
            let size = u32::try_from(REPLY - HEADER + length.saturating_sub(REQUEST)).unwrap_or(u32::MAX);
            self.reply.extend(*b"GIOP\x01\x02\x01\x01");
            self.reply.extend(size.to_le_bytes());
            self.reply.resize(REPLY, 0);
            self.reply.extend(&self.received[length.min(REQUEST)..length]);
        }
        self.received.copy_within(length..self.filled, 0);
        self.filled -= length;
        Ok(true)
    }
}

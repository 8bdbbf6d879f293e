//! A client by hand-written octets, for messages that no well-behaved client sends.

use isorb::Object;
use isorb_cdr::{Encoder, Text};
use isorb_giop::message::{self, Response, ServiceContext};
use std::io::ErrorKind::{TimedOut, WouldBlock};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A connection to an object's first address.
pub struct Raw {
    stream: TcpStream,
    key: Vec<u8>,
    id: u32,
}

/// A parsed reply.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// 0 results, 1 user exception, 2 system exception.
    pub status: u32,
    pub contexts: Vec<(u32, Vec<u8>)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// Repository id and minor code of a system exception.
    pub fn exception(&self) -> (String, u32) {
        assert_eq!(self.status, 2, "{self:?}");
        let n = word(&self.body, 0) as usize;
        let id = String::from_utf8(self.body[4..4 + n - 1].to_vec()).unwrap();
        (id, word(&self.body, (4 + n).next_multiple_of(4)))
    }
}

impl Raw {
    pub fn connect(object: &Object) -> Raw {
        let profile = object.ior().iiop_profiles().flatten().next().unwrap();
        let stream = TcpStream::connect((profile.host.as_str(), profile.port)).unwrap();
        // Only for the end of a failing test.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Raw { stream, key: profile.key, id: 0 }
    }

    /// A connection to another port for the same object.
    pub fn connect_at(object: &Object, port: u16) -> Raw {
        let mut raw = Raw::connect(object);
        raw.stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        raw.stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        raw
    }

    /// A connection from another address of this host.
    pub fn connect_from(object: &Object, from: [u8; 4]) -> Raw {
        let mut raw = Raw::connect(object);
        let to = raw.stream.peer_addr().unwrap();
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&std::net::SocketAddr::from((from, 0)).into()).unwrap();
        socket.connect(&to.into()).unwrap();
        raw.stream = socket.into();
        raw.stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        raw
    }

    /// All octets until the end of the connection.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        let mut octets = Vec::new();
        // A reset ends it as well; what came before counts.
        let _ = self.stream.read_to_end(&mut octets);
        octets
    }

    /// Whether octets of this client wait in the server's socket. The kernel of a busy machine may
    /// deliver them some time after they were sent.
    pub fn waits_at_server(&self) -> bool {
        let std::net::SocketAddr::V4(own) = self.stream.local_addr().unwrap() else { panic!("IPv4 only") };
        let own = format!("{:08X}:{:04X}", u32::from_ne_bytes(own.ip().octets()), own.port());
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        // Number, local and remote address, state, octets to be sent and to be read.
        table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).any(|fields| {
            let read = fields.get(4).and_then(|queues| queues.split_once(':'));
            fields.get(2) == Some(&&*own) && read.is_some_and(|(_, read)| read != "00000000")
        })
    }

    /// Sends a request without arguments.
    pub fn send(&mut self, operation: &str, contexts: &[(u32, &[u8])]) {
        self.id += 1;
        let contexts: Vec<_> = contexts.iter().map(|(id, data)| ServiceContext { id: *id, data }).collect();
        let octets = self.encoded(Response::Target, operation, &contexts, &|_| ());
        self.write(&octets);
    }

    fn encoded<'a>(
        &self,
        response: Response,
        operation: &str,
        contexts: &[ServiceContext<'_>],
        arguments: &dyn Fn(&mut Encoder<'a>),
    ) -> Vec<u8> {
        let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
        message::write_request(&mut e, self.id, response, &self.key, operation, contexts);
        let body = message::begin_body(&mut e);
        arguments(&mut e);
        message::end_body(&mut e, body);
        let message = e.finished().unwrap();
        message::finish_header(message).unwrap();
        message.pieces().flatten().copied().collect()
    }

    /// The octets of a request with a sequence of octets as its argument, for
    /// [`write`](Self::write).
    pub fn request(&self, response: Response, operation: &str, argument: &[u8]) -> Vec<u8> {
        self.encoded(response, operation, &[], &|e| {
            e.put(argument.len() as u32);
            argument.iter().for_each(|octet| e.put(*octet));
        })
    }

    /// Sends octets. Allocates nothing.
    pub fn write(&mut self, octets: &[u8]) {
        self.stream.write_all(octets).unwrap();
    }

    /// Sends octets to a server that may close the connection meanwhile.
    pub fn offer(&mut self, octets: &[u8]) {
        let _ = self.stream.write_all(octets);
    }

    /// Receives a reply to `into`: its status and length. Allocates nothing.
    pub fn receive_to(&mut self, into: &mut [u8]) -> (u32, usize) {
        self.stream.read_exact(&mut into[..12]).unwrap();
        let n = word(into, 8) as usize;
        self.stream.read_exact(&mut into[..n]).unwrap();
        (word(into, 4), n)
    }

    /// Waits for what the server sends next: whether that is the end of the connection.
    pub fn is_closed(&mut self) -> bool {
        let mut octets = [0; 64];
        match self.stream.read(&mut octets) {
            Ok(n) if n > 0 => octets[7] == 5,
            Ok(_) => true,
            Err(error) => !matches!(error.kind(), WouldBlock | TimedOut),
        }
    }

    /// The next reply, of GIOP 1.2 in this machine's byte order.
    pub fn receive(&mut self) -> Answer {
        let mut header = [0; 12];
        self.stream.read_exact(&mut header).unwrap();
        assert_eq!((&header[..6], header[7]), (&b"GIOP\x01\x02"[..], 1), "a reply");
        let mut octets = vec![0; word(&header, 8) as usize];
        self.stream.read_exact(&mut octets).unwrap();
        let mut at = 12;
        let contexts = (0..word(&octets, 8)).map(|_| {
            let (id, n) = (word(&octets, at), word(&octets, at + 4) as usize);
            let data = octets[at + 8..at + 8 + n].to_vec();
            at = (at + 8 + n).next_multiple_of(4);
            (id, data)
        });
        let contexts = contexts.collect();
        // Counted from the message's start, the body is aligned to 8.
        let body = (12 + at).next_multiple_of(8) - 12;
        Answer { status: word(&octets, 4), contexts, body: octets.get(body..).unwrap_or_default().to_vec() }
    }

    pub fn call(&mut self, operation: &str, contexts: &[(u32, &[u8])]) -> Answer {
        self.send(operation, contexts);
        self.receive()
    }
}

fn word(octets: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(octets[at..at + 4].try_into().unwrap())
}

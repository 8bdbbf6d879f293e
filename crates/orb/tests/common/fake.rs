//! A server by hand-written bytes.

use super::EchoRef;
use isorb::{Config, Orb};
use isorb_cdr::{Encoder, Text};
use isorb_giop::Header;
use isorb_giop::message::{self, ReplyStatus, Request};
use isorb_scope::Region;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

pub const CLOSE: &[u8] = b"GIOP\x01\x02\x00\x05\x00\x00\x00\x00";

/// A server with every byte decided by the test.
pub struct Fake(pub TcpListener);

impl Fake {
    pub fn new() -> Fake {
        Fake(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    pub fn object(&self, config: Config) -> EchoRef {
        let port = self.0.local_addr().unwrap().port();
        let orb = Orb::with_config(config).unwrap();
        let object = orb.string_to_object(&format!("corbaloc::1.2@127.0.0.1:{port}/fake")).unwrap();
        object.unchecked_narrow()
    }

    pub fn accept(&self) -> TcpStream {
        let (stream, _) = self.0.accept().unwrap();
        // Only for the end of a failing test.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }
}

/// Reads a message; the request id of a request, `None` at the end of the stream.
pub fn read(stream: &mut TcpStream) -> Option<u32> {
    let mut header = [0; 12];
    stream.read_exact(&mut header).ok()?;
    assert_eq!((&header[..4], header[6] & 1), (&b"GIOP"[..], 1), "little endian");
    let mut body = vec![0; u32::from_le_bytes(header[8..].try_into().unwrap()) as usize];
    stream.read_exact(&mut body).unwrap();
    Some(u32::from_le_bytes(body[..4].try_into().unwrap()))
}

/// An empty GIOP 1.2 reply.
pub fn reply(id: u32) -> Vec<u8> {
    let mut message = b"GIOP\x01\x02\x01\x01\x0c\x00\x00\x00".to_vec();
    message.extend(id.to_le_bytes());
    message.extend([0; 8]);
    message
}

/// The next complete message; `None` at the end of the stream.
pub fn next(stream: &mut TcpStream) -> Option<(Header, Vec<u8>)> {
    let mut bytes = vec![0; Header::LEN];
    stream.read_exact(&mut bytes).ok()?;
    let header = Header::parse(bytes.first_chunk().unwrap()).unwrap();
    bytes.resize(header.total(), 0);
    stream.read_exact(&mut bytes[Header::LEN..]).ok()?;
    Some((header, bytes))
}

/// A request at the server: id, operation, contexts by id and octets.
pub type Observed = (u32, String, Vec<(u32, Vec<u8>)>);

/// Reads a request.
pub fn request(stream: &mut TcpStream) -> Option<Observed> {
    let (header, mut bytes) = next(stream)?;
    let mut region = Region::new(1024);
    let scope = region.enter();
    let (request, _) = Request::open(&mut bytes, &header, &scope).unwrap();
    let contexts = request.contexts.iter().map(|context| (context.id, context.data.to_vec())).collect();
    Some((request.id, request.operation.text().unwrap().into(), contexts))
}

/// Sends a reply without results, or with a system exception.
pub fn answer(stream: &mut TcpStream, id: u32, raises: Option<(&str, u32)>) {
    let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
    let status = if raises.is_some() { ReplyStatus::SystemException } else { ReplyStatus::NoException };
    message::write_reply(&mut e, id, status, &[]);
    let body = message::begin_body(&mut e);
    if let Some((exception, minor)) = raises {
        e.string(exception);
        e.put(minor);
        e.put(1u32);
    }
    message::end_body(&mut e, body);
    let mut message = e.finish().unwrap();
    message::finish_header(&mut message).unwrap();
    stream.write_all(&message.into_buffer()).unwrap();
}

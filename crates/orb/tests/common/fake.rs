//! A server by hand-written bytes.

use super::EchoRef;
use isorb::{Config, Orb};
use std::io::Read;
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

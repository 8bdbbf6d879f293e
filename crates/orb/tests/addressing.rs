//! A server that does not accept object keys as addresses (clause 9.4.3.1), implemented by a
//! socket.

mod common;

use common::EchoRef;
use isorb::{Config, Kind, Orb};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// The next request: its id and its addressing.
fn request(stream: &mut TcpStream) -> (u32, u16) {
    let mut header = [0; 12];
    stream.read_exact(&mut header).unwrap();
    assert_eq!((&header[..4], header[7]), (&b"GIOP"[..], 0), "a request");
    let mut body = vec![0; u32::from_le_bytes(header[8..].try_into().unwrap()) as usize];
    stream.read_exact(&mut body).unwrap();
    (u32::from_le_bytes(body[..4].try_into().unwrap()), u16::from_le_bytes([body[8], body[9]]))
}

/// A reply with a status, little endian; with a short as its body if there is one.
fn reply(stream: &mut TcpStream, id: u32, status: u32, body: Option<u16>) {
    let mut message = b"GIOP\x01\x02\x01\x01".to_vec();
    let size: u32 = if body.is_some() { 14 } else { 12 };
    message.extend(size.to_le_bytes());
    message.extend(id.to_le_bytes());
    message.extend(status.to_le_bytes());
    message.extend(0u32.to_le_bytes());
    message.extend(body.iter().flat_map(|way| way.to_le_bytes()));
    stream.write_all(&message).unwrap();
}

fn far(listener: &TcpListener) -> EchoRef {
    let url = format!("corbaloc::1.2@{}/x", listener.local_addr().unwrap());
    Orb::with_config(Config::default()).unwrap().string_to_object(&url).unwrap().unchecked_narrow()
}

#[test]
fn the_object_is_named_as_the_server_wants_and_remembered() {
    for way in [1, 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let echo = far(&listener);
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (id, first) = request(&mut stream);
            reply(&mut stream, id, 5, Some(way));
            let (id, second) = request(&mut stream);
            reply(&mut stream, id, 0, None);
            let (id, third) = request(&mut stream);
            reply(&mut stream, id, 0, None);
            [first, second, third]
        });
        echo.ping().unwrap();
        echo.ping().unwrap();
        assert_eq!(server.join().unwrap(), [0, way, way]);
    }
}

#[test]
fn a_server_that_likes_no_address_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let echo = far(&listener);
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        for way in [1, 2, 1] {
            let (id, _) = request(&mut stream);
            reply(&mut stream, id, 5, Some(way));
        }
    });
    assert_eq!(echo.ping().unwrap_err().kind, Kind::NoImplement);
    server.join().unwrap();
}

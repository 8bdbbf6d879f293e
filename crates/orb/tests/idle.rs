//! Idle connections: closed in order after their time, and no others.

mod common;

use common::{EchoRef, Parrot, fake, pair_with};
use isorb::{Concurrency, Config, Orb, Reference};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_millis(300);
const BOTH: [Concurrency; 2] = [Concurrency::Connection, Concurrency::Lane];

fn connect(server: &Orb) -> TcpStream {
    let (host, port) = server.endpoint_addresses().remove(0);
    let stream = TcpStream::connect((host, port)).unwrap();
    // Only for the end of a failing test.
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// The octets of the server until it closes.
fn until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut got = Vec::new();
    stream.read_to_end(&mut got).expect("the server closes in order");
    got
}

fn is_close(message: &[u8]) -> bool {
    message.len() == 12 && message.starts_with(b"GIOP") && message[7] == 5
}

fn serve(config: Config) -> (Orb, EchoRef) {
    let server = Orb::with_config(config).unwrap();
    let near: EchoRef = server.root_poa().unwrap().activate(Arc::new(Parrot::default())).unwrap();
    let background = server.clone();
    std::thread::spawn(move || background.run());
    (server, near)
}

/// A GIOP 1.2 request with one number, little endian.
fn request(key: &[u8], operation: &str, argument: u32) -> Vec<u8> {
    let mut body = 7u32.to_le_bytes().to_vec();
    body.extend([3, 0, 0, 0, 0, 0, 0, 0]);
    for text in [key.to_vec(), [operation.as_bytes(), b"\0"].concat()] {
        body.resize(body.len().next_multiple_of(4), 0);
        body.extend((text.len() as u32).to_le_bytes());
        body.extend(text);
    }
    body.resize(body.len().next_multiple_of(4), 0);
    body.extend(0u32.to_le_bytes());
    body.resize((body.len() + 12).next_multiple_of(8) - 12, 0);
    body.extend(argument.to_le_bytes());
    let mut message = b"GIOP\x01\x02\x01\x00".to_vec();
    message.extend((body.len() as u32).to_le_bytes());
    message.extend(body);
    message
}

fn key(of: &EchoRef) -> Vec<u8> {
    of.object().ior().iiop_profiles().next().unwrap().unwrap().key
}

#[test]
fn a_client_without_a_request_is_closed_after_the_limit() {
    for concurrency in BOTH {
        let first_request_timeout_ms = LIMIT.as_millis() as u64;
        let (server, _near) = serve(Config { concurrency, first_request_timeout_ms, ..Config::default() });
        let begun = Instant::now();
        let mut silent: Vec<_> = (0..20).map(|_| connect(&server)).collect();
        for stream in &mut silent {
            assert!(is_close(&until_closed(stream)), "CloseConnection");
            assert!(begun.elapsed() >= LIMIT, "closed before its time");
        }
        server.shutdown(true).unwrap();
    }
}

#[test]
fn a_client_that_called_once_is_closed_after_the_limit_and_may_come_again() {
    for concurrency in BOTH {
        let connection_idle_timeout_ms = LIMIT.as_millis() as u64;
        let config = Config { concurrency, connection_idle_timeout_ms, ..Config::default() };
        let (server, client, echo, _) = pair_with(config, Config::default());
        echo.ping().unwrap();
        // A raw client beside it observes the same.
        let mut raw = connect(&server);
        let begun = Instant::now();
        raw.write_all(&request(&key(&echo), "sleep", 0)).unwrap();
        assert_eq!(fake::read(&mut raw), Some(7));
        assert!(is_close(&until_closed(&mut raw)), "CloseConnection");
        assert!(begun.elapsed() >= LIMIT, "closed before its time");
        // The client's own connection was older. It opens another, unnoticed by the program.
        echo.ping().unwrap();
        client.shutdown(true).unwrap();
        server.shutdown(true).unwrap();
    }
}

#[test]
fn a_request_that_runs_longer_than_the_limit_is_answered_first() {
    for concurrency in BOTH {
        let connection_idle_timeout_ms = LIMIT.as_millis() as u64;
        let (server, near) = serve(Config { concurrency, connection_idle_timeout_ms, ..Config::default() });
        let mut raw = connect(&server);
        raw.write_all(&request(&key(&near), "sleep", 4 * LIMIT.as_millis() as u32)).unwrap();
        assert_eq!(fake::read(&mut raw), Some(7), "the reply comes before the end");
        assert!(is_close(&until_closed(&mut raw)));
        server.shutdown(true).unwrap();
    }
}

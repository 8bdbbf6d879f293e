//! Clients that are gone before they are accepted: none of them keeps those behind it waiting.

use isorb_transport::conformance::{connect, receive, send_all};
use isorb_transport::{Tcp, Transport, Wait};
use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::Duration;

const CLIENTS: usize = 2000;

/// How many may wait to be accepted on this machine.
fn backlog() -> usize {
    std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap().trim().parse().unwrap()
}

#[test]
fn a_client_that_was_reset_is_accepted_as_any_other() {
    let clients = CLIENTS.min(backlog() / 2);
    let listener = Tcp.listen("127.0.0.1:0").unwrap();
    for _ in 0..clients {
        let client = TcpStream::connect(listener.address()).unwrap();
        // What is closed so is reset.
        socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
    }
    let mut ended = 0;
    loop {
        // An error is what doors pause for.
        match listener.accept(Wait::No) {
            Ok(stream) => {
                assert!(stream.peer().starts_with("127.0.0.1:"), "{}", stream.peer());
                ended += usize::from(
                    stream
                        .recv(&mut [0], Wait::No)
                        .map_or_else(|e| e.kind() != ErrorKind::WouldBlock, |n| n == 0),
                );
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("after {ended} clients that were reset: {error}"),
        }
    }
    assert_eq!(ended, clients);
    let (near, far) = connect(&Tcp, &*listener);
    send_all(&*near, b"newcomer").unwrap();
    assert_eq!(receive(&*far, 8, 8).unwrap(), b"newcomer");
}

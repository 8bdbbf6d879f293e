//! Hostile senders of datagrams. Each stream of a UDP endpoint returns the complete messages of its
//! sender and nothing else; a client receives those of the server that it called.
#![no_main]

use isorb_transport::{Listener, Stream, Transport, Udp, Wait};
use libfuzzer_sys::fuzz_target;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::Arc;

const SENDERS: usize = 3;

/// The form of a complete message here.
fn whole(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first % 4 != 0)
}

fn receive(stream: &dyn Stream, received: &mut Vec<u8>) {
    let mut room = [0; 100];
    while let Ok(n) = stream.recv(&mut room, Wait::No) {
        if n == 0 {
            return;
        }
        received.extend_from_slice(&room[..n]);
    }
}

fn client_address(client: &dyn Stream) -> std::net::SocketAddr {
    let socket = UdpSocket::from(client.fd().try_clone_to_owned().expect("a descriptor"));
    socket.local_addr().expect("an address")
}

/// The endpoint and the sockets of its peers. They are empty between two inputs.
struct Sockets {
    udp: Udp,
    listener: Box<dyn Listener>,
    senders: [UdpSocket; SENDERS],
    /// What the listener calls them.
    names: [String; SENDERS],
    stranger: UdpSocket,
    server: UdpSocket,
    client: Box<dyn Stream>,
    client_at: std::net::SocketAddr,
}

impl Sockets {
    fn new() -> Sockets {
        let udp = Udp {
            whole,
            expects_reply: |octets| octets.len() % 2 == 0,
            peers: SENDERS,
            amplification: 3,
            counts: Arc::default(),
        };
        let listener = udp.listen("127.0.0.1:0").expect("a port");
        let senders: [UdpSocket; SENDERS] = std::array::from_fn(|_| {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
            socket.connect(listener.address()).expect("the endpoint");
            socket
        });
        let names = senders
            .each_ref()
            .map(|sender: &UdpSocket| format!("udp:{}", sender.local_addr().expect("an address")));
        let stranger = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let server = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let at = server.local_addr().expect("an address");
        let client = udp.connect(&at.to_string(), None).expect("a socket");
        let client_at = client_address(&*client);
        Sockets { udp, listener, senders, names, stranger, server, client, client_at }
    }
}

thread_local! {
    static SOCKETS: OnceCell<Sockets> = const { OnceCell::new() };
}

fuzz_target!(|data: &[u8]| SOCKETS.with(|sockets| converse(data, sockets.get_or_init(Sockets::new))));

fn converse(data: &[u8], sockets: &Sockets) {
    let Sockets { udp, listener, senders, names, stranger, server, client, client_at } = sockets;
    let before = udp.counts.ignored();
    let (mut answers, mut received) = (Vec::new(), Vec::new());
    let (mut sent, mut ignored) = (vec![Vec::new(); SENDERS], 0);
    let mut streams: HashMap<String, (Box<dyn Stream>, Vec<u8>)> = HashMap::new();
    let mut rest = data;
    while let Some(([sender, length], after)) = rest.split_first_chunk() {
        let (datagram, after) = after.split_at(usize::from(*length).min(after.len()));
        rest = after;
        // The upper bits say where it goes: system calls take most of the time.
        let (to_listener, to_client, stranger_too) = match sender >> 6 {
            0 => (true, true, true),
            1 => (false, true, false),
            _ => (true, false, false),
        };
        if to_client {
            // The server's, and sometimes another sender's, which the kernel rejects.
            server.send_to(datagram, client_at).expect("room in the socket");
            if stranger_too {
                stranger.send_to(b"\x01not of the server", client_at).expect("room in the socket");
            }
            if whole(datagram) {
                answers.extend_from_slice(datagram);
            } else {
                ignored += 1;
            }
            receive(&**client, &mut received);
        }
        if to_listener {
            let sender = usize::from(*sender) % SENDERS;
            senders[sender].send(datagram).expect("room in the socket");
            if whole(datagram) {
                sent[sender].extend_from_slice(datagram);
            } else {
                ignored += 1;
            }
            match listener.accept(Wait::No) {
                Ok(stream) => drop(streams.insert(stream.peer().into(), (stream, Vec::new()))),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        if length % 2 == 0 {
            streams.values_mut().for_each(|(stream, received)| receive(&**stream, received));
        }
    }
    receive(&**client, &mut received);
    assert_eq!(received, answers);
    for (index, from) in names.iter().enumerate() {
        let received = streams.get_mut(from).map_or(&[][..], |(stream, received)| {
            receive(&**stream, received);
            received
        });
        assert_eq!(received, sent[index]);
    }
    assert_eq!((udp.counts.ignored() - before, udp.counts.dropped()), (ignored, 0));
}

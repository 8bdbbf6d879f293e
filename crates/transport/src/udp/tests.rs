use super::*;
use crate::Wait;
use std::io::{ErrorKind, IoSlice};

/// A message says its length in its first octet; the rest is as it likes.
fn whole(octets: &[u8]) -> bool {
    octets.first().is_some_and(|first| usize::from(*first) == octets.len().min(255))
}

/// Those of two octets ask.
fn expects_reply(octets: &[u8]) -> bool {
    octets.len() == 2
}

fn udp(peers: usize) -> Udp {
    Udp { whole, expects_reply, peers, amplification: 3, counts: Arc::default() }
}

fn send(stream: &dyn Stream, octets: &[u8]) {
    assert_eq!(stream.send(&[IoSlice::new(octets)], Wait::Block).unwrap(), octets.len());
}

fn recv(stream: &dyn Stream, n: usize) -> Vec<u8> {
    let mut got = vec![0; n];
    let mut at = 0;
    while at < n {
        let some = stream.recv(&mut got[at..], Wait::Block).unwrap();
        assert_ne!(some, 0, "the stream ended");
        at += some;
    }
    got
}

#[test]
fn messages_go_to_and_fro_and_senders_are_kept_apart() {
    let udp = udp(8);
    let listener = udp.listen("127.0.0.1:0").unwrap();
    let [a, b] = [(); 2].map(|()| udp.connect(listener.address(), None).unwrap());
    send(&*a, &[3, 1, 2]);
    let at_a = listener.accept(Wait::Block).unwrap();
    send(&*b, &[2, 9]);
    let at_b = listener.accept(Wait::Block).unwrap();
    send(&*a, &[1]);
    assert_eq!(listener.accept(Wait::No).unwrap_err().kind(), ErrorKind::WouldBlock);
    // In pieces, as a reader with little room takes them.
    assert_eq!(recv(&*at_a, 1), [3]);
    assert_eq!(recv(&*at_a, 3), [1, 2, 1]);
    assert_eq!(recv(&*at_b, 2), [2, 9]);
    assert_eq!(at_b.recv(&mut [0], Wait::No).unwrap_err().kind(), ErrorKind::WouldBlock);
    send(&*at_b, &[2, 7]);
    send(&*at_a, &[2, 8]);
    assert_eq!((recv(&*a, 2), recv(&*b, 2)), (vec![2, 8], vec![2, 7]));
    at_a.shutdown();
    assert_eq!(at_a.recv(&mut [0], Wait::Block).unwrap(), 0);
}

#[test]
fn what_is_no_message_or_no_peer_s_is_ignored() {
    let udp = udp(8);
    let listener = udp.listen("127.0.0.1:0").unwrap();
    let client = udp.connect(listener.address(), None).unwrap();
    let noise = UdpSocket::bind("127.0.0.1:0").unwrap();
    for octets in [&b""[..], b"garbage", &[0; 70], &[255; 9]] {
        noise.send_to(octets, listener.address()).unwrap();
    }
    send(&*client, &[3, 0, 0]);
    let server = listener.accept(Wait::Block).unwrap();
    assert_eq!(udp.counts.ignored(), 4);
    // The client receives only from its server, and only whole messages.
    let at = SocketAddr::try_from(rustix::net::getsockname(client.fd()).unwrap()).unwrap();
    noise.send_to(&[1], ("127.0.0.1", at.port())).unwrap();
    send(&*server, b"garbage");
    send(&*server, &[2, 5]);
    assert_eq!(recv(&*client, 2), [2, 5]);
    client.set_recv_timeout(Some(Duration::from_millis(20))).unwrap();
    assert_eq!(client.recv(&mut [0], Wait::Block).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(udp.counts.ignored(), 5);
}

#[test]
fn senders_and_what_waits_of_them_are_bounded() {
    let udp = udp(2);
    let listener = udp.listen("127.0.0.1:0").unwrap();
    let clients = [(); 3].map(|()| udp.connect(listener.address(), None).unwrap());
    let mut streams = Vec::new();
    for client in &clients[..2] {
        // It expects_reply, so that it keeps its place for longer than a machine stands still.
        send(&**client, &[2, 1]);
        streams.push(listener.accept(Wait::Block).unwrap());
    }
    send(&*clients[2], &[1]);
    assert_eq!(listener.accept(Wait::No).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(udp.counts.dropped(), 1);
    // A place that is free again is given away.
    drop(streams.pop());
    send(&*clients[2], &[1]);
    let third = listener.accept(Wait::Block).unwrap();
    assert_eq!(recv(&*third, 1), [1]);
    // A client that does not read loses the datagrams without room; the others lose nothing.
    let long = [255u8; 60_000];
    for _ in 0..3 {
        send(&*clients[0], &long);
        assert_eq!(listener.accept(Wait::No).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
    assert_eq!(udp.counts.dropped(), 2);
    assert_eq!(recv(&*streams[0], 120_002).len(), 120_002);
}

#[test]
fn a_client_that_waits_for_an_answer_keeps_its_entry_until_then() {
    for (message, keeps) in [(&[2, 1][..], true), (&[1], false)] {
        let udp = udp(2);
        let listener = udp.listen("127.0.0.1:0").unwrap();
        let clients = [(); 2].map(|()| udp.connect(listener.address(), None).unwrap());
        let served = clients.each_ref().map(|client| {
            send(&**client, message);
            let served = listener.accept(Wait::Block).unwrap();
            assert_eq!(recv(&*served, message.len()), message);
            served
        });
        // More senders than there are places, each after the others were silent for longer than a
        // place is kept.
        std::thread::sleep(Duration::from_millis(1_100));
        let flood: Vec<_> = (0..3).map(|_| udp.connect(listener.address(), None).unwrap()).collect();
        let taken = flood.iter().filter(|stranger| {
            send(&***stranger, &[1]);
            listener.accept(Wait::No).is_ok()
        });
        if !keeps {
            assert!(taken.count() > 0 && served.iter().any(|s| matches!(s.recv(&mut [0], Wait::No), Ok(0))));
            continue;
        }
        assert_eq!(taken.count(), 0);
        assert_eq!(udp.counts.dropped(), 3);
        assert_eq!(served[0].recv(&mut [0], Wait::No).unwrap_err().kind(), ErrorKind::WouldBlock);
        send(&*served[0], &[2, 8]);
        assert_eq!(recv(&*clients[0], 2), [2, 8]);
        // A client with its reply is replaced; one without it stays.
        send(&*flood[0], &[1]);
        let third = listener.accept(Wait::Block).unwrap();
        assert_eq!(recv(&*third, 1), [1]);
        assert_eq!(served[0].recv(&mut [0], Wait::No).unwrap(), 0);
        send(&*served[1], &[2, 9]);
        assert_eq!(recv(&*clients[1], 2), [2, 9]);
    }
}

#[test]
fn a_message_that_no_datagram_holds_is_refused_whole() {
    let udp = udp(2);
    let listener = udp.listen("127.0.0.1:0").unwrap();
    let client = udp.connect(listener.address(), None).unwrap();
    let long = vec![255; LONGEST_DATAGRAM + 1];
    let error = client.send(&[IoSlice::new(&long)], Wait::Block).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::MSGSIZE.raw_os_error()));
    send(&*client, &long[1..]);
    let server = listener.accept(Wait::Block).unwrap();
    assert_eq!(recv(&*server, LONGEST_DATAGRAM).len(), LONGEST_DATAGRAM);
    let error = server.send(&[IoSlice::new(&long)], Wait::No).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::MSGSIZE.raw_os_error()));
}

#[test]
fn closing_ends_waits() {
    let udp = udp(2);
    let listener = udp.listen("127.0.0.1:0").unwrap();
    let client = udp.connect(listener.address(), None).unwrap();
    std::thread::scope(|scope| {
        let accepting = scope.spawn(|| listener.accept(Wait::Block).map(drop));
        let receiving = scope.spawn(|| client.recv(&mut [0], Wait::Block));
        std::thread::sleep(Duration::from_millis(20));
        listener.close();
        client.shutdown();
        assert!(accepting.join().unwrap().is_err());
        assert_eq!(receiving.join().unwrap().unwrap(), 0);
    });
}

#[test]
fn an_address_that_proves_nothing_gets_three_times_what_it_sent() {
    let udp = udp(8);
    let listener = udp.listen("127.0.0.1:0").unwrap();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let long = [255u8; 5_000];
    stranger.send_to(&[10; 10], listener.address()).unwrap();
    let server = listener.accept(Wait::Block).unwrap();
    let mut room = [0; 9_000];
    let mut got = 0;
    for _ in 0..20 {
        send(&*server, &long);
        while let Ok((n, _)) = stranger.recv_from(&mut room) {
            got += n;
        }
    }
    assert!(got > 0 && got <= 30, "{got} octets for 10");
    // A wrong answer is noise; the right one brings what waits for it.
    let challenge: [u8; 24] = room[..24].try_into().unwrap();
    let mut answer = challenge;
    (answer[4], answer[20]) = (2, !answer[20]);
    stranger.send_to(&answer, listener.address()).unwrap();
    assert_eq!(listener.accept(Wait::No).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(udp.counts.ignored(), 1);
    answer[20] = challenge[20];
    // From another address it proves nothing.
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    other.send_to(&answer, listener.address()).unwrap();
    assert_eq!(listener.accept(Wait::No).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(udp.counts.ignored(), 2);
    stranger.send_to(&answer, listener.address()).unwrap();
    assert_eq!(listener.accept(Wait::No).unwrap_err().kind(), ErrorKind::WouldBlock);
    stranger.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(stranger.recv_from(&mut room).unwrap().0, 5_000);
}

#[test]
fn a_client_proves_its_address_while_it_waits() {
    let udp = udp(8);
    let listener = udp.listen("127.0.0.1:0").unwrap();
    let client = udp.connect(listener.address(), None).unwrap();
    send(&*client, &[2, 1]);
    let server = listener.accept(Wait::Block).unwrap();
    // Enough for a challenge.
    for _ in 0..4 {
        send(&*client, &[2, 1]);
        let _ = listener.accept(Wait::No);
    }
    let long = [255u8; 60_000];
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(recv(&*client, long.len()), long);
            done.store(1, Ordering::Relaxed);
        });
        send(&*server, &long);
        while done.load(Ordering::Relaxed) == 0 {
            let _ = listener.accept(Wait::No);
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    // From now on it needs no proof.
    send(&*server, &long);
    assert_eq!(recv(&*client, long.len()), long);
}

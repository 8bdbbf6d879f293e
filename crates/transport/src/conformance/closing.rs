//! Ends are seen, by everybody, and nothing that was sent before is lost.

use super::{Make, TIMEOUT, pair, pattern, receive, send_all, would_block};
use crate::{Unprotected, Wait};
use std::io::{self, IoSlice};
use std::time::Duration;

/// A peer that shuts down after any number of bytes: exactly those arrive, then the end, again and
/// again.
pub fn what_was_sent_before_the_end_arrives(make: Make<'_>) {
    for n in (0..40).chain([4096, 100_000]) {
        let (_listener, a, b) = pair(make);
        let all = pattern(n, n as u64);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                send_all(&*a, &all).unwrap();
                a.shutdown();
            });
            assert!(receive(&*b, n, 1000).unwrap() == all);
            assert_eq!(b.recv(&mut [0; 8], Wait::Block).unwrap(), 0, "after {n} octets");
        });
        assert_eq!(b.recv(&mut [0; 8], Wait::No).unwrap(), 0, "the end stays");
        // Sending to a peer that is gone fails sooner or later, and never blocks for ever.
        b.set_send_timeout(Some(TIMEOUT)).unwrap();
        let fails = (0..100_000).any(|_| b.send(&[IoSlice::new(&[0; 4096])], Wait::Block).is_err());
        assert!(fails);
    }
}

/// Last octets that are sent with the end arrive before it, behind all others.
pub fn last_octets_arrive_before_the_end(make: Make<'_>) {
    for n in [0, 1, 12, 2000] {
        let (_listener, a, b) = pair(make);
        send_all(&*a, b"before").unwrap();
        let last = pattern(n, 3);
        std::thread::scope(|scope| {
            scope.spawn(|| a.shutdown_with(&last));
            assert_eq!(receive(&*b, 6, 6).unwrap(), b"before");
            assert!(receive(&*b, n, 100).unwrap() == last);
            assert_eq!(b.recv(&mut [0; 8], Wait::Block).unwrap(), 0, "after {n} octets");
        });
        assert!(!matches!(a.recv(&mut [0; 8], Wait::No), Ok(1..)), "both directions end");
    }
}

/// A peer that drops its stream, as at the end of its process.
pub fn dropping_is_an_end(make: Make<'_>) {
    // No more than the buffers hold: the peer does not receive yet.
    for n in (0..20).chain([2000]) {
        let (listener, a, b) = pair(make);
        let all = pattern(n, 9);
        send_all(&*a, &all).unwrap();
        drop(a);
        assert!(receive(&*b, n, 100).unwrap() == all);
        assert_eq!(b.recv(&mut [0; 8], Wait::Block).unwrap(), 0);
        drop((listener, b));
    }
}

/// One side's end is the end of both directions for either side, whatever the other was sending.
pub fn an_end_is_of_both_directions(make: Make<'_>) {
    let (_listener, a, b) = pair(make);
    send_all(&*b, b"unread").unwrap();
    send_all(&*a, b"last words").unwrap();
    assert_eq!(receive(&*b, 10, 10).unwrap(), b"last words");
    a.shutdown();
    for stream in [&a, &b] {
        stream.set_send_timeout(Some(TIMEOUT)).unwrap();
        let fails = (0..100_000).any(|_| stream.send(&[IoSlice::new(&[0; 4096])], Wait::Block).is_err());
        assert!(fails, "sends go on for ever");
        let ends = (0..100).any(|_| !matches!(stream.recv(&mut [0; 99], Wait::Block), Ok(1..)));
        assert!(ends, "receives go on for ever");
    }
}

/// A blocked receive ends when the peer closes, and when the own side does.
pub fn a_blocked_receive_ends(make: Make<'_>) {
    for own in [false, true] {
        for pause in [0, 1, 50] {
            let (_listener, a, b) = pair(make);
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| b.recv(&mut [0; 8], Wait::Block));
                std::thread::sleep(Duration::from_millis(pause));
                if own {
                    b.shutdown()
                } else {
                    a.shutdown()
                }
                let ended = waiting.join().unwrap();
                assert!(!matches!(ended, Ok(1..)), "{ended:?}");
                if let Err(error) = ended {
                    assert_ne!(error.kind(), io::ErrorKind::WouldBlock, "it had no time-out");
                }
            });
        }
    }
}

/// So does a blocked send.
pub fn a_blocked_send_ends(make: Make<'_>) {
    for own in [false, true] {
        let (_listener, a, b) = pair(make);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| send_all(&*a, &vec![1; 64 << 20]));
            std::thread::sleep(Duration::from_millis(30));
            // A peer that only shuts down may go on taking, and dropping, what is sent; one that
            // lets go does not.
            if own {
                a.shutdown();
            } else {
                drop(b);
            }
            assert!(waiting.join().unwrap().is_err());
        });
    }
}

/// Closing a listener ends a blocked accept, and no later client is accepted.
pub fn closing_ends_accept(make: Make<'_>) {
    let (transport, address) = make();
    let listener = transport.listen(&address).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| listener.accept(Wait::Block).is_err());
        std::thread::sleep(Duration::from_millis(20));
        listener.close();
        assert!(waiting.join().unwrap());
    });
    let address = listener.address().to_string();
    // A closed listener neither blocks nor accepts.
    assert!(transport.connect(&address, Some(TIMEOUT)).is_err(), "closed, and there still");
    drop(listener);
    assert!(transport.connect(&address, Some(TIMEOUT)).is_err());
}

/// Connecting to an unreachable address is an error, and the address is free again.
pub fn no_listener_is_there(make: Make<'_>) {
    let (transport, address) = make();
    let listener = transport.listen(&address).unwrap();
    let address = listener.address().to_string();
    drop(listener);
    assert!(transport.connect(&address, Some(TIMEOUT)).is_err());
    transport.listen(&address).unwrap();
}

/// A client waits in the backlog while the server does not accept, or gets an error at its
/// time-out; the listener goes on.
pub fn no_acceptor_takes_it(make: Make<'_>) {
    let (transport, address) = make();
    let listener = transport.listen(&address).expect("a free address can be listened at");
    match transport.connect(listener.address(), Some(Duration::from_millis(100))) {
        Ok(in_line) => {
            in_line.set_recv_timeout(Some(Duration::from_millis(10))).unwrap();
            assert!(would_block(&receive(&*in_line, 1, 1).unwrap_err()));
        }
        // Where the listener greets by itself, a handshake may be cut off in the middle.
        Err(error) => {
            let unfinished = matches!(Unprotected::of(&error), Some(Unprotected::Unfinished(_)));
            assert!(would_block(&error) || unfinished, "{error}");
        }
    }
    std::thread::scope(|scope| {
        let next = scope.spawn(|| {
            let stream = transport.connect(listener.address(), Some(TIMEOUT)).expect("it still listens");
            send_all(&*stream, b"next").unwrap();
            stream
        });
        // The one that has left may come first, or not at all.
        let received = std::iter::repeat_with(|| {
            let stream = listener.accept(Wait::Block)?;
            stream.set_recv_timeout(Some(TIMEOUT))?;
            receive(&*stream, 4, 4)
        });
        assert_eq!(received.take(3).flatten().next().expect("it is accepted"), b"next");
        next.join().unwrap();
    });
}

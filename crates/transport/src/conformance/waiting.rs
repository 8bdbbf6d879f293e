//! Waits last as long as configured, and end when octets arrive.

use super::{Make, TIMEOUT, pair, pattern, receive, send_all, would_block};
use crate::{Stream, Wait};
use isorb_rt::net::{Events, Interest, Poller, Trigger};
use isorb_rt::time::Deadline;
use std::io::{self, IoSlice};
use std::time::{Duration, Instant};

/// With nothing there, a receive or an accept that may not wait returns `WouldBlock`.
pub fn nothing_there_does_not_block(make: Make<'_>) {
    let (listener, a, b) = pair(make);
    for stream in [&a, &b] {
        assert_eq!(stream.recv(&mut [0; 8], Wait::No).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
    assert_eq!(listener.accept(Wait::No).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    send_all(&*a, b"x").unwrap();
    assert_eq!(receive(&*b, 1, 8).unwrap(), b"x");
    assert_eq!(b.recv(&mut [0; 8], Wait::No).unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

/// A receive ends at its time-out and not before, and the connection is as good as ever.
pub fn a_receive_times_out(make: Make<'_>) {
    let (_listener, a, b) = pair(make);
    for stream in [&a, &b] {
        for ms in [30, 60, 0, 120] {
            let timeout = Duration::from_millis(ms);
            stream.set_recv_timeout(Some(timeout)).unwrap();
            let start = Instant::now();
            assert!(would_block(&receive(&**stream, 1, 1).unwrap_err()));
            // A kernel that counts in ticks may be a tick early.
            assert!(start.elapsed() + Duration::from_millis(10) >= timeout);
        }
    }
    b.set_recv_timeout(None).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| receive(&*b, 5, 8).unwrap());
        std::thread::sleep(Duration::from_millis(50));
        send_all(&*a, b"later").unwrap();
        assert_eq!(waiting.join().unwrap(), b"later");
    });
}

/// A peer that does not read is noticed within bounded memory; once it reads, everything goes on
/// and nothing is lost.
pub fn back_pressure_and_relief(make: Make<'_>) {
    let (_listener, a, b) = pair(make);
    let all = pattern(64 << 20, 5);
    let mut sent = 0;
    for round in 0..3 {
        loop {
            let end = all.len().min(sent + 10_001);
            assert!(end < all.len(), "64 MiB on the way, and no end");
            match a.send(&[IoSlice::new(&all[sent..end])], Wait::No) {
                Ok(n) => sent += n,
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    break;
                }
            }
        }
        // A part in the first rounds, all in the last.
        let from = round * 1000;
        let n = if round < 2 { 1000 } else { sent - from };
        assert!(receive(&*b, n, 4096).unwrap() == all[from..from + n]);
    }
    assert_eq!(b.recv(&mut [0; 8], Wait::No).unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

/// A send to a peer that does not read ends at its time-out, says how much went, and may be
/// continued.
pub fn a_send_times_out(make: Make<'_>) {
    let (_listener, a, b) = pair(make);
    a.set_send_timeout(Some(Duration::from_millis(30))).unwrap();
    let all = pattern(64 << 20, 6);
    let mut sent = 0;
    let error = loop {
        assert!(sent < all.len(), "64 MiB on the way, and no end");
        match a.send(&[IoSlice::new(&all[sent..])], Wait::Block) {
            Ok(n) => sent += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break error,
        }
    };
    assert!(would_block(&error), "{error}");
    a.set_send_timeout(Some(TIMEOUT)).unwrap();
    let more = sent + (1 << 20);
    std::thread::scope(|scope| {
        scope.spawn(|| send_all(&*a, &all[sent..more]).unwrap());
        assert!(receive(&*b, more, 1 << 16).unwrap() == all[..more]);
    });
}

fn watch(poller: &Poller, stream: &dyn Stream) {
    stream.watched();
    poller.add(stream.fd(), 1, Interest::BOTH, Trigger::Edge).unwrap();
}

/// Waits for the next event.
fn event(poller: &Poller) -> bool {
    let mut events = Events::<1>::new();
    let mut ready = poller.wait(&mut events, Deadline::after(TIMEOUT)).unwrap();
    ready.next().is_some()
}

/// Receives all that is there; `true` at the end of the stream.
fn drain(stream: &dyn Stream, into: &mut Vec<u8>) -> bool {
    let mut block = [0; 333];
    loop {
        match stream.recv(&mut block, Wait::No) {
            Ok(0) => return true,
            Ok(n) => into.extend_from_slice(&block[..n]),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                return false;
            }
        }
    }
}

/// An edge-triggered poller and receives until nothing is left miss nothing, however sends and
/// receives fall together.
pub fn a_poller_reports_everything(make: Make<'_>) {
    let (_listener, a, b) = pair(make);
    if !make().0.capabilities().pollable {
        return println!("skipped: the transport has nothing to poll");
    }
    let all = pattern(200_000, 7);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (i, part) in all.chunks(97).enumerate() {
                send_all(&*a, part).unwrap();
                if i % 64 == 0 {
                    std::thread::yield_now();
                }
            }
            a.shutdown();
        });
        let poller = Poller::new().unwrap();
        watch(&poller, &*b);
        let mut got = Vec::new();
        while !drain(&*b, &mut got) {
            assert!(event(&poller), "an event was lost after {} octets", got.len());
        }
        assert!(got == all);
    });
}

/// So it is with room to send.
pub fn a_poller_reports_room(make: Make<'_>) {
    let (_listener, a, b) = pair(make);
    if !make().0.capabilities().pollable {
        return println!("skipped: the transport has nothing to poll");
    }
    let all = pattern(8 << 20, 8);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| receive(&*b, all.len(), 5_000).unwrap());
        let poller = Poller::new().unwrap();
        watch(&poller, &*a);
        let mut sent = 0;
        while sent < all.len() {
            match a.send(&[IoSlice::new(&all[sent..])], Wait::No) {
                Ok(n) => sent += n,
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    assert!(event(&poller), "an event was lost after {sent} octets");
                    // As a lane does: it reads before it sends.
                    assert!(!drain(&*a, &mut Vec::new()));
                }
            }
        }
        assert!(reader.join().unwrap() == all);
    });
}

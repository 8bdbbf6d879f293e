//! Time-outs apply whatever the peer does instead of replying. Each server here does reply, but
//! later than the call may last, so that a call that waits too long gets a result and fails the
//! test.

mod common;

use common::EchoRef;
use common::fake::{Fake, read, reply};
use isorb::{Completion, Config, Kind, Policies, Reference, SystemException};
use std::io::Write;
use std::thread::sleep;
use std::time::Duration;

fn within(echo: &EchoRef, ms: u64) -> EchoRef {
    let round_trip_timeout = Some(Duration::from_millis(ms));
    echo.with_policies(Policies { round_trip_timeout, ..Policies::default() })
}

fn one_connection() -> Config {
    Config { connections_per_server: 1, ..Config::default() }
}

fn octets(echo: &EchoRef, octets: &[u8]) -> Result<(), SystemException> {
    echo.object().orb().scope(|scope| echo.octets_in(scope, octets).map(drop))
}

/// A reply to `octets`: an empty one.
fn no_octets(id: u32) -> Vec<u8> {
    let mut message = reply(id);
    message.extend([0; 4]);
    message[8] += 4;
    message
}

#[test]
fn a_reply_that_trickles_in() {
    let fake = Fake::new();
    let echo = fake.object(Config::default());
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut stream = fake.accept();
            let first = read(&mut stream).unwrap();
            stream.write_all(&reply(first)).unwrap();
            let mut message = reply(read(&mut stream).unwrap());
            message.resize(300, 0);
            message[8..12].copy_from_slice(&288u32.to_le_bytes());
            for byte in message {
                if stream.write_all(&[byte]).is_err() {
                    break;
                }
                sleep(Duration::from_millis(10));
            }
        });
        // The connection exists already, and the request leaves long before the time-out.
        echo.ping().unwrap();
        let late = within(&echo, 1_000).ping().unwrap_err();
        assert_eq!((late.kind, late.completed), (Kind::Timeout, Completion::Maybe));
    });
}

#[test]
fn a_caller_that_reads_after_another_has_read_for_it() {
    let fake = Fake::new();
    let echo = fake.object(one_connection());
    std::thread::scope(|threads| {
        let first = threads.spawn(|| echo.ping());
        let mut stream = fake.accept();
        let first_id = read(&mut stream).unwrap();
        let second = threads.spawn(|| within(&echo, 1_000).ping());
        let second_id = read(&mut stream).unwrap();
        sleep(Duration::from_millis(800));
        stream.write_all(&reply(first_id)).unwrap();
        first.join().unwrap().unwrap();
        // Much later, so that a call that waits too long differs from a machine that stands still
        // for a while.
        let (ended, wait) = std::sync::mpsc::channel::<()>();
        threads.spawn(move || {
            let _ = wait.recv_timeout(Duration::from_secs(10));
            stream.write_all(&reply(second_id)).unwrap();
        });
        assert_eq!(second.join().unwrap().unwrap_err().kind, Kind::Timeout);
        drop(ended);
    });
}

#[test]
fn a_peer_that_does_not_read() {
    let fake = Fake::new();
    let echo = fake.object(Config::default());
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut stream = fake.accept();
            let first = read(&mut stream).unwrap();
            stream.write_all(&reply(first)).unwrap();
            sleep(Duration::from_secs(3));
            // It reads the available octets, which are not all.
            let _ = std::panic::catch_unwind(move || {
                let id = read(&mut stream).unwrap();
                stream.write_all(&no_octets(id)).unwrap();
            });
        });
        echo.ping().unwrap();
        let late = octets(&within(&echo, 1_000), &vec![0; 12 << 20]).unwrap_err();
        assert_eq!((late.kind, late.completed), (Kind::Timeout, Completion::Maybe));
    });
}

#[test]
fn a_caller_that_waits_to_send_behind_another() {
    let fake = Fake::new();
    let echo = fake.object(one_connection());
    std::thread::scope(|threads| {
        let large = threads.spawn(|| octets(&echo, &vec![0; 12 << 20]));
        let mut stream = fake.accept();
        // The large message is on its way, and holds the connection.
        stream.peek(&mut [0]).unwrap();
        let small = threads.spawn(|| within(&echo, 100).ping());
        sleep(Duration::from_secs(2));
        let id = read(&mut stream).unwrap();
        stream.write_all(&no_octets(id)).unwrap();
        let late = small.join().unwrap().unwrap_err();
        assert_eq!((late.kind, late.completed), (Kind::Timeout, Completion::No));
        // It received nothing of the other.
        large.join().unwrap().unwrap();
    });
}

#[test]
fn a_call_that_shares_its_connection_names_the_setting() {
    let fake = Fake::new();
    let echo = fake.object(one_connection());
    std::thread::scope(|threads| {
        let first = threads.spawn(|| echo.ping());
        let mut stream = fake.accept();
        let first_id = read(&mut stream).unwrap();
        // As a server does that is busy with the first request.
        let late = within(&echo, 100).ping().unwrap_err();
        assert_eq!(late.kind, Kind::Timeout);
        assert!(late.to_string().contains("2 calls share the connection"), "{late}");
        assert!(late.to_string().contains("connections_per_server"), "{late}");
        stream.write_all(&reply(first_id)).unwrap();
        first.join().unwrap().unwrap();
        // By itself it can have waited for the server only.
        let late = within(&echo, 100).ping().unwrap_err();
        assert_eq!(late.kind, Kind::Timeout);
        assert!(!late.to_string().contains("share"), "{late}");
    });
}

//! Servers that close a connection, by hand-written bytes: requests that were not processed are
//! sent again, unnoticed by the caller.

mod common;

use common::EchoRef;
use common::fake::{CLOSE, Fake, read, reply};
use isorb::{Config, Kind, Reference};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

/// Replies to all requests of a connection until it ends.
fn serve(stream: &mut TcpStream) {
    while let Some(id) = read(stream) {
        stream.write_all(&reply(id)).unwrap();
    }
}

fn one_connection() -> Config {
    Config { connections_per_server: 1, ..Config::default() }
}

#[test]
fn a_request_that_meets_close_connection_is_sent_again() {
    let fake = Fake::new();
    let echo = fake.object(Config::default());
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut first = fake.accept();
            read(&mut first).unwrap();
            first.write_all(CLOSE).unwrap();
            drop(first);
            let mut second = fake.accept();
            let id = read(&mut second).unwrap();
            second.write_all(&reply(id)).unwrap();
        });
        echo.ping().unwrap();
    });
}

#[test]
fn it_is_sent_again_once() {
    let fake = Fake::new();
    let echo = fake.object(Config::default());
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for _ in 0..2 {
                let mut stream = fake.accept();
                read(&mut stream).unwrap();
                stream.write_all(CLOSE).unwrap();
            }
        });
        let refused = echo.ping().unwrap_err();
        assert_eq!((refused.kind, refused.completed), (Kind::Transient, isorb::Completion::No));
    });
}

#[test]
fn all_that_wait_on_a_closed_connection_are_sent_again() {
    let fake = Fake::new();
    let echo = fake.object(one_connection());
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| echo.ping().unwrap());
        }
        let mut first = fake.accept();
        let ids: Vec<_> = (0..4).map(|_| read(&mut first).unwrap()).collect();
        // One was processed before the server closed.
        first.write_all(&reply(ids[2])).unwrap();
        first.write_all(CLOSE).unwrap();
        drop(first);
        let mut second = fake.accept();
        for _ in 0..3 {
            let id = read(&mut second).unwrap();
            second.write_all(&reply(id)).unwrap();
        }
    });
}

#[test]
fn a_connection_that_was_lost_under_a_request_says_maybe() {
    let fake = Fake::new();
    let echo = fake.object(Config::default());
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut first = fake.accept();
            read(&mut first).unwrap();
        });
        let lost = echo.ping().unwrap_err();
        assert_eq!((lost.kind, lost.completed), (Kind::CommFailure, isorb::Completion::Maybe));
    });
}

#[test]
fn a_rested_connection_that_was_closed_is_replaced() {
    // By an orderly close, and by a crash.
    for ending in [CLOSE, b""] {
        let fake = Fake::new();
        let echo = fake.object(Config::default());
        for _ in 0..3 {
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    let mut stream = fake.accept();
                    let id = read(&mut stream).unwrap();
                    stream.write_all(&reply(id)).unwrap();
                    stream.write_all(ending).unwrap();
                });
                echo.ping().unwrap();
            });
            std::thread::sleep(Duration::from_millis(30));
        }
    }
}

#[test]
fn several_closed_connections_are_one_retry() {
    let fake = Fake::new();
    let echo = fake.object(Config::default());
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| echo.ping().unwrap());
        }
        // None is answered before all have arrived, so each has a connection of its own.
        let mut streams: Vec<_> = (0..4).map(|_| fake.accept()).collect();
        for stream in &mut streams {
            let id = read(stream).unwrap();
            stream.write_all(&reply(id)).unwrap();
        }
        for stream in &mut streams {
            stream.write_all(CLOSE).unwrap();
        }
    });
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut stream = fake.accept();
            let id = read(&mut stream).unwrap();
            stream.write_all(&reply(id)).unwrap();
        });
        // At once: the connections have not been idle.
        echo.ping().unwrap();
    });
}

#[test]
fn first_calls_at_once_keep_to_the_limit_of_connections() {
    let fake = Fake::new();
    for limit in [1, 2] {
        let echo = fake.object(Config { connections_per_server: limit, ..Config::default() });
        std::thread::scope(|threads| {
            let calls: Vec<_> = (0..8).map(|_| threads.spawn(|| echo.ping().unwrap())).collect();
            // No call is answered earlier, so that all calls find the connections busy and have the
            // time to open more.
            let streams: Vec<_> = (0..limit).map(|_| fake.accept()).collect();
            std::thread::sleep(Duration::from_millis(50));
            for mut stream in streams {
                threads.spawn(move || {
                    while let Some(id) = read(&mut stream) {
                        stream.write_all(&reply(id)).unwrap();
                    }
                });
            }
            calls.into_iter().for_each(|call| call.join().unwrap());
            fake.0.set_nonblocking(true).unwrap();
            assert!(fake.0.accept().is_err(), "more than {limit} connections");
            fake.0.set_nonblocking(false).unwrap();
            echo_orb_ends(&echo);
        });
    }
}

/// Ends the connections of a client.
fn echo_orb_ends(echo: &EchoRef) {
    echo.object().orb().shutdown(false).unwrap();
}

#[test]
fn a_forwarded_object_that_is_gone_is_looked_for_where_it_was() {
    let origin = Fake::new();
    let echo = origin.object(Config::default());
    let elsewhere = {
        // No server listens there any more.
        let gone = Fake::new();
        gone.object(Config::default())
    };
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut stream = origin.accept();
            let id = read(&mut stream).unwrap();
            let mut forward = reply(id);
            forward[16] = 3;
            // The body, an IOR, is aligned to 8.
            let ior = ior_octets(&elsewhere.object().ior().to_string());
            forward.extend(ior);
            let size = forward.len() as u32 - 12;
            forward[8..12].copy_from_slice(&size.to_le_bytes());
            stream.write_all(&forward).unwrap();
            serve(&mut stream);
        });
        echo.ping().unwrap();
        echo_orb_ends(&echo);
    });
}

/// The IOR of a stringified reference in its form in a message, in this machine's byte order.
fn ior_octets(text: &str) -> Vec<u8> {
    let hex = text.strip_prefix("IOR:").unwrap();
    let octets: Vec<u8> =
        (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect();
    assert_eq!(octets[0], u8::from(cfg!(target_endian = "little")));
    octets[4..].to_vec()
}

#[test]
fn run_returns_when_what_ran_has_been_answered() {
    let server = isorb::Orb::with_config(Config::default()).unwrap();
    let parrot = std::sync::Arc::new(common::Parrot::default());
    let near: EchoRef = server.root_poa().unwrap().activate(parrot.clone()).unwrap();
    let client = isorb::Orb::with_config(Config::default()).unwrap();
    let far: EchoRef = client.resolve(&near.object().to_string()).unwrap();
    let slept = || parrot.slept.load(std::sync::atomic::Ordering::SeqCst);
    std::thread::scope(|threads| {
        let running = threads.spawn(|| server.run());
        let call = threads.spawn(|| far.sleep(300));
        while slept() == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        server.shutdown(false).unwrap();
        running.join().unwrap();
        // Ending the process now would cost no client its reply.
        assert_eq!(slept(), 2);
        assert_eq!(call.join().unwrap().unwrap(), 300);
    });
}

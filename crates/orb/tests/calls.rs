//! Calls between two ORBs over TCP, in both forms of concurrency.

mod common;

use common::raw::Raw;
use common::{Echo, EchoRef, Parrot, pair, pair_with};
use isorb::generated::{Encoder, Result, Upcall};
use isorb::{Completion, Concurrency, Config, Kind, Orb, Policies, Reference};
use isorb_giop::message::Response;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const BOTH: [Concurrency; 2] = [Concurrency::Connection, Concurrency::Lane];

#[test]
fn values_cross() {
    for concurrency in BOTH {
        let (server, _client, echo, _) = pair(concurrency);
        echo.ping().unwrap();
        assert_eq!(echo.text("grüß dich, 世界 🦀").unwrap(), "grüß dich, 世界 🦀");
        let numbers: Vec<f64> = (0..10_000).map(f64::from).collect();
        server
            .scope(|scope| {
                for n in [0, 1, 100, 5_000, 200_000] {
                    let octets: Vec<u8> = (0..n).map(|i| i as u8).collect();
                    assert_eq!(echo.octets_in(scope, &octets)?, octets);
                }
                assert_eq!(echo.numbers_in(scope, &numbers)?, numbers);
                Ok::<_, isorb::SystemException>(())
            })
            .unwrap();
        server.shutdown(true).unwrap();
    }
}

#[test]
fn large_messages_whole_and_in_fragments() {
    for concurrency in BOTH {
        for fragment in [0, 1024, 100_000] {
            let config = Config { concurrency, fragment, ..Config::default() };
            let (server, _client, echo, _) = pair_with(config.clone(), config);
            let octets: Vec<u8> = (0..12 << 20).map(|i| (i / 7) as u8).collect();
            let same = server
                .scope(|scope| Ok::<_, isorb::SystemException>(echo.octets_in(scope, &octets)? == octets));
            assert!(same.unwrap());
            assert_eq!(echo.text("after").unwrap(), "after");
            server.shutdown(true).unwrap();
        }
    }
}

#[test]
fn exceptions_arrive() {
    for concurrency in BOTH {
        let (server, client, echo, _) = pair(concurrency);
        let refused = echo.fail(7).unwrap_err();
        assert_eq!((refused.kind, refused.minor), (Kind::NoPermission, 7));
        assert_eq!(echo.fail(0).unwrap_err().kind, Kind::Unknown);
        echo.ping().unwrap();
        assert!(echo.object().is_a("IDL:Test/Echo:1.0").unwrap());
        assert!(!echo.object().is_a("IDL:Test/Other:1.0").unwrap());
        assert!(!echo.object().non_existent().unwrap());
        let (host, port) = server.endpoint_addresses().remove(0);
        let nothing = client.string_to_object(&format!("corbaloc::1.2@{host}:{port}/nothing")).unwrap();
        assert!(nothing.non_existent().unwrap());
        let gone = nothing.unchecked_narrow::<EchoRef>().ping().unwrap_err();
        assert_eq!(gone.kind, Kind::ObjectNotExist);
        server.shutdown(true).unwrap();
    }
}

#[test]
fn a_timeout_names_the_peer_and_the_operation() {
    for concurrency in BOTH {
        let (server, _client, echo, _) = pair(concurrency);
        // The connection exists already, so that only the reply is late.
        echo.ping().unwrap();
        let impatient = echo.with_policies(Policies {
            round_trip_timeout: Some(Duration::from_millis(700)),
            ..Policies::default()
        });
        let late = impatient.sleep(2_000).unwrap_err();
        assert_eq!((late.kind, late.completed), (Kind::Timeout, Completion::Maybe));
        let sentence = late.detail.unwrap();
        assert!(
            sentence.contains("sleep") && sentence.contains("700ms") && sentence.contains("127.0.0.1"),
            "{sentence}"
        );
        // No call takes the late reply: the next call gets its own.
        assert_eq!(echo.text("patient").unwrap(), "patient");
        server.shutdown(false).unwrap();
    }
}

#[test]
fn oneways_arrive() {
    for concurrency in BOTH {
        let (server, _client, echo, servant) = pair(concurrency);
        for _ in 0..100 {
            echo.feed(&[1; 1000]).unwrap();
        }
        // Two-way on the same connection: everything before it was served.
        echo.ping().unwrap();
        while servant.fed.load(Ordering::SeqCst) < 100_000 {
            std::thread::yield_now();
        }
        server.shutdown(true).unwrap();
    }
}

#[test]
fn many_threads_share_connections() {
    for concurrency in BOTH {
        for connections_per_server in [1, 5] {
            let client = Config { connections_per_server, ..Config::default() };
            let (server, _client, echo, _) = pair_with(Config { concurrency, ..Config::default() }, client);
            std::thread::scope(|threads| {
                for t in 0..8 {
                    let echo = &echo;
                    threads.spawn(move || {
                        for i in 0..300 {
                            let text = format!("thread {t} call {i}");
                            assert_eq!(echo.text(&text).unwrap(), text);
                        }
                    });
                }
            });
            server.shutdown(true).unwrap();
        }
    }
}

#[test]
fn a_servant_calls_back() {
    for concurrency in BOTH {
        for bidirectional in [false, true] {
            let config = Config { concurrency, bidirectional, ..Config::default() };
            let (server, client, echo, _) = pair_with(config.clone(), config);
            let near: EchoRef = client.root_poa().unwrap().activate(Arc::new(Parrot::default())).unwrap();
            let background = client.clone();
            std::thread::spawn(move || background.run());
            for _ in 0..50 {
                assert_eq!(echo.call_back(Some(&near)).unwrap(), "from the servant");
            }
            assert_eq!(echo.call_back(None).unwrap(), "nil");
            client.shutdown(true).unwrap();
            server.shutdown(true).unwrap();
        }
    }
}

#[test]
fn a_lane_serves_others_while_a_caller_waits_on_a_connection_of_its() {
    let (server, _, echo, _) =
        pair_with(Config { bidirectional: true, ..Config::default() }, Config::default());
    // Of the lane's connections, one is read by a caller with a long wait.
    let client = Orb::with_config(Config {
        concurrency: Concurrency::Lane,
        lane_threads: 1,
        bidirectional: true,
        connections_per_server: 1,
        ..Config::default()
    })
    .unwrap();
    let near: EchoRef = client.root_poa().unwrap().activate(Arc::new(Parrot::default())).unwrap();
    let background = client.clone();
    std::thread::spawn(move || background.run());
    let echo: EchoRef = client.resolve(&echo.object().to_string()).unwrap();
    let other = Orb::with_config(Config::default()).unwrap();
    let far: EchoRef = other.resolve(&near.object().to_string()).unwrap();
    far.ping().unwrap();
    std::thread::scope(|threads| {
        let slow = threads.spawn(|| echo.sleep(5_000));
        std::thread::sleep(Duration::from_millis(100));
        // A message for another caller is an event for the lane too.
        let quick = threads.spawn(|| echo.sleep(1));
        std::thread::sleep(Duration::from_millis(100));
        far.ping().unwrap();
        assert!(!slow.is_finished(), "served after the caller had its reply");
        slow.join().unwrap().unwrap();
        quick.join().unwrap().unwrap();
    });
    client.shutdown(true).unwrap();
    server.shutdown(true).unwrap();
}

#[test]
fn running_upcalls_are_answered_when_the_server_shuts_down() {
    for concurrency in BOTH {
        let (server, _client, echo, servant) = pair(concurrency);
        std::thread::scope(|threads| {
            let slow: Vec<_> = (0..2).map(|_| threads.spawn(|| echo.sleep(300))).collect();
            while servant.slept.load(Ordering::SeqCst) < 2 {
                std::thread::yield_now();
            }
            // From inside an upcall, which gets its reply too.
            echo.fail(98).unwrap();
            slow.into_iter().for_each(|call| assert_eq!(call.join().unwrap().unwrap(), 300));
        });
        assert!(server.is_shut_down());
        assert_eq!(echo.ping().unwrap_err().kind, Kind::Transient);
    }
}

#[test]
fn a_server_that_ends_and_one_that_comes_back() {
    let (server, client, echo, _) = pair(Concurrency::Connection);
    echo.ping().unwrap();
    let (host, port) = server.endpoint_addresses().remove(0);
    server.shutdown(true).unwrap();
    let gone = echo.ping().unwrap_err();
    assert!(matches!(gone.kind, Kind::Transient | Kind::CommFailure), "{gone}");
    let again =
        isorb::Orb::with_config(Config { endpoints: vec![format!("{host}:{port}")], ..Config::default() })
            .unwrap();
    again.root_poa().unwrap();
    let background = again.clone();
    std::thread::spawn(move || background.run());
    // Another process would reply the same: the transient object is gone, and the connection is
    // new.
    assert_eq!(echo.ping().unwrap_err().kind, Kind::ObjectNotExist);
    let _ = client;
    again.shutdown(true).unwrap();
}

/// The end of a stream comes with the last octets, or a moment later; in both cases the server
/// releases the connection.
#[test]
fn a_peer_that_sends_and_leaves_is_noticed() {
    use std::io::{Read, Write};
    for concurrency in BOTH {
        let (server, _client, _echo, _) = pair(concurrency);
        let (host, port) = server.endpoint_addresses().remove(0);
        for round in 0..100 {
            let mut stream = std::net::TcpStream::connect((host.as_str(), port)).unwrap();
            stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
            // A CancelRequest has no reply.
            stream.write_all(b"GIOP\x01\x02\x01\x02\x04\0\0\0\x07\0\0\0").unwrap();
            if round % 2 == 0 {
                std::thread::yield_now();
            }
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0, "{concurrency:?}, round {round}");
        }
    }
}

/// Its reply is longer than a socket takes.
struct Long(String);

impl Echo for Long {
    fn ping(&self, _: Upcall<'_>) -> Result<()> {
        Ok(())
    }
    fn text<'u>(&'u self, _: Upcall<'u>, _: &'u str) -> Result<&'u str> {
        Ok(&self.0)
    }
}

/// A client sends two requests at once and a third one later, and then reads. While the first reply
/// waits for the client the lane serves nothing, but takes the event of the third request. When it
/// goes on, the second request is in its block, and the third one still in the socket.
#[test]
fn a_request_that_comes_while_a_reply_waits_is_served() {
    let server = Orb::with_config(Config { concurrency: Concurrency::Lane, ..Config::default() }).unwrap();
    let root = server.root_poa().unwrap();
    root.manager().activate().unwrap();
    let long: EchoRef = root.activate(Arc::new(Long("x".repeat(12 << 20)))).unwrap();
    for _ in 0..5 {
        let mut client = Raw::connect(long.object());
        let ping = client.request(Response::Target, "ping", &[]);
        client.write(&[client.request(Response::Target, "text", b"\0"), ping.clone()].concat());
        let wait = Duration::from_millis(30);
        std::thread::sleep(wait);
        client.write(&ping);
        std::thread::sleep(wait);
        assert!(client.receive().body.len() > 12 << 20);
        assert_eq!((client.receive().status, client.receive().status), (0, 0));
    }
    server.shutdown(true).unwrap();
}

#[test]
fn there_is_no_component() {
    static COMPONENT: isorb::Operation = isorb::Operation { name: "_component", oneway: false };
    let (server, _client, echo, _) = pair(Concurrency::Connection);
    let refused = isorb::generated::call_scope(|scope| {
        echo.object().invoke(&COMPONENT, scope, &|_: &mut Encoder<'_>| {}).map(drop)
    });
    assert_eq!(refused.unwrap_err().kind, Kind::NoImplement);
    server.shutdown(true).unwrap();
}

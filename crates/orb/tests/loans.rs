//! Loans: arguments that lie in memory which the server reads. Where one cannot be used, the call
//! or the loan fails, and nothing is copied in silence.
#![cfg(feature = "segments")]

mod common;

use common::*;
use isorb::{Completion, Config, Kind, Object, Orb, Policies, Reference, SyncScope, TransportConfig, Upcall};
use isorb_testkit::wait_until;
use std::sync::atomic::Ordering;

const MIB: usize = 1 << 20;

fn config(endpoint: &str, segment_arena_bytes: usize) -> Config {
    let transport = TransportConfig { segment_arena_bytes, ..TransportConfig::default() };
    Config { endpoints: vec![endpoint.into()], transport, round_trip_timeout_ms: 60_000, ..Config::default() }
}

fn echoed(far: &EchoRef, octets: &[u8]) -> isorb::Result<bool> {
    far.object().orb().scope(|scope| Ok(far.octets_in(scope, octets)? == octets))
}

fn pattern(octets: &mut [u8], seed: usize) {
    octets.iter_mut().enumerate().for_each(|(i, octet)| *octet = ((i * 7) >> 3) as u8 ^ seed as u8);
}

#[test]
fn a_loan_reaches_the_servant_as_any_other_argument() {
    for form in ["segment:;connection", "segment:;lane=2"] {
        let (server, client, far, _) = pair_with(config(form, 4 * MIB), Config::default());
        for n in [4096, 5000, 64 << 10, MIB] {
            let mut loan = client.loan::<u8>(&far, n).unwrap();
            for seed in 0..5 {
                pattern(loan.get_mut().unwrap(), seed);
                let before = client.arena_counts().sent;
                assert!(echoed(&far, &loan).unwrap());
                assert_eq!(client.arena_counts().sent, before + 1, "it was sent from where it lies");
                // The servant has returned, so the message was read.
                assert!(!loan.is_sent());
            }
            // A part of less than 4 KiB travels in the message.
            let before = client.arena_counts().sent;
            assert!(echoed(&far, &loan[1..n]).unwrap());
            assert_eq!(client.arena_counts().sent, before + u64::from(n > 4096));
            assert!(client.arena_counts().in_use >= n);
        }
        let mut numbers = client.loan::<f64>(&far, 10_000).unwrap();
        numbers.get_mut().unwrap().iter_mut().enumerate().for_each(|(i, number)| *number = i as f64 / 8.0);
        client
            .scope(|scope| -> isorb::Result<()> {
                assert!(far.numbers_in(scope, &numbers)? == &numbers[..]);
                Ok(())
            })
            .unwrap();
        drop(numbers);
        let counts = client.arena_counts();
        assert_eq!((counts.in_use, counts.sent, counts.refused, counts.copied), (0, 24, 0, 0));
        assert!((MIB..2 * MIB).contains(&counts.committed), "{counts:?}");
        client.shutdown(true).unwrap();
        server.shutdown(true).unwrap();
    }
}

#[test]
fn a_oneway_call_returns_while_its_loan_is_read() {
    let (_server, client, far, servant) =
        pair_with(config("segment:;connection", 4 * MIB), Config::default());
    let mut loan = client.loan::<u8>(&far, MIB).unwrap();
    let sleeper = std::thread::spawn({
        // The connection's thread is busy, so it does not read the loan.
        let far =
            far.with_policies(Policies { sync_scope: Some(SyncScope::WithTransport), ..Policies::default() });
        move || far.sleep(200)
    });
    wait_until("the servant sleeps", || servant.slept.load(Ordering::SeqCst) == 1);
    let before = servant.fed.load(Ordering::SeqCst);
    // With one connection in use, the call goes over the one of the loan, whichever is free.
    far.feed(&loan).unwrap();
    if servant.slept.load(Ordering::SeqCst) == 1 {
        assert!(loan.is_sent() && loan.get_mut().is_none(), "the message lies in the loan");
    }
    sleeper.join().unwrap().unwrap();
    wait_until("the loan is read", || !loan.is_sent());
    wait_until("it was served", || servant.fed.load(Ordering::SeqCst) == before + MIB as u64);
    assert!(loan.get_mut().is_some());
}

#[test]
fn each_thread_calls_over_the_connection_of_its_loan() {
    let (_server, client, far, _) = pair_with(config("segment:;lane=2", 4 * MIB), Config::default());
    std::thread::scope(|threads| {
        for thread in 0..4 {
            let (client, far) = (&client, &far);
            threads.spawn(move || {
                for seed in 0..50 {
                    let mut loan = client.loan::<u8>(far, 64 << 10).unwrap();
                    pattern(loan.get_mut().unwrap(), seed * 4 + thread);
                    // The other threads take connections meanwhile.
                    assert!(echoed(far, &loan).unwrap());
                    assert_eq!(far.text("between").unwrap(), "between");
                    assert!(echoed(far, &loan).unwrap());
                }
            });
        }
    });
    let counts = client.arena_counts();
    assert_eq!((counts.in_use, counts.sent, counts.copied), (0, 4 * 50 * 2, 0));
}

/// Its frames are loans of the client.
struct Camera;

impl Echo for Camera {
    fn octets<'u>(&'u self, cx: Upcall<'u>, like: &'u [u8]) -> isorb::Result<&'u [u8]> {
        let mut frame = cx.loan::<u8>(like.len())?;
        frame.get_mut().unwrap().copy_from_slice(like);
        Ok(cx.keep(frame)?)
    }
}

#[test]
fn a_result_travels_by_a_loan_of_the_servant() {
    for form in ["segment:;connection", "segment:;lane=2"] {
        let (server, client) =
            (Orb::with_config(config(form, 4 * MIB)).unwrap(), Orb::with_config(Config::default()).unwrap());
        let near: EchoRef = server.root_poa().unwrap().activate(std::sync::Arc::new(Camera)).unwrap();
        server.root_poa().unwrap().manager().activate().unwrap();
        let far: EchoRef = client.resolve(&near.object().to_string()).unwrap();
        let mut loan = client.loan::<u8>(&far, MIB).unwrap();
        for seed in 0..10 {
            pattern(loan.get_mut().unwrap(), seed);
            assert!(echoed(&far, &loan).unwrap());
        }
        // The servant's thread drops the loan after the reply was read.
        wait_until("the last loan is free", || server.arena_counts().in_use == 0);
        let counts = server.arena_counts();
        assert_eq!((counts.sent, counts.copied), (10, 0));
        assert!(counts.committed <= 2 * MIB, "the client's releases free it: {counts:?}");
        refusal(echoed(&near, &[1; 5000]), Kind::NoResources, &["over no connection"]);
        refusal(echoed(&far, &[1; 9]), Kind::BadParam, &["4096"]);
    }
    let (tcp, client) =
        (Orb::with_config(config("127.0.0.1:0", MIB)).unwrap(), Orb::with_config(Config::default()).unwrap());
    let near: EchoRef = tcp.root_poa().unwrap().activate(std::sync::Arc::new(Camera)).unwrap();
    tcp.root_poa().unwrap().manager().activate().unwrap();
    let far: EchoRef = client.resolve(&near.object().to_string()).unwrap();
    refusal(echoed(&far, &[1; 5000]), Kind::NoResources, &[]);
}

fn refusal<T: std::fmt::Debug>(refused: isorb::Result<T>, kind: Kind, words: &[&str]) {
    let exception = refused.unwrap_err();
    assert_eq!(exception.kind, kind, "{exception}");
    let text = exception.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
}

#[test]
fn a_loan_that_cannot_be_is_refused_with_the_setting_and_the_sizes() {
    let (_server, client, far, _) = pair_with(config("segment:;connection", 4 * MIB), Config::default());
    for n in [0, 1, 4095] {
        refusal(client.loan::<u8>(&far, n), Kind::BadParam, &["4096"]);
    }
    let words = ["segment_arena_bytes", "4194304"];
    refusal(client.loan::<u8>(&far, 4 * MIB + 1), Kind::ImpLimit, &words);
    refusal(client.loan::<f64>(&far, usize::MAX / 4), Kind::ImpLimit, &[]);
    // Four messages of 1 MiB, as documented.
    let loans: Vec<_> = (0..4).map(|_| client.loan::<u8>(&far, MIB).unwrap()).collect();
    refusal(client.loan::<u8>(&far, 4096), Kind::NoResources, &words);
    assert_eq!(client.arena_counts().refused, 2);
    drop(loans);
    client.loan::<u8>(&far, 4 * MIB).unwrap();
}

#[test]
fn without_arenas_there_are_calls_and_no_loans() {
    let none = |endpoint| config(endpoint, 0);
    for (server, client) in [
        (config("127.0.0.1:0", 4 * MIB), Config::default()),
        (none("segment:;connection"), Config::default()),
        (config("segment:;connection", 4 * MIB), none("127.0.0.1:0")),
    ] {
        let (server, client, far, _) = pair_with(server, client);
        refusal(client.loan::<u8>(&far, MIB), Kind::NoResources, &["segment_arena_bytes"]);
        assert!(echoed(&far, &vec![7; MIB]).unwrap());
        client.shutdown(true).unwrap();
        server.shutdown(true).unwrap();
    }
}

#[test]
fn a_loan_for_another_server_is_not_copied_in_silence() {
    let [(_a, client, far, _), (_b, other, elsewhere, _)] =
        [(); 2].map(|()| pair_with(config("segment:;connection", 4 * MIB), Config::default()));
    let second = client.resolve::<EchoRef>(&elsewhere.object().to_string()).unwrap();
    let loan = client.loan::<u8>(&far, MIB).unwrap();
    for target in [&second, &elsewhere] {
        let exception = echoed(target, &loan).unwrap_err();
        assert_eq!((exception.kind, exception.completed), (Kind::BadParam, Completion::No), "{exception}");
        refusal(target.feed(&loan), Kind::BadParam, &["another server"]);
    }
    // Two loans in one process do not disturb each other, and a copy goes everywhere.
    let theirs = other.loan::<u8>(&elsewhere, MIB).unwrap();
    assert!(echoed(&elsewhere, &theirs).unwrap() && echoed(&far, &loan).unwrap());
    assert!(echoed(&second, &Vec::from(&*loan)).unwrap());
}

#[test]
fn an_object_of_this_orb_takes_no_loan() {
    let (server, client, far, _) = pair_with(config("segment:;connection", 4 * MIB), Config::default());
    let near: EchoRef = server.resolve(&far.object().to_string()).unwrap();
    refusal(server.loan::<u8>(&near, MIB), Kind::NoResources, &["in this process"]);
    let loan = client.loan::<u8>(&far, MIB).unwrap();
    refusal(echoed(&near, &loan), Kind::BadParam, &["inside this ORB"]);
    assert!(echoed(&far, &loan).unwrap());
}

#[test]
fn a_loan_outlives_its_connection_and_is_of_no_more_use() {
    let server = Config { max_connections: 1, ..config("segment:;connection", 4 * MIB) };
    let (_server, client, far, _) = pair_with(server, Config::default());
    let mut loan = client.loan::<u8>(&far, MIB).unwrap();
    assert!(echoed(&far, &loan).unwrap());
    // The server closes the connection, since it is idle, for the one of another client.
    let other = Orb::with_config(config("127.0.0.1:0", 4 * MIB)).unwrap();
    other.resolve::<EchoRef>(&far.object().to_string()).unwrap().ping().unwrap();
    wait_until("the connection has ended", || match echoed(&far, &loan) {
        Ok(same) => !same,
        Err(exception) => {
            assert_eq!(
                (exception.kind, exception.completed),
                (Kind::CommFailure, Completion::No),
                "{exception}"
            );
            exception.to_string().contains("make another")
        }
    });
    loan.get_mut().unwrap().fill(3);
    assert!(loan.iter().all(|octet| *octet == 3));
    let again = client.loan::<u8>(&far, MIB).unwrap();
    assert!(echoed(&far, &again).unwrap());
}

#[test]
fn an_object_takes_loans_as_its_typed_reference_does() {
    let (_server, client, far, _) = pair_with(config("segment:;connection", 4 * MIB), Config::default());
    let object: Object = far.object().clone();
    let loan = client.loan::<u8>(&object, MIB).unwrap();
    assert!(echoed(&far, &loan).unwrap());
    let _: &Orb = object.orb();
}

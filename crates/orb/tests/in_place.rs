//! Arguments and results that are read where the peer lent them, by honest and by hostile peers.
#![cfg(feature = "segments")]

mod common;

use common::*;
use isorb::generated::Lent;
use isorb::transport::{Segments, Transport, Wait};
use isorb::{Config, Object, Orb, Reference, Result, TransportConfig, Upcall};
use isorb_cdr::{Encoder, Text};
use isorb_giop::message::{self, Response};
use isorb_testkit::wait_until;
use std::io::{IoSlice, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const MIB: usize = 1 << 20;

fn config(endpoint: &str) -> Config {
    let transport = TransportConfig { segment_arena_bytes: 4 * MIB, ..TransportConfig::default() };
    Config { endpoints: vec![endpoint.into()], transport, round_trip_timeout_ms: 60_000, ..Config::default() }
}

fn pattern(octets: &mut [u8], seed: usize) {
    octets.iter_mut().enumerate().for_each(|(i, octet)| *octet = ((i * 7) >> 3) as u8 ^ seed as u8);
}

fn has_pattern(octets: &Lent<'_, u8>, seed: usize) -> bool {
    octets.iter().enumerate().all(|(i, octet)| octet == ((i * 7) >> 3) as u8 ^ seed as u8)
}

/// Answers with as many octets, of the next pattern: with a loan, if the tag is `lend`. With the
/// tag `check`, octets without the pattern of `after` are an exception; else they are counted.
#[derive(Default)]
struct Mirror {
    in_place: AtomicU64,
    in_message: AtomicU64,
    wrong: AtomicU64,
}

impl Echo for Mirror {
    fn frame<'u>(&'u self, cx: Upcall<'u>, tag: &'u str, o: Lent<'u, u8>, after: u32) -> Result<&'u [u8]> {
        let count = if o.in_message().is_some() { &self.in_message } else { &self.in_place };
        count.fetch_add(1, Ordering::SeqCst);
        if !has_pattern(&o, after as usize) {
            if tag == "check" {
                return Err(isorb::Kind::BadParam.into());
            }
            self.wrong.fetch_add(1, Ordering::SeqCst);
        }
        if tag == "lend" {
            let mut answer = cx.loan::<u8>(o.len())?;
            pattern(answer.get_mut().unwrap(), after as usize + 1);
            return Ok(cx.keep(answer)?);
        }
        let mut answer = o.to_vec();
        pattern(&mut answer, after as usize + 1);
        Ok(cx.keep(answer)?)
    }
}

fn pair_with_mirror(server: Config, client: Config) -> (Orb, Orb, EchoRef, Arc<Mirror>) {
    let (server, client) = (Orb::with_config(server).unwrap(), Orb::with_config(client).unwrap());
    let mirror = Arc::new(Mirror::default());
    let near: EchoRef = server.root_poa().unwrap().activate(mirror.clone()).unwrap();
    server.root_poa().unwrap().manager().activate().unwrap();
    let far = client.resolve(&near.object().to_string()).unwrap();
    (server, client, far, mirror)
}

#[test]
fn loans_are_read_where_they_lie_on_both_sides() {
    for form in ["segment:;connection", "segment:;lane=2"] {
        let (server, client, far, mirror) = pair_with_mirror(config(form), Config::default());
        let mut loan = client.loan::<u8>(&far, MIB).unwrap();
        for seed in 0..10 {
            pattern(loan.get_mut().unwrap(), seed);
            client
                .scope(|scope| -> Result<()> {
                    let answer = far.frame_in(scope, "lend", &loan, seed as u32)?;
                    // The servant has returned, so its client may fill the loan again.
                    assert!(!loan.is_sent());
                    assert!(answer.in_message().is_none(), "{answer:?}");
                    assert!(has_pattern(&answer, seed + 1) && answer.len() == MIB);
                    assert_eq!((answer.get(MIB), answer.get(0)), (None, Some(seed as u8 + 1)));
                    // The server cannot use the memory while this scope lasts.
                    assert_eq!(client.arena_counts().held, MIB);
                    assert!(server.arena_counts().in_use >= MIB);
                    Ok(())
                })
                .unwrap();
            assert_eq!(client.arena_counts().held, 0);
        }
        wait_until("the last answer is released", || server.arena_counts().in_use == 0);
        assert_eq!(mirror.wrong.load(Ordering::SeqCst), 0);
        let in_place = mirror.in_place.load(Ordering::SeqCst);
        // The first request of a connection has service contexts about the connection.
        assert!(in_place >= 9, "{in_place} of 10");
        assert_eq!(server.arena_counts().read_in_place, in_place);
        assert_eq!(client.arena_counts().read_in_place, 10);
        let counts = client.arena_counts();
        assert_eq!((counts.sent, counts.copied, counts.in_use), (10, 0, MIB));
        client.shutdown(true).unwrap();
        server.shutdown(true).unwrap();
    }
}

#[test]
fn octets_that_are_no_loan_are_in_the_message() {
    for (server, client) in [
        (config("segment:;connection"), Config::default()),
        (config("127.0.0.1:0"), Config::default()),
        (config("127.0.0.1:0;lane=1"), Config::default()),
    ] {
        let (server, client, far, mirror) = pair_with_mirror(server, client);
        for n in [0, 1, 5000, MIB] {
            let mut octets = vec![0; n];
            pattern(&mut octets, 3);
            for target in [&far, &server.resolve(&far.object().to_string()).unwrap()] {
                target
                    .object()
                    .orb()
                    .scope(|scope| -> Result<()> {
                        let answer = target.frame_in(scope, "own", &octets, 3)?;
                        assert!(answer.in_message().is_some() && has_pattern(&answer, 4));
                        assert_eq!(answer.to_vec().len(), n);
                        Ok(())
                    })
                    .unwrap();
            }
        }
        let counts = [&mirror.in_place, &mirror.in_message, &mirror.wrong];
        assert_eq!(counts.map(|count| count.load(Ordering::SeqCst)), [0, 8, 0]);
        client.shutdown(true).unwrap();
        server.shutdown(true).unwrap();
    }
}

#[test]
fn answers_that_are_held_use_up_the_arena_and_no_more() {
    let (server, client, far, _) = pair_with_mirror(config("segment:;connection"), Config::default());
    let mut loan = client.loan::<u8>(&far, MIB).unwrap();
    pattern(loan.get_mut().unwrap(), 0);
    client
        .scope(|scope| -> Result<()> {
            let answers: Vec<_> =
                (0..4).map(|_| far.frame_in(scope, "lend", &loan, 0)).collect::<Result<_>>()?;
            // The arena of the server is full: the servant is told, and the call fails.
            let refused = far.frame_in(scope, "lend", &loan, 0).unwrap_err();
            assert_eq!(refused.kind, isorb::Kind::NoResources, "{refused}");
            assert!(answers.iter().all(|answer| has_pattern(answer, 1)));
            assert_eq!(client.arena_counts().held, 4 * MIB);
            Ok(())
        })
        .unwrap();
    assert_eq!(client.arena_counts().held, 0);
    // With the scope all of it came back.
    for _ in 0..20 {
        client.scope(|scope| far.frame_in(scope, "lend", &loan, 0).map(drop)).unwrap();
    }
    wait_until("the last answer is released", || server.arena_counts().in_use == 0);
}

#[test]
fn a_held_answer_outlives_its_connection() {
    let (server, client, far, _) = pair_with_mirror(config("segment:;connection"), Config::default());
    let mut octets = vec![0; MIB];
    pattern(&mut octets, 0);
    client
        .scope(|scope| -> Result<()> {
            let answer = far.frame_in(scope, "lend", &octets, 0)?;
            assert!(answer.in_message().is_none());
            server.shutdown(true)?;
            drop(server);
            assert!(has_pattern(&answer, 1));
            Ok(())
        })
        .unwrap();
}

/// Writes into a loan that was sent, as a hostile client can.
fn scribble(octets: &[u8], stop: &AtomicBool) {
    let mut memory = std::fs::OpenOptions::new().write(true).open("/proc/self/mem").unwrap();
    let start = octets.as_ptr().addr() as u64;
    let mut seed = 1u64;
    while !stop.load(Ordering::Relaxed) {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = (seed >> 33) % (octets.len() as u64 - 512);
        memory.seek(SeekFrom::Start(start + at)).unwrap();
        memory.write_all(&[(seed >> 24) as u8; 512]).unwrap();
    }
}

#[test]
fn a_client_that_writes_while_its_loan_is_read_garbles_its_own_call() {
    let (server, client, far, mirror) = pair_with_mirror(config("segment:;connection"), Config::default());
    let other = Orb::with_config(Config::default()).unwrap();
    let honest: EchoRef = other.resolve(&far.object().to_string()).unwrap();
    let mut loan = client.loan::<u8>(&far, MIB).unwrap();
    pattern(loan.get_mut().unwrap(), 0);
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| scribble(&loan, &stop));
        for round in 0..50 {
            client.scope(|scope| far.frame_in(scope, "own", &loan, 0).map(drop)).unwrap();
            // No other client notices.
            let mut octets = vec![0; 5000];
            pattern(&mut octets, round);
            let same = other.scope(|scope| -> Result<bool> {
                Ok(has_pattern(&honest.frame_in(scope, "check", &octets, round as u32)?, round + 1))
            });
            assert!(same.unwrap());
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(mirror.in_place.load(Ordering::SeqCst) >= 49);
    assert!(mirror.wrong.load(Ordering::SeqCst) >= 1, "the hostile client changed what was read");
    server.shutdown(true).unwrap();
}

/// A request of `frame` for an object.
fn request(object: &Object, id: u32, octets: &[u8]) -> Vec<u8> {
    let key = object.ior().iiop_profiles().flatten().next().unwrap().key;
    let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
    message::write_request(&mut e, id, Response::Target, &key, "frame", &[]);
    let body = message::begin_body(&mut e);
    e.string("own");
    e.put(octets.len() as u32);
    octets.iter().for_each(|octet| e.put(*octet));
    e.put(0u32);
    message::end_body(&mut e, body);
    let message = e.finished().unwrap();
    message::finish_header(message).unwrap();
    message.pieces().flatten().copied().collect()
}

/// A client may lend any part of its request: the header, an argument and a half. All of them are
/// read as if they had come through the ring.
#[test]
fn a_part_may_lie_anywhere_in_its_message() {
    for form in ["segment:;connection", "segment:;lane=1"] {
        let mut endpoints = config(form);
        endpoints.endpoints.push("127.0.0.1:0".into());
        let (server, _client, far, mirror) = pair_with_mirror(endpoints, Config::default());
        let (_, path) = server.endpoint_names().into_iter().find(|(name, _)| *name == "segment").unwrap();
        let stream = Segments::default().connect(&path, None).unwrap();
        let mut octets = vec![0; 600];
        pattern(&mut octets, 0);
        let mut calls = 0;
        let whole = request(far.object(), 1, &octets);
        let ends = (1..whole.len()).step_by(37).chain([whole.len()]);
        let ranges = ends.flat_map(|end| (0..end).step_by(23).map(move |start| start..end));
        // The second time the header of the request is known to the server.
        for range in ranges.flat_map(|range| [range.clone(), range]) {
            calls += 1;
            let request = request(far.object(), calls, &octets);
            let mut loan = stream.arena().unwrap().loan(range.len()).unwrap();
            loan.octets_mut().unwrap().copy_from_slice(&request[range.clone()]);
            let pieces = [&request[..range.start], &loan, &request[range.end..]].map(IoSlice::new);
            assert_eq!(stream.send(&pieces, Wait::Block).unwrap(), request.len());
            let mut reply = vec![0; 2000];
            let mut got = 0;
            while got < 12 || got < 12 + u32::from_ne_bytes(reply[8..12].try_into().unwrap()) as usize {
                got += stream.recv(&mut reply[got..], Wait::Block).unwrap();
            }
            assert_eq!((&reply[..4], reply[16]), (&b"GIOP"[..], 0), "{range:?}: results");
            assert_eq!(mirror.wrong.load(Ordering::SeqCst), 0, "{range:?}");
            assert!(!loan.is_sent(), "{range:?}: it was released before the reply");
        }
        let all = mirror.in_place.load(Ordering::SeqCst) + mirror.in_message.load(Ordering::SeqCst);
        assert_eq!(all, u64::from(calls));
    }
}

//! `_bind_priority_band` on the wire (RT-CORBA 1.2): both sides, each against a peer
//! with every byte decided by the test.

mod common;

use common::fake::{Fake, answer, next, request};
use common::{EchoRef, pair};
use isorb::rt::Overrides;
use isorb::rt::policy::{PriorityBand, RtPolicy};
use isorb::{Concurrency, Config, Kind, Reference, Result, minor};
use isorb_cdr::{Encoder, Text};
use isorb_giop::context::{RT_CORBA_PRIORITY, RT_CORBA_PRIORITY_RANGE};
use isorb_giop::message::{self, ReplyStatus, Response, ServiceContext};
use isorb_scope::Region;
use std::io::Write;
use std::net::TcpStream;

const BIND: &str = "_bind_priority_band";
const CODE_SETS: u32 = 1;

fn banded(object: &EchoRef, low: i16, high: i16) -> EchoRef {
    let bands = vec![PriorityBand { low, high }];
    let overrides = Overrides::new(&[RtPolicy::PriorityBands(bands)]).unwrap();
    object.object().with_rt_overrides(&overrides).unchecked_narrow()
}

fn without_code_sets(contexts: Vec<(u32, Vec<u8>)>) -> Vec<(u32, Vec<u8>)> {
    contexts.into_iter().filter(|(id, _)| *id != CODE_SETS).collect()
}

#[test]
fn the_band_is_told_before_the_first_request_and_once() {
    let fake = Fake::new();
    let echo = banded(&fake.object(Config::default()), 0, 0x1234);
    let server = std::thread::spawn(move || {
        let mut stream = fake.accept();
        let mut seen = Vec::new();
        while let Some((id, operation, contexts)) = request(&mut stream) {
            answer(&mut stream, id, None);
            seen.push((operation, without_code_sets(contexts)));
            if seen.len() == 3 {
                break;
            }
        }
        seen
    });
    echo.ping().unwrap();
    echo.ping().unwrap();
    // Byte order, padding to a short, low end, high end.
    let band = if cfg!(target_endian = "little") { b"\x01\0\0\0\x34\x12" } else { b"\0\0\0\0\x12\x34" };
    let expected = [
        (BIND.to_string(), vec![(RT_CORBA_PRIORITY_RANGE, band.to_vec())]),
        ("ping".to_string(), vec![]),
        ("ping".to_string(), vec![]),
    ];
    assert_eq!(server.join().unwrap(), expected);
}

/// The server's reply to the band, and the result of a call.
fn answered(raises: Option<(&'static str, u32)>) -> (Result<()>, Vec<String>) {
    let fake = Fake::new();
    let echo = banded(&fake.object(Config::default()), 0, 9);
    let server = std::thread::spawn(move || {
        let mut stream = fake.accept();
        let mut seen = Vec::new();
        while let Some((id, operation, _)) = request(&mut stream) {
            let raises = if operation == BIND { raises } else { None };
            answer(&mut stream, id, raises);
            let last = operation != BIND;
            seen.push(operation);
            if last {
                break;
            }
        }
        seen
    });
    let result = echo.ping();
    // A connection that a refusal leaves open ends with the client.
    echo.object().orb().shutdown(false).unwrap();
    (result, server.join().unwrap())
}

#[test]
fn a_server_that_knows_no_bands_serves_all_the_same() {
    for raises in [
        None,
        Some(("IDL:omg.org/CORBA/BAD_OPERATION:1.0", 2)),
        Some(("IDL:omg.org/CORBA/NO_IMPLEMENT:1.0", 0)),
    ] {
        assert_eq!(answered(raises), (Ok(()), vec![BIND.to_string(), "ping".to_string()]), "{raises:?}");
    }
}

#[test]
fn a_server_that_refuses_the_band_is_not_called() {
    let refusals = [
        ("IDL:omg.org/CORBA/NO_RESOURCES:1.0", Kind::NoResources, minor::NO_RESOURCES_PRIORITY),
        ("IDL:omg.org/CORBA/INV_POLICY:1.0", Kind::InvPolicy, 0),
        ("IDL:omg.org/CORBA/NO_PERMISSION:1.0", Kind::NoPermission, 7),
    ];
    for (id, kind, minor) in refusals {
        let (result, seen) = answered(Some((id, minor)));
        let exception = result.unwrap_err();
        assert_eq!((exception.kind, exception.minor), (kind, minor));
        assert_eq!(seen, [BIND], "the request was not sent");
    }
}

/// A raw client: sends a request with these contexts, and returns its reply.
struct Hand {
    stream: TcpStream,
    key: Vec<u8>,
    id: u32,
}

impl Hand {
    fn new(near: &EchoRef) -> Hand {
        let profile = near.object().ior().iiop_profiles().next().unwrap().unwrap();
        let stream = TcpStream::connect((profile.host.as_str(), profile.port)).unwrap();
        Hand { stream, key: profile.key, id: 0 }
    }

    /// `None` for results, else the exception's id and minor code.
    fn call(&mut self, operation: &str, contexts: &[(u32, &[u8])]) -> Option<(String, u32)> {
        self.id += 2;
        let contexts: Vec<_> = contexts.iter().map(|&(id, data)| ServiceContext { id, data }).collect();
        let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
        message::write_request(&mut e, self.id, Response::Target, &self.key, operation, &contexts);
        let mut message = e.finish().unwrap();
        message::finish_header(&mut message).unwrap();
        self.stream.write_all(&message.into_buffer()).unwrap();
        let (header, mut bytes) = next(&mut self.stream).expect("the connection survives");
        let mut region = Region::new(1024);
        let scope = region.enter();
        let mut d = message::start(&mut bytes, &header, &scope).unwrap();
        let reply = message::Reply::read(&mut d).unwrap();
        assert_eq!(reply.id, self.id);
        message::body(&mut d);
        match reply.status {
            ReplyStatus::NoException => None,
            ReplyStatus::SystemException => Some((d.string().unwrap().into(), d.get().unwrap())),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_a_server_cannot_read_of_a_band_is_refused_and_nothing_else_lost() {
    for concurrency in [Concurrency::Connection, Concurrency::Lane] {
        let (server, _client, far, _) = pair(concurrency);
        let mut hand = Hand::new(&far);
        let range = RT_CORBA_PRIORITY_RANGE;
        let good: &[u8] = b"\0\0\0\x05\0\x09";
        let marshal = "IDL:omg.org/CORBA/MARSHAL:1.0";
        let conversion = "IDL:omg.org/CORBA/DATA_CONVERSION:1.0";
        let bands = || server.served_connections().iter().filter_map(|connection| connection.band).count();
        for (contexts, exception) in [
            (vec![], marshal),
            (vec![(RT_CORBA_PRIORITY, good)], marshal),
            (vec![(range, &b""[..])], marshal),
            (vec![(range, b"\0")], marshal),
            (vec![(range, b"\0\0\0\x05\0")], marshal),
            (vec![(range, b"\0\0\x80\0\0\x09")], conversion),
            (vec![(range, b"\0\0\0\x05\xff\xff")], conversion),
            (vec![(range, b"\0\0\0\x09\0\x05")], conversion),
        ] {
            let answer = hand.call(BIND, &contexts);
            assert_eq!(answer.as_ref().map(|(id, _)| id.as_str()), Some(exception), "{contexts:?}");
            if exception == conversion {
                assert_eq!(answer.map(|(_, code)| code), Some(minor::DATA_CONVERSION_PRIORITY));
            }
            assert_eq!(hand.call("ping", &[]), None, "the connection goes on after {contexts:?}");
            assert_eq!(bands(), 0);
        }
        // With an ordinary request the band is neither an error nor an assignment.
        assert_eq!(hand.call("ping", &[(range, good)]), None);
        assert_eq!(bands(), 0);
        assert_eq!(hand.call(BIND, &[(range, good)]), None);
        assert_eq!(bands(), 1);
        hand.key.push(7);
        assert_eq!(hand.call(BIND, &[(range, good)]).unwrap().0, "IDL:omg.org/CORBA/OBJECT_NOT_EXIST:1.0");
        server.shutdown(true).unwrap();
    }
}

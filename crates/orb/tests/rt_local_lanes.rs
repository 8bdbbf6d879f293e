//! Lanes of thread pools that clients of the same host reach by unix sockets and memory segments.

mod common;

use common::EchoRef;
use common::rt::{Witness, arc, lane, poa, server_with};
use isorb::poa::{CreateError, PoaPolicies};
use isorb::rt::ThreadpoolOptions;
use isorb::rt::policy::PriorityModel::{ClientPropagated, ServerDeclared};
use isorb::rt::policy::{PriorityBand, Protocol, TcpProperties};
use isorb::{Config, Kind, Orb, Reference, TransportConfig};
use isorb_testkit::TempFolder;
use isorb_transport::{TAG_SEGMENTS, TAG_UNIX};
use std::sync::Arc;

const TRANSPORTS: [(&str, u32); 2] = [("unix", TAG_UNIX), ("segment", TAG_SEGMENTS)];

/// A server that listens at TCP and these endpoints.
fn listening(transports: &[&str]) -> Orb {
    let local = transports.iter().map(|transport| format!("{transport}:"));
    let endpoints = std::iter::once("127.0.0.1:0".to_owned()).chain(local).collect();
    server_with(Config { endpoints, ..Config::default() })
}

/// A client with a single protocol.
fn only(protocol: &str) -> Orb {
    let transport = TransportConfig { protocols: vec![protocol.into()], ..TransportConfig::default() };
    Orb::with_config(Config { transport, ..Config::default() }).unwrap()
}

/// An object in lanes at 100 and 10,000, with these further policies.
fn laned(server: &Orb, policies: PoaPolicies) -> (Arc<Witness>, EchoRef) {
    let lanes = [lane(100, 1), lane(10_000, 1)];
    let pool = server.rt().create_threadpool_with_lanes(&lanes, &ThreadpoolOptions::default()).unwrap();
    let witness = arc::<Witness>();
    let object = poa(server, "laned", policies.threadpool(pool)).activate(witness.clone()).unwrap();
    (witness, object)
}

/// Calls at these priorities from a separate thread; the threads that ran them.
fn runs(client: &Orb, object: &EchoRef, witness: &Witness, priorities: &[i16]) -> Vec<(Option<i16>, String)> {
    let far: EchoRef = client.resolve(&object.object().to_string()).unwrap();
    std::thread::scope(|scope| {
        let calls = scope.spawn(|| {
            for priority in priorities {
                client.rt_current().set_the_priority(*priority).unwrap();
                far.ping().unwrap();
            }
        });
        calls.join().unwrap();
    });
    witness.take().into_iter().map(|run| (run.priority, run.thread.to_string())).collect()
}

fn tags(object: &EchoRef) -> Vec<u32> {
    object.object().ior().profiles.iter().map(|profile| profile.tag).collect()
}

#[test]
fn clients_choose_the_lane_by_its_own_address_without_bands() {
    for (protocol, tag) in TRANSPORTS {
        let server = listening(&[protocol]);
        let (witness, object) = laned(&server, PoaPolicies::new().priority_model(ClientPropagated, 100));
        assert_eq!(tags(&object), [0, tag]);
        let (low, high) = ("pool1-100".to_owned(), "pool1-10000".to_owned());
        let expected = [(Some(10_000), high.clone()), (Some(100), low.clone()), (Some(10_000), high)];
        for client in [only(protocol), only("tcp"), Orb::with_config(Config::default()).unwrap()] {
            assert_eq!(runs(&client, &object, &witness, &[10_000, 100, 10_000]), expected, "{protocol}");
        }
        // A priority without a lane fails, as over TCP.
        let client = only(protocol);
        let far: EchoRef = client.resolve(&object.object().to_string()).unwrap();
        std::thread::spawn(move || {
            client.rt_current().set_the_priority(500).unwrap();
            assert_eq!(far.ping().unwrap_err().kind, Kind::NoResources);
        })
        .join()
        .unwrap();
        server.shutdown(true).unwrap();
    }
}

#[test]
fn a_declared_priority_is_served_by_its_lane() {
    for (protocol, _) in TRANSPORTS {
        let server = listening(&[protocol]);
        let (witness, object) = laned(&server, PoaPolicies::new().priority_model(ServerDeclared, 10_000));
        let expected = [(Some(10_000), "pool1-10000".to_owned())];
        assert_eq!(runs(&only(protocol), &object, &witness, &[1]), expected, "{protocol}");
        server.shutdown(true).unwrap();
    }
}

#[test]
fn a_pool_without_lanes_has_such_doors_too() {
    for (protocol, tag) in TRANSPORTS {
        let server = listening(&[protocol]);
        let pool = server.rt().create_threadpool(lane(300, 1), &ThreadpoolOptions::default()).unwrap();
        let witness = arc::<Witness>();
        let poa = poa(&server, "plain", PoaPolicies::new().threadpool(pool));
        let object: EchoRef = poa.activate(witness.clone()).unwrap();
        assert_eq!(tags(&object), [0, tag]);
        let expected = [(Some(300), "pool1-300".to_owned())];
        assert_eq!(runs(&only(protocol), &object, &witness, &[1]), expected, "{protocol}");
        server.shutdown(true).unwrap();
    }
}

#[test]
fn with_bands_a_client_goes_to_the_lane_at_once() {
    for (protocol, _) in TRANSPORTS {
        let server = listening(&[protocol]);
        let bands = [PriorityBand { low: 0, high: 999 }, PriorityBand { low: 1_000, high: 32_767 }];
        let policies = PoaPolicies::new().priority_model(ClientPropagated, 100).priority_bands(bands);
        let (witness, object) = laned(&server, policies);
        let expected = [(Some(20_000), "pool1-10000".to_owned()), (Some(50), "pool1-100".to_owned())];
        let client = only(protocol);
        assert_eq!(runs(&client, &object, &witness, &[20_000, 50]), expected, "{protocol}");
        let lanes = server.rt().threadpool_status(1).unwrap();
        assert_eq!(lanes.iter().map(|lane| lane.connections).collect::<Vec<_>>(), [1, 1]);
        server.shutdown(true).unwrap();
    }
}

/// The control: without an endpoint of the ORB's transport, the lane has none either.
#[test]
fn without_an_endpoint_of_the_orb_lanes_have_none() {
    let server = listening(&[]);
    let (witness, object) = laned(&server, PoaPolicies::new().priority_model(ClientPropagated, 100));
    assert_eq!(tags(&object), [0]);
    for (protocol, _) in TRANSPORTS {
        let far = only(protocol).resolve::<EchoRef>(&object.object().to_string()).and_then(|far| far.ping());
        assert!(far.is_err(), "{protocol}");
    }
    assert_eq!(witness.take(), []);
    server.shutdown(true).unwrap();
}

#[test]
fn a_lane_may_say_where() {
    let folder = TempFolder::new();
    let path = folder.text("lane");
    let server = listening(&[]);
    let configured = lane(100, 1).local_endpoint(format!("unix:{path}"));
    let pool =
        server.rt().create_threadpool_with_lanes(&[configured], &ThreadpoolOptions::default()).unwrap();
    let policies = PoaPolicies::new().threadpool(pool).priority_model(ServerDeclared, 100);
    let witness = arc::<Witness>();
    let object: EchoRef = poa(&server, "said", policies).activate(witness.clone()).unwrap();
    assert!(std::path::Path::new(&path).exists());
    let client = only("unix");
    assert_eq!(runs(&client, &object, &witness, &[1]), [(Some(100), "pool1-100".to_owned())]);
    // The ORB recognises its own reference.
    let own: EchoRef = server.resolve(&object.object().to_string()).unwrap();
    own.ping().unwrap();
    assert_eq!(server.rt().threadpool_status(pool).unwrap()[0].connections, 1, "no connection to itself");
    server.shutdown(true).unwrap();
    assert!(!std::path::Path::new(&path).exists(), "and takes it away");

    let server = listening(&[]);
    for wrong in ["127.0.0.1:0", "nonsense:/x"] {
        let lanes = [lane(100, 1).local_endpoint(wrong)];
        let refused = server.rt().create_threadpool_with_lanes(&lanes, &ThreadpoolOptions::default());
        assert_eq!(refused.unwrap_err().kind, Kind::BadParam, "{wrong}");
    }
    server.shutdown(true).unwrap();
}

#[test]
fn server_protocol_policies_name_them() {
    let tcp = || Protocol::iiop(TcpProperties::default());
    let unix = || Protocol::with_tag(TAG_UNIX);
    let server = listening(&["unix", "segment"]);
    let declared = || PoaPolicies::new().priority_model(ServerDeclared, 10_000);
    let (witness, object) = laned(&server, declared().server_protocols([unix()]));
    assert_eq!(tags(&object), [TAG_UNIX], "by this protocol and no other");
    assert_eq!(runs(&only("unix"), &object, &witness, &[1]), [(Some(10_000), "pool1-10000".to_owned())]);
    let far = only("tcp").resolve::<EchoRef>(&object.object().to_string()).and_then(|far| far.ping());
    assert!(far.is_err());
    // Without a pool, references name the ORB's own endpoints.
    let plain: EchoRef = poa(&server, "plain", declared().server_protocols([tcp(), unix()]))
        .activate(arc::<Witness>())
        .unwrap();
    assert_eq!(tags(&plain), [0, TAG_UNIX]);
    server.shutdown(true).unwrap();

    // No connection was accepted, by the ORB or by the lanes.
    let server = listening(&["segment"]);
    let pool = server.rt().create_threadpool(lane(300, 1), &ThreadpoolOptions::default()).unwrap();
    let root = server.root_poa().unwrap();
    for policies in [declared(), declared().threadpool(pool)] {
        let index = policies.rt_policies().len() as u16;
        let refused = root.create_poa("refused", None, policies.server_protocols([tcp(), unix()]));
        assert_eq!(refused.map(|_| ()), Err(CreateError::InvalidPolicy(index)));
    }
    server.shutdown(true).unwrap();
}

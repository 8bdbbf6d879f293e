//! Client and server together: a call's priority selects its band, the band its lane, and the
//! servant runs there.

mod common;

use common::rt::{Witness, arc, lane, poa, server, server_with};
use common::{EchoRef, raw::Raw};
use isorb::poa::PoaPolicies;
use isorb::rt::policy::PriorityModel::{ClientPropagated, ServerDeclared};
use isorb::rt::policy::{PriorityBand, RtPolicy};
use isorb::rt::{Overrides, Priority, PriorityTransform, ThreadpoolOptions};
use isorb::{Config, Kind, Orb, Reference, minor};
use isorb_giop::component::TAG_TAO_ENDPOINTS;
use isorb_giop::{IiopProfile, Ior};
use std::sync::Arc;

fn band(low: i16, high: i16) -> PriorityBand {
    PriorityBand { low, high }
}

/// A server with lanes at 100 and 10,000, with this number of threads each, and an object with a
/// band for each.
fn laned(threads: u32) -> (Orb, Arc<Witness>, EchoRef) {
    laned_in(server(), threads)
}

fn laned_in(server: Orb, threads: u32) -> (Orb, Arc<Witness>, EchoRef) {
    let lanes = [lane(100, threads), lane(10_000, threads)];
    let pool = server.rt().create_threadpool_with_lanes(&lanes, &ThreadpoolOptions::default()).unwrap();
    let policies = PoaPolicies::new()
        .threadpool(pool)
        .priority_model(ClientPropagated, 100)
        .priority_bands([band(0, 999), band(1_000, 32_767)]);
    let poa = poa(&server, "banded", policies);
    let witness = arc::<Witness>();
    let object = poa.activate(witness.clone()).unwrap();
    (server, witness, object)
}

/// The reference without the lanes' addresses, at a port.
fn elsewhere(object: &EchoRef, port: u16) -> String {
    let ior = object.object().ior();
    let profile = ior.iiop_profiles().flatten().next().unwrap();
    let components = profile.components.into_iter().filter(|c| c.tag != TAG_TAO_ENDPOINTS).collect();
    Ior::iiop(ior.type_id.clone(), &IiopProfile { port, components, ..profile }).unwrap().to_string()
}

fn apart(f: impl FnOnce() + Send + 'static) {
    std::thread::spawn(f).join().unwrap();
}

/// Calls at several priorities, and the thread of each.
fn runs(client: &Orb, far: &EchoRef, witness: &Witness) -> Vec<(Option<i16>, String)> {
    for priority in [50, 20_000, 999, 1_000, 50] {
        client.rt_current().set_the_priority(priority).unwrap();
        far.ping().unwrap();
    }
    witness.take().into_iter().map(|run| (run.priority, run.thread.to_string())).collect()
}

fn expected() -> Vec<(Option<i16>, String)> {
    let (low, high) = ("pool1-100", "pool1-10000");
    let all = [(50, low), (20_000, high), (999, low), (1_000, high), (50, low)];
    all.map(|(priority, thread)| (Some(priority), thread.into())).into()
}

#[test]
fn a_call_runs_in_the_lane_of_its_band() {
    for threads in [1, 3] {
        let (server, witness, object) = laned(threads);
        apart(move || {
            let client = Orb::with_config(Config::default()).unwrap();
            let far: EchoRef = client.resolve(&object.object().to_string()).unwrap();
            assert_eq!(far.object().validate_connection(), Ok(vec![]));
            witness.take();
            assert_eq!(runs(&client, &far, &witness), expected());
            let bands: Vec<_> = server.served_connections().iter().map(|c| c.band).collect();
            assert_eq!(bands.len(), 2, "{bands:?}");
            server.shutdown(true).unwrap();
        });
    }
}

#[test]
fn a_band_that_is_bound_at_another_endpoint_moves_to_its_lane() {
    for threads in [1, 3] {
        let (server, witness, object) = laned(threads);
        let home = object.object().ior().iiop_profiles().flatten().next().unwrap().port;
        let (_, orbs) = server.endpoint_addresses()[0].clone();
        apart(move || {
            for (port, what) in [(home, "a lane's"), (orbs, "the ORB's own")] {
                let client = Orb::with_config(Config::default()).unwrap();
                let far: EchoRef = client.resolve(&elsewhere(&object, port)).unwrap();
                assert_eq!(runs(&client, &far, &witness), expected(), "at {what}, {threads} threads");
                assert_eq!(runs(&client, &far, &witness), expected(), "and stays there");
                client.shutdown(true).unwrap();
            }
            server.shutdown(true).unwrap();
        });
    }
}

#[test]
fn bands_have_connections_of_their_own_over_local_transports() {
    for (protocol, threads) in [("segment", 1), ("unix", 1), ("segment", 3), ("unix", 3)] {
        let config =
            Config { endpoints: vec!["127.0.0.1:0".into(), format!("{protocol}:")], ..Config::default() };
        let (server, witness, object) = laned_in(server_with(config), threads);
        apart(move || {
            let client = Orb::with_config(Config::default()).unwrap();
            let far: EchoRef = client.resolve(&object.object().to_string()).unwrap();
            assert_eq!(far.object().validate_connection(), Ok(vec![]));
            witness.take();
            for _ in 0..20 {
                assert_eq!(runs(&client, &far, &witness), expected(), "{protocol}, {threads} threads");
            }
            let mut bands: Vec<_> =
                server.served_connections().into_iter().map(|c| (c.band, c.peer)).collect();
            bands.retain(|(band, _)| band.is_some());
            assert_eq!(bands.len(), 2, "{bands:?}");
            assert!(bands.iter().all(|(_, peer)| peer.starts_with(protocol)), "{bands:?}");
            server.shutdown(true).unwrap();
        });
    }
}

#[test]
fn without_bands_a_pool_with_lanes_is_reached_at_its_lanes_only() {
    let server = server();
    let lanes = [lane(100, 1)];
    let pool = server.rt().create_threadpool_with_lanes(&lanes, &ThreadpoolOptions::default()).unwrap();
    let policies = PoaPolicies::new().threadpool(pool).priority_model(ServerDeclared, 100);
    let object: EchoRef = poa(&server, "declared", policies).activate(arc::<Witness>()).unwrap();
    assert!(object.object().ior().profiles.iter().all(|profile| profile.tag == 0));
    server.shutdown(true).unwrap();
}

#[test]
fn a_band_without_a_lane_is_refused() {
    let server = server();
    let lanes = [lane(100, 1), lane(10_000, 1)];
    let pool = server.rt().create_threadpool_with_lanes(&lanes, &ThreadpoolOptions::default()).unwrap();
    let policies = PoaPolicies::new().threadpool(pool).priority_model(ServerDeclared, 100);
    let object: EchoRef = poa(&server, "declared", policies).activate(arc::<Witness>()).unwrap();
    let client = Orb::with_config(Config::default()).unwrap();
    let far: EchoRef = client.resolve(&object.object().to_string()).unwrap();
    let banded = |bands: &[PriorityBand]| {
        let overrides = Overrides::new(&[RtPolicy::PriorityBands(bands.into())]).unwrap();
        far.object().with_rt_overrides(&overrides)
    };
    banded(&[band(0, 100), band(101, 20_000)]).validate_connection().unwrap();
    // The object's own priority is in the first band; the other one finds no lane.
    let refused = banded(&[band(0, 100), band(101, 9_999)]).validate_connection().unwrap_err();
    assert_eq!((refused.kind, refused.minor), (Kind::NoResources, minor::NO_RESOURCES_PRIORITY));
    // A connection is for one lane.
    let (_, port) = server.endpoint_addresses()[0].clone();
    let mut raw = Raw::connect_at(object.object(), port);
    for (low, high, status) in [(0, 99, 2), (0, 200, 0), (0, 300, 0), (9_000, 10_000, 2), (0, 100, 0)] {
        let context = band(low, high).write();
        assert_eq!(raw.call("_bind_priority_band", &[(11, &context)]).status, status, "{low} to {high}");
        assert_eq!(raw.call("ping", &[]).status, 0);
    }
    server.shutdown(true).unwrap();
}

/// Adds one to outgoing priorities, and nothing to incoming ones.
struct OneMore;

impl PriorityTransform for OneMore {
    fn inbound(&self, priority: Priority, _: &[u8]) -> Option<Priority> {
        Some(priority)
    }
    fn outbound(&self, priority: Priority, _: &[u8]) -> Option<Priority> {
        Priority::new(priority.get().checked_add(1)?)
    }
}

#[test]
fn a_call_from_a_servant_has_its_requests_priority_transformed() {
    let propagated = |name| {
        let server = server();
        let policies = PoaPolicies::new().priority_model(ClientPropagated, 7);
        let witness = arc::<Witness>();
        let object: EchoRef = poa(&server, name, policies).activate(witness.clone()).unwrap();
        (server, witness, object)
    };
    let ((middle, seen, first), (last, seen_last, second)) = (propagated("first"), propagated("second"));
    middle.rt().set_priority_transform(Some(Arc::new(OneMore)));
    apart(move || {
        let client = Orb::with_config(Config::default()).unwrap();
        let far: EchoRef = client.resolve(&first.object().to_string()).unwrap();
        let runs = || (seen.take().pop().unwrap().priority, seen_last.take().pop().unwrap().priority);
        // Without a priority the request runs at the server's, and the servant's call at the
        // transformed one.
        far.call_back(Some(&second)).unwrap();
        assert_eq!(runs(), (Some(7), Some(8)));
        client.rt_current().set_the_priority(100).unwrap();
        far.call_back(Some(&second)).unwrap();
        assert_eq!(runs(), (Some(100), Some(101)));
        middle.rt().set_priority_transform(None);
        far.call_back(Some(&second)).unwrap();
        assert_eq!(runs(), (Some(100), Some(100)));
        // A transform without a result prevents the call.
        middle.rt().set_priority_transform(Some(Arc::new(OneMore)));
        client.rt_current().set_the_priority(32_767).unwrap();
        let refused = far.call_back(Some(&second)).unwrap_err();
        assert_eq!((refused.kind, refused.minor), (Kind::DataConversion, minor::DATA_CONVERSION_PRIORITY));
        // Calls outside of any upcall are not transformed.
        let from_main: EchoRef = middle.resolve(&second.object().to_string()).unwrap();
        middle.rt_current().set_the_priority(50).unwrap();
        from_main.ping().unwrap();
        assert_eq!(seen_last.take().pop().unwrap().priority, Some(50));
        [middle, last].iter().for_each(|orb| orb.shutdown(true).unwrap());
    });
}

//! The memory of upcalls: regions of fixed size, and the errors of upcalls that need more.

mod common;

use common::EchoRef;
use common::rt::{Witness, arc, far, lane, poa, poa_of, server};
use isorb::poa::{CreateError, PoaPolicies};
use isorb::rt::policy::PriorityModel::ServerDeclared;
use isorb::rt::{ThreadpoolOptions, UpcallMemory};
use isorb::{Config, Kind, Orb, Result};

fn octets(object: &EchoRef, n: usize) -> Result<usize> {
    let sent = vec![7; n];
    isorb::generated::call_scope(|scope| Ok(object.octets_in(scope, &sent)?.len()))
}

#[test]
fn a_request_beyond_the_region_gets_no_memory_and_others_what_they_need() {
    let (server, client) = (server(), Orb::with_config(Config::default()).unwrap());
    let options = ThreadpoolOptions { region_bytes: Some(4096), ..ThreadpoolOptions::default() };
    let lanes = [lane(10, 1), lane(20, 1)];
    let pool = server.rt().create_threadpool_with_lanes(&lanes, &options).unwrap();
    let policies = PoaPolicies::new().threadpool(pool).priority_model(ServerDeclared, 10);
    let poa = poa(&server, "small", policies);
    let object: EchoRef = poa.activate(arc::<Witness>()).unwrap();
    let other: EchoRef = poa.activate_with_priority(arc::<Witness>(), 20).unwrap();
    let (object, again, other) = (
        far(&client, &object),
        far(&Orb::with_config(Config::default()).unwrap(), &object),
        far(&client, &other),
    );
    for _ in 0..20 {
        assert_eq!(octets(&object, 2_000), Ok(2_000));
        let full = octets(&object, 5_000).unwrap_err();
        assert_eq!(full.kind, Kind::NoMemory);
        // The same lane for another client, the same client, another lane: no other upcall is
        // affected.
        assert_eq!(octets(&again, 3_000), Ok(3_000));
        assert_eq!(octets(&object, 3_000), Ok(3_000));
        assert_eq!(octets(&other, 3_000), Ok(3_000));
    }
    server.shutdown(true).unwrap();
}

#[test]
fn the_heap_serves_requests_without_a_bound() {
    let (server, client) = (server(), Orb::with_config(Config::default()).unwrap());
    let options = ThreadpoolOptions { memory: Some(UpcallMemory::Heap), ..ThreadpoolOptions::default() };
    let pool = server.rt().create_threadpool(lane(0, 1), &options).unwrap();
    let object: EchoRef = poa_of(&server, "heap", pool).activate(arc::<Witness>()).unwrap();
    let object = far(&client, &object);
    for n in [0, 1, 5_000, 1_000_000, 10] {
        assert_eq!(octets(&object, n), Ok(n));
    }
    server.shutdown(true).unwrap();
}

#[test]
fn a_poa_that_needs_more_than_its_pool_has_is_not_made() {
    let server = server();
    let options = ThreadpoolOptions { region_bytes: Some(4096), ..ThreadpoolOptions::default() };
    let pool = server.rt().create_threadpool(lane(0, 1), &options).unwrap();
    let root = server.root_poa().unwrap();
    let large = PoaPolicies::new().threadpool(pool).region_bytes(5_000);
    assert_eq!(root.create_poa("large", None, large).err(), Some(CreateError::InvalidPolicy(1)));
    let fitting = PoaPolicies::new().region_bytes(4_096).threadpool(pool);
    assert!(root.create_poa("fitting", None, fitting).is_ok());
    server.shutdown(true).unwrap();
}

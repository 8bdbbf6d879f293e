//! From a key to its servant, for any depth of POAs and any number of servants. A stale key finds
//! no servant.

mod common;

use common::EchoRef;
use common::rt::{Witness, arc, far, lane, server};
use isorb::poa::policies::{IdAssignment, Lifespan};
use isorb::poa::{Poa, PoaPolicies};
use isorb::rt::ThreadpoolOptions;
use isorb::rt::policy::PriorityModel::ServerDeclared;
use isorb::{Config, Kind, Orb, Reference};
use std::sync::Arc;

/// As deep as in ZEN's experiment.
const DEPTH: usize = 150;
const SERVANTS: usize = 5_000;

type Named = (Arc<Witness>, EchoRef);

/// Calls an object and checks that its own servant is called once.
fn reach((witness, object): &Named) {
    object.ping().unwrap();
    assert_eq!(witness.take().len(), 1);
}

fn object(poa: &Poa, client: &Orb) -> Named {
    let witness = arc::<Witness>();
    let near: EchoRef = poa.activate(witness.clone()).unwrap();
    (witness, far(client, &near))
}

#[test]
fn each_object_is_found_at_any_depth() {
    let (server, client) = (server(), Orb::with_config(Config::default()).unwrap());
    let lanes = [lane(10, 1), lane(20, 1)];
    let pool = server.rt().create_threadpool_with_lanes(&lanes, &ThreadpoolOptions::default()).unwrap();
    let root = server.root_poa().unwrap();
    for lifespan in [Lifespan::Transient, Lifespan::Persistent] {
        let mut poa = root.clone();
        let mut objects = Vec::new();
        for depth in 0..DEPTH {
            let priority = if depth % 2 == 0 { 10 } else { 20 };
            let policies = PoaPolicies::new()
                .lifespan(lifespan)
                .threadpool(pool)
                .priority_model(ServerDeclared, priority);
            // Short names, because a persistent key contains all of them.
            poa = poa.create_poa(&format!("{depth}"), Some(&root.manager()), policies).unwrap();
            objects.push(object(&poa, &client));
        }
        // Not in the order of creation.
        (0..DEPTH).map(|i| i * 7 % DEPTH).for_each(|i| reach(&objects[i]));
        root.find_poa("0", false).unwrap().destroy(true, true).unwrap();
        for (_, object) in objects.iter().step_by(10) {
            assert_eq!(object.ping().unwrap_err().kind, Kind::ObjectNotExist);
        }
    }
    server.shutdown(true).unwrap();
}

#[test]
fn a_stale_reference_names_no_object_however_its_slot_is_used_since() {
    let (server, client) = (server(), Orb::with_config(Config::default()).unwrap());
    let root = server.root_poa().unwrap();
    let poa = root.create_poa("many", Some(&root.manager()), PoaPolicies::new()).unwrap();
    let mut objects: Vec<Named> = (0..SERVANTS).map(|_| object(&poa, &client)).collect();
    objects.iter().step_by(97).for_each(reach);
    for _round in 0..3 {
        // Every third object is deactivated, and its slot goes to a new one.
        let mut stale = Vec::new();
        for i in (0..SERVANTS).step_by(3) {
            let near = poa.id_to_reference(poa_id(&objects[i].1)).unwrap();
            poa.deactivate_object(poa.reference_to_id(&near).unwrap()).unwrap();
            let new = object(&poa, &client);
            stale.push(std::mem::replace(&mut objects[i], new));
        }
        for (witness, object) in stale.iter().step_by(41) {
            assert_eq!(object.ping().unwrap_err().kind, Kind::ObjectNotExist);
            assert_eq!(witness.take(), []);
        }
        objects.iter().step_by(97).for_each(reach);
        assert!(objects.iter().all(|(witness, _)| witness.take().is_empty()), "no other servant was called");
    }
    server.shutdown(true).unwrap();
}

/// The object's id in its POA: the end of this ORB's transient keys, behind the POA's part.
fn poa_id(object: &EchoRef) -> Vec<u8> {
    let profile = object.object().ior().iiop_profiles().flatten().next().unwrap();
    profile.key[profile.key.len() - 16..].to_vec()
}

#[test]
fn references_of_an_earlier_process_find_no_object() {
    let (first, client) = (server(), Orb::with_config(Config::default()).unwrap());
    let policies = || PoaPolicies::new().id_assignment(IdAssignment::User);
    let root = first.root_poa().unwrap();
    let poa = root.create_poa("p", Some(&root.manager()), policies()).unwrap();
    let near: EchoRef = poa.activate_with_id("same", arc::<Witness>()).unwrap();
    let (_, port) = first.endpoint_addresses()[0].clone();
    let object = far(&client, &near);
    object.ping().unwrap();
    first.shutdown(true).unwrap();
    // The same again at the same address: for a client, another process.
    let again = Config { endpoints: vec![format!("127.0.0.1:{port}")], ..Config::default() };
    let second = common::rt::server_with(again);
    let root = second.root_poa().unwrap();
    let poa = root.create_poa("p", Some(&root.manager()), policies()).unwrap();
    let witness = arc::<Witness>();
    let _: EchoRef = poa.activate_with_id("same", witness.clone()).unwrap();
    assert_eq!(object.ping().unwrap_err().kind, Kind::ObjectNotExist);
    assert_eq!(witness.take(), []);
    second.shutdown(true).unwrap();
}

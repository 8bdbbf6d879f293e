//! Both stores do what their kind does, over a cluster of three.

mod members;

use isorb_etcd::{EtcdNames, EtcdRegister};
use isorb_naming::store::conformance::RULES;
use isorb_reflective_memory::coordinator::{AreaLocation, CoordinatorStore, NodeEntry};
use isorb_reflective_memory::idl::Area;
use members::Members;
use std::sync::Arc;

fn area(name: &str) -> Area {
    Area { name: name.into(), size: 10, ..Area::default() }
}

fn node(name: &str, incarnation: u64) -> NodeEntry {
    NodeEntry { name: name.into(), incarnation, server: format!("IOR:{incarnation}") }
}

#[test]
fn stores_do_what_their_kind_does() {
    let Some(members) = Members::start() else { return };
    for (name, rule, capacity) in RULES {
        println!("names: {name}");
        rule(&EtcdNames::open(Arc::new(members.cluster(name)), *capacity).unwrap());
    }
    names_stay_and_have_one_stamp(&members);
    println!("register");
    the_register(&members);
    a_change_by_another_coordinator_is_noticed(&members);
    many_areas_at_once(&members);
}

fn names_stay_and_have_one_stamp(members: &Members) {
    use isorb_naming::Store;
    let open = || EtcdNames::open(Arc::new(members.cluster("stamp")), Default::default()).unwrap();
    let (a, b) = (open(), open());
    assert_eq!(a.stamp(), b.stamp());
    let context = a.create().unwrap();
    assert_eq!(b.contains(context), Ok(true));
}

fn the_register(members: &Members) {
    let store = EtcdRegister::new(Arc::new(members.cluster("register")));
    store.set_node(&node("a", 1), &[area("x"), area("y")], &[]).unwrap();
    store.set_node(&node("b", 1), &[], &[]).unwrap();
    store.set_area(&AreaLocation { area: area("z"), node: "b".into() }).unwrap();
    assert_eq!(store.area("z").unwrap().unwrap(), AreaLocation { area: area("z"), node: "b".into() });
    assert_eq!(store.areas().unwrap().len(), 3);
    // What is forgotten and held again stays.
    store.set_node(&node("a", 2), &[area("x")], &["y".into(), "x".into()]).unwrap();
    assert!(store.area("y").unwrap().is_none());
    assert!(store.area("x").unwrap().is_some());
    assert_eq!(store.nodes().unwrap(), [node("a", 2), node("b", 1)]);
    store.remove_area("z").unwrap();
    store.remove_node("a").unwrap();
    assert!(store.areas().unwrap().is_empty());
    assert_eq!(store.nodes().unwrap(), [node("b", 1)]);
}

/// Two coordinators that both found an area free: one gets it, the other an error.
fn a_change_by_another_coordinator_is_noticed(members: &Members) {
    let open = || EtcdRegister::new(Arc::new(members.cluster("two")));
    let (a, b) = (open(), open());
    assert!(a.area("x").unwrap().is_none());
    assert!(b.area("x").unwrap().is_none());
    let of = |node: &str| AreaLocation { area: area("x"), node: node.into() };
    a.set_area(&of("a")).unwrap();
    assert!(b.set_area(&of("b")).is_err());
    assert_eq!(b.area("x").unwrap(), Some(of("a")));
    // The same twice, as by a node that did not receive the answer.
    a.set_area(&of("a")).unwrap();
}

/// A node that registers with many areas does so as a whole.
fn many_areas_at_once(members: &Members) {
    let store = EtcdRegister::new(Arc::new(members.cluster("many")));
    let held: Vec<Area> = (0..2000).map(|i| area(&format!("area-{i}"))).collect();
    store.set_node(&node("a", 1), &held, &[]).unwrap();
    assert_eq!(store.areas().unwrap().len(), held.len());
    store.remove_node("a").unwrap();
    assert!(store.areas().unwrap().is_empty());
}

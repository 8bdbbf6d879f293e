//! Weak targets: active objects without a look-up.

use super::*;
use isorb_giop::message::OperationName;

fn found(bed: &Bed, target: &WeakTarget) -> Option<Servant> {
    let entered = target.find(bed.registry())?.enter(OperationName::from("ping"));
    Some(entered.servant().clone())
}

fn weak(bed: &Bed, key: &[u8]) -> WeakTarget {
    let found = bed.registry().find_active(key).unwrap();
    let target = found.downgrade();
    drop(found.enter(OperationName::from("ping")));
    target
}

#[test]
fn a_weak_target_resolves_while_the_object_is_active() {
    let (bed, other) = (Bed::new(), Bed::new());
    let poa = bed.poa("a", user_ids());
    let probe = Arc::new(Probe(1));
    let servant = Servant::new::<ProbeRef, Probe>(probe.clone());
    poa.activate_object_with_id("x", servant.clone()).unwrap();
    let key = poa.key(b"x");
    assert!(found(&bed, &WeakTarget::default()).is_none());
    let target = weak(&bed, &key);
    assert_eq!(found(&bed, &target), Some(servant.clone()));
    // Another ORB has another object with this key.
    assert!(found(&other, &target).is_none());

    // Deactivated while an upcall runs: no further request is admitted.
    let running = target.find(bed.registry()).unwrap().enter(OperationName::from("ping"));
    poa.deactivate_object("x").unwrap();
    assert!(found(&bed, &target).is_none());
    drop(running);
    drop(servant);
    // The target keeps nothing alive.
    assert_eq!(Arc::strong_count(&probe), 1);
    assert!(found(&bed, &target).is_none());

    let next = super::probe();
    poa.activate_object_with_id("x", next.clone()).unwrap();
    assert!(found(&bed, &target).is_none());
    assert_eq!(found(&bed, &weak(&bed, &key)), Some(next));
}

#[test]
fn a_weak_target_does_not_resolve_while_requests_are_blocked() {
    let bed = Bed::new();
    let poa = bed.root().create_poa("a", None, user_ids()).unwrap();
    poa.activate_object_with_id("x", probe()).unwrap();
    poa.manager().activate().unwrap();
    let target = weak(&bed, &poa.key(b"x"));
    assert!(found(&bed, &target).is_some());
    poa.manager().discard_requests(false).unwrap();
    assert!(found(&bed, &target).is_none());
    poa.manager().hold_requests(false).unwrap();
    assert!(found(&bed, &target).is_none());
    poa.manager().activate().unwrap();
    assert!(found(&bed, &target).is_some());
    assert!(poa.admission().is_empty());
    poa.destroy(true, true).unwrap();
    assert!(found(&bed, &target).is_none());
}

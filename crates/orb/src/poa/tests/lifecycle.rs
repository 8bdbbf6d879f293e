//! Destruction, deactivation and shutdown: which objects are etherealised, when, how often.

use super::servant_managers::Activator;
use super::*;

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

#[test]
fn destruction_etherealises_after_the_last_upcall_children_first() {
    let bed = Bed::new();
    let (parent, above, _) = Activator::poa(&bed, "parent", user_ids());
    let policies = user_ids().request_processing(RequestProcessing::ServantManager);
    let child = parent.create_poa("child", Some(&parent.manager()), policies).unwrap();
    child.set_servant_manager(parent.servant_manager().unwrap().unwrap()).unwrap();
    for id in ["a", "b"] {
        bed.try_enter(&parent.key(id.as_bytes())).unwrap();
    }
    let key = child.key(b"c");
    let entered = bed.registry().enter(&key, "ping").unwrap();
    above.take();

    parent.destroy(true, false).unwrap();
    assert_eq!(above.take(), [""; 0], "an upcall runs");
    // It appears destroyed already.
    assert_eq!(bed.try_enter(&parent.key(b"a")), Err(omg(Kind::ObjectNotExist, 2)));
    assert!(parent.activate_object_with_id("x", probe()).is_err());
    assert_eq!(
        parent.create_poa("x", None, PoaPolicies::new()).unwrap_err(),
        omg(Kind::BadInvOrder, 17).into()
    );
    assert_eq!(bed.root().find_poa("parent", true), Err(FindError::AdapterNonExistent));
    // In an upcall, waiting for the name would never end.
    assert_eq!(
        bed.root().create_poa("parent", None, PoaPolicies::new()).unwrap_err(),
        omg(Kind::BadInvOrder, 3).into()
    );
    thread::scope(|s| {
        let again = s.spawn(|| bed.root().create_poa("parent", None, PoaPolicies::new()).map(drop));
        let waiter = s.spawn(|| parent.destroy(true, true));
        assert!(!again.is_finished() && !waiter.is_finished());
        drop(entered);
        waiter.join().unwrap().unwrap();
        again.join().unwrap().unwrap();
    });
    let lines = above.take();
    assert_eq!(lines[0], "-c cleanup", "the child is first");
    assert_eq!(sorted(lines), ["-a cleanup", "-b cleanup", "-c cleanup"]);
}

#[test]
fn destruction_without_etherealisation_only_forgets() {
    let bed = Bed::new();
    let (poa, notes, _) = Activator::poa(&bed, "a", user_ids());
    let inner = Arc::new(Probe(0));
    let servant = Servant::new::<ProbeRef, Probe>(inner.clone());
    poa.activate_object_with_id("a", servant).unwrap();
    poa.destroy(false, true).unwrap();
    assert_eq!(notes.take(), [""; 0]);
    assert_eq!(Arc::strong_count(&inner), 1, "no reference to the servant is left");
}

#[test]
fn persistent_requests_to_a_dying_poa_are_transient() {
    let bed = Bed::new();
    let policies = user_ids().lifespan(Lifespan::Persistent);
    let poa = bed.poa("p", policies.clone());
    poa.activate_object_with_id("a", probe()).unwrap();
    let key = poa.key(b"a");
    let entered = bed.registry().enter(&key, "ping").unwrap();
    poa.destroy(true, false).unwrap();
    assert_eq!(bed.try_enter(&key), Err(omg(Kind::Transient, 4)));
    drop(entered);
    assert_eq!(bed.try_enter(&key), Err(omg(Kind::ObjectNotExist, 2)));
    let poa = bed.poa("p", policies);
    poa.activate_object_with_id("a", probe()).unwrap();
    assert_eq!(bed.try_enter(&key), Ok(()));
}

#[test]
fn deactivating_a_manager_etherealises_once() {
    let bed = Bed::new();
    let (poa, notes, _) = Activator::poa(&bed, "a", user_ids());
    let key = poa.key(b"a");
    let entered = bed.registry().enter(&key, "ping").unwrap();
    bed.try_enter(&poa.key(b"b")).unwrap();
    notes.take();
    poa.manager().deactivate(true, false).unwrap();
    assert_eq!(notes.take(), [""; 0]);
    thread::scope(|s| {
        let waiter = s.spawn(|| poa.manager().deactivate(false, true));
        assert!(!waiter.is_finished());
        drop(entered);
        waiter.join().unwrap().unwrap();
    });
    assert_eq!(sorted(notes.take()), ["-a cleanup", "-b cleanup"], "the first call decides");
    assert_eq!(bed.try_enter(&key), Err(omg(Kind::ObjAdapter, 1)));
    poa.destroy(true, true).unwrap();
    assert_eq!(notes.take(), [""; 0]);
}

#[test]
fn deactivating_a_manager_without_etherealising_leaves_objects_alone() {
    let bed = Bed::new();
    let (poa, notes, _) = Activator::poa(&bed, "a", user_ids());
    bed.try_enter(&poa.key(b"a")).unwrap();
    notes.take();
    poa.manager().deactivate(false, true).unwrap();
    assert!(poa.id_to_servant("a").is_ok());
    poa.destroy(true, true).unwrap();
    assert_eq!(notes.take(), ["-a cleanup"]);
}

#[test]
fn shutdown_ends_everything() {
    let bed = Bed::new();
    let registry = Registry::new(7, Arc::default(), None);
    let root = registry.root(&bed.orb).unwrap();
    root.manager().activate().unwrap();
    let poa = root
        .create_poa(
            "a",
            Some(&root.manager()),
            user_ids().request_processing(RequestProcessing::ServantManager),
        )
        .unwrap();
    let notes = super::servant_managers::Notes::default();
    let activator = Activator { notes: notes.clone(), shared: probe(), inside: Default::default() };
    poa.set_servant_manager(ServantManager::activator(activator)).unwrap();
    let key = poa.key(b"a");
    let entered = registry.enter(&key, "ping").unwrap();
    notes.take();
    thread::scope(|s| {
        let waiter = s.spawn(|| registry.shutdown(true));
        eventually(|| poa.manager().state() == State::Inactive);
        assert!(!waiter.is_finished());
        drop(entered);
        waiter.join().unwrap().unwrap();
    });
    assert_eq!(notes.take(), ["-a cleanup"]);
    let over = omg(Kind::BadInvOrder, 4);
    assert_eq!(registry.root(&bed.orb).unwrap_err(), over);
    assert!(matches!(registry.enter(&key, "ping"), Err(Refusal::Exception(_))));
    assert_eq!(registry.main_thread().run_one(isorb_rt::time::Deadline::NONE), RunOutcome::Closed);
    registry.serve_main_thread();
    assert_eq!(registry.shutdown(true), Ok(()));
}

#[test]
fn an_upcall_may_deactivate_its_own_object() {
    let bed = Bed::new();
    let poa = bed.poa("a", user_ids());
    let servant = probe();
    poa.activate_object_with_id("a", servant.clone()).unwrap();
    let key = poa.key(b"a");
    let entered = bed.registry().enter(&key, "ping").unwrap();
    poa.deactivate_object("a").unwrap();
    assert_eq!(bed.try_enter(&key), Err(omg(Kind::ObjectNotExist, 0)));
    // The servant is free for another object at once, the id after the upcall.
    poa.activate_object_with_id("b", servant).unwrap();
    assert_eq!(poa.activate_object_with_id("a", probe()), Err(omg(Kind::BadInvOrder, 3).into()));
    thread::scope(|s| {
        let again = s.spawn(|| poa.activate_object_with_id("a", probe()));
        eventually(|| poa.lock().waiting == 1);
        drop(entered);
        again.join().unwrap().unwrap();
    });
    assert_eq!(bed.try_enter(&key), Ok(()));
}

#[test]
fn a_servant_that_panics_leaves_nothing_behind() {
    let bed = Bed::new();
    let (poa, notes, _) = Activator::poa(&bed, "a", user_ids());
    let key = poa.key(b"a");
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let entered = bed.registry().enter(&key, "ping").unwrap();
        let _ = entered.upcall(|_| panic!("on purpose"));
    }));
    assert!(result.is_err());
    assert!(Current.poa().is_err());
    poa.destroy(true, true).unwrap();
    assert_eq!(notes.take(), ["+a", "-a cleanup"]);
}

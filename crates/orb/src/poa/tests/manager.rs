//! The four states of a POA manager (clause 15.3.3).

use super::*;

#[test]
fn states_and_their_changes() {
    let bed = Bed::new();
    let poa = bed.root().create_poa("own", None, PoaPolicies::new()).unwrap();
    let manager = poa.manager();
    assert_eq!((manager.state(), bed.root().manager().id()), (State::Holding, "RootPOAManager"));
    assert_ne!(manager.id(), bed.root().manager().id());
    let key = poa.key(&poa.activate_object(probe()).unwrap());
    manager.discard_requests(false).unwrap();
    assert_eq!(bed.try_enter(&key), Err(omg(Kind::Transient, 1)));
    manager.activate().unwrap();
    assert_eq!(bed.try_enter(&key), Ok(()));
    manager.hold_requests(true).unwrap();
    assert_eq!(manager.state(), State::Holding);
    manager.deactivate(true, true).unwrap();
    assert_eq!(bed.try_enter(&key), Err(omg(Kind::ObjAdapter, 1)));
    for result in [manager.activate(), manager.hold_requests(false), manager.discard_requests(true)] {
        assert_eq!(result, Err(ManagerError::AdapterInactive));
    }
    manager.deactivate(true, true).expect("again");
    assert_eq!(manager.state(), State::Inactive);
    // The name is free again only after the POA's destruction.
    poa.destroy(true, true).unwrap();
    assert_eq!(
        bed.root().create_poa("own", None, PoaPolicies::new()).unwrap().manager().state(),
        State::Holding
    );
}

#[test]
fn held_requests_run_when_it_is_activated() {
    let bed = Bed::new();
    let poa = bed.root().create_poa("own", None, PoaPolicies::new()).unwrap();
    let (manager, id) = (poa.manager(), poa.activate_object(probe()).unwrap());
    let key = poa.key(&id);
    thread::scope(|s| {
        let held: Vec<_> = (0..4).map(|_| s.spawn(|| bed.try_enter(&key))).collect();
        eventually(|| manager.waiting() == 4);
        manager.activate().unwrap();
        held.into_iter().for_each(|t| assert_eq!(t.join().unwrap(), Ok(())));

        manager.hold_requests(true).unwrap();
        let held = s.spawn(|| bed.try_enter(&key));
        eventually(|| manager.waiting() == 1);
        manager.discard_requests(false).unwrap();
        assert_eq!(held.join().unwrap(), Err(omg(Kind::Transient, 1)));

        manager.hold_requests(true).unwrap();
        let held = s.spawn(|| bed.try_enter(&key));
        eventually(|| manager.waiting() == 1);
        poa.destroy(true, true).unwrap();
        assert_eq!(held.join().unwrap(), Err(omg(Kind::Transient, 4)));
    });
}

#[test]
fn destruction_tells_held_requests_at_once_though_others_still_run() {
    let bed = Bed::new();
    let poa = bed.poa("a", PoaPolicies::new());
    let (manager, key) = (poa.manager(), poa.key(&poa.activate_object(probe()).unwrap()));
    let entered = bed.registry().enter(&key, "ping").unwrap();
    manager.hold_requests(false).unwrap();
    thread::scope(|s| {
        let held = s.spawn(|| bed.try_enter(&key));
        eventually(|| manager.waiting() == 1);
        poa.destroy(true, false).unwrap();
        assert_eq!(held.join().unwrap(), Err(omg(Kind::Transient, 4)));
    });
    drop(entered);
}

#[test]
fn so_many_are_held_and_no_more() {
    let bed = Bed::new();
    let poa = bed.root().create_poa("own", None, PoaPolicies::new()).unwrap();
    let (manager, key) = (poa.manager(), poa.key(&poa.activate_object(probe()).unwrap()));
    thread::scope(|s| {
        let bound = PoaManager::DEFAULT_MAX_HELD;
        let held: Vec<_> = (0..bound).map(|_| s.spawn(|| bed.try_enter(&key))).collect();
        eventually(|| manager.waiting() == bound);
        assert_eq!(bed.try_enter(&key), Err(omg(Kind::Transient, 1)));
        manager.deactivate(false, false).unwrap();
        held.into_iter().for_each(|t| assert_eq!(t.join().unwrap(), Err(omg(Kind::ObjAdapter, 1))));
    });
}

#[test]
fn waiting_means_until_running_requests_have_ended() {
    let bed = Bed::new();
    let poa = bed.poa("a", PoaPolicies::new());
    let (manager, key) = (poa.manager(), poa.key(&poa.activate_object(probe()).unwrap()));
    let entered = bed.registry().enter(&key, "ping").unwrap();
    // Inside an upcall it would wait for itself; nothing changes.
    let deadlock = omg(Kind::BadInvOrder, 3);
    assert_eq!(manager.hold_requests(true), Err(deadlock.clone().into()));
    assert_eq!(manager.discard_requests(true), Err(deadlock.clone().into()));
    assert_eq!(manager.deactivate(true, true), Err(deadlock.clone()));
    assert_eq!(poa.destroy(true, true), Err(deadlock.clone()));
    assert_eq!(bed.registry().shutdown(true), Err(deadlock));
    assert_eq!(manager.state(), State::Active);
    // Another ORB's requests do not matter.
    Bed::new().root().manager().hold_requests(true).unwrap();

    thread::scope(|s| {
        let waiter = s.spawn(|| manager.hold_requests(true));
        eventually(|| manager.state() == State::Holding);
        assert!(!waiter.is_finished());
        drop(entered);
        waiter.join().unwrap().unwrap();

        // Or until the state changes.
        manager.activate().unwrap();
        let entered = bed.registry().enter(&key, "ping").unwrap();
        let waiter = s.spawn(|| manager.discard_requests(true));
        eventually(|| manager.state() == State::Discarding);
        manager.activate().unwrap();
        waiter.join().unwrap().unwrap();
        drop(entered);
    });
}

#[test]
fn one_manager_governs_several_poas() {
    let bed = Bed::new();
    let a = bed.root().create_poa("a", None, PoaPolicies::new()).unwrap();
    let b = a.create_poa("b", Some(&a.manager()), PoaPolicies::new()).unwrap();
    let keys = [&a, &b].map(|poa| poa.key(&poa.activate_object(probe()).unwrap()));
    assert_eq!(a.manager(), b.manager());
    a.manager().activate().unwrap();
    keys.iter().for_each(|key| assert_eq!(bed.try_enter(key), Ok(())));
    b.manager().discard_requests(true).unwrap();
    keys.iter().for_each(|key| assert_eq!(bed.try_enter(key), Err(omg(Kind::Transient, 1))));
    let other = Bed::new();
    let foreign = other.root().create_poa("x", Some(&a.manager()), PoaPolicies::new());
    assert_eq!(foreign.unwrap_err(), CreateError::System(omg(Kind::BadParam, 0)));
}

#[test]
fn run_activates_the_root_unless_the_program_decided() {
    let bed = Bed::new();
    let registry = Registry::new(1, Arc::default(), None);
    let root = registry.root(&bed.orb).unwrap();
    registry.activate_untouched_root();
    assert_eq!(root.manager().state(), State::Active);

    let registry = Registry::new(1, Arc::default(), None);
    let root = registry.root(&bed.orb).unwrap();
    root.manager().hold_requests(false).unwrap();
    registry.activate_untouched_root();
    assert_eq!(root.manager().state(), State::Holding);
}

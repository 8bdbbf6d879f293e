//! Creating, finding and making POAs on demand (clauses 15.3.4 and 15.3.9).

use super::*;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

fn persistent() -> PoaPolicies {
    user_ids().lifespan(Lifespan::Persistent)
}

#[test]
fn names_are_unique_among_siblings() {
    let bed = Bed::new();
    let root = bed.root();
    let a = bed.poa("a", PoaPolicies::new());
    assert_eq!(
        root.create_poa("a", None, PoaPolicies::new()).unwrap_err(),
        CreateError::AdapterAlreadyExists
    );
    let deeper = a.create_poa("a", None, PoaPolicies::new()).unwrap();
    assert_eq!(
        (deeper.name(), deeper.parent(), deeper.to_string()),
        ("a", Some(a.clone()), "RootPOA/a/a".into())
    );
    assert_eq!((root.name(), root.parent(), root.children()), ("RootPOA", None, vec![a.clone()]));
    assert_eq!(root.find_poa("a", false), Ok(a.clone()));
    assert_eq!(root.find_poa("b", true), Err(FindError::AdapterNonExistent));
    let bad = PoaPolicies::new().servant_retention(ServantRetention::NonRetain);
    assert_eq!(root.create_poa("bad", None, bad).unwrap_err(), CreateError::InvalidPolicy(0));
    let long = "x".repeat(70_000);
    let Err(CreateError::System(e)) = root.create_poa(&long, None, PoaPolicies::new()) else { panic!() };
    assert_eq!(e.kind, Kind::ImpLimit);
    let mut ids = vec![root.id(), a.id(), deeper.id()];
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[test]
fn a_destroyed_poa_is_gone_and_its_name_free() {
    let bed = Bed::new();
    let a = bed.poa("a", PoaPolicies::new());
    let b = a.create_poa("b", None, PoaPolicies::new()).unwrap();
    a.destroy(true, true).unwrap();
    for poa in [&a, &b] {
        assert_eq!(poa.activate_object(probe()), Err(omg(Kind::ObjectNotExist, 2).into()));
        assert_eq!(
            poa.create_poa("c", None, PoaPolicies::new()).unwrap_err(),
            omg(Kind::ObjectNotExist, 2).into()
        );
        assert!(poa.find_poa("b", true).is_err());
        assert_eq!(poa.destroy(true, true), Ok(()), "twice does no harm");
    }
    assert_eq!(bed.root().find_poa("a", false), Err(FindError::AdapterNonExistent));
    assert_eq!(bed.root().children(), vec![]);
    bed.poa("a", PoaPolicies::new());
    // The root, too, can be created again.
    let old = bed.root();
    old.destroy(true, true).unwrap();
    assert_ne!(bed.root(), old);
    assert_eq!((bed.root().children(), bed.root().manager().state()), (vec![], State::Holding));
}

/// Makes children of any name except `no`, which it rejects, and `bad`, which raises an exception.
struct Maker {
    called: Arc<AtomicU32>,
    /// Waits for this before it returns.
    go: Arc<AtomicBool>,
}

impl Maker {
    fn set(poa: &Poa, go: bool) -> (Arc<AtomicU32>, Arc<AtomicBool>) {
        let (called, go) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(go)));
        let maker = Maker { called: called.clone(), go: go.clone() };
        poa.set_adapter_activator(Some(Arc::new(maker))).unwrap();
        (called, go)
    }
}

impl AdapterActivator for Maker {
    fn unknown_adapter(&self, parent: &Poa, name: &str) -> Result<bool> {
        self.called.fetch_add(1, SeqCst);
        match name {
            "no" => return Ok(false),
            "liar" => return Ok(true),
            "bad" => return Err(Kind::NoMemory.into()),
            "panic" => panic!("on purpose"),
            _ => {}
        }
        let poa = parent.create_poa(name, Some(&parent.manager()), persistent())?;
        let maker = Maker { called: self.called.clone(), go: self.go.clone() };
        poa.set_adapter_activator(Some(Arc::new(maker)))?;
        // Waiting for requests here would wait for its own thread.
        assert_eq!(poa.destroy(true, true), Err(omg(Kind::BadInvOrder, 3)));
        // Other threads cannot use the POA yet; this thread can.
        poa.activate_object_with_id("it", probe()).map_err(SystemException::from)?;
        let registry = poa.orb().unwrap();
        assert!(registry.server().registry.enter(&poa.key(b"it"), "ping").is_ok());
        eventually(|| self.go.load(SeqCst));
        Ok(true)
    }
}

#[test]
fn adapter_activators_make_what_a_request_needs() {
    let bed = Bed::new();
    let (called, _) = Maker::set(&bed.root(), true);
    let key = |names: &[&str]| {
        let path =
            names.iter().fold(Box::from([]), |path: Box<[u8]>, name| key::child_path(&path, name).unwrap());
        [&key::persistent_prefix(&path)[..], b"it"].concat()
    };
    let deep = key(&["a", "b", "c"]);
    assert_eq!(bed.try_enter(&deep), Ok(()));
    assert_eq!(called.load(SeqCst), 3, "once for each, from the root down");
    assert_eq!(bed.try_enter(&deep), Ok(()));
    assert_eq!(called.load(SeqCst), 3);
    assert!(bed.registry().locate(&key(&["l"])).is_ok());
    assert_eq!(bed.try_enter(&key(&["no"])), Err(omg(Kind::ObjectNotExist, 2)));
    assert_eq!(bed.try_enter(&key(&["a", "liar"])), Err(omg(Kind::ObjectNotExist, 2)));
    assert_eq!(bed.try_enter(&key(&["bad", "x"])), Err(omg(Kind::ObjAdapter, 1)));
    assert_eq!(bed.root().find_poa("no", true), Err(FindError::AdapterNonExistent));
    assert_eq!(bed.root().find_poa("bad", true), Err(omg(Kind::ObjAdapter, 1).into()));
    assert_eq!(bed.root().find_poa("found", true).unwrap().name(), "found");
    assert!(bed.root().find_poa("else", false).is_err());
    assert_eq!(bed.root().find_poa("panic", true), Err(omg(Kind::ObjAdapter, 1).into()));
    // No thread waits for the panicked activator, and the POA can be destroyed.
    bed.root().set_adapter_activator(None).unwrap();
    assert_eq!(bed.try_enter(&key(&["panic"])), Err(omg(Kind::ObjectNotExist, 2)));
    bed.root().find_poa("a", false).unwrap().destroy(true, true).unwrap();
    assert_eq!(bed.try_enter(&deep), Err(omg(Kind::ObjectNotExist, 2)));
}

#[test]
fn a_poa_that_an_activator_makes_is_asked_for_once_and_ready_when_it_returns() {
    let bed = Bed::new();
    let (called, go) = Maker::set(&bed.root(), false);
    let path = key::child_path(b"", "slow").unwrap();
    let key = [&key::persistent_prefix(&path)[..], b"it"].concat();
    thread::scope(|s| {
        let first = s.spawn(|| bed.try_enter(&key));
        // It exists now, but admits no request.
        eventually(|| bed.root().children().iter().any(|poa| poa.name() == "slow"));
        let others: Vec<_> = (0..3).map(|_| s.spawn(|| bed.try_enter(&key))).collect();
        let finder = s.spawn(|| bed.root().find_poa("slow", true).map(drop));
        eventually(|| bed.root().0.shared.admin.lock().waiting >= 3);
        assert!(!first.is_finished() && others.iter().all(|t| !t.is_finished()));
        go.store(true, SeqCst);
        assert_eq!(first.join().unwrap(), Ok(()));
        others.into_iter().for_each(|t| assert_eq!(t.join().unwrap(), Ok(())));
        finder.join().unwrap().unwrap();
    });
    assert_eq!(called.load(SeqCst), 1);
}

#[test]
fn activators_rest_while_the_parents_manager_does_not_run() {
    let bed = Bed::new();
    let (called, _) = Maker::set(&bed.root(), true);
    let key = [&key::persistent_prefix(&key::child_path(b"", "a").unwrap())[..], b"it"].concat();
    bed.root().manager().discard_requests(true).unwrap();
    assert_eq!(bed.try_enter(&key), Err(omg(Kind::Transient, 1)));
    assert_eq!(called.load(SeqCst), 0);
    bed.root().manager().activate().unwrap();
    assert_eq!(bed.try_enter(&key), Ok(()));
}

#[test]
fn deep_garbage_paths_cost_nothing_without_an_activator() {
    let bed = Bed::new();
    let path = vec![0; key::MAX_PATH];
    let key = [&key::persistent_prefix(&path)[..], b"it"].concat();
    assert_eq!(bed.try_enter(&key), Err(omg(Kind::ObjectNotExist, 2)));
    let key = [&key::persistent_prefix(b"\0\x04ab")[..], b"it"].concat();
    assert_eq!(bed.try_enter(&key), Err(omg(Kind::ObjectNotExist, 2)));
    let key = [&key::persistent_prefix(b"")[..], b"it"].concat();
    assert_eq!(bed.try_enter(&key), Err(omg(Kind::ObjectNotExist, 2)));
}

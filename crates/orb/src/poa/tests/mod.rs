//! The POA for a dispatcher and an application.

mod creation;
mod lifecycle;
mod manager;
mod no_alloc;
mod policies;
mod servant_locators;
mod servant_managers;
mod stress;
mod threads;
mod weak_targets;

use super::policies::*;
use super::*;
use crate::{
    Config, Interface, Object, Operations, Orb, Outcome, Reference, Result, Servant, Serves, Upcall,
};
use isorb_cdr::{Decoder, Encoder};
use isorb_giop::{Kind, SystemException, minor};
use std::sync::Arc;
use std::thread;

/// A servant that does nothing; the tests hold upcalls open by holding an `UpcallTarget`.
struct Probe(#[expect(dead_code, reason = "so that two servants are two places in memory")] u32);

#[derive(Clone, Debug)]
struct ProbeRef(Object);

static PROBE: Interface =
    Interface { id: "IDL:isorb.test/Probe:1.0", bases: &[], operations: Operations::new(&["ping"], 0, &[0]) };

impl Reference for ProbeRef {
    const INTERFACE: &'static Interface = &PROBE;
    fn from_object(object: Object) -> Self {
        ProbeRef(object)
    }
    fn object(&self) -> &Object {
        &self.0
    }
}

impl Serves<Probe> for ProbeRef {
    fn dispatch<'u>(
        _: &'u Probe,
        _: u16,
        _: Upcall<'u>,
        _: &mut Decoder<'u>,
        _: &mut Encoder<'u>,
    ) -> Result<Outcome> {
        Ok(Outcome::Results)
    }
}

fn probe() -> Servant {
    Servant::new::<ProbeRef, Probe>(Arc::new(Probe(0)))
}

/// An ORB of its own for each test.
struct Bed {
    orb: Orb,
}

impl Bed {
    /// With an active manager of the root.
    fn new() -> Bed {
        let orb = Orb::with_config(Config::default()).unwrap();
        orb.root_poa().unwrap().manager().activate().unwrap();
        Bed { orb }
    }

    fn root(&self) -> Poa {
        self.orb.root_poa().unwrap()
    }

    fn registry(&self) -> &Registry {
        &self.orb.server().registry
    }

    /// A POA below the root, with the root's manager.
    fn poa(&self, name: &str, policies: PoaPolicies) -> Poa {
        let root = self.root();
        root.create_poa(name, Some(&root.manager()), policies).unwrap()
    }

    /// Enters, and returns the error.
    fn try_enter(&self, key: &[u8]) -> Result<(), SystemException> {
        match self.registry().enter(key, "ping") {
            Ok(_) => Ok(()),
            Err(Refusal::Exception(exception)) => Err(exception),
            Err(Refusal::Forward { .. }) => panic!("a forward"),
        }
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = self.orb.shutdown(false);
    }
}

fn omg(kind: Kind, minor: u32) -> SystemException {
    errors::no(kind, if minor == 0 { 0 } else { minor::OMG_VMCID | minor })
}

/// The usual policies for ids of the application.
fn user_ids() -> PoaPolicies {
    PoaPolicies::new().id_assignment(IdAssignment::User)
}

/// Yields to other threads until a condition is true.
fn eventually(condition: impl Fn() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

#[test]
fn a_request_finds_its_servant_and_knows_where_it_is() {
    let bed = Bed::new();
    let poa = bed.poa("a", PoaPolicies::new());
    let servant = probe();
    let id = poa.activate_object(servant.clone()).unwrap();
    assert_eq!(Current.poa(), Err(NoContext));
    {
        let key = poa.key(&id);
        let entered = bed.registry().enter(&key, "ping").unwrap();
        assert_eq!((entered.servant(), entered.poa(), entered.object_id()), (&servant, &poa, &id[..]));
        assert_eq!(entered.upcall(|servant| servant.clone()).unwrap(), servant);
        assert_eq!((Current.poa().unwrap(), Current.object_id().unwrap()), (poa.clone(), id.clone()));
        assert_eq!(Current.servant().unwrap(), servant);
        let object = Current.reference().unwrap();
        assert_eq!(poa.reference_to_id(&object).unwrap(), id);

        // An upcall inside the upcall has its own context, and restores the outer one.
        let other = bed.root().activate_object(probe()).unwrap();
        let key = bed.root().key(&other);
        let inner = bed.registry().enter(&key, "ping").unwrap();
        assert_eq!((Current.poa().unwrap(), Current.object_id().unwrap()), (bed.root(), other));
        drop(inner);
        assert_eq!(Current.with_object_id(|current| *current == *id), Ok(true));
    }
    assert_eq!(Current.object_id(), Err(NoContext));
}

#[test]
fn stale_and_foreign_keys_find_nothing() {
    let bed = Bed::new();
    let poa = bed.poa("a", PoaPolicies::new());
    let id = poa.activate_object(probe()).unwrap();
    let key = poa.key(&id);
    assert_eq!(bed.try_enter(&key), Ok(()));
    assert!(bed.registry().locate(&key).is_ok());

    poa.deactivate_object(&id).unwrap();
    assert_eq!(bed.try_enter(&key), Err(omg(Kind::ObjectNotExist, 0)));
    assert!(bed.registry().locate(&key).is_err());
    // The slot is used again; the old key does not lead there.
    let next = poa.activate_object(probe()).unwrap();
    assert_eq!(next[..4], id[..4]);
    assert_eq!(bed.try_enter(&key), Err(omg(Kind::ObjectNotExist, 0)));
    // The old id can be activated again all the same, and keeps its key.
    let again = probe();
    poa.activate_object_with_id(&id, again.clone()).unwrap();
    assert_eq!(bed.registry().enter(&key, "ping").unwrap().servant(), &again);
    assert_ne!(poa.id_to_servant(&next).unwrap(), again);

    for key in [&b""[..], b"NameService", &key[..15], &[&b"iso\x01"[..], &[0; 20]].concat()] {
        assert_eq!(bed.try_enter(key), Err(omg(Kind::ObjectNotExist, 2)), "{key:?}");
    }
    // The epoch of another process.
    let mut other = key.clone();
    other[4] ^= 1;
    assert_eq!(bed.try_enter(&other), Err(omg(Kind::ObjectNotExist, 2)));

    poa.destroy(false, true).unwrap();
    assert_eq!(bed.try_enter(&key), Err(omg(Kind::ObjectNotExist, 2)));
    // A POA in the same slot is another one.
    let new = bed.poa("a", PoaPolicies::new());
    assert_ne!(new.id(), poa.id());
    new.activate_object(probe()).unwrap();
    assert_eq!(bed.try_enter(&key), Err(omg(Kind::ObjectNotExist, 2)));
}

#[test]
fn persistent_references_outlive_the_process() {
    let keys = || {
        let bed = Bed::new();
        let a = bed.poa("a", user_ids().lifespan(Lifespan::Persistent));
        let b = a.create_poa("b/ü", None, user_ids().lifespan(Lifespan::Persistent)).unwrap();
        b.manager().activate().unwrap();
        b.activate_object_with_id("t1", probe()).unwrap();
        let key = b.key(b"t1");
        bed.try_enter(&key).unwrap();
        (bed, key)
    };
    let ((_first, one), (second, two)) = (keys(), keys());
    assert_eq!(one, two);
    assert_eq!(second.try_enter(&one), Ok(()));
    // Ids that the system made differ from process to process.
    let id = |epoch| {
        let registry = Registry::new(epoch, Arc::default(), None);
        let root = registry.root(&second.orb).unwrap();
        let poa = root.create_poa("p", None, PoaPolicies::new().lifespan(Lifespan::Persistent)).unwrap();
        let id = poa.activate_object(probe()).unwrap();
        assert_eq!(poa.activate_object_with_id(&id, probe()), Err(ActivateWithIdError::ObjectAlreadyActive));
        id
    };
    let (old, new) = (id(1), id(2));
    assert_ne!(old, new);
    let poa = second.poa("p", PoaPolicies::new().lifespan(Lifespan::Persistent));
    poa.activate_object_with_id(&old, probe()).expect("an id of an earlier process");
    assert_eq!(second.try_enter(&poa.key(&old)), Ok(()));
}

#[test]
fn depth_changes_nothing() {
    let bed = Bed::new();
    let mut poa = bed.root();
    for depth in 0..150 {
        poa = poa.create_poa(&format!("level {depth}"), Some(&poa.manager()), PoaPolicies::new()).unwrap();
    }
    let shallow = bed.root().activate_object(probe()).unwrap();
    let id = poa.activate_object(probe()).unwrap();
    let key = poa.key(&id);
    // The key contains the slot, so that no path is searched: it is as long as the root's keys.
    assert_eq!((key.len(), bed.root().key(&shallow).len()), (32, 32));
    assert_eq!(bed.try_enter(&key), Ok(()));
    assert_eq!(poa.to_string().matches('/').count(), 150);
    bed.root().destroy(true, true).unwrap();
    assert_eq!(bed.try_enter(&key), Err(omg(Kind::ObjectNotExist, 2)));
}

//! Servant activators and locators (clauses 15.3.6 and 15.3.7).

use super::*;
use isorb_rt::sync::PiMutex;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// Records its calls, and makes a servant for every id except a few.
#[derive(Clone, Default)]
pub(super) struct Notes(Arc<PiMutex<Vec<String>>>);

impl Notes {
    pub fn note(&self, line: String) {
        self.0.lock().push(line);
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}

pub(super) struct Activator {
    pub notes: Notes,
    pub shared: Servant,
    pub inside: AtomicU32,
}

impl Activator {
    /// A POA with one.
    pub fn poa(bed: &Bed, name: &str, policies: PoaPolicies) -> (Poa, Notes, Servant) {
        let poa = bed.poa(name, policies.request_processing(RequestProcessing::ServantManager));
        let (notes, shared) = (Notes::default(), probe());
        let activator = Activator { notes: notes.clone(), shared: shared.clone(), inside: AtomicU32::new(0) };
        poa.set_servant_manager(ServantManager::activator(activator)).unwrap();
        (poa, notes, shared)
    }
}

impl ServantActivator for Activator {
    fn incarnate(&self, id: &ObjectId, poa: &Poa) -> Result<Servant, Refusal> {
        assert_eq!(self.inside.fetch_add(1, SeqCst), 0, "one at a time");
        self.notes.note(format!("+{id}"));
        if *id == ObjectId::from("panic") {
            self.inside.store(0, SeqCst);
            panic!("on purpose");
        }
        let result = match id.to_string().as_str() {
            "none" => Err(omg(Kind::ObjectNotExist, 0).into()),
            "away" => {
                let to = poa.create_reference_with_id("elsewhere", PROBE.id)?;
                Err(ForwardRequest { to, permanent: true }.into())
            }
            "shared" | "shared2" => Ok(self.shared.clone()),
            "itself" => {
                poa.activate_object_with_id(id, self.shared.clone()).unwrap();
                Ok(self.shared.clone())
            }
            "twice" => {
                poa.activate_object_with_id(id, probe()).unwrap();
                Ok(probe())
            }
            "nested" => {
                let orb = poa.orb().unwrap();
                match orb.server().registry.enter(&poa.key(b"inner"), "ping") {
                    Err(Refusal::Exception(e)) => Err(e.into()),
                    _ => panic!("the activator is not re-entered"),
                }
            }
            _ => Ok(probe()),
        };
        assert!(Current.poa().is_err());
        self.inside.fetch_sub(1, SeqCst);
        result
    }

    fn etherealize(&self, id: &ObjectId, poa: &Poa, servant: Servant, cleanup: bool, remaining: bool) {
        assert_eq!(self.inside.fetch_add(1, SeqCst), 0, "one at a time");
        assert!(poa.id_to_servant(id).is_err(), "it is out of the map");
        // Reactivating it here would wait for itself.
        if !cleanup {
            let again = poa.activate_object_with_id(id, servant);
            assert_eq!(again, Err(omg(Kind::BadInvOrder, 3).into()));
        }
        let flags = [(cleanup, " cleanup"), (remaining, " remaining")];
        let flags: String = flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
        self.notes.note(format!("-{id}{flags}"));
        self.inside.fetch_sub(1, SeqCst);
        assert_ne!(id.as_bytes(), b"panic late", "on purpose");
    }
}

#[test]
fn an_activator_makes_servants_and_gets_them_back() {
    let bed = Bed::new();
    let (poa, notes, _) = Activator::poa(&bed, "a", user_ids());
    let key = poa.key(b"x");
    assert!(bed.registry().locate(&key).is_ok());
    assert_eq!(notes.take(), [""; 0], "locating does not incarnate");
    let first = bed.registry().enter(&key, "ping").unwrap();
    let second = bed.registry().enter(&key, "ping").unwrap();
    assert_eq!(first.servant(), second.servant());
    assert_eq!(notes.take(), ["+x"]);
    poa.deactivate_object("x").unwrap();
    assert_eq!(notes.take(), [""; 0], "upcalls run");
    assert_eq!(poa.deactivate_object("x"), Err(ObjectIdError::ObjectNotActive));
    // In an upcall of the object, waiting for its end would never end.
    assert_eq!(bed.try_enter(&key), Err(omg(Kind::BadInvOrder, 3)));
    drop(second);
    assert_eq!(notes.take(), [""; 0]);
    thread::scope(|s| {
        let next = s.spawn(|| bed.try_enter(&key));
        eventually(|| poa.lock().waiting == 1);
        drop(first);
        next.join().unwrap().unwrap();
    });
    assert_eq!(notes.take(), ["-x", "+x"]);
    poa.deactivate_object("x").unwrap();
    assert_eq!(notes.take(), ["-x"]);
    // An object activated by the application ends in the same way.
    poa.activate_object_with_id("own", probe()).unwrap();
    poa.deactivate_object("own").unwrap();
    assert_eq!(notes.take(), ["-own"]);
}

#[test]
fn an_activator_may_refuse_forward_or_err() {
    let bed = Bed::new();
    let (poa, _, _) = Activator::poa(&bed, "a", user_ids());
    assert_eq!(bed.try_enter(&poa.key(b"none")), Err(omg(Kind::ObjectNotExist, 0)));
    let key = poa.key(b"away");
    match bed.registry().enter(&key, "ping") {
        Err(Refusal::Forward { to, permanent: true }) => {
            assert_eq!(poa.reference_to_id(&to).unwrap().as_bytes(), b"elsewhere");
        }
        _ => panic!("no forward"),
    }
    assert_eq!(bed.try_enter(&poa.key(b"shared")), Ok(()));
    assert_eq!(bed.try_enter(&poa.key(b"shared2")), Err(omg(Kind::ObjAdapter, 5)), "UNIQUE_ID");
    assert_eq!(bed.try_enter(&poa.key(b"twice")), Err(omg(Kind::ObjAdapter, 5)));
    assert_eq!(bed.try_enter(&poa.key(b"nested")), Err(omg(Kind::BadInvOrder, 3)));
    poa.deactivate_object("shared").unwrap();
    assert_eq!(bed.try_enter(&poa.key(b"itself")), Ok(()));
    assert_eq!(bed.try_enter(&poa.key(b"x")), Ok(()));
}

#[test]
fn panics_of_an_activator_stay_there() {
    let bed = Bed::new();
    let (poa, notes, _) = Activator::poa(&bed, "a", user_ids());
    assert_eq!(bed.try_enter(&poa.key(b"panic")).unwrap_err().kind, Kind::Unknown);
    for id in ["panic late", "x"] {
        bed.try_enter(&poa.key(id.as_bytes())).unwrap();
    }
    poa.deactivate_object("panic late").unwrap();
    bed.try_enter(&poa.key(b"panic late")).expect("the object can be had again");
    notes.take();
    poa.destroy(true, true).unwrap();
    assert_eq!(notes.take().len(), 2);
}

#[test]
fn remaining_activations_are_told() {
    let bed = Bed::new();
    let (poa, notes, _) = Activator::poa(&bed, "a", user_ids().id_uniqueness(IdUniqueness::Multiple));
    for id in ["shared", "shared2"] {
        bed.try_enter(&poa.key(id.as_bytes())).unwrap();
    }
    notes.take();
    poa.deactivate_object("shared").unwrap();
    poa.deactivate_object("shared2").unwrap();
    assert_eq!(notes.take(), ["-shared remaining", "-shared2"]);
}

#[test]
fn servant_managers_are_set_once_and_of_the_right_kind() {
    let bed = Bed::new();
    let (poa, _, _) = Activator::poa(&bed, "a", user_ids());
    let manager = || poa.servant_manager().unwrap().unwrap();
    assert_eq!(poa.set_servant_manager(manager()), Err(omg(Kind::BadInvOrder, 6).into()));
    let policies = PoaPolicies::new()
        .servant_retention(ServantRetention::NonRetain)
        .request_processing(RequestProcessing::ServantManager);
    let other = bed.poa("locator", policies.clone());
    assert_eq!(other.set_servant_manager(manager()), Err(omg(Kind::ObjAdapter, 4).into()));
    let plain = bed.poa("plain", PoaPolicies::new());
    assert_eq!(plain.set_servant_manager(manager()), Err(PolicyError::WrongPolicy));
    let unset = bed.poa("unset", user_ids().request_processing(RequestProcessing::ServantManager));
    assert_eq!(bed.try_enter(&unset.key(b"x")), Err(omg(Kind::ObjAdapter, 4)));
}

struct Locator {
    notes: Notes,
}

impl ServantLocator for Locator {
    fn preinvoke(&self, id: &[u8], _: &Poa, operation: &str) -> Result<(Servant, Cookie), Refusal> {
        let id = String::from_utf8_lossy(id);
        self.notes.note(format!("pre {id} {operation}"));
        if id == "none" {
            return Err(omg(Kind::ObjectNotExist, 0).into());
        }
        Ok((probe(), Some(Box::new(format!("cookie of {id}")))))
    }

    fn postinvoke(&self, id: &[u8], _: &Poa, operation: &str, cookie: Cookie, _: Servant) -> Result<()> {
        let id = String::from_utf8_lossy(id);
        let cookie = cookie.unwrap().downcast::<String>().unwrap();
        self.notes.note(format!("post {id} {operation} {cookie}"));
        if id == "late" { Err(Kind::NoMemory.into()) } else { Ok(()) }
    }
}

#[test]
fn a_locator_brackets_each_request() {
    let bed = Bed::new();
    let policies = user_ids()
        .servant_retention(ServantRetention::NonRetain)
        .request_processing(RequestProcessing::ServantManager);
    let poa = bed.poa("l", policies);
    let notes = Notes::default();
    poa.set_servant_manager(ServantManager::locator(Locator { notes: notes.clone() })).unwrap();
    for _ in 0..2 {
        let key = poa.key(b"x");
        let entered = bed.registry().enter(&key, "ping").unwrap();
        assert_eq!(notes.take(), ["pre x ping"]);
        assert_eq!(Current.object_id().unwrap().as_bytes(), b"x");
        entered.postinvoke().unwrap();
        entered.postinvoke().expect("once");
        drop(entered);
        assert_eq!(notes.take(), ["post x ping cookie of x"]);
    }
    let key = poa.key(b"late");
    let entered = bed.registry().enter(&key, "ping").unwrap();
    assert_eq!(entered.postinvoke().unwrap_err().kind, Kind::NoMemory);
    drop(entered);
    drop(bed.registry().enter(&key, "ping").unwrap());
    assert_eq!(notes.take().len(), 4, "also without a request for it");
    assert_eq!(bed.try_enter(&poa.key(b"none")), Err(omg(Kind::ObjectNotExist, 0)));
    assert_eq!(notes.take(), ["pre none ping"]);
}

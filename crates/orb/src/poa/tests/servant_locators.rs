//! The rules of servant managers (clauses 15.3.6 and 15.3.7), and the test of each. Those of
//! locators, and those of activators that need several threads, stand here; the others stand in
//! `servant_managers` and `lifecycle`.
//!
//! | rule of activators | test |
//! |---|---|
//! | a request to an inactive object incarnates it | `an_activator_makes_servants_and_gets_them_back` |
//! | once, whatever comes together | `requests_that_come_together_incarnate_once` |
//! | calls of an activator are serialised | `two_objects_are_incarnated_one_after_the_other` |
//! | it may forward, refuse, or err | `an_activator_may_refuse_forward_or_err` |
//! | `etherealize` follows the last request; an incarnation waits for it | `an_activator_makes_servants_and_gets_them_back` |
//! | `cleanup_in_progress` | `deactivating_a_manager_etherealises_once`, `destruction_etherealises_after_the_last_upcall_children_first` |
//! | `remaining_activations` | `remaining_activations_are_told` |
//! | `etherealize_objects` is false | `destruction_without_etherealisation_only_forgets`, `deactivating_a_manager_without_etherealising_leaves_objects_alone` |
//! | its failures are ignored | `panics_of_an_activator_stay_there` |
//!
//! | rule of locators | test |
//! |---|---|
//! | `preinvoke` and `postinvoke` around each request, nothing is retained | `each_request_has_a_preinvoke_and_a_postinvoke_of_its_own` |
//! | the cookie, the id and the thread are the same in both | the same |
//! | no `postinvoke` after an exception or a forward | `a_preinvoke_that_refuses_forwards_or_panics_has_no_postinvoke` |
//! | an exception of `postinvoke` replaces the reply | `a_locator_brackets_each_request` |
//! | `postinvoke` also after an exception of the servant | `a_postinvoke_follows_a_servant_that_panics` |
//! | calls are not serialised | `two_requests_may_be_in_a_locator_together` |
//! | a locate request calls none | `locating_an_object_calls_no_locator` |
//! | there is nothing to etherealise | `a_locator_has_nothing_to_etherealise` |
//! | `destroy` waits for `postinvoke` | `destruction_waits_for_the_postinvoke` |

use super::servant_managers::Notes;
use super::*;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread::ThreadId;
use std::time::Duration;

/// Records its calls; what it answers depends on the id.
struct Locator {
    notes: Notes,
    /// Where two requests meet inside of `preinvoke`.
    together: Option<Barrier>,
}

impl ServantLocator for Locator {
    fn preinvoke(&self, id: &[u8], poa: &Poa, operation: &str) -> Result<(Servant, Cookie), Refusal> {
        self.notes.note(format!("pre {} {operation}", String::from_utf8_lossy(id)));
        if let Some(together) = &self.together {
            together.wait();
        }
        match id {
            b"away" => {
                let to = poa.create_reference_with_id("elsewhere", PROBE.id)?;
                Err(ForwardRequest { to, permanent: false }.into())
            }
            b"panic" => panic!("on purpose"),
            b"none" => Err(omg(Kind::ObjectNotExist, 0).into()),
            _ => Ok((probe(), Some(Box::new((thread::current().id(), id.to_vec()))))),
        }
    }

    fn postinvoke(&self, id: &[u8], _: &Poa, operation: &str, cookie: Cookie, _: Servant) -> Result<()> {
        let cookie = cookie.unwrap().downcast::<(ThreadId, Vec<u8>)>().unwrap();
        assert_eq!(*cookie, (thread::current().id(), id.to_vec()), "the thread and the id of preinvoke");
        self.notes.note(format!("post {} {operation}", String::from_utf8_lossy(id)));
        Ok(())
    }
}

fn located(bed: &Bed, name: &str, together: Option<Barrier>) -> (Poa, Notes) {
    let policies = user_ids()
        .servant_retention(ServantRetention::NonRetain)
        .request_processing(RequestProcessing::ServantManager);
    let poa = bed.poa(name, policies);
    let notes = Notes::default();
    let locator = Locator { notes: notes.clone(), together };
    poa.set_servant_manager(ServantManager::locator(locator)).unwrap();
    (poa, notes)
}

#[test]
fn each_request_has_a_preinvoke_and_a_postinvoke_of_its_own() {
    let bed = Bed::new();
    let (poa, notes) = located(&bed, "l", None);
    let key = poa.key(b"x");
    let (outer, inner) = (bed.registry().enter(&key, "outer"), bed.registry().enter(&key, "inner"));
    let (Ok(outer), Ok(inner)) = (outer, inner) else { panic!("no servant") };
    assert!(outer.servant() != inner.servant(), "nothing is retained");
    assert!(poa.id_to_servant("x").is_err());
    inner.postinvoke().unwrap();
    drop(inner);
    outer.postinvoke().unwrap();
    drop(outer);
    assert_eq!(notes.take(), ["pre x outer", "pre x inner", "post x inner", "post x outer"]);
}

#[test]
fn a_preinvoke_that_refuses_forwards_or_panics_has_no_postinvoke() {
    let bed = Bed::new();
    let (poa, notes) = located(&bed, "l", None);
    assert_eq!(bed.try_enter(&poa.key(b"none")), Err(omg(Kind::ObjectNotExist, 0)));
    assert_eq!(bed.try_enter(&poa.key(b"panic")).unwrap_err().kind, Kind::Unknown);
    match bed.registry().enter(&poa.key(b"away"), "ping") {
        Err(Refusal::Forward { to, permanent: false }) => {
            assert_eq!(poa.reference_to_id(&to).unwrap().as_bytes(), b"elsewhere");
        }
        _ => panic!("no forward"),
    }
    assert_eq!(notes.take(), ["pre none ping", "pre panic ping", "pre away ping"]);
}

#[test]
fn a_postinvoke_follows_a_servant_that_panics() {
    let bed = Bed::new();
    let (poa, notes) = located(&bed, "l", None);
    let key = poa.key(b"x");
    let entered = bed.registry().enter(&key, "ping").unwrap();
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _entered = entered;
        panic!("on purpose");
    }));
    assert!(caught.is_err());
    assert_eq!(notes.take(), ["pre x ping", "post x ping"]);
}

#[test]
fn two_requests_may_be_in_a_locator_together() {
    let bed = Bed::new();
    let (poa, notes) = located(&bed, "l", Some(Barrier::new(2)));
    thread::scope(|s| {
        for _ in 0..2 {
            // Each waits in `preinvoke` for the other.
            s.spawn(|| bed.try_enter(&poa.key(b"x")).unwrap());
        }
    });
    assert_eq!(notes.take().len(), 4);
}

#[test]
fn locating_an_object_calls_no_locator() {
    let bed = Bed::new();
    let (poa, notes) = located(&bed, "l", None);
    assert!(bed.registry().locate(&poa.key(b"none")).is_ok(), "it may exist");
    assert_eq!(notes.take(), [""; 0]);
}

#[test]
fn a_locator_has_nothing_to_etherealise() {
    let bed = Bed::new();
    let (poa, notes) = located(&bed, "l", None);
    bed.try_enter(&poa.key(b"x")).unwrap();
    notes.take();
    assert_eq!(poa.deactivate_object("x"), Err(ObjectIdError::WrongPolicy));
    poa.destroy(true, true).unwrap();
    assert_eq!(notes.take(), [""; 0]);
}

#[test]
fn destruction_waits_for_the_postinvoke() {
    let bed = Bed::new();
    let (poa, notes) = located(&bed, "l", None);
    let key = poa.key(b"x");
    let entered = bed.registry().enter(&key, "ping").unwrap();
    notes.take();
    thread::scope(|s| {
        let destroying = s.spawn(|| poa.destroy(true, true));
        eventually(|| bed.try_enter(&key).is_err());
        assert!(!destroying.is_finished(), "a request runs");
        drop(entered);
        destroying.join().unwrap().unwrap();
    });
    let after = notes.take();
    assert_eq!(after.last().map(String::as_str), Some("post x ping"), "{after:?}");
}

/// Takes its time, so that other requests come meanwhile.
#[derive(Clone, Default)]
struct Slow {
    inside: Arc<AtomicU32>,
    /// The most threads that were inside together.
    most: Arc<AtomicU32>,
    made: Arc<AtomicU32>,
}

impl ServantActivator for Slow {
    fn incarnate(&self, _: &ObjectId, _: &Poa) -> Result<Servant, Refusal> {
        self.most.fetch_max(self.inside.fetch_add(1, SeqCst) + 1, SeqCst);
        thread::sleep(Duration::from_millis(20));
        self.inside.fetch_sub(1, SeqCst);
        self.made.fetch_add(1, SeqCst);
        Ok(probe())
    }

    fn etherealize(&self, _: &ObjectId, _: &Poa, _: Servant, _: bool, _: bool) {
        self.most.fetch_max(self.inside.fetch_add(1, SeqCst) + 1, SeqCst);
        thread::sleep(Duration::from_millis(5));
        self.inside.fetch_sub(1, SeqCst);
    }
}

/// Four requests that start together, each to one of these objects.
fn requests_together(ids: [&[u8]; 4]) -> Slow {
    let bed = Bed::new();
    let poa = bed.poa("a", user_ids().request_processing(RequestProcessing::ServantManager));
    let slow = Slow::default();
    poa.set_servant_manager(ServantManager::activator(slow.clone())).unwrap();
    let start = Barrier::new(4);
    let (start, poa, bed) = (&start, &poa, &bed);
    thread::scope(|s| {
        let request = |id| {
            s.spawn(move || {
                start.wait();
                bed.try_enter(&poa.key(id))
            })
        };
        for request in ids.map(request) {
            request.join().unwrap().unwrap();
        }
    });
    thread::scope(|s| {
        for id in ids {
            s.spawn(move || {
                start.wait();
                // Only the first of several finds the object.
                let _ = poa.deactivate_object(id);
            });
        }
    });
    eventually(|| poa.lock().objects.is_empty());
    slow
}

#[test]
fn requests_that_come_together_incarnate_once() {
    assert_eq!(requests_together([b"x"; 4]).made.load(SeqCst), 1);
}

#[test]
fn two_objects_are_incarnated_one_after_the_other() {
    let slow = requests_together([b"a", b"b", b"c", b"d"]);
    assert_eq!((slow.made.load(SeqCst), slow.most.load(SeqCst)), (4, 1));
}

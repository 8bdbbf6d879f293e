//! The thread models (clause 15.2.9).

use super::servant_managers::Notes;
use super::*;
use isorb_rt::sched::ThreadId;
use isorb_rt::time::Deadline;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

#[test]
fn single_thread_means_one_at_a_time_but_for_nested_upcalls() {
    let bed = Bed::new();
    let poa = bed.poa("single", user_ids().thread_model(ThreadModel::SingleThread));
    poa.activate_object_with_id("a", probe()).unwrap();
    let (key, inside) = (poa.key(b"a"), AtomicU32::new(0));
    thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                for _ in 0..100 {
                    let entered = bed.registry().enter(&key, "ping").unwrap();
                    let nested = entered.upcall(|_| {
                        assert_eq!(inside.fetch_add(1, SeqCst), 0);
                        thread::yield_now();
                        let nested = bed.registry().enter(&key, "ping").unwrap();
                        let nested = nested.upcall(|servant| servant.clone());
                        inside.fetch_sub(1, SeqCst);
                        nested
                    });
                    assert_eq!(&nested.unwrap().unwrap(), entered.servant());
                }
            });
        }
    });
}

#[test]
fn two_single_thread_poas_that_wait_for_each_other_are_told() {
    let bed = Bed::new();
    let poas = ["a", "b"].map(|name| {
        let poa = bed.poa(name, user_ids().thread_model(ThreadModel::SingleThread));
        poa.activate_object_with_id("x", probe()).unwrap();
        poa
    });
    let keys = poas.each_ref().map(|poa| poa.key(b"x"));
    let (inside, first) = (AtomicU32::new(0), AtomicU32::new(0));
    let cross = |mine: usize, other_waits: &dyn Fn()| {
        let entered = bed.registry().enter(&keys[mine], "ping").unwrap();
        entered
            .upcall(|_| {
                inside.fetch_add(1, SeqCst);
                other_waits();
                bed.registry().enter(&keys[1 - mine], "ping").unwrap().upcall(|_| ())
            })
            .unwrap()
    };
    // The second comes while the first waits; both at the same moment would get the error.
    let first_is_to_wait = || {
        eventually(|| inside.load(SeqCst) == 2);
        first.store(ThreadId::current().get() as u32, SeqCst);
    };
    let first_waits = || eventually(|| first.load(SeqCst) != 0 && sleeps(first.load(SeqCst)));
    let (result, refused) = thread::scope(|s| {
        let (a, b) = (s.spawn(|| cross(0, &first_is_to_wait)), s.spawn(|| cross(1, &first_waits)));
        (a.join().unwrap(), b.join().unwrap())
    });
    assert_eq!(refused, Err(omg(Kind::BadInvOrder, 3)));
    assert_eq!(result, Ok(()), "once the other had left");
}

/// Whether a thread of this process sleeps in the kernel.
fn sleeps(thread: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
    stat.rsplit(')').next().is_some_and(|state| state.starts_with(" S"))
}

/// Records etherealised objects, and checks that no upcall of the POA runs meanwhile.
struct Alone {
    notes: Notes,
    busy: Arc<AtomicBool>,
}

impl ServantActivator for Alone {
    fn incarnate(&self, id: &ObjectId, _: &Poa) -> Result<Servant, Refusal> {
        assert!(!self.busy.load(SeqCst), "in the middle of an upcall");
        self.notes.note(format!("+{id}"));
        Ok(probe())
    }

    fn etherealize(&self, id: &ObjectId, _: &Poa, _: Servant, _: bool, _: bool) {
        assert!(!self.busy.load(SeqCst), "in the middle of an upcall");
        self.notes.note(format!("-{id}"));
    }
}

#[test]
fn single_thread_covers_the_servant_manager_without_making_deactivation_wait() {
    let bed = Bed::new();
    let policies = user_ids()
        .thread_model(ThreadModel::SingleThread)
        .request_processing(RequestProcessing::ServantManager);
    let poa = bed.poa("single", policies);
    let (notes, busy) = (Notes::default(), Arc::new(AtomicBool::new(false)));
    let alone = Alone { notes: notes.clone(), busy: busy.clone() };
    poa.set_servant_manager(ServantManager::activator(alone)).unwrap();
    bed.try_enter(&poa.key(b"a")).unwrap();
    bed.try_enter(&poa.key(b"b")).unwrap();
    notes.take();
    let key = poa.key(b"b");
    let entered = bed.registry().enter(&key, "ping").unwrap();
    entered
        .upcall(|_| {
            busy.store(true, SeqCst);
            // Another thread deactivates an idle object. It neither waits nor etherealises it now.
            thread::scope(|s| s.spawn(|| poa.deactivate_object("a").unwrap()).join().unwrap());
            assert_eq!(notes.take(), [""; 0]);
            busy.store(false, SeqCst);
        })
        .unwrap();
    assert_eq!(notes.take(), ["-a"], "by the thread that was in the POA, when it left");
    // In a nested upcall, the object can be etherealised: the thread does it itself.
    entered
        .upcall(|_| {
            bed.try_enter(&poa.key(b"c")).unwrap();
            thread::scope(|s| s.spawn(|| poa.deactivate_object("c").unwrap()).join().unwrap());
            notes.take();
            bed.try_enter(&poa.key(b"c")).unwrap();
        })
        .unwrap();
    assert_eq!(notes.take(), ["-c", "+c"]);
}

#[test]
fn main_thread_upcalls_run_only_while_the_main_thread_lets_them() {
    let bed = Bed::new();
    let poas = ["a", "b"].map(|name| {
        let poa = bed.poa(name, user_ids().thread_model(ThreadModel::MainThread));
        poa.activate_object_with_id("x", probe()).unwrap();
        poa
    });
    let (inside, most, done) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|s| {
        for poa in &poas {
            s.spawn(|| {
                let key = poa.key(b"x");
                for _ in 0..20 {
                    let entered = bed.registry().enter(&key, "ping").unwrap();
                    entered
                        .upcall(|_| {
                            let others = inside.fetch_add(1, SeqCst);
                            thread::yield_now();
                            inside.fetch_sub(1, SeqCst);
                            most.fetch_max(others, SeqCst);
                        })
                        .unwrap();
                    done.fetch_add(1, SeqCst);
                }
            });
        }
        assert_eq!(done.load(SeqCst), 0);
        for _ in 0..40 {
            assert_eq!(bed.registry().main_thread().run_one(Deadline::NONE), RunOutcome::Served);
        }
    });
    assert_eq!((done.load(SeqCst), most.load(SeqCst)), (40, 0));
    let key = poas[0].key(b"x");
    let entered = bed.registry().enter(&key, "ping").unwrap();
    entered.upcall(|_| ()).expect("the main thread itself");
}

//! Requests on several threads while others activate, deactivate, create and destroy.

use super::servant_managers::Notes;
use super::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// Counts servants that are incarnated and not etherealised.
struct Counter {
    alive: Arc<AtomicUsize>,
    made: Arc<AtomicUsize>,
    _notes: Notes,
}

impl ServantActivator for Counter {
    fn incarnate(&self, _: &ObjectId, _: &Poa) -> Result<Servant, Refusal> {
        self.alive.fetch_add(1, SeqCst);
        self.made.fetch_add(1, SeqCst);
        Ok(probe())
    }

    fn etherealize(&self, _: &ObjectId, _: &Poa, _: Servant, _: bool, _: bool) {
        self.alive.fetch_sub(1, SeqCst);
    }
}

#[test]
fn every_incarnation_is_etherealised_once() {
    let bed = Bed::new();
    let (alive, made) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for model in [ThreadModel::OrbControlled, ThreadModel::SingleThread] {
        let policies = user_ids().request_processing(RequestProcessing::ServantManager).thread_model(model);
        let poa = bed.poa("a", policies);
        let counter = Counter { alive: alive.clone(), made: made.clone(), _notes: Notes::default() };
        poa.set_servant_manager(ServantManager::activator(counter)).unwrap();
        thread::scope(|s| {
            for t in 0..4 {
                let (poa, bed) = (&poa, &bed);
                s.spawn(move || {
                    let mut targets: [WeakTarget; 3] = Default::default();
                    for i in 0..500 {
                        let n = (i * 7 + t) % 3;
                        let id = [b'a' + n as u8];
                        let key = poa.key(&id);
                        let found = targets[n].find(bed.registry());
                        if let Some(found) = found.or_else(|| bed.registry().find_active(&key)) {
                            targets[n] = found.downgrade();
                            let entered = found.enter("ping".into());
                            assert_eq!(entered.object_id(), id);
                            if i % 7 == 0 {
                                let _ = poa.deactivate_object(id);
                            }
                        }
                        match bed.registry().enter(&key, "ping") {
                            Ok(entered) => {
                                assert_eq!(entered.object_id(), id);
                                entered
                                    .upcall(|servant| assert_eq!(&Current.servant().unwrap(), servant))
                                    .unwrap();
                                if i % 3 == 0 {
                                    let _ = poa.deactivate_object(id);
                                }
                            }
                            Err(Refusal::Exception(e)) => panic!("{e}"),
                            Err(Refusal::Forward { .. }) => panic!("a forward"),
                        }
                        if i % 5 == 0 {
                            let _ = poa.deactivate_object(id);
                        }
                    }
                });
            }
        });
        poa.destroy(true, true).unwrap();
        assert_eq!(alive.load(SeqCst), 0);
        assert!(poa.lock().objects.is_empty());
    }
    assert!(made.load(SeqCst) > 100);
}

#[test]
fn a_key_never_leads_to_another_object() {
    let bed = Bed::new();
    let poa = bed.poa("a", PoaPolicies::new());
    let stop = AtomicBool::new(false);
    let keys: [isorb_rt::sync::PiMutex<(Vec<u8>, Option<Servant>)>; 4] = Default::default();
    let hits = AtomicUsize::new(0);
    thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                let mut i = 0;
                while !stop.load(SeqCst) {
                    i += 1;
                    let (key, servant) = keys[i % keys.len()].lock().clone();
                    match bed.registry().enter(&key, "ping") {
                        Ok(entered) => {
                            assert_eq!(Some(entered.servant()), servant.as_ref());
                            hits.fetch_add(1, SeqCst);
                        }
                        Err(Refusal::Exception(e)) => assert_eq!(e.kind, Kind::ObjectNotExist),
                        Err(_) => panic!("a forward"),
                    }
                }
            });
        }
        let mut i = 0;
        while hits.load(SeqCst) < 500 || i < 2_000 {
            let servant = probe();
            let id = poa.activate_object(servant.clone()).unwrap();
            let before = std::mem::replace(&mut *keys[i % keys.len()].lock(), (poa.key(&id), Some(servant)));
            if let Some(before) = before.1 {
                poa.deactivate_object(poa.servant_to_id(&before).unwrap()).unwrap();
            }
            i += 1;
        }
        stop.store(true, SeqCst);
    });
}

#[test]
fn poas_come_and_go_under_load() {
    let bed = Bed::new();
    let stop = AtomicBool::new(false);
    let policies = user_ids().lifespan(Lifespan::Persistent);
    let path = key::child_path(&key::child_path(b"", "p").unwrap(), "c").unwrap();
    let key = [&key::persistent_prefix(&path)[..], b"x"].concat();
    let hits = AtomicUsize::new(0);
    thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                while !stop.load(SeqCst) {
                    match bed.try_enter(&key) {
                        Ok(()) => _ = hits.fetch_add(1, SeqCst),
                        Err(e) => assert!(
                            [
                                omg(Kind::ObjectNotExist, 2),
                                omg(Kind::ObjectNotExist, 0),
                                omg(Kind::Transient, 4)
                            ]
                            .contains(&e),
                            "{e}"
                        ),
                    }
                }
            });
        }
        s.spawn(|| {
            while !stop.load(SeqCst) {
                bed.root().manager().hold_requests(true).unwrap();
                bed.root().manager().activate().unwrap();
            }
        });
        let mut rounds = 0;
        while hits.load(SeqCst) < 300 || rounds < 200 {
            let parent = bed.poa("p", policies.clone());
            let child = parent.create_poa("c", Some(&parent.manager()), policies.clone()).unwrap();
            child.activate_object_with_id("x", probe()).unwrap();
            let seen = hits.load(SeqCst);
            for _ in 0..100 {
                if hits.load(SeqCst) > seen + 2 {
                    break;
                }
                thread::yield_now();
            }
            parent.destroy(rounds % 2 == 0, true).unwrap();
            rounds += 1;
        }
        stop.store(true, SeqCst);
    });
    assert!(bed.root().children().is_empty());
}

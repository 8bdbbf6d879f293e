//! A thread that has served a connection serves a later one, as if it were new.

mod common;

use common::raw::Raw;
use common::{Echo, EchoRef};
use isorb::rt::policy::RtPolicy;
use isorb::rt::{Overrides, set_thread_overrides, thread_overrides};
use isorb::{Concurrency, Config, Orb, Reference, Result, Upcall};
use isorb_rt::sched::{Cpus, SchedClass, current_cpus, set_current_cpus};
use isorb_testkit::wait_until;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

/// Takes down which threads serve it and what is set for them, and then sets something.
#[derive(Default)]
struct Setter {
    seen: Mutex<Vec<(ThreadId, bool, Cpus)>>,
    changes: Change,
}

/// What it also changes of its thread, and does not change back.
#[derive(Default)]
enum Change {
    #[default]
    Nothing,
    Cpus,
    Class,
}

impl Echo for Setter {
    fn ping(&self, _: Upcall<'_>) -> Result<()> {
        let cpus = current_cpus().unwrap();
        let has_overrides = thread_overrides() != Overrides::default();
        self.seen.lock().unwrap().push((std::thread::current().id(), has_overrides, cpus));
        set_thread_overrides(Overrides::new(&[RtPolicy::PrivateConnection])?);
        match self.changes {
            Change::Nothing => {}
            Change::Cpus => set_current_cpus(&Cpus::one(cpus.iter().next().unwrap())).unwrap(),
            Change::Class => SchedClass::Fifo(1).set_current().unwrap(),
        }
        Ok(())
    }
}

/// Connects once, calls and leaves, again and again, `until` the servant has seen something.
fn storm(servant: &Arc<Setter>, until: impl Fn(&[(ThreadId, bool, Cpus)]) -> bool) {
    let server =
        Orb::with_config(Config { concurrency: Concurrency::Connection, ..Config::default() }).unwrap();
    let root = server.root_poa().unwrap();
    root.manager().activate().unwrap();
    let near: EchoRef = root.activate(servant.clone()).unwrap();
    wait_until("the servant has seen it", || {
        let mut raw = Raw::connect(near.object());
        assert_eq!(raw.call("ping", &[]).status, 0);
        until(&servant.seen.lock().unwrap())
    });
    server.shutdown(true).unwrap();
}

fn serves_twice(seen: &[(ThreadId, bool, Cpus)]) -> bool {
    seen.iter().enumerate().any(|(i, (id, ..))| seen[..i].iter().any(|(earlier, ..)| earlier == id))
}

#[test]
fn a_thread_serves_again_and_knows_nothing_of_before() {
    let servant = Arc::new(Setter::default());
    storm(&servant, serves_twice);
    let seen = servant.seen.lock().unwrap();
    assert!(seen.iter().all(|(_, has_overrides, _)| !has_overrides), "{seen:?}");
}

#[test]
fn a_thread_that_a_servant_has_pinned_does_not_serve_again() {
    if current_cpus().unwrap().iter().count() < 2 {
        return println!("SKIPPED: on one processor there is nothing to pin a thread to");
    }
    let servant = Arc::new(Setter { changes: Change::Cpus, ..Setter::default() });
    storm(&servant, |seen| seen.len() >= 50);
    let seen = servant.seen.lock().unwrap();
    assert!(!serves_twice(&seen), "{seen:?}");
}

#[test]
fn a_thread_that_a_servant_has_made_urgent_does_not_serve_again() {
    if std::thread::spawn(|| SchedClass::Fifo(1).set_current()).join().unwrap().is_err() {
        return println!("skipped: no right to real-time scheduling here");
    }
    let servant = Arc::new(Setter { changes: Change::Class, ..Setter::default() });
    storm(&servant, |seen| seen.len() >= 50);
    let seen = servant.seen.lock().unwrap();
    assert!(!serves_twice(&seen), "{seen:?}");
}

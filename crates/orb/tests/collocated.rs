//! Calls to objects of the own ORB: no connection, but the same time-out and thread model of the
//! POA.

mod common;

use common::{EchoRef, Parrot, pair};
use isorb::generated::*;
use isorb::poa::PoaPolicies;
use isorb::poa::policies::ThreadModel;
use isorb::{Completion, Concurrency, Config, Kind, Object, Orb, Poa, Policies};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(60);
/// Certain to pass before the awaited event.
const SHORT: Duration = Duration::from_millis(20);

/// Reports its thread, and waits for its release.
struct Witness {
    seen: Sender<ThreadId>,
    go_on: Mutex<Receiver<()>>,
}

impl common::Echo for Witness {
    fn ping(&self, _: Upcall<'_>) -> Result<()> {
        self.seen.send(std::thread::current().id()).unwrap();
        Ok(())
    }

    /// Without a limit.
    fn sleep(&self, _: Upcall<'_>, ms: u32) -> Result<u32> {
        self.seen.send(std::thread::current().id()).unwrap();
        self.go_on.lock().unwrap().recv_timeout(TIMEOUT).unwrap();
        Ok(ms)
    }
}

/// A witness, its reports, and its release.
fn witness() -> (Arc<Witness>, Receiver<ThreadId>, Sender<()>) {
    let ((seen, sees), (go, go_on)) = (channel(), channel());
    (Arc::new(Witness { seen, go_on: Mutex::new(go_on) }), sees, go)
}

fn within(object: &EchoRef, limit: Option<Duration>) -> EchoRef {
    object.with_policies(Policies { round_trip_timeout: limit, ..Policies::default() })
}

/// A POA with a manager of its own, which holds requests.
fn holding(orb: &Orb, policies: PoaPolicies) -> Poa {
    orb.root_poa().unwrap().create_poa("aside", None, policies).unwrap()
}

#[test]
fn a_collocated_call_stays_inside() {
    let (server, client, _, _) = pair(Concurrency::Connection);
    let poa = server.root_poa().unwrap();
    let (witness, sees, _go) = witness();
    let near: EchoRef = poa.activate(witness).unwrap();
    near.ping().unwrap();
    assert_eq!(sees.recv_timeout(TIMEOUT).unwrap(), std::thread::current().id());
    assert!(server.served_connections().is_empty());
    // Over a connection both differ.
    let far: EchoRef = Object::from_ior(&client, near.object().ior().clone()).unwrap().unchecked_narrow();
    far.ping().unwrap();
    assert_ne!(sees.recv_timeout(TIMEOUT).unwrap(), std::thread::current().id());
    assert_eq!(server.served_connections().len(), 1);
    // Arguments, results and exceptions, and nested calls.
    let near: EchoRef = poa.activate(Arc::new(Parrot::default())).unwrap();
    assert_eq!(near.text("inside").unwrap(), "inside");
    assert_eq!(near.call_back(Some(&near)).unwrap(), "from the servant");
    assert_eq!(near.fail(3).unwrap_err().minor, 3);
    server.shutdown(true).unwrap();
    assert_eq!(near.ping().unwrap_err().kind, Kind::BadInvOrder);
}

#[test]
fn a_manager_that_holds_keeps_a_caller_no_longer_than_its_time_out() {
    let (server, _client, _, _) = pair(Concurrency::Connection);
    let poa = holding(&server, PoaPolicies::default());
    let (witness, sees, _go) = witness();
    let near: EchoRef = poa.activate(witness).unwrap();
    for _ in 0..3 {
        let error = within(&near, Some(SHORT)).ping().unwrap_err();
        assert_eq!((error.kind, error.completed), (Kind::Timeout, Completion::No), "{error}");
    }
    assert!(sees.try_recv().is_err(), "nothing ran");
    // With a longer time-out, or none, the request runs when the manager allows it.
    for limit in [Some(TIMEOUT), None] {
        poa.manager().hold_requests(false).unwrap();
        let near = within(&near, limit);
        let call = std::thread::spawn(move || near.ping());
        while poa.manager().state() != isorb::poa::State::Holding {}
        assert!(!call.is_finished());
        poa.manager().activate().unwrap();
        call.join().unwrap().unwrap();
        sees.recv_timeout(TIMEOUT).unwrap();
    }
    server.shutdown(true).unwrap();
}

#[test]
fn a_reply_that_comes_too_late_is_none() {
    let (server, _client, _, _) = pair(Concurrency::Connection);
    let near: EchoRef = server.root_poa().unwrap().activate(Arc::new(Parrot::default())).unwrap();
    let error = within(&near, Some(SHORT)).sleep(60).unwrap_err();
    assert_eq!((error.kind, error.completed), (Kind::Timeout, Completion::Maybe), "{error}");
    for limit in [Some(TIMEOUT), None] {
        assert_eq!(within(&near, limit).sleep(60), Ok(60));
    }
    server.shutdown(true).unwrap();
}

#[test]
fn a_thread_that_is_in_the_way_is_waited_for_no_longer_than_that() {
    let (server, _client, _, _) = pair(Concurrency::Connection);
    let poa = holding(&server, PoaPolicies::default().thread_model(ThreadModel::SingleThread));
    poa.manager().activate().unwrap();
    let (witness, sees, go) = witness();
    let near: EchoRef = poa.activate(witness).unwrap();
    let first = std::thread::spawn({
        let near = near.clone();
        move || near.sleep(7)
    });
    sees.recv_timeout(TIMEOUT).unwrap();
    let error = within(&near, Some(SHORT)).ping().unwrap_err();
    assert_eq!((error.kind, error.completed), (Kind::Timeout, Completion::No), "{error}");
    go.send(()).unwrap();
    assert_eq!(first.join().unwrap(), Ok(7));
    within(&near, Some(TIMEOUT)).ping().unwrap();
    server.shutdown(true).unwrap();
}

#[test]
fn a_main_thread_that_serves_nothing_is_not_waited_for_either() {
    // No thread calls its `run`.
    let server = Orb::with_config(Config::default()).unwrap();
    let poa = holding(&server, PoaPolicies::default().thread_model(ThreadModel::MainThread));
    poa.manager().activate().unwrap();
    let (witness, sees, _go) = witness();
    let near: EchoRef = poa.activate(witness).unwrap();
    let call = std::thread::spawn(move || within(&near, Some(SHORT)).ping());
    let error = call.join().unwrap().unwrap_err();
    assert_eq!((error.kind, error.completed), (Kind::Timeout, Completion::No), "{error}");
    assert!(sees.try_recv().is_err(), "nothing ran");
    server.shutdown(true).unwrap();
}

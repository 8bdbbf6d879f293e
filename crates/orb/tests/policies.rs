//! Messaging policies at their three scopes, forwards, and the effect of the rebind policy on them.

mod common;

use common::{EchoRef, Parrot, pair};
use isorb::poa::policies::{IdAssignment, Lifespan, RequestProcessing, ServantRetention};
use isorb::poa::{Cookie, ForwardRequest, Poa, PoaPolicies, Refusal, ServantLocator, ServantManager};
use isorb::{
    Completion, Concurrency, Config, Kind, Object, Orb, Policies, Rebind, Reference, Result, Servant,
    SyncScope, set_thread_policies,
};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

fn timeout(ms: u64) -> Policies {
    Policies { round_trip_timeout: Some(Duration::from_millis(ms)), ..Policies::default() }
}

#[test]
fn time_outs_hold_at_every_scope() {
    let (server, client, echo, _) = pair(Concurrency::Connection);
    let kind = |result: Result<u32>| result.err().map(|exception| exception.kind);
    client.set_policies(timeout(30));
    assert_eq!(kind(echo.sleep(300)), Some(Kind::Timeout), "the ORB's");
    let before = set_thread_policies(timeout(30_000));
    assert_eq!(kind(echo.sleep(60)), None, "the thread's goes before the ORB's");
    assert_eq!(
        kind(echo.with_policies(timeout(30)).sleep(300)),
        Some(Kind::Timeout),
        "the object's goes before both"
    );
    assert_eq!(kind(echo.with_policies(timeout(0)).sleep(60)), None, "zero is no time-out");
    set_thread_policies(before);
    server.shutdown(false).unwrap();
}

#[test]
fn a_call_after_its_end_time_sends_nothing() {
    let (server, _client, echo, parrot) = pair(Concurrency::Connection);
    echo.sleep(0).unwrap();
    let before = parrot.slept.load(Ordering::SeqCst);
    let passed = Some(Instant::now());
    let ends = |request_end, reply_end| Policies { request_end, reply_end, ..Policies::default() };
    for policies in [ends(passed, None), ends(None, passed)] {
        let late = echo.with_policies(policies).sleep(0).unwrap_err();
        assert_eq!((late.kind, late.completed), (Kind::Timeout, Completion::No));
        assert!(late.detail.unwrap().contains("end time"));
        let outer = set_thread_policies(policies);
        assert_eq!(echo.sleep(0).unwrap_err().kind, Kind::Timeout, "the thread's");
        set_thread_policies(outer);
    }
    echo.sleep(0).unwrap();
    // A start and an end of this call, and of no other.
    assert_eq!(parrot.slept.load(Ordering::SeqCst), before + 2);
    server.shutdown(false).unwrap();
}

#[test]
fn an_end_time_bounds_all_calls_of_a_task_together() {
    let (server, _client, echo, _) = pair(Concurrency::Connection);
    let end = Instant::now() + Duration::from_millis(200);
    let task = echo.with_policies(Policies { reply_end: Some(end), ..Policies::default() });
    // A time-out would begin anew with each call; the end stays where it is.
    let first_error = (0..1000).find_map(|_| task.sleep(20).err());
    assert_eq!(first_error.unwrap().kind, Kind::Timeout);
    assert!(Instant::now() >= end);
    let far = Some(Instant::now() + Duration::from_secs(3600));
    let patient = echo.with_policies(Policies { request_end: far, reply_end: far, ..Policies::default() });
    patient.sleep(20).unwrap();
    server.shutdown(false).unwrap();
}

#[test]
fn a_request_is_sent_at_its_start_time() {
    let (server, _client, echo, parrot) = pair(Concurrency::Connection);
    echo.sleep(0).unwrap();
    let start = Instant::now() + Duration::from_millis(100);
    let starts = Policies { request_start: Some(start), ..timeout(10_000) };
    echo.with_policies(starts).sleep(0).unwrap();
    assert!(Instant::now() >= start);
    // The start has passed: nothing waits any more.
    let outer = set_thread_policies(starts);
    echo.sleep(0).unwrap();
    set_thread_policies(outer);
    // A time-out begins with the start.
    let later = Policies { request_start: Some(Instant::now() + Duration::from_millis(150)), ..timeout(100) };
    isorb_testkit::retry("a call of no duration", || match echo.with_policies(later).sleep(0) {
        // The machine was busy for a tenth of a second.
        Err(exception) if exception.kind == Kind::Timeout => Err(exception),
        other => Ok(other.unwrap()),
    });
    let before = parrot.slept.load(Ordering::SeqCst);
    let hour = Instant::now() + Duration::from_secs(3600);
    for policies in [
        Policies { request_start: Some(hour), reply_end: Some(hour), ..Policies::default() },
        Policies { reply_start: Some(hour), request_end: Some(hour), ..Policies::default() },
    ] {
        let never = echo.with_policies(policies).sleep(0).unwrap_err();
        assert_eq!((never.kind, never.completed), (Kind::Timeout, Completion::No), "at once");
        assert!(never.detail.unwrap().contains("start time"));
    }
    assert_eq!(parrot.slept.load(Ordering::SeqCst), before, "nothing was sent");
    let early = Policies { request_start: Some(hour), ..Policies::default() };
    static PING: isorb::Operation = isorb::Operation { name: "ping", oneway: false };
    let begun = echo.with_policies(early).object().begin(&PING, &|_| ());
    let refused = begun.map(drop).unwrap_err();
    assert_eq!(refused.kind, Kind::InvPolicy, "{refused}");
    server.shutdown(false).unwrap();
}

#[test]
fn a_reply_is_returned_at_its_start_time() {
    let (server, _client, echo, parrot) = pair(Concurrency::Connection);
    let before = parrot.slept.load(Ordering::SeqCst);
    let start = Instant::now() + Duration::from_secs(2);
    let slow = echo.with_policies(Policies { reply_start: Some(start), ..Policies::default() });
    let caller = std::thread::spawn(move || {
        slow.sleep(0).unwrap();
        Instant::now()
    });
    // The request is not held back.
    isorb_testkit::wait_until("the servant has run", || parrot.slept.load(Ordering::SeqCst) == before + 2);
    assert!(caller.join().unwrap() >= start);
    server.shutdown(false).unwrap();
}

#[test]
fn a_server_that_never_answers_is_a_timeout() {
    // A socket that listens: the kernel accepts, no process reads.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("corbaloc::1.2@{}/x", silent.local_addr().unwrap());
    let orb = Orb::with_config(Config::default()).unwrap();
    let object: EchoRef = orb.string_to_object(&url).unwrap().unchecked_narrow();
    let late = object.with_policies(timeout(700)).ping().unwrap_err();
    assert_eq!((late.kind, late.completed), (Kind::Timeout, Completion::Maybe));
    let sentence = late.detail.unwrap();
    assert!(sentence.contains("ping") && sentence.contains("700ms"), "{sentence}");
}

#[test]
fn a_oneway_goes_as_far_as_its_sync_scope_says() {
    for concurrency in [Concurrency::Connection, Concurrency::Lane] {
        let (server, client, echo, servant) = pair(concurrency);
        let (host, port) = server.endpoint_addresses().remove(0);
        let no_object: EchoRef = client
            .string_to_object(&format!("corbaloc::1.2@{host}:{port}/silent"))
            .unwrap()
            .unchecked_narrow();
        let scope = |scope| Policies { sync_scope: Some(scope), ..Policies::default() };
        for quiet in [SyncScope::None, SyncScope::WithTransport] {
            no_object.with_policies(scope(quiet)).feed(&[1]).unwrap();
        }
        for loud in [SyncScope::WithServer, SyncScope::WithTarget] {
            let refused = no_object.with_policies(scope(loud)).feed(&[1]).unwrap_err();
            assert_eq!(refused.kind, Kind::ObjectNotExist, "{loud:?}");
        }
        echo.with_policies(scope(SyncScope::WithServer)).feed(&[1; 5]).unwrap();
        let before = servant.fed.load(Ordering::SeqCst);
        echo.with_policies(scope(SyncScope::WithTarget)).feed(&[1; 70]).unwrap();
        assert!(servant.fed.load(Ordering::SeqCst) >= before + 70, "the servant has returned");
        server.shutdown(true).unwrap();
    }
}

/// Forwards every request.
struct Elsewhere {
    to: Object,
    permanent: bool,
    located: Arc<AtomicU32>,
}

impl ServantLocator for Elsewhere {
    fn preinvoke(&self, _: &[u8], _: &Poa, _: &str) -> Result<(Servant, Cookie), Refusal> {
        self.located.fetch_add(1, Ordering::SeqCst);
        Err(ForwardRequest { to: self.to.clone(), permanent: self.permanent }.into())
    }
    fn postinvoke(&self, _: &[u8], _: &Poa, _: &str, _: Cookie, _: Servant) -> Result<()> {
        Ok(())
    }
}

/// An object of `server` that forwards to `to`, and the number of its requests.
fn forwarding(server: &Orb, client: &Orb, to: &EchoRef, permanent: bool) -> (EchoRef, Arc<AtomicU32>) {
    let policies = PoaPolicies::new()
        .lifespan(Lifespan::Persistent)
        .id_assignment(IdAssignment::User)
        .servant_retention(ServantRetention::NonRetain)
        .request_processing(RequestProcessing::ServantManager);
    let root = server.root_poa().unwrap();
    let poa = root.create_poa(&format!("elsewhere {permanent}"), Some(&root.manager()), policies).unwrap();
    let located = Arc::new(AtomicU32::new(0));
    let locator = Elsewhere { to: to.object().clone(), permanent, located: located.clone() };
    poa.set_servant_manager(ServantManager::locator(locator)).unwrap();
    let near = poa.create_reference_with_id(b"x", EchoRef::INTERFACE.id).unwrap();
    (client.resolve(&near.to_string()).unwrap(), located)
}

#[test]
fn forwards_are_followed_once_and_remembered() {
    for permanent in [false, true] {
        let (server, client, _, _) = pair(Concurrency::Connection);
        let (target, _, echo, _) = pair(Concurrency::Connection);
        let (far, located) = forwarding(&server, &client, &echo, permanent);
        for i in 0..5 {
            assert_eq!(far.text(&format!("call {i}")).unwrap(), format!("call {i}"));
        }
        assert_eq!(located.load(Ordering::SeqCst), 1, "the binding is remembered");
        // The target of the forward is gone: a temporary forward falls back to the original
        // reference.
        target.shutdown(true).unwrap();
        let gone = far.ping().unwrap_err();
        assert!(matches!(gone.kind, Kind::Transient | Kind::CommFailure | Kind::ObjectNotExist), "{gone}");
        if !permanent {
            assert!(located.load(Ordering::SeqCst) > 1, "the reference's own place was asked again");
        }
        server.shutdown(true).unwrap();
    }
}

#[test]
fn no_rebind_refuses_a_forward() {
    let (server, client, echo, _) = pair(Concurrency::Connection);
    let (far, _) = forwarding(&server, &client, &echo, false);
    let policies = Policies { rebind: Some(Rebind::NoRebind), ..Policies::default() };
    assert_eq!(far.with_policies(policies).ping().unwrap_err().kind, Kind::Rebind);
    far.ping().unwrap();
    server.shutdown(true).unwrap();
}

#[test]
fn a_forward_in_a_circle_ends() {
    let (server, client, echo, _) = pair(Concurrency::Connection);
    let (far, _) = forwarding(&server, &client, &echo, false);
    let root = server.root_poa().unwrap();
    let poa = root.find_poa("elsewhere false", false).unwrap();
    let itself = Elsewhere { to: far.object().clone(), permanent: false, located: Arc::default() };
    drop(poa);
    let policies = PoaPolicies::new()
        .lifespan(Lifespan::Persistent)
        .id_assignment(IdAssignment::User)
        .servant_retention(ServantRetention::NonRetain)
        .request_processing(RequestProcessing::ServantManager);
    let circle = root.create_poa("circle", Some(&root.manager()), policies).unwrap();
    let near = circle.create_reference_with_id(b"x", EchoRef::INTERFACE.id).unwrap();
    let to = client.string_to_object(&near.to_string()).unwrap();
    circle.set_servant_manager(ServantManager::locator(Elsewhere { to: to.clone(), ..itself })).unwrap();
    let lost = to.unchecked_narrow::<EchoRef>().ping().unwrap_err();
    assert_eq!(lost.kind, Kind::Transient);
    let _ = Parrot::default();
    server.shutdown(true).unwrap();
}

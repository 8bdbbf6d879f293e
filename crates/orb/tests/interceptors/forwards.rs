//! Requests that are forwarded or repeated.

use crate::ALL_POINTS;
use crate::common::EchoRef;
use crate::recorder::*;
use isorb::interceptor::*;
use isorb::poa::{
    Cookie, ObjectId, PoaPolicies, Refusal, ServantLocator, ServantManager, policies::RequestProcessing,
    policies::ServantRetention,
};
use isorb::{Config, Kind, Object, Orb, Poa, Policies, Rebind, Reference, Servant, minor};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

#[test]
fn a_forward_from_any_point_leads_elsewhere() {
    let points = [
        "send_request",
        "receive_request_service_contexts",
        "receive_request",
        "send_exception",
        "receive_exception",
    ];
    for way in WAYS {
        for point in points {
            let to: Arc<Mutex<Option<Object>>> = Arc::default();
            let target = to.clone();
            let once = AtomicBool::new(false);
            let bed = Bed::new(way, move |name, at| {
                let now = name == "B" && at == point && !once.swap(true, Ordering::SeqCst);
                now.then(|| Raised::Forward(target.lock().unwrap().clone().unwrap()))
            });
            *to.lock().unwrap() = Some(bed.other.object().clone());
            // The other object answers when the first one fails.
            bed.echo.fail(5).unwrap();
            let log = bed.log.take();
            let seconds = log.iter().rposition(|call| call == "A.send_request").unwrap();
            let (first, second) = log.split_at(seconds);
            let others: Vec<_> = first.iter().filter(|call| call.ends_with("_other")).collect();
            let expected: &[&str] = match point {
                "send_request" | "receive_exception" => &["A.receive_other"],
                "receive_request_service_contexts" | "send_exception" => {
                    &["A.send_other", "B.receive_other", "A.receive_other"]
                }
                _ => &["B.send_other", "A.send_other", "B.receive_other", "A.receive_other"],
            };
            assert_eq!(others, expected, "{way:?} {point}");
            assert_eq!(second, ALL_POINTS, "{way:?} {point}");
            let forwards = bed.log.forwards();
            assert_eq!(forwards.len(), expected.len());
            assert!(forwards.iter().all(|object| object.ior() == bed.other.object().ior()));
            // The second request goes to the target of the first one's forward, for the same
            // reference.
            let targets = bed.log.targets();
            assert!(targets[0].0 == *bed.echo.object() && targets[0].1 == *bed.echo.object());
            let last = targets.last().unwrap();
            assert!(last.0 == *bed.echo.object() && last.1 == *bed.other.object(), "{way:?} {point}");
        }
    }
}

#[test]
fn forwards_end_and_may_be_forbidden() {
    let to: Arc<Mutex<Option<Object>>> = Arc::default();
    let target = to.clone();
    let bed = Bed::new(CallPath::Connection, move |_, at| {
        (at == "send_request").then(|| Raised::Forward(target.lock().unwrap().clone().unwrap()))
    });
    *to.lock().unwrap() = Some(bed.other.object().clone());
    assert_eq!(bed.echo.ping().unwrap_err().minor, minor::TRANSIENT_FORWARDS);
    let stay = bed.echo.with_policies(Policies { rebind: Some(Rebind::NoRebind), ..Policies::default() });
    assert_eq!(stay.ping().unwrap_err().kind, Kind::Rebind);
}

/// Forwards every request to another object.
struct Elsewhere(Mutex<Option<Object>>);

impl ServantLocator for Elsewhere {
    fn preinvoke(&self, _: &[u8], _: &Poa, _: &str) -> Result<(Servant, Cookie), Refusal> {
        let to = self.0.lock().unwrap().clone().unwrap();
        Err(Refusal::Forward { to, permanent: false })
    }
    fn postinvoke(&self, _: &[u8], _: &Poa, _: &str, _: Cookie, _: Servant) -> isorb::Result<()> {
        Ok(())
    }
}

#[test]
fn a_forward_of_the_server_is_seen_on_both_sides() {
    for way in WAYS {
        let bed = Bed::new(way, |_, _| None);
        let policies = PoaPolicies::new()
            .id_assignment(isorb::poa::policies::IdAssignment::User)
            .servant_retention(ServantRetention::NonRetain)
            .request_processing(RequestProcessing::ServantManager);
        let poa = bed.server.root_poa().unwrap();
        let poa = poa.create_poa("elsewhere", Some(&poa.manager()), policies).unwrap();
        let elsewhere = Elsewhere(Mutex::new(Some(bed.other.object().clone())));
        poa.set_servant_manager(ServantManager::locator(elsewhere)).unwrap();
        let object = poa.create_reference_with_id(ObjectId::from("x"), "IDL:Test/Echo:1.0").unwrap();
        let moved: EchoRef = bed.client.resolve(&object.to_string()).unwrap();
        moved.fail(5).unwrap();
        let log = bed.log.take();
        let first =
            [&ALL_POINTS[..4], &["B.send_other", "A.send_other", "B.receive_other", "A.receive_other"]];
        assert_eq!(log, [&first.concat()[..], &ALL_POINTS].concat(), "{way:?}");
        assert!(bed.log.forwards().iter().all(|object| object.ior() == bed.other.object().ior()));
        bed.log.clear();
        let stay = moved.with_policies(Policies { rebind: Some(Rebind::NoRebind), ..Policies::default() });
        // A forwarded request stays forwarded. A new forward is not followed, and interceptors see
        // that as an exception.
        stay.ping().unwrap();
        bed.log.clear();
        let fresh: EchoRef = bed.client.string_to_object(&object.to_string()).unwrap().unchecked_narrow();
        let fresh = fresh.with_policies(Policies { rebind: Some(Rebind::NoRebind), ..Policies::default() });
        assert_eq!(fresh.ping().unwrap_err().kind, Kind::Rebind);
        assert_eq!(bed.log.take().last().unwrap(), "A.receive_exception");
    }
}

/// A server that closes its first connection in order instead of replying.
fn closes_first() -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut block = [0; 1024];
        let (mut first, _) = listener.accept().unwrap();
        let _ = first.read(&mut block).unwrap();
        first.write_all(b"GIOP\x01\x02\x01\x05\0\0\0\0").unwrap();
        drop(first);
        let (mut second, _) = listener.accept().unwrap();
        let n = second.read(&mut block).unwrap();
        assert!(n > 16);
        let mut reply = b"GIOP\x01\x02\x01\x01\x0c\0\0\0".to_vec();
        reply.extend(&block[12..16]);
        reply.extend([0; 8]);
        second.write_all(&reply).unwrap();
        let _ = second.read(&mut block);
    });
    address
}

#[test]
fn a_request_that_is_sent_again_starts_again() {
    let log = Log::default();
    let raise: Raise = Arc::new(|_, _| None);
    let client = Orb::builder()
        .config(Config::default())
        .register(|info| {
            Ok(info.add_client_request_interceptor(Arc::new(Recorder {
                name: "A",
                log: log.clone(),
                raise,
            }))?)
        })
        .build()
        .unwrap();
    let address = closes_first();
    let echo = client.string_to_object(&format!("corbaloc::1.2@{address}/x")).unwrap();
    echo.unchecked_narrow::<EchoRef>().ping().unwrap();
    assert_eq!(log.take(), ["A.send_request", "A.receive_other", "A.send_request", "A.receive_reply"]);
}

//! Portable interceptors: the points and their order, what they raise, what they add, what they see.

mod common;
#[path = "interceptors/recorder.rs"]
mod recorder;

use common::{EchoRef, Parrot};
use isorb::interceptor::*;
use isorb::poa::{
    Cookie, ObjectId, PoaPolicies, Refusal, ServantLocator, ServantManager, policies::RequestProcessing,
    policies::ServantRetention,
};
use isorb::{
    Any, Completion, Config, Kind, Object, Orb, Poa, Policies, Rebind, Reference, Servant, SyncScope,
    SystemException, minor,
};
use isorb_rt::alloc_count::{CountingAllocator, allocations_during};
use recorder::*;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const ALL_POINTS: [&str; 10] = [
    "A.send_request",
    "B.send_request",
    "A.receive_request_service_contexts",
    "B.receive_request_service_contexts",
    "A.receive_request",
    "B.receive_request",
    "B.send_reply",
    "A.send_reply",
    "B.receive_reply",
    "A.receive_reply",
];

#[test]
fn points_come_in_order_on_every_way() {
    for way in WAYS {
        let bed = Bed::new(way, |_, _| None);
        assert_eq!(bed.echo.text("hello").unwrap(), "hello");
        assert_eq!(bed.log.take(), ALL_POINTS, "{way:?}");
        assert!(!bed.echo.object().non_existent().unwrap());
        assert_eq!(bed.log.take().len(), 10, "implicit operations are requests too");
    }
}

#[test]
fn exceptions_of_the_servant_are_seen() {
    for way in WAYS {
        let bed = Bed::new(way, |_, _| None);
        assert_eq!(bed.echo.fail(7).unwrap_err().minor, 7);
        let log = bed.log.take();
        let ends = &log[6..];
        assert_eq!(
            ends,
            ["B.send_exception", "A.send_exception", "B.receive_exception", "A.receive_exception"],
            "{way:?}"
        );
        let seen = bed.log.exceptions();
        assert_eq!(seen.len(), 4);
        for (id, exception) in seen {
            assert_eq!(id, "IDL:omg.org/CORBA/NO_PERMISSION:1.0");
            assert_eq!((exception.kind, exception.minor), (Kind::NoPermission, 7));
        }
    }
}

#[test]
fn user_exceptions_are_seen_by_their_ids() {
    for way in WAYS {
        let bed = Bed::new(way, |_, _| None);
        let denied = bed.deny().unwrap_err();
        assert_eq!(&*denied.detail.unwrap(), "IDL:Test/Denied:1.0");
        let log = bed.log.take();
        assert_eq!(log[6], "B.send_exception");
        for (id, exception) in bed.log.exceptions() {
            assert_eq!(id, "IDL:Test/Denied:1.0");
            assert_eq!((exception.kind, exception.minor), (Kind::Unknown, minor::UNKNOWN_USER_EXCEPTION));
        }
    }
}

/// Where interceptor B raises, what is then called from there on, how the exception is completed.
#[test]
fn what_is_raised_takes_the_place_of_what_there_was() {
    let starts = &ALL_POINTS[..2];
    let served = &ALL_POINTS[..4];
    let received = &ALL_POINTS[..6];
    let sent = &ALL_POINTS[..7];
    let back = &ALL_POINTS[..9];
    let end = ["B.receive_exception", "A.receive_exception"];
    let cases: [(&'static str, Vec<&str>, Completion); 5] = [
        ("send_request", [starts, &["A.receive_exception"]].concat(), Completion::No),
        ("receive_request_service_contexts", [served, &["A.send_exception"], &end].concat(), Completion::No),
        (
            "receive_request",
            [received, &["B.send_exception", "A.send_exception"], &end].concat(),
            Completion::No,
        ),
        ("send_reply", [sent, &["A.send_exception"], &end].concat(), Completion::Yes),
        ("receive_reply", [back, &["A.receive_exception"]].concat(), Completion::Yes),
    ];
    for way in WAYS {
        for (point, calls, completed) in &cases {
            let point: &'static str = point;
            let bed = Bed::new(way, move |name, at| {
                (name == "B" && at == point).then(|| SystemException::from(Kind::NoResources).minor(9).into())
            });
            let raised = bed.echo.text("x").unwrap_err();
            assert_eq!(
                (raised.kind, raised.minor, raised.completed),
                (Kind::NoResources, 9, *completed),
                "{point}"
            );
            assert_eq!(bed.log.take(), *calls, "{way:?} {point}");
        }
        for point in ["send_exception", "receive_exception"] {
            let bed = Bed::new(way, move |name, at| {
                (name == "B" && at == point).then(|| SystemException::from(Kind::NoResources).minor(9).into())
            });
            // The servant's exception says COMPLETED_NO, and so does what replaces it.
            let raised = bed.echo.fail(7).unwrap_err();
            assert_eq!((raised.kind, raised.minor, raised.completed), (Kind::NoResources, 9, Completion::No));
            let others: Vec<_> = bed.log.exceptions().into_iter().map(|(_, seen)| seen.minor).collect();
            assert_eq!(others, if point == "send_exception" { [7, 9, 9, 9] } else { [7, 7, 7, 9] });
        }
    }
}

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
            // The other object answers where the first one fails.
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
            // The second request goes to where the first one was sent, for the same reference.
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
    let bed = Bed::new(Way::Connection, move |_, at| {
        (at == "send_request").then(|| Raised::Forward(target.lock().unwrap().clone().unwrap()))
    });
    *to.lock().unwrap() = Some(bed.other.object().clone());
    assert_eq!(bed.echo.ping().unwrap_err().minor, minor::TRANSIENT_FORWARDS);
    let stay = bed.echo.with_policies(Policies { rebind: Some(Rebind::NoRebind), ..Policies::default() });
    assert_eq!(stay.ping().unwrap_err().kind, Kind::Rebind);
}

/// Sends everything to another object.
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
        // What was forwarded stays so; a new reference is not followed, and interceptors see that as an exception.
        stay.ping().unwrap();
        bed.log.clear();
        let fresh: EchoRef = bed.client.string_to_object(&object.to_string()).unwrap().unchecked_narrow();
        let fresh = fresh.with_policies(Policies { rebind: Some(Rebind::NoRebind), ..Policies::default() });
        assert_eq!(fresh.ping().unwrap_err().kind, Kind::Rebind);
        assert_eq!(bed.log.take().last().unwrap(), "A.receive_exception");
    }
}

#[test]
fn oneways_end_in_receive_other_unless_a_reply_comes() {
    for way in WAYS {
        for sync_scope in
            [SyncScope::None, SyncScope::WithTransport, SyncScope::WithServer, SyncScope::WithTarget]
        {
            let bed = Bed::new(way, |_, _| None);
            let policies = Policies { sync_scope: Some(sync_scope), ..Policies::default() };
            bed.echo.with_policies(policies).feed(&[1, 2, 3]).unwrap();
            // On the same connection, so that the oneway is through.
            bed.echo.ping().unwrap();
            while bed.log.count("A.receive_reply") + bed.log.count("A.receive_other") < 2 {
                std::thread::yield_now();
            }
            assert_eq!(bed.servant.fed.load(Ordering::SeqCst), 3);
            let replies = matches!(sync_scope, SyncScope::WithServer | SyncScope::WithTarget);
            assert_eq!(bed.log.count("B.receive_other"), usize::from(!replies), "{way:?} {sync_scope:?}");
            assert_eq!(bed.log.count("B.send_reply"), 2, "{way:?} {sync_scope:?}");
            let seen = bed.log.scopes();
            assert_eq!(seen[0], (replies, sync_scope));
            assert_eq!(seen[1], (true, SyncScope::WithTarget));
        }
    }
}

#[test]
fn a_oneway_that_waits_for_the_server_hears_refusals() {
    for way in WAYS {
        let bed = Bed::new(way, |name, at| {
            (name == "B" && at == "receive_request_service_contexts").then(|| Kind::NoPermission.into())
        });
        let policies = Policies { sync_scope: Some(SyncScope::WithServer), ..Policies::default() };
        assert_eq!(bed.echo.with_policies(policies).feed(&[1]).unwrap_err().kind, Kind::NoPermission);
        assert_eq!(bed.log.count("A.send_exception"), 1);
        assert_eq!(bed.log.count("A.receive_exception"), 1);
        assert_eq!(bed.servant.fed.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn a_panic_of_a_server_interceptor_is_unknown_to_the_client_only() {
    for way in WAYS {
        for point in ["receive_request_service_contexts", "receive_request", "send_reply"] {
            let once = AtomicBool::new(false);
            let bed = Bed::new(way, move |name, at| {
                assert!(!(name == "B" && at == point && !once.swap(true, Ordering::SeqCst)), "on purpose");
                None
            });
            assert_eq!(bed.echo.ping().unwrap_err().kind, Kind::Unknown);
            bed.echo.ping().unwrap();
        }
    }
}

/// Adds contexts of given lengths to requests or replies, and keeps what it finds.
struct Contexts {
    lengths: Vec<usize>,
    found: Arc<Mutex<Vec<Vec<u8>>>>,
}

const FIRST: u32 = 0x4953_1000;

fn octets(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 7) as u8).collect()
}

impl Contexts {
    fn find<'c>(&self, get: impl Fn(u32) -> isorb::Result<&'c [u8]>) {
        assert_eq!(get(1).unwrap_err().minor, minor::BAD_PARAM_CONTEXT_ID);
        let found = (0..self.lengths.len() as u32).map_while(|i| get(FIRST + i).ok().map(<[u8]>::to_vec));
        *self.found.lock().unwrap() = found.collect();
    }
}

impl ClientRequestInterceptor for Contexts {
    fn send_request(&self, info: &mut ClientRequestInfo<'_>) -> Result<(), Raised> {
        for (i, n) in self.lengths.iter().enumerate() {
            let id = FIRST + i as u32;
            info.add_request_service_context(id, b"to be replaced", false)?;
            let twice = info.add_request_service_context(id, &[], false).unwrap_err();
            assert_eq!(twice.minor, minor::BAD_INV_ORDER_CONTEXT_EXISTS);
            info.add_request_service_context(id, &octets(*n), true)?;
            assert_eq!(info.request_service_context(id)?, octets(*n));
        }
        assert!(info.reply_service_context(FIRST).is_err());
        Ok(())
    }
    fn receive_reply(&self, info: &ClientRequestInfo<'_>) -> isorb::Result<()> {
        self.find(|id| info.reply_service_context(id));
        Ok(())
    }
    fn receive_exception(&self, info: &ClientRequestInfo<'_>) -> Result<(), Raised> {
        self.find(|id| info.reply_service_context(id));
        Ok(())
    }
}

impl ServerRequestInterceptor for Contexts {
    fn receive_request_service_contexts(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        let found = (0..).map_while(|i| info.request_service_context(FIRST + i).ok().map(<[u8]>::to_vec));
        *self.found.lock().unwrap() = found.collect();
        if let Some(n) = self.lengths.first() {
            info.add_reply_service_context(FIRST, &octets(*n), false)?;
        }
        Ok(())
    }
    fn send_reply(&self, info: &mut ServerRequestInfo<'_>) -> isorb::Result<()> {
        for (i, n) in self.lengths.iter().enumerate().skip(1) {
            info.add_reply_service_context(FIRST + i as u32, &octets(*n), false)?;
        }
        Ok(())
    }
    fn send_exception(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        Ok(self.send_reply(info)?)
    }
}

#[test]
fn contexts_travel_both_ways_and_leave_values_where_they_belong() {
    for way in WAYS {
        for giop in ["1.0", "1.1", "1.2"] {
            for lengths in [vec![], vec![0], vec![4], vec![5, 1], vec![8, 3, 70_000], vec![12, 12]] {
                let config = Config { giop: giop.into(), ..Config::default() };
                let (to_server, to_client) = (Arc::default(), Arc::default());
                let make = |found: &Arc<_>| {
                    Arc::new(Contexts { lengths: lengths.clone(), found: Arc::clone(found) })
                };
                let bed = Bed::with(
                    way,
                    config,
                    &mut |info| Ok(info.add_client_request_interceptor(make(&to_client))?),
                    &mut |info| Ok(info.add_server_request_interceptor(make(&to_server))?),
                );
                let sent: Vec<_> = lengths.iter().map(|n| octets(*n)).collect();
                let check = || {
                    assert_eq!(*to_server.lock().unwrap(), sent, "{way:?} {giop}");
                    assert_eq!(*to_client.lock().unwrap(), sent, "{way:?} {giop}");
                    to_server.lock().unwrap().clear();
                    to_client.lock().unwrap().clear();
                };
                for n in [0, 1, 1000, 100_000] {
                    let numbers: Vec<f64> = (0..n).map(f64::from).collect();
                    let same = bed.client.scope(|scope| {
                        Ok::<_, SystemException>(bed.echo.numbers_in(scope, &numbers)? == numbers)
                    });
                    assert!(same.unwrap(), "{way:?} {giop} {lengths:?} {n}");
                    check();
                }
                bed.echo.ping().unwrap();
                check();
                assert_eq!(bed.echo.fail(3).unwrap_err().minor, 3);
                check();
                assert_eq!(&*bed.deny().unwrap_err().detail.unwrap(), "IDL:Test/Denied:1.0");
                check();
            }
        }
    }
}

#[test]
fn contexts_that_make_a_reply_too_large_are_refused() {
    let found = Arc::default();
    let big = Arc::new(Contexts { lengths: vec![300_000], found });
    let config = Config { message_limit: 400_000, ..Config::default() };
    let bed = Bed::with(Way::Connection, config, &mut |_| Ok(()), &mut |info| {
        Ok(info.add_server_request_interceptor(big.clone())?)
    });
    let numbers = vec![1.0; 20_000];
    let refused = bed.client.scope(|scope| bed.echo.numbers_in(scope, &numbers).map(drop)).unwrap_err();
    assert_eq!((refused.kind, refused.completed), (Kind::ImpLimit, Completion::Yes));
    bed.echo.ping().unwrap();
}

/// From a slot of the caller's thread through a context to a slot of the servant's.
struct Carry {
    slot: SlotId,
    /// Calls out while a request starts, to see that it does not look like the application's.
    call: Mutex<Option<EchoRef>>,
    nested: AtomicU64,
    left_by_servant: Mutex<Vec<Option<u64>>>,
}

impl ClientRequestInterceptor for Carry {
    fn send_request(&self, info: &mut ClientRequestInfo<'_>) -> Result<(), Raised> {
        let here = info.orb().pi_current();
        let value: Option<u64> = info.slot(self.slot)?.get();
        assert_eq!(here.slot(self.slot)?, Any::null(), "an interceptor has a fresh table");
        let Some(value) = value else { return Ok(()) };
        if value == 99 {
            // Our own call, marked below.
            self.nested.fetch_add(1, Ordering::SeqCst);
            return Ok(());
        }
        info.add_request_service_context(FIRST, &value.to_be_bytes(), false)?;
        let call = self.call.lock().unwrap().clone();
        if let Some(echo) = call {
            here.set_slot(self.slot, Any::new(&99_u64).unwrap())?;
            echo.ping()?;
        }
        Ok(())
    }
    fn receive_reply(&self, info: &ClientRequestInfo<'_>) -> isorb::Result<()> {
        assert_eq!(info.orb().pi_current().slot(self.slot)?, Any::null(), "fresh again at the end");
        Ok(())
    }
}

impl ServerRequestInterceptor for Carry {
    fn receive_request_service_contexts(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        assert_eq!(info.slot(self.slot)?, Any::null());
        if let Ok(Some(octets)) = info.request_service_context(FIRST).map(<[u8]>::first_chunk) {
            let value = u64::from_be_bytes(*octets);
            info.set_slot(self.slot, Any::new(&value).unwrap())?;
        }
        assert_eq!(info.orb().pi_current().slot(self.slot)?, Any::null(), "not the servant's thread yet");
        Ok(())
    }
    fn receive_request(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        assert_eq!(info.slot(self.slot)?, info.orb().pi_current().slot(self.slot)?, "one scope by now");
        Ok(())
    }
    fn send_reply(&self, info: &mut ServerRequestInfo<'_>) -> isorb::Result<()> {
        self.left_by_servant.lock().unwrap().push(info.slot(self.slot)?.get());
        Ok(())
    }
}

/// Doubles what it finds in its thread.
struct Doubler(Arc<Mutex<Option<SlotId>>>);

impl ServantLocator for Doubler {
    fn preinvoke(&self, _: &[u8], poa: &Poa, _: &str) -> Result<(Servant, Cookie), Refusal> {
        let _ = poa;
        Ok((Servant::new::<EchoRef, Parrot>(Arc::default()), None))
    }
    fn postinvoke(&self, _: &[u8], _: &Poa, _: &str, _: Cookie, servant: Servant) -> isorb::Result<()> {
        let _ = servant;
        let orb = isorb::poa::Current.reference()?.orb().clone();
        let slot = self.0.lock().unwrap().unwrap();
        if let Some(value) = orb.pi_current().slot(slot)?.get::<u64>() {
            orb.pi_current().set_slot(slot, Any::new(&(2 * value)).unwrap())?;
        }
        Ok(())
    }
}

#[test]
fn slots_go_from_thread_to_request_to_thread_and_back() {
    for way in WAYS {
        let slot: Arc<Mutex<Option<SlotId>>> = Arc::default();
        let carriers: Mutex<Vec<Arc<Carry>>> = Mutex::default();
        let make = |info: &mut OrbInitInfo| {
            // A collocated ORB registers twice, for the same slot.
            let id = *slot.lock().unwrap().get_or_insert_with(|| info.allocate_slot_id());
            if format!("{info:?}").contains("slots: 0") {
                info.allocate_slot_id();
            }
            let carry = Arc::new(Carry {
                slot: id,
                call: Mutex::default(),
                nested: AtomicU64::new(0),
                left_by_servant: Mutex::default(),
            });
            carriers.lock().unwrap().push(carry.clone());
            carry
        };
        let mut client: Option<Arc<Carry>> = None;
        let mut server: Option<Arc<Carry>> = None;
        let bed = Bed::with(
            way,
            Config::default(),
            &mut |info| {
                let carry = client.insert(make(info)).clone();
                Ok(info.add_client_request_interceptor(carry)?)
            },
            &mut |info| {
                let carry = server.insert(make(info)).clone();
                Ok(info.add_server_request_interceptor(carry)?)
            },
        );
        let (client, server, slot_id) = (client.unwrap(), server.unwrap(), slot.lock().unwrap().unwrap());
        let policies = PoaPolicies::new()
            .id_assignment(isorb::poa::policies::IdAssignment::User)
            .servant_retention(ServantRetention::NonRetain)
            .request_processing(RequestProcessing::ServantManager);
        let poa = bed.server.root_poa().unwrap();
        let poa = poa.create_poa("doubling", Some(&poa.manager()), policies).unwrap();
        poa.set_servant_manager(ServantManager::locator(Doubler(slot.clone()))).unwrap();
        let object = poa.create_reference_with_id(ObjectId::from("x"), "IDL:Test/Echo:1.0").unwrap();
        let doubling: EchoRef = bed.client.resolve(&object.to_string()).unwrap();
        let current = bed.client.pi_current();

        doubling.ping().unwrap();
        current.set_slot(slot_id, Any::new(&21_u64).unwrap()).unwrap();
        doubling.ping().unwrap();
        *client.call.lock().unwrap() = Some(bed.other.clone());
        doubling.ping().unwrap();
        assert_eq!(client.nested.load(Ordering::SeqCst), 1);
        let left = server.left_by_servant.lock().unwrap().clone();
        assert_eq!(left, [None, Some(42), None, Some(42)], "{way:?}");
        assert_eq!(current.slot(slot_id).unwrap().get::<u64>(), Some(21), "the caller's own is as it was");
        let none = bed.client.pi_current();
        let elsewhere = std::thread::spawn(move || none.slot(slot_id)).join().unwrap();
        assert_eq!(elsewhere, Ok(Any::null()));
    }
}

struct Tagger {
    tag: u32,
    refuse: bool,
    asked: Arc<AtomicU64>,
}

impl IorInterceptor for Tagger {
    fn name(&self) -> &str {
        if self.tag == 0 { "" } else { "tagger" }
    }
    fn establish_components(&self, info: &mut IorInfo<'_>) -> isorb::Result<()> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.tag == 0 {
            return Err(Kind::Internal.into());
        }
        let data = info.adapter_name().as_bytes().to_vec();
        info.add_ior_component(TaggedComponent { tag: self.tag, data });
        let other = TaggedComponent { tag: self.tag + 1, data: vec![1] };
        assert_eq!(
            info.add_ior_component_to_profile(other.clone(), 7).unwrap_err().minor,
            minor::BAD_PARAM_PROFILE_ID
        );
        info.add_ior_component_to_profile(other, 0)
    }
    fn components_established(&self, info: &IorInfo<'_>) -> isorb::Result<()> {
        if self.refuse && info.adapter_name() == "refused" {
            return Err(Kind::NoPermission.into());
        }
        assert!(info.components().len() >= 2);
        Ok(())
    }
}

/// Looks for a component of its target.
struct Looker(Mutex<Vec<Vec<u8>>>);

impl ClientRequestInterceptor for Looker {
    fn send_request(&self, info: &mut ClientRequestInfo<'_>) -> Result<(), Raised> {
        self.0.lock().unwrap().push(info.effective_component(0x4953_2000)?.data);
        assert_eq!(info.effective_components(0x4953_2001)?.len(), 1);
        assert_eq!(info.effective_component(0x1234).unwrap_err().minor, minor::BAD_PARAM_COMPONENT_ID);
        assert_eq!(info.effective_profile().unwrap().tag, 0);
        Ok(())
    }
}

#[test]
fn components_are_in_the_references_of_each_poa() {
    let asked: Arc<AtomicU64> = Arc::default();
    let server = Orb::with_config_and(Config::default(), |info| {
        // One that raises is ignored.
        info.add_ior_interceptor(Arc::new(Tagger { tag: 0, refuse: false, asked: Arc::default() }))?;
        let tagger = Tagger { tag: 0x4953_2000, refuse: true, asked: asked.clone() };
        Ok(info.add_ior_interceptor(Arc::new(tagger))?)
    })
    .unwrap();
    let looker = Arc::new(Looker(Mutex::default()));
    let client = Orb::with_config_and(Config::default(), |info| {
        Ok(info.add_client_request_interceptor(looker.clone())?)
    })
    .unwrap();
    let root = server.root_poa().unwrap();
    let lab = root.create_poa("lab", Some(&root.manager()), PoaPolicies::new()).unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    assert!(root.create_poa("lab", None, PoaPolicies::new()).is_err());
    let refused = root.create_poa("refused", None, PoaPolicies::new()).unwrap_err();
    assert_eq!(SystemException::from(refused).minor, minor::OBJ_ADAPTER_IOR_INTERCEPTOR);
    assert!(root.find_poa("refused", false).is_err());
    root.manager().activate().unwrap();
    for poa in [root, lab] {
        for _ in 0..2 {
            let near: EchoRef = poa.activate(Arc::new(Parrot::default())).unwrap();
            let far: EchoRef = client.resolve(&near.object().to_string()).unwrap();
            far.ping().unwrap();
        }
    }
    assert_eq!(*looker.0.lock().unwrap(), [&b"RootPOA"[..], b"RootPOA", b"lab", b"lab"]);
    server.shutdown(true).unwrap();
}

/// A server that closes its first connection in order instead of answering.
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
    let client = Orb::with_config_and(Config::default(), |info| {
        Ok(info.add_client_request_interceptor(Arc::new(Recorder { name: "A", log: log.clone(), raise }))?)
    })
    .unwrap();
    let address = closes_first();
    let echo = client.string_to_object(&format!("corbaloc::1.2@{address}/x")).unwrap();
    echo.unchecked_narrow::<EchoRef>().ping().unwrap();
    assert_eq!(log.take(), ["A.send_request", "A.receive_other", "A.send_request", "A.receive_reply"]);
}

/// Does nothing, at all points.
struct Idle(&'static str, Arc<AtomicU64>);

impl ClientRequestInterceptor for Idle {
    fn name(&self) -> &str {
        self.0
    }
    fn destroy(&self) {
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

impl ServerRequestInterceptor for Idle {
    fn name(&self) -> &str {
        self.0
    }
    fn destroy(&self) {
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn names_are_unique_but_for_the_anonymous() {
    let destroyed = Arc::default();
    let idle = |name| Arc::new(Idle(name, Arc::clone(&destroyed)));
    let orb = Orb::init_with(["-x".into()], |info| {
        assert_eq!(info.arguments(), ["-x"]);
        info.add_client_request_interceptor(idle("a"))?;
        assert_eq!(info.add_client_request_interceptor(idle("a")), Err(InitError::DuplicateName));
        info.add_client_request_interceptor(idle(""))?;
        info.add_client_request_interceptor(idle(""))?;
        // Kinds are apart.
        info.add_server_request_interceptor(idle("a"))?;
        Ok(())
    })
    .unwrap();
    orb.shutdown(true).unwrap();
    assert_eq!(destroyed.load(Ordering::SeqCst), 4);
    let failed = Orb::with_config_and(Config::default(), |info| {
        info.add_client_request_interceptor(idle("a"))?;
        Ok(info.add_client_request_interceptor(idle("a"))?)
    });
    assert_eq!(failed.unwrap_err().kind, Kind::Initialize);
}

#[test]
fn initial_references_are_there_from_the_start() {
    let first = Orb::with_config(Config::default());
    let object = first.string_to_object("corbaloc::127.0.0.1:1/x").unwrap();
    let orb = Orb::with_config_and(Config::default(), |info| {
        assert_eq!(info.register_initial_reference("", &object), Err(InitError::InvalidName));
        info.register_initial_reference("Thing", &object)?;
        assert_eq!(info.register_initial_reference("Thing", &object), Err(InitError::InvalidName));
        Ok(())
    })
    .unwrap();
    assert!(orb.resolve_initial_references("Thing").unwrap() == object);
}

#[test]
fn interceptors_that_add_nothing_cost_no_allocation() {
    assert!(allocations_during(|| Box::new(1)) > 0, "the allocator counts");
    for way in WAYS {
        let idle = |name| Arc::new(Idle(name, Arc::default()));
        let bed = Bed::with(
            way,
            Config::default(),
            &mut |info| {
                info.allocate_slot_id();
                Ok(info.add_client_request_interceptor(idle("a"))?)
            },
            &mut |info| {
                info.allocate_slot_id();
                Ok(info.add_server_request_interceptor(idle("a"))?)
            },
        );
        let call = || {
            bed.client.scope(|scope| bed.echo.text_in(scope, "hello").map(str::len)).unwrap();
            bed.echo.feed(&[1, 2, 3]).unwrap();
        };
        (0..50).for_each(|_| call());
        let count = allocations_during(|| (0..100).for_each(|_| call()));
        assert_eq!(count, 0, "{way:?}");
    }
}

/// Counts what the thread that serves allocates between one request and the next.
struct Meter(Mutex<Vec<u64>>);

impl ServerRequestInterceptor for Meter {
    fn receive_request_service_contexts(&self, _: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        let mut seen = self.0.lock().unwrap();
        if seen.len() < seen.capacity() {
            seen.push(isorb_rt::alloc_count::thread_allocations());
        }
        Ok(())
    }
}

#[test]
fn a_server_with_interceptors_allocates_nothing_either() {
    let meter = Arc::new(Meter(Mutex::new(Vec::with_capacity(200))));
    let bed = Bed::with(Way::Connection, Config::default(), &mut |_| Ok(()), &mut |info| {
        info.allocate_slot_id();
        Ok(info.add_server_request_interceptor(meter.clone())?)
    });
    for _ in 0..200 {
        assert_eq!(bed.echo.text("hello").unwrap(), "hello");
    }
    let seen = meter.0.lock().unwrap();
    assert_eq!(seen[50], seen[199], "allocations of the serving thread after its first requests");
}

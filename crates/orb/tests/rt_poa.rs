//! Real-time POAs: valid combinations of policies, the components of references, and the priorities
//! of requests.

mod common;

use common::rt::{Witness, arc, far, fifo, lane, poa, real_time, server};
use common::{EchoRef, raw::Raw};
use isorb::poa::policies::{IdAssignment, ImplicitActivation, Lifespan};
use isorb::poa::{ActivateError, ActivateWithIdError, CreateError, PoaPolicies, PolicyError};
use isorb::rt::policy::PriorityModel::{ClientPropagated, ServerDeclared};
use isorb::rt::policy::{PriorityBand, Protocol, RtPolicy, TcpProperties, from_components};
use isorb::rt::{Direct, NativeRange, Priority, PriorityTransform, ThreadpoolOptions};
use isorb::{Config, Kind, Orb, Reference, minor};
use isorb_giop::context::rt_corba_priority;
use std::sync::Arc;

fn band(low: i16, high: i16) -> PriorityBand {
    PriorityBand { low, high }
}

/// REFERENCE of the standard's rules: each invalid combination, and the index of the policy at
/// fault.
#[test]
fn policies_that_do_not_go_together_are_refused() {
    let server = server();
    let rt = server.rt();
    let options = ThreadpoolOptions::default();
    let plain = rt.create_threadpool(lane(5, 1), &options).unwrap();
    let lanes = rt.create_threadpool_with_lanes(&[lane(10, 1), lane(20, 1)], &options).unwrap();
    let new = || PoaPolicies::new();
    let declared = |priority| new().priority_model(ServerDeclared, priority);
    let propagated = |priority| new().priority_model(ClientPropagated, priority);
    let bands = |list: &[(i16, i16)]| list.iter().map(|(low, high)| band(*low, *high)).collect::<Vec<_>>();
    let bad = [
        ("lanes without a model", new().lifespan(Lifespan::Persistent).threadpool(lanes), 1),
        ("bands without a model", new().priority_bands(bands(&[(0, 9)])), 0),
        ("bands without a model, in a pool", new().threadpool(plain).priority_bands(bands(&[(0, 9)])), 1),
        ("no bands", declared(5).priority_bands(bands(&[])), 1),
        ("a band below 0", declared(5).priority_bands(bands(&[(0, 9), (-1, 3)])), 1),
        ("a band that ends before it begins", propagated(5).priority_bands(bands(&[(9, 3)])), 1),
        ("a server priority below 0", declared(-1), 0),
        ("a server priority below 0", propagated(-7), 0),
        ("a declared priority in no band", declared(5).priority_bands(bands(&[(6, 9), (0, 4)])), 1),
        ("a declared priority that no lane has", declared(15).threadpool(lanes), 0),
        (
            "a band without a lane",
            declared(10).threadpool(lanes).priority_bands(bands(&[(0, 15), (16, 19)])),
            2,
        ),
        (
            "a band without a lane",
            propagated(10).priority_bands(bands(&[(0, 15), (21, 30)])).threadpool(lanes),
            1,
        ),
        ("a pool that is not there", new().threadpool(4711), 0),
        ("a protocol without an acceptor", new().server_protocols([Protocol::with_tag(0x1234)]), 0),
        (
            "one of two without",
            declared(1)
                .server_protocols([Protocol::iiop(TcpProperties::default()), Protocol::with_tag(0x1234)]),
            1,
        ),
        ("no protocols", new().server_protocols([]), 0),
        ("a policy of clients", new().rt_policy(RtPolicy::PrivateConnection), 0),
    ];
    let root = server.root_poa().unwrap();
    for (i, (what, policies, index)) in bad.into_iter().enumerate() {
        let made = root.create_poa(&format!("bad {i}"), None, policies);
        assert_eq!(made.err(), Some(CreateError::InvalidPolicy(index)), "{what}");
    }
    let good = [
        new().threadpool(plain),
        declared(7).threadpool(plain),
        declared(7),
        declared(7).priority_bands(bands(&[(0, 6), (7, 7)])),
        declared(20).threadpool(lanes).priority_bands(bands(&[(0, 15), (16, 25)])),
        propagated(15).threadpool(lanes),
        propagated(99).priority_bands(bands(&[(0, 6)])),
        declared(0).server_protocols([Protocol::iiop(TcpProperties::default())]),
    ];
    for (i, policies) in good.into_iter().enumerate() {
        let made = root.create_poa(&format!("good {i}"), None, policies);
        assert!(made.is_ok(), "{i}: {:?}", made.err());
    }
    // A rejected POA does not keep its pool.
    for i in 0..8 {
        root.find_poa(&format!("good {i}"), false).unwrap().destroy(true, true).unwrap();
    }
    rt.destroy_threadpool(lanes).unwrap();
    rt.destroy_threadpool(plain).unwrap();
    server.shutdown(true).unwrap();
}

#[test]
fn a_priority_that_maps_to_none_is_no_server_priority() {
    let server = server();
    server.rt().set_priority_mapping(Arc::new(Direct(NativeRange::system())));
    let policies = PoaPolicies::new().priority_model(ServerDeclared, 20_000);
    let made = server.root_poa().unwrap().create_poa("unmapped", None, policies);
    assert_eq!(made.err(), Some(CreateError::InvalidPolicy(0)));
    server.shutdown(true).unwrap();
}

fn policies_of(object: &isorb::Object) -> Vec<RtPolicy> {
    let profile = object.ior().iiop_profiles().flatten().next().unwrap();
    from_components(&profile.components).unwrap()
}

fn model(priority: i16) -> RtPolicy {
    RtPolicy::PriorityModel(isorb::rt::policy::PriorityModelPolicy {
        model: ServerDeclared,
        server_priority: priority,
    })
}

#[test]
fn objects_and_references_have_priorities_of_their_own() {
    let (server, client) = (server(), Orb::with_config(Config::default()).unwrap());
    let policies = PoaPolicies::new().priority_model(ServerDeclared, 100).id_assignment(IdAssignment::User);
    let poa = poa(&server, "own", policies.priority_bands([band(0, 500)]));
    let id = "IDL:Test/Echo:1.0";
    let witness = arc::<Witness>();
    let servant = || isorb::Servant::new::<EchoRef, _>(witness.clone());
    let reassigned = |error: isorb::SystemException| {
        assert_eq!((error.kind, error.minor), (Kind::BadInvOrder, minor::BAD_INV_ORDER_PRIORITY));
    };

    // First the reference, then the object.
    let early = poa.create_reference_with_id_and_priority("a", id, 300).unwrap();
    assert_eq!(policies_of(&early)[0], model(300));
    assert!(poa.create_reference_with_id_and_priority("a", id, 300).is_ok(), "the same again");
    let Err(PolicyError::System(error)) = poa.create_reference_with_id_and_priority("a", id, 301) else {
        panic!("another one")
    };
    reassigned(error);
    let Err(ActivateWithIdError::System(error)) =
        poa.activate_object_with_id_and_priority("a", servant(), 200)
    else {
        panic!("another one")
    };
    reassigned(error);
    poa.activate_object_with_id("a", servant()).unwrap();
    far(&client, &early.unchecked_narrow()).ping().unwrap();
    assert_eq!(witness.take()[0].priority, Some(300), "the object is what the reference says");
    assert_eq!(policies_of(&poa.id_to_reference("a").unwrap())[0], model(300));
    poa.deactivate_object("a").unwrap();

    // First the object.
    poa.activate_object_with_id_and_priority("b", servant(), 400).unwrap();
    let reference = poa.id_to_reference("b").unwrap();
    assert_eq!(policies_of(&reference)[0], model(400));
    far(&client, &reference.unchecked_narrow()).ping().unwrap();
    assert_eq!(witness.take()[0].priority, Some(400));
    let Err(PolicyError::System(error)) = poa.create_reference_with_id_and_priority("b", id, 401) else {
        panic!("another one")
    };
    reassigned(error);
    assert!(poa.create_reference_with_id_and_priority("b", id, 400).is_ok());
    poa.deactivate_object("b").unwrap();

    // Without one it has the model's priority.
    poa.activate_object_with_id("c", servant()).unwrap();
    far(&client, &poa.id_to_reference("c").unwrap().unchecked_narrow()).ping().unwrap();
    assert_eq!(witness.take()[0].priority, Some(100));
    let Err(PolicyError::System(error)) = poa.create_reference_with_id_and_priority("c", id, 101) else {
        panic!("it has the model's")
    };
    reassigned(error);

    // Invalid priorities.
    for priority in [-1, 501] {
        let Err(PolicyError::System(error)) = poa.create_reference_with_id_and_priority("d", id, priority)
        else {
            panic!("{priority}")
        };
        assert_eq!(error.kind, Kind::BadParam);
    }
    assert_eq!(poa.create_reference_with_priority(id, 5), Err(PolicyError::WrongPolicy), "it has USER_ID");
    server.shutdown(true).unwrap();
}

#[test]
fn only_declared_priorities_can_be_given() {
    let server = server();
    let servant = || isorb::Servant::new::<EchoRef, _>(arc::<Witness>());
    for (name, policies) in [
        ("none", PoaPolicies::new()),
        ("propagated", PoaPolicies::new().priority_model(ClientPropagated, 1)),
        (
            "implicit",
            PoaPolicies::new()
                .priority_model(ServerDeclared, 1)
                .implicit_activation(ImplicitActivation::Implicit),
        ),
    ] {
        let poa = poa(&server, name, policies);
        assert_eq!(poa.activate_object_with_priority(servant(), 1), Err(ActivateError::WrongPolicy));
        assert_eq!(
            poa.activate_object_with_id_and_priority("x", servant(), 1),
            Err(ActivateWithIdError::WrongPolicy)
        );
        assert_eq!(poa.create_reference_with_priority("", 1), Err(PolicyError::WrongPolicy));
        assert_eq!(poa.create_reference_with_id_and_priority("x", "", 1), Err(PolicyError::WrongPolicy));
    }
    let lanes = [lane(10, 1), lane(20, 1)];
    let pool = server.rt().create_threadpool_with_lanes(&lanes, &ThreadpoolOptions::default()).unwrap();
    let policies = PoaPolicies::new().threadpool(pool).priority_model(ServerDeclared, 10);
    let poa = poa(&server, "lanes", policies);
    let Err(ActivateError::System(error)) = poa.activate_object_with_priority(servant(), 15) else {
        panic!("no lane has it")
    };
    assert_eq!(error.kind, Kind::BadParam);
    let reference = poa.create_reference_with_priority("", 20).unwrap();
    assert_eq!(policies_of(&reference)[0], model(20));
    server.shutdown(true).unwrap();
}

/// The context's octets, for a request that runs at 300 or is malformed.
#[test]
fn context_10_says_the_priority_or_is_refused() {
    let server = server();
    let poa = poa(&server, "propagated", PoaPolicies::new().priority_model(ClientPropagated, 100));
    let witness = arc::<Witness>();
    let object: EchoRef = poa.activate(witness.clone()).unwrap();
    let mut raw = Raw::connect(object.object());

    let sent = rt_corba_priority(300);
    let answer = raw.call("ping", &[(10, &sent)]);
    assert_eq!((answer.status, answer.contexts), (0, vec![(10, sent.to_vec())]), "echoed");
    let run = witness.take().pop().unwrap();
    assert_eq!(run.priority, Some(300));
    if real_time(&server) {
        assert_eq!(run.class, fifo(300));
    }
    // The other byte order, among other contexts.
    let other_order: &[u8] = &if cfg!(target_endian = "little") { [0, 0, 1, 44] } else { [1, 0, 44, 1] };
    let answer = raw.call("ping", &[(0x7777, b"?"), (10, other_order)]);
    assert_eq!(answer.contexts, [(10, sent.to_vec())]);
    assert_eq!(witness.take()[0].priority, Some(300));
    // A client without real-time priorities.
    let answer = raw.call("ping", &[]);
    assert_eq!((answer.status, answer.contexts), (0, vec![]));
    assert_eq!(witness.take()[0].priority, Some(100));

    // The connection survives all of these.
    let marshal = ("IDL:omg.org/CORBA/MARSHAL:1.0".to_owned(), 0);
    for garbage in [&b""[..], b"\x01", b"\x01\0\x05", b"\0"] {
        let answer = raw.call("ping", &[(10, garbage)]);
        assert_eq!(answer.exception().0, marshal.0, "{garbage:?}");
    }
    let unmappable = ("IDL:omg.org/CORBA/DATA_CONVERSION:1.0".to_owned(), minor::DATA_CONVERSION_PRIORITY);
    assert_eq!(raw.call("ping", &[(10, &rt_corba_priority(-1))]).exception(), unmappable);
    server.rt().set_priority_mapping(Arc::new(Direct(NativeRange::system())));
    assert_eq!(raw.call("ping", &[(10, &rt_corba_priority(300))]).exception(), unmappable);
    assert_eq!(witness.take(), [], "no servant saw them");
    let answer = raw.call("ping", &[(10, &rt_corba_priority(3))]);
    assert_eq!((answer.status, witness.take()[0].priority), (0, Some(3)));
    server.shutdown(true).unwrap();
}

#[test]
fn declared_priorities_do_not_listen_to_clients() {
    let server = server();
    let poa = poa(&server, "declared", PoaPolicies::new().priority_model(ServerDeclared, 100));
    let witness = arc::<Witness>();
    let object: EchoRef = poa.activate(witness.clone()).unwrap();
    let mut raw = Raw::connect(object.object());
    for data in [&rt_corba_priority(9)[..], b""] {
        let answer = raw.call("ping", &[(10, data)]);
        assert_eq!((answer.status, answer.contexts), (0, vec![]));
        assert_eq!(witness.take()[0].priority, Some(100));
    }
    server.shutdown(true).unwrap();
}

struct Tenfold;

impl PriorityTransform for Tenfold {
    fn inbound(&self, priority: Priority, _: &[u8]) -> Option<Priority> {
        Priority::new(priority.get().checked_mul(10)?)
    }
    fn outbound(&self, priority: Priority, _: &[u8]) -> Option<Priority> {
        Some(priority)
    }
}

#[test]
fn the_transform_has_the_last_word() {
    let server = server();
    server.rt().set_priority_transform(Some(Arc::new(Tenfold)));
    let poa = poa(&server, "transformed", PoaPolicies::new().priority_model(ClientPropagated, 7));
    let witness = arc::<Witness>();
    let object: EchoRef = poa.activate(witness.clone()).unwrap();
    let mut raw = Raw::connect(object.object());
    assert_eq!(raw.call("ping", &[(10, &rt_corba_priority(30))]).contexts[0].1, rt_corba_priority(30));
    assert_eq!(raw.call("ping", &[]).status, 0);
    let too_much = raw.call("ping", &[(10, &rt_corba_priority(30_000))]).exception();
    assert_eq!(too_much.1, minor::DATA_CONVERSION_PRIORITY);
    assert_eq!(witness.take().iter().map(|run| run.priority).collect::<Vec<_>>(), [Some(300), Some(70)]);
    server.shutdown(true).unwrap();
}

//! Requests to groups and their priorities: each runs on the lane of its priority, and a high one
//! is served while a low one computes.
#![cfg(feature = "miop")]

mod common;

use common::rt::{Flat, Log, Run, Witness, arc, fifo, lane, poa, real_time};
use common::{Echo, EchoRef};
use isorb::generated::*;
use isorb::poa::policies::IdAssignment;
use isorb::poa::{GroupError, Poa, PoaPolicies};
use isorb::rt::policy::PriorityModel::{ClientPropagated, ServerDeclared};
use isorb::rt::{Cpus, RealTimeConfig, ThreadpoolOptions};
use isorb::{Config, IntoServant, Object, Orb, Reference, TransportConfig};
use isorb_giop::{Ior, Kind};
use isorb_rt::sched::{SchedClass, ThreadSpec, current_cpus};
use isorb_testkit::wait_until;
use std::net::UdpSocket;
use std::sync::{Arc, Mutex};

const LOW: i16 = 1_000;
const HIGH: i16 = 20_000;

fn orb(cpus: Vec<usize>) -> Orb {
    let transport = TransportConfig { multicast_interface: "lo".into(), ..TransportConfig::default() };
    let real_time = RealTimeConfig { cpus, ..RealTimeConfig::default() };
    let orb = Orb::with_config(Config { transport, real_time, ..Config::default() }).unwrap();
    orb.root_poa().unwrap().manager().activate().unwrap();
    orb
}

/// A group on a port of its own.
fn url(number: u32) -> String {
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    format!("corbaloc:miop:1.0@1.0-priority-{number}/239.255.83.{number}:{free}")
}

/// Makes the object with an id a member; `false` if the loopback interface has no multicast.
fn joins(poa: &Poa, group: &Object, id: &[u8]) -> bool {
    match poa.associate_reference_with_id(group, id) {
        Ok(()) => true,
        Err(GroupError::System(error)) if error.kind == Kind::CommFailure => {
            println!("SKIPPED: {error:?}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

fn user_ids() -> PoaPolicies {
    PoaPolicies::new().id_assignment(IdAssignment::User)
}

/// Calls from a thread with this CORBA priority, if there is one.
fn feed_at(client: &Orb, group: &Object, priority: Option<i16>) {
    std::thread::scope(|scope| {
        let calls = scope.spawn(|| {
            if let Some(priority) = priority {
                client.rt_current().set_the_priority(priority).unwrap();
            }
            group.unchecked_narrow::<EchoRef>().feed(&[1]).unwrap();
        });
        calls.join().unwrap();
    });
}

/// The next upcall.
fn next(witness: &Witness) -> Run {
    let runs = Mutex::new(Vec::new());
    wait_until("the group hears", || {
        runs.lock().unwrap().extend(witness.take());
        !runs.lock().unwrap().is_empty()
    });
    let mut runs = runs.into_inner().unwrap();
    assert_eq!(runs.len(), 1);
    runs.remove(0)
}

#[test]
fn each_request_runs_on_the_lane_of_its_priority() {
    let (server, client) = (orb(Vec::new()), orb(Vec::new()));
    let rt = real_time(&server);
    let of_lane = |priority| if rt { fifo(priority) } else { SchedClass::Other };
    let lanes = [lane(LOW, 1), lane(HIGH, 1)];
    let options = ThreadpoolOptions::default();
    let pool = server.rt().create_threadpool_with_lanes(&lanes, &options).unwrap();
    let model = |model| user_ids().threadpool(pool).priority_model(model, LOW);
    let (own, sent) = (
        poa(&server, "declared", model(ServerDeclared)),
        poa(&server, "propagated", model(ClientPropagated)),
    );
    let group = client.string_to_object(&url(1)).unwrap();
    let witness = arc::<Witness>();
    sent.activate_object_with_id(b"sent", IntoServant::<EchoRef>::into_servant(witness.clone())).unwrap();
    if !joins(&sent, &group, b"sent") {
        return;
    }
    for (priority, expected) in [(Some(HIGH), HIGH), (Some(LOW), LOW), (None, LOW), (Some(HIGH), HIGH)] {
        feed_at(&client, &group, priority);
        let run = next(&witness);
        assert_eq!((run.priority, run.thread), (Some(expected), format!("pool1-{expected}")));
        assert_eq!(run.class, of_lane(expected));
    }
    // With a server-declared priority, the client's does not count.
    let group = client.string_to_object(&url(2)).unwrap();
    let high = arc::<Witness>();
    let servant = IntoServant::<EchoRef>::into_servant(high.clone());
    own.activate_object_with_id_and_priority(b"own", servant, HIGH).unwrap();
    assert!(joins(&own, &group, b"own"));
    for priority in [Some(LOW), None] {
        feed_at(&client, &group, priority);
        let run = next(&high);
        assert_eq!((run.priority, run.thread), (Some(HIGH), format!("pool1-{HIGH}")));
    }
    // Members of both kinds, and one without a pool, at one address: each by its own POA's
    // policies.
    let group = client.string_to_object(&url(3)).unwrap();
    let plain = arc::<Witness>();
    let root = server.root_poa().unwrap();
    let beside = root.create_poa("beside", Some(&root.manager()), user_ids()).unwrap();
    beside.activate_object_with_id(b"plain", IntoServant::<EchoRef>::into_servant(plain.clone())).unwrap();
    assert!(joins(&own, &group, b"own") && joins(&sent, &group, b"sent") && joins(&beside, &group, b"plain"));
    for _ in 0..2 {
        feed_at(&client, &group, Some(LOW));
        let threads = [&witness, &high, &plain].map(|witness| next(witness).thread);
        assert_eq!(threads, [format!("pool1-{LOW}"), format!("pool1-{HIGH}"), "isorb-group".into()]);
    }
    // In the class in which its thread was started, although the reader has the priority of the
    // high lane.
    feed_at(&client, &group, Some(LOW));
    assert_eq!(next(&plain).class, SchedClass::current().unwrap());
    client.shutdown(true).unwrap();
    server.shutdown(true).unwrap();
}

/// The reference of a group can have the model: with server-declared priorities, no priority is
/// sent.
#[test]
fn a_reference_says_whether_priorities_are_sent() {
    let (server, client) = (orb(Vec::new()), orb(Vec::new()));
    let pool = server.rt().create_threadpool(lane(LOW, 1), &ThreadpoolOptions::default()).unwrap();
    let policies = user_ids().threadpool(pool).priority_model(ClientPropagated, LOW);
    let poa_sent = poa(&server, "propagated", policies);
    let declared = poa(&server, "declared", PoaPolicies::new().priority_model(ServerDeclared, 77));
    let group = client.string_to_object(&url(4)).unwrap();
    let witness = arc::<Witness>();
    poa_sent.activate_object_with_id(b"a", IntoServant::<EchoRef>::into_servant(witness.clone())).unwrap();
    if !joins(&poa_sent, &group, b"a") {
        return;
    }
    feed_at(&client, &group, Some(HIGH));
    let run = next(&witness);
    assert_eq!((run.priority, &*run.thread), (Some(HIGH), &*format!("pool1-{LOW}")), "without lanes");
    // The same group, with the policies of a server-declared POA.
    let object: EchoRef = declared.activate(arc::<Witness>()).unwrap();
    let components = object.object().ior().iiop_profiles().flatten().next().unwrap().components;
    let profile = &group.ior().profiles[0];
    let mut profile = isorb_giop::miop::UipmcProfile::parse(&profile.data).unwrap();
    let policies = |component: &&isorb_giop::component::TaggedComponent| {
        component.tag == isorb_giop::component::TAG_POLICIES
    };
    profile.components.push(components.iter().find(policies).expect("the model is in the reference").clone());
    let ior = Ior { type_id: "IDL:Test/Echo:1.0".into(), profiles: vec![profile.to_tagged().unwrap()] };
    let declares = client.string_to_object(&ior.to_string()).unwrap();
    feed_at(&client, &declares, Some(HIGH));
    assert_eq!(next(&witness).priority, Some(LOW), "the priority of clients that send none");
    client.shutdown(true).unwrap();
    server.shutdown(true).unwrap();
}

struct Scene(Arc<Log>);

impl Echo for Scene {
    fn feed(&self, _: Upcall<'_>, what: &[u8]) -> Result<()> {
        if what == b"high" {
            self.0.add("high");
            return Ok(());
        }
        self.0.compute();
        Ok(())
    }
}

/// Runs the scenario on one processor; the events in their order, `None` without multicast.
fn play(cpu: usize, number: u32, flat: bool) -> Option<Vec<&'static str>> {
    let server = orb(vec![cpu]);
    if flat {
        server.rt().set_priority_mapping(Arc::new(Flat));
    }
    let lanes = [lane(LOW, 1), lane(HIGH, 1)];
    let pool = server.rt().create_threadpool_with_lanes(&lanes, &ThreadpoolOptions::default()).unwrap();
    let policies = user_ids().threadpool(pool).priority_model(ClientPropagated, LOW);
    let poa = poa(&server, "scene", policies);
    let log = Arc::new(Log::default());
    let servant = IntoServant::<EchoRef>::into_servant(Arc::new(Scene(log.clone())));
    poa.activate_object_with_id(b"scene", servant).unwrap();
    let client = orb(Vec::new());
    let group = client.string_to_object(&url(number)).unwrap();
    // The group's reader is a thread of this processor, too.
    let joining = (poa.clone(), group.clone());
    let joined = ThreadSpec::new("joins").cpus(Cpus::one(cpu));
    let joined = joined.spawn(move || joins(&joining.0, &joining.1, b"scene")).unwrap().join().unwrap();
    if !joined {
        return None;
    }
    // The clients are above all lanes, so that the server decides.
    let calls = |priority: i16, what: &'static [u8], after: Option<&'static str>| {
        let (client, group, received) = (client.clone(), group.clone(), log.clone());
        let spec = ThreadSpec::new("client").class(SchedClass::Fifo(90)).cpus(Cpus::one(cpu));
        let thread = spec.spawn(move || {
            client.rt_current().set_the_priority(priority).unwrap();
            SchedClass::Fifo(90).set_current().unwrap();
            let all: EchoRef = group.unchecked_narrow();
            after.into_iter().for_each(|event| received.wait(event));
            all.feed(what).unwrap();
        });
        thread.unwrap()
    };
    let second = calls(HIGH, b"high", Some("low begins"));
    calls(LOW, b"low", None).join().unwrap();
    second.join().unwrap();
    log.wait("low ends");
    log.wait("high");
    client.shutdown(true).unwrap();
    server.shutdown(true).unwrap();
    let events = log.events.lock().unwrap();
    Some(events.clone())
}

#[test]
fn a_high_request_to_a_group_is_served_while_a_low_one_computes() {
    let may = std::thread::spawn(|| SchedClass::Fifo(90).set_current().is_ok()).join().unwrap();
    if !may {
        return println!("skipped: no right to real-time scheduling here");
    }
    let cpu = current_cpus().unwrap().iter().next().unwrap();
    let Some(preempted) = play(cpu, 5, false) else { return };
    assert_eq!(preempted, ["low begins", "high", "low ends"]);
    let in_turn = play(cpu, 6, true).unwrap();
    assert_eq!(in_turn, ["low begins", "low ends", "high"], "the control: all lanes at one native priority");
}

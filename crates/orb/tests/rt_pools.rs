//! Thread pools: the thread and priority of a request, and the behaviour when all threads are busy.

mod common;

use common::rt::{Witness, arc, crowd, far, fifo, lane, poa, poa_of, real_time, server};
use common::{EchoRef, raw::Raw};
use isorb::poa::PoaPolicies;
use isorb::rt::policy::PriorityModel::{ClientPropagated, ServerDeclared};
use isorb::rt::{DestroyError, InvalidThreadpool, LocalCalls, ThreadpoolOptions};
use isorb::{Config, Kind, Orb, Reference};
use isorb_giop::lane_endpoints::{self, LaneEndpoint};
use isorb_rt::sched::SchedClass;
use isorb_testkit::wait_until;

fn lanes_of(object: &EchoRef) -> Vec<LaneEndpoint> {
    let profile = object.object().ior().iiop_profiles().flatten().next().unwrap();
    let list = profile.components.iter().find_map(|component| lane_endpoints::read(0, component));
    let endpoints = list.map(Result::unwrap).unwrap_or_default();
    if let Some(first) = endpoints.first() {
        assert_eq!(
            (&first.address, first.port),
            (&profile.host, profile.port),
            "the profile's own comes first"
        );
    }
    endpoints
}

#[test]
fn each_lane_serves_its_objects_at_its_priority() {
    let (server, client) = (server(), Orb::with_config(Config::default()).unwrap());
    let lanes = [lane(20_000, 1), lane(1_000, 2)];
    let pool = server.rt().create_threadpool_with_lanes(&lanes, &ThreadpoolOptions::default()).unwrap();
    let policies = PoaPolicies::new().threadpool(pool).priority_model(ServerDeclared, 1_000);
    let poa = poa(&server, "declared", policies);
    let witness = arc::<Witness>();
    let low: EchoRef = poa.activate(witness.clone()).unwrap();
    let high: EchoRef = poa.activate_with_priority(arc::<Witness>(), 20_000).unwrap();
    let high_witness = poa.reference_to_servant(high.object()).unwrap().downcast::<Witness>().unwrap();
    assert_eq!(lanes_of(&low).iter().map(|lane| lane.priority).collect::<Vec<_>>(), [1_000]);
    assert_eq!(lanes_of(&high).iter().map(|lane| lane.priority).collect::<Vec<_>>(), [20_000]);
    assert_ne!(lanes_of(&low)[0].port, lanes_of(&high)[0].port);
    let (far_low, far_high) = (far(&client, &low), far(&client, &high));
    for _ in 0..3 {
        far_low.ping().unwrap();
        far_high.ping().unwrap();
    }
    let rt = real_time(&server);
    for (witness, priority, name) in [(&witness, 1_000, "pool1-1000"), (&high_witness, 20_000, "pool1-20000")]
    {
        let runs = witness.take();
        assert_eq!(runs.len(), 3);
        for run in runs {
            assert_eq!((run.priority, &*run.thread), (Some(priority), name));
            assert_eq!(run.class, if rt { fifo(priority) } else { SchedClass::Other });
        }
    }
    // The ORB's own endpoint knows the object as well: its thread takes the lane's priority for the
    // upcall.
    let (_, port) = server.endpoint_addresses()[0].clone();
    assert_eq!(Raw::connect_at(high.object(), port).call("ping", &[]).status, 0);
    let run = high_witness.take().pop().unwrap();
    assert_eq!((run.priority, &*run.thread), (Some(20_000), "isorb-conn"));
    assert_eq!(run.class, if rt { fifo(20_000) } else { SchedClass::Other });
    server.shutdown(true).unwrap();
}

#[test]
fn clients_choose_the_lane_where_they_propagate() {
    let server = server();
    let lanes = [lane(100, 1), lane(200, 1), lane(300, 1)];
    let pool = server.rt().create_threadpool_with_lanes(&lanes, &ThreadpoolOptions::default()).unwrap();
    let policies = PoaPolicies::new().threadpool(pool).priority_model(ClientPropagated, 200);
    let poa = poa(&server, "propagated", policies);
    let witness = arc::<Witness>();
    let object: EchoRef = poa.activate(witness.clone()).unwrap();
    let lanes = lanes_of(&object);
    assert_eq!(lanes.iter().map(|lane| lane.priority).collect::<Vec<_>>(), [200, 100, 300]);
    let mut raw = Raw::connect_at(object.object(), lanes[2].port);
    let context = isorb_giop::context::rt_corba_priority(290);
    assert_eq!(raw.call("ping", &[(10, &context)]).status, 0);
    let run = witness.take().pop().unwrap();
    assert_eq!((run.priority, &*run.thread), (Some(290), "pool1-300"));
    if real_time(&server) {
        assert_eq!(run.class, fifo(300), "the thread stays at its lane's");
    }
    server.shutdown(true).unwrap();
}

#[test]
fn without_lanes_the_upcall_takes_the_priority_of_its_request() {
    let (server, client) = (server(), Orb::with_config(Config::default()).unwrap());
    let pool = server.rt().create_threadpool(lane(500, 1), &ThreadpoolOptions::default()).unwrap();
    let policies = PoaPolicies::new().threadpool(pool).priority_model(ServerDeclared, 3_000);
    let poa = poa(&server, "no lanes", policies);
    let (witness, other) = (arc::<Witness>(), arc::<Witness>());
    let object: EchoRef = poa.activate(witness.clone()).unwrap();
    let urgent: EchoRef = poa.activate_with_priority(other.clone(), 9_000).unwrap();
    assert_eq!(lanes_of(&object), []);
    let rt = real_time(&server);
    for _ in 0..2 {
        far(&client, &object).ping().unwrap();
        far(&client, &urgent).ping().unwrap();
    }
    for (witness, priority) in [(&witness, 3_000), (&other, 9_000)] {
        for run in witness.take() {
            assert_eq!((run.priority, &*run.thread), (Some(priority), "pool1-500"));
            assert_eq!(run.class, if rt { fifo(priority) } else { SchedClass::Other });
        }
    }
    // A POA of the pool without priority policies runs at the default priority.
    let plain = arc::<Witness>();
    let object: EchoRef = poa_of(&server, "plain", pool).activate(plain.clone()).unwrap();
    far(&client, &object).ping().unwrap();
    let run = plain.take().pop().unwrap();
    assert_eq!(run.priority, Some(500));
    assert_eq!(run.class, if rt { fifo(500) } else { SchedClass::Other });
    server.shutdown(true).unwrap();
}

#[test]
fn a_call_inside_the_process_takes_the_priority_too() {
    for local_calls in [LocalCalls::Lane, LocalCalls::Caller] {
        let server = server();
        let lanes = [lane(100, 1), lane(10_000, 1)];
        let options = ThreadpoolOptions { local_calls: Some(local_calls), ..ThreadpoolOptions::default() };
        let pool = server.rt().create_threadpool_with_lanes(&lanes, &options).unwrap();
        let policies = PoaPolicies::new().threadpool(pool).priority_model(ServerDeclared, 10_000);
        let poa = poa(&server, "collocated", policies);
        let (witness, nested) = (arc::<Witness>(), arc::<Witness>());
        let object: EchoRef = poa.activate(witness.clone()).unwrap();
        let low: EchoRef = poa.activate_with_priority(nested.clone(), 100).unwrap();
        let before = SchedClass::current().unwrap();
        assert_eq!(object.call_back(Some(&low)).unwrap(), "called");
        assert_eq!(SchedClass::current().unwrap(), before, "and gives it back");
        let rt = real_time(&server);
        for (witness, priority) in [(&witness, 10_000), (&nested, 100)] {
            let run = witness.take().pop().unwrap();
            let thread = match local_calls {
                LocalCalls::Lane => format!("pool{pool}-{priority}"),
                LocalCalls::Caller => std::thread::current().name().unwrap().to_owned(),
            };
            assert_eq!((run.priority, run.thread), (Some(priority), thread));
            assert_eq!(run.class, if rt { fifo(priority) } else { SchedClass::Other });
        }
        server.shutdown(true).unwrap();
    }
}

#[test]
fn pools_are_refused_and_destroyed() {
    let server = server();
    let rt = server.rt();
    let options = ThreadpoolOptions::default();
    assert_eq!(rt.create_threadpool(lane(0, 0), &options).unwrap_err().kind, Kind::BadParam);
    assert_eq!(rt.create_threadpool(lane(-1, 1), &options).unwrap_err().kind, Kind::BadParam);
    assert_eq!(rt.create_threadpool_with_lanes(&[], &options).unwrap_err().kind, Kind::BadParam);
    let twice = [lane(3, 1), lane(3, 1)];
    assert_eq!(rt.create_threadpool_with_lanes(&twice, &options).unwrap_err().kind, Kind::BadParam);
    assert_eq!(rt.destroy_threadpool(77), Err(DestroyError::InvalidThreadpool));
    assert_eq!(rt.threadpool_status(77), Err(InvalidThreadpool));

    let pool = rt.create_threadpool(lane(77, 2), &options).unwrap();
    let (_, clients) = crowd(&server, pool, "in use", 1);
    clients[0].ping().unwrap();
    assert_eq!(threads_of("pool1-77"), 2);
    let Err(DestroyError::System(used)) = rt.destroy_threadpool(pool) else { panic!("it is in use") };
    assert_eq!(used.kind, Kind::BadInvOrder);
    server.root_poa().unwrap().find_poa("in use", false).unwrap().destroy(true, true).unwrap();
    rt.destroy_threadpool(pool).unwrap();
    assert_eq!(rt.destroy_threadpool(pool), Err(DestroyError::InvalidThreadpool));
    wait_until("its threads ended", || threads_of("pool1-77") == 0);
    assert!(matches!(clients[0].ping().unwrap_err().kind, Kind::Transient | Kind::CommFailure));
    server.shutdown(true).unwrap();
    assert_eq!(rt.create_threadpool(lane(0, 1), &options).unwrap_err().kind, Kind::BadInvOrder);
}

/// Threads of this process with this name, which only the calling test's pool uses.
fn threads_of(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let named = tasks.filter(|task| {
        std::fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == name)
    });
    named.count()
}

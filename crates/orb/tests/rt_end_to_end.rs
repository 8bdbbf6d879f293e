//! Priorities from a client's thread to a lane, and on to nested calls of the servant.

mod common;

use common::EchoRef;
use common::rt::{Witness, arc, far, fifo, lane, poa, real_time, server};
use isorb::poa::PoaPolicies;
use isorb::rt::ThreadpoolOptions;
use isorb::rt::policy::PriorityBand;
use isorb::rt::policy::PriorityModel::{ClientPropagated, ServerDeclared};
use isorb::{Config, Kind, Orb, minor};
use isorb_rt::sched::SchedClass;

/// Runs `f` on a thread of its own, because it sets priorities.
fn apart(f: impl FnOnce() + Send + 'static) {
    std::thread::spawn(f).join().unwrap();
}

#[test]
fn the_callers_priority_finds_its_lane() {
    apart(|| {
        let (server, client) = (server(), Orb::with_config(Config::default()).unwrap());
        let lanes = [lane(100, 1), lane(200, 1), lane(300, 1)];
        let pool = server.rt().create_threadpool_with_lanes(&lanes, &ThreadpoolOptions::default()).unwrap();
        let policies = PoaPolicies::new().threadpool(pool).priority_model(ClientPropagated, 100);
        let witness = arc::<Witness>();
        let object: EchoRef = poa(&server, "propagated", policies).activate(witness.clone()).unwrap();
        let object = far(&client, &object);
        let rt = real_time(&server);
        for priority in [300, 100, 200, 300] {
            client.rt_current().set_the_priority(priority).unwrap();
            object.ping().unwrap();
            let run = witness.take().pop().unwrap();
            assert_eq!((run.priority, run.thread), (Some(priority), format!("pool1-{priority}")));
            assert_eq!(run.class, if rt { fifo(priority) } else { SchedClass::Other });
        }
        client.rt_current().set_the_priority(250).unwrap();
        let refused = object.ping().unwrap_err();
        assert_eq!((refused.kind, refused.minor), (Kind::NoResources, minor::NO_RESOURCES_PRIORITY));
        server.shutdown(true).unwrap();
    });
}

#[test]
fn bands_lead_to_the_lane_that_they_cover() {
    apart(|| {
        let (server, client) = (server(), Orb::with_config(Config::default()).unwrap());
        let lanes = [lane(100, 1), lane(300, 1)];
        let pool = server.rt().create_threadpool_with_lanes(&lanes, &ThreadpoolOptions::default()).unwrap();
        let bands = [PriorityBand { low: 0, high: 200 }, PriorityBand { low: 201, high: 400 }];
        let policies =
            PoaPolicies::new().threadpool(pool).priority_model(ClientPropagated, 100).priority_bands(bands);
        let witness = arc::<Witness>();
        let object: EchoRef = poa(&server, "banded", policies).activate(witness.clone()).unwrap();
        let object = far(&client, &object);
        for (priority, lane) in [(50, 100), (400, 300), (200, 100), (201, 300)] {
            client.rt_current().set_the_priority(priority).unwrap();
            object.ping().unwrap();
            let run = witness.take().pop().unwrap();
            assert_eq!((run.priority, run.thread), (Some(priority), format!("pool1-{lane}")));
        }
        let connections: Vec<_> =
            server.rt().threadpool_status(pool).unwrap().iter().map(|lane| lane.connections).collect();
        assert_eq!(connections, [1, 1], "one a band");
        server.shutdown(true).unwrap();
    });
}

#[test]
fn a_priority_goes_on_through_servants() {
    apart(|| {
        let (middle, last) = (server(), server());
        let pool = last.rt().create_threadpool(lane(1, 1), &ThreadpoolOptions::default()).unwrap();
        let policies = PoaPolicies::new().threadpool(pool).priority_model(ClientPropagated, 1);
        let end = arc::<Witness>();
        let end_object: EchoRef = poa(&last, "end", policies).activate(end.clone()).unwrap();
        let pool = middle.rt().create_threadpool(lane(2, 1), &ThreadpoolOptions::default()).unwrap();
        let policies = PoaPolicies::new().threadpool(pool).priority_model(ServerDeclared, 700);
        let witness = arc::<Witness>();
        let object: EchoRef = poa(&middle, "middle", policies).activate(witness.clone()).unwrap();
        let client = Orb::with_config(Config::default()).unwrap();
        let (object, end_object) = (far(&client, &object), far(&client, &end_object));
        assert_eq!(object.call_back(Some(&end_object)).unwrap(), "called");
        assert_eq!(witness.take()[0].priority, Some(700));
        let run = end.take().pop().unwrap();
        assert_eq!(run.priority, Some(700), "the upcall's, not the thread's nor the client's");
        middle.shutdown(true).unwrap();
        last.shutdown(true).unwrap();
    });
}

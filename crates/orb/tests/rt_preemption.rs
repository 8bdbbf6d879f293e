//! Lanes on one processor: a request of the low lane computes when one of the high lane arrives.
//!
//! The test asserts an order of events, not a time: the high request is served while the low one
//! runs. The same scenario with both priorities mapped to one must end in the other order, which
//! proves that the test can distinguish them.

mod common;

use common::rt::{Flat, Log, far, lane, poa, server_with};
use common::{Echo, EchoRef};
use isorb::generated::*;
use isorb::poa::PoaPolicies;
use isorb::rt::policy::PriorityModel::ServerDeclared;
use isorb::rt::{Cpus, RealTimeConfig, RequestBuffering, ThreadpoolLane, ThreadpoolOptions};
use isorb::{Config, Orb};
use isorb_rt::sched::{SchedClass, ThreadSpec, current_cpus};
use std::sync::Arc;

struct Scene(Arc<Log>);

impl Echo for Scene {
    fn ping(&self, _: Upcall<'_>) -> Result<()> {
        self.0.add("high");
        Ok(())
    }
    fn sleep(&self, _: Upcall<'_>, _: u32) -> Result<u32> {
        self.0.compute();
        Ok(0)
    }
}

const LOW: i16 = 1_000;
const HIGH: i16 = 20_000;

/// Runs the scenario; the events in their order.
fn play(cpu: usize, flat: bool, lanes: Vec<ThreadpoolLane>, options: ThreadpoolOptions) -> Vec<&'static str> {
    let real_time = RealTimeConfig { cpus: vec![cpu], ..RealTimeConfig::default() };
    let server = server_with(Config { real_time, ..Config::default() });
    if flat {
        server.rt().set_priority_mapping(Arc::new(Flat));
    }
    let pool = server.rt().create_threadpool_with_lanes(&lanes, &options).unwrap();
    let policies = PoaPolicies::new().threadpool(pool).priority_model(ServerDeclared, LOW);
    let poa = poa(&server, "scene", policies);
    let log = Arc::new(Log::default());
    let low: EchoRef = poa.activate(Arc::new(Scene(log.clone()))).unwrap();
    let high: EchoRef = poa.activate_with_priority(Arc::new(Scene(log.clone())), HIGH).unwrap();
    let client = |object: &EchoRef| {
        let object = far(&Orb::with_config(Config::default()).unwrap(), object);
        object.text("connects").unwrap();
        object
    };
    let (low, high) = (client(&low), client(&high));
    // The clients are above all lanes, so that the server decides.
    let spec = |name: &str| ThreadSpec::new(name).class(SchedClass::Fifo(90)).cpus(Cpus::one(cpu));
    let received = log.clone();
    let second = spec("high-client").spawn(move || {
        received.wait("low begins");
        high.ping().unwrap();
    });
    let first = spec("low-client").spawn(move || low.sleep(0).unwrap());
    second.unwrap().join().unwrap();
    first.unwrap().join().unwrap();
    server.shutdown(true).unwrap();
    let events = log.events.lock().unwrap();
    events.clone()
}

#[test]
fn a_high_request_is_served_while_a_low_one_computes() {
    let may = std::thread::spawn(|| SchedClass::Fifo(90).set_current().is_ok()).join().unwrap();
    if !may {
        return println!("skipped: no right to real-time scheduling here");
    }
    let cpu = current_cpus().unwrap().iter().next().unwrap();
    let lanes = || vec![lane(LOW, 1), lane(HIGH, 1)];
    let buffered = || ThreadpoolOptions {
        buffering: Some(RequestBuffering::default()),
        allow_borrowing: true,
        ..ThreadpoolOptions::default()
    };
    let preempted = ["low begins", "high", "low ends"];
    assert_eq!(play(cpu, false, lanes(), ThreadpoolOptions::default()), preempted);
    assert_eq!(play(cpu, false, lanes(), buffered()), preempted, "with a look-out, too");
    let in_turn = ["low begins", "low ends", "high"];
    assert_eq!(play(cpu, true, lanes(), ThreadpoolOptions::default()), in_turn, "the control");
}

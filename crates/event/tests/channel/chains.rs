//! Chains of consumers: admitted as a whole, and checked in virtual time.

use crate::common::*;
use isorb_event::{
    AsDeclared, Channel, ConnectError, ConsumerQos, Event, Filter, Priority, ProxyPushConsumer,
    ProxyPushSupplier, Quality, RunTimeScheduler, Scheduled, Strategy, SubPriority, VirtualClock,
};
use isorb_sched::graph::{Call, Dependency, Operation};
use isorb_sched::{Graph, Nanos, Order, Plan, Policy, Preemption, RuntimeScheduler};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const RADAR: i32 = 20;
const SENSOR: i32 = 30;
const MS: u64 = 1_000_000;

/// sensor -> fuse -> show, and the deadline of the last from the arrival at the first, in
/// milliseconds.
fn chain(costs: [u64; 3], deadline: u64) -> Graph {
    let mut graph = Graph::new();
    let mut before = None;
    for (name, cost) in ["sensor", "fuse", "show"].into_iter().zip(costs) {
        let mut operation = Operation::new(name);
        operation.worst = Nanos::from_ms(cost);
        operation.deadline = Some(Nanos::from_ms(deadline));
        match before {
            None => operation.period = Nanos::from_ms(100),
            Some(on) => operation.dependencies = vec![Dependency { on, call: Call::OneWay, times: 1 }],
        }
        before = Some(graph.add(operation).unwrap());
    }
    graph
}

fn scheduled() -> Scheduled {
    scheduled_by(Policy::RateMonotonic)
}

fn scheduled_by(policy: Policy) -> Scheduled {
    let levels = [Nanos::from_ms(20), Nanos::from_ms(100)];
    let plan = Plan::with_levels(policy, &levels, 1..=10).unwrap();
    // One thread serves, without pre-emption.
    Scheduled::new(RuntimeScheduler::new(plan.preemption(Preemption::None)))
}

fn radar(cost: u64) -> Quality {
    let time = |ms| Some(Duration::from_millis(ms));
    Quality { worst_case: time(cost), period: time(20), ..Quality::default() }
}

/// A processor that the channel's consumers share, with a radar every 20 ms and a sensor every 100
/// ms.
struct World {
    clock: Arc<VirtualClock>,
    supplier: OnceLock<ProxyPushConsumer>,
    ms: AtomicU64,
    /// The worst time from the sensor's event to the end of the chain.
    longest: AtomicU64,
}

impl World {
    /// A millisecond passes, whichever consumer computes.
    fn tick(&self) {
        let now = self.ms.fetch_add(1, Ordering::SeqCst) + 1;
        self.clock.advance(MS);
        self.arrive(now);
    }

    fn arrive(&self, now: u64) {
        let supplier = self.supplier.get().unwrap();
        if now.is_multiple_of(20) {
            supplier.push(&event(RADAR, 1, now));
        }
        if now.is_multiple_of(100) {
            supplier.push(&event(SENSOR, 1, now));
        }
    }

    fn run(&self, channel: &Channel, until: u64) {
        self.arrive(0);
        while self.ms.load(Ordering::SeqCst) < until {
            if !channel.step() {
                self.tick();
            }
        }
    }
}

/// A consumer that computes for a time, then pushes the next type.
fn connect(
    channel: &Channel,
    world: &Arc<World>,
    name: &str,
    takes: i32,
    cost: u64,
    quality: Quality,
) -> Result<ProxyPushSupplier, ConnectError> {
    let world = world.clone();
    let consumer = move |events: &[Event<'_>]| {
        (0..cost).for_each(|_| world.tick());
        let Event { header, .. } = events[0];
        if header.event_type >= SENSOR {
            let age = world.ms.load(Ordering::SeqCst) - header.creation_time;
            world.longest.fetch_max(if takes == SENSOR + 2 { age } else { 0 }, Ordering::SeqCst);
            world.supplier.get().unwrap().push(&event(takes + 1, 1, header.creation_time));
        }
    };
    let qos = ConsumerQos::new(name, Filter::of_type(takes)).quality(quality);
    channel.for_consumers().connect(Arc::new(consumer), qos)
}

/// Runs a radar and the chain under a scheduler. Returns the worst end-to-end time and the number
/// of missed deadlines.
fn fly(
    scheduler: Arc<dyn RunTimeScheduler>,
    levels: Vec<Priority>,
    radar: u64,
    chain: [u64; 3],
    qualities: [Quality; 4],
) -> (u64, u64) {
    let config = Channel::builder()
        .strategy(Strategy::ByHand { upcalls: false })
        .levels(levels)
        .scheduler(scheduler)
        .counting(true);
    let (channel, clock) = still(config);
    let world = Arc::new(World {
        clock,
        supplier: OnceLock::new(),
        ms: AtomicU64::new(0),
        longest: AtomicU64::new(0),
    });
    assert!(world.supplier.set(channel.for_suppliers().connect().unwrap()).is_ok());
    let [first, rest @ ..] = qualities;
    let mut consumers = vec![connect(&channel, &world, "radar", RADAR, radar, first).unwrap()];
    for (((name, takes), cost), quality) in
        ["sensor", "fuse", "show"].into_iter().zip(SENSOR..).zip(chain).zip(rest)
    {
        consumers.push(connect(&channel, &world, name, takes, cost, quality).unwrap());
    }
    world.run(&channel, 5_000);
    let missed = consumers.iter().map(|consumer| consumer.counts().missed).sum();
    (world.longest.load(Ordering::SeqCst), missed)
}

#[test]
fn an_admitted_chain_keeps_its_deadline_from_end_to_end() {
    for policy in Policy::ALL {
        let scheduled = Arc::new(scheduled_by(policy));
        let costs = [2, 3, 5];
        scheduled.admit_graph(&chain(costs, 80)).unwrap();
        let levels = scheduled.levels();
        let qualities = [radar(5), Quality::default(), Quality::default(), Quality::default()];
        let (longest, missed) = fly(scheduled, levels, 5, costs, qualities);
        assert_eq!(missed, 0, "{policy}");
        assert!((10..=80).contains(&longest), "{policy}: {longest} ms");
    }
}

/// The control: a refused chain that is forced in misses its deadline, in any order of service.
#[test]
fn a_refused_chain_that_is_forced_in_misses() {
    for policy in Policy::ALL {
        let scheduled = scheduled_by(policy);
        let (costs, deadline) = ([4, 5, 6], 30);
        let (placed, _) = scheduled.admit("radar", &radar(12)).unwrap();
        let refusal = scheduled.admit_graph(&chain(costs, deadline)).unwrap_err().to_string();
        assert!(refusal.contains("sensor -> fuse -> show cannot be admitted as a whole"), "{refusal}");
        assert!(refusal.contains(" ms") && refusal.contains("over its deadline"), "{refusal}");
        let urgent = Quality { priority: placed.priority, sub_priority: placed.sub_priority, ..radar(12) };
        let urgent = Quality { deadline: placed.deadline, ..urgent };
        // Shares of the deadline in proportion to costs. In order of arrival the radar's level is
        // first.
        let stage = |deadline: u64| Quality {
            priority: match policy.order() {
                Order::Arrival => Priority::MIN,
                Order::Deadline | Order::Laxity => placed.priority,
            },
            sub_priority: placed.sub_priority,
            deadline: Some(Duration::from_millis(deadline)),
            ..Quality::default()
        };
        let qualities = [urgent, stage(8), stage(10), stage(12)];
        let (longest, missed) = fly(Arc::new(AsDeclared), scheduled.levels(), 12, costs, qualities);
        assert!(longest > deadline || missed > 0, "{policy}: {longest} ms");
    }
}

/// The deadlines of stages count from their own events and determine their order.
#[test]
fn stages_are_queued_by_the_policy() {
    for (policy, queued) in [
        (Policy::RateMonotonic, None),
        (Policy::EarliestDeadline, Some(SubPriority::Deadline)),
        (Policy::MinimumLaxity, Some(SubPriority::Laxity)),
        (Policy::MaximumUrgency, Some(SubPriority::Laxity)),
    ] {
        let scheduled = scheduled_by(policy);
        scheduled.admit_graph(&chain([2, 3, 5], 80)).unwrap();
        let (placement, _) = scheduled.admit("fuse", &Quality::default()).unwrap();
        assert_eq!(placement.deadline, Some(Duration::from_millis(24)), "{policy}");
        match queued {
            Some(queued) => assert_eq!(placement.sub_priority, queued, "{policy}"),
            None => assert!(matches!(placement.sub_priority, SubPriority::Static(_)), "{policy}"),
        }
    }
}

#[test]
fn a_chain_slot_admits_one_consumer_within_its_promise() {
    let scheduled = scheduled();
    let id = scheduled.admit_graph(&chain([2, 3, 5], 80)).unwrap();
    assert!(scheduled.admit_graph(&chain([1, 1, 1], 80)).unwrap_err().to_string().contains("sensor"));
    let worst_case =
        |worst: u64| Quality { worst_case: Some(Duration::from_millis(worst)), ..Quality::default() };
    let too_much = scheduled.admit("fuse", &worst_case(4)).unwrap_err().to_string();
    assert!(too_much.contains("fuse") && too_much.contains("4ms") && too_much.contains("3ms"), "{too_much}");
    let early = Quality { deadline: Some(Duration::from_millis(1)), ..Quality::default() };
    assert!(scheduled.admit("fuse", &early).unwrap_err().to_string().contains("1ms"));
    let often = Quality { period: Some(Duration::from_millis(50)), ..Quality::default() };
    assert!(scheduled.admit("fuse", &often).unwrap_err().to_string().contains("100ms"));
    let (placement, number) = scheduled.admit("fuse", &worst_case(3)).unwrap();
    // 2, 5 and 10 of 10 parts of 80 ms: between 16 and 40.
    assert_eq!(placement.deadline, Some(Duration::from_millis(24)));
    assert_eq!(placement.worst_case, Some(Duration::from_millis(3)));
    assert!(scheduled.admit("fuse", &worst_case(3)).unwrap_err().to_string().contains("already"));
    assert!(!scheduled.withdraw(id), "a consumer is connected");
    scheduled.leave(number);
    let again = scheduled.admit("fuse", &worst_case(3)).unwrap().1;
    scheduled.leave(again);
    assert!(scheduled.withdraw(id) && !scheduled.withdraw(id));
    assert!(scheduled.admit_graph(&chain([1, 1, 1], 80)).is_ok(), "the names are free again");
}

#[test]
fn a_consumer_that_would_break_a_chain_is_refused() {
    let scheduled = scheduled();
    let id = scheduled.admit_graph(&chain([2, 3, 5], 80)).unwrap();
    let refusal = scheduled.admit("radar", &radar(15)).unwrap_err().to_string();
    assert!(refusal.starts_with("radar cannot be admitted: "), "{refusal}");
    assert!(scheduled.withdraw(id));
    assert!(scheduled.admit("radar", &radar(15)).is_ok());
}

#[test]
fn a_graph_with_too_many_paths_is_refused_without_a_trace() {
    let mut graph = Graph::new();
    let first = Operation { worst: Nanos::new(1), period: Nanos::from_ms(100), ..Operation::new("op0") };
    let mut on = graph.add(first).unwrap();
    for at in 1..=30 {
        let twice = vec![Dependency { on, call: Call::OneWay, times: 1 }; 2];
        let operation =
            Operation { worst: Nanos::new(1), dependencies: twice, ..Operation::new(format!("op{at}")) };
        on = graph.add(operation).unwrap();
    }
    let scheduled = scheduled();
    let why = scheduled.admit_graph(&graph).unwrap_err().to_string();
    assert!(why.starts_with("op14: 16384 streams release it"), "{why}");
    assert!(scheduled.admit_graph(&chain([2, 3, 5], 80)).is_ok(), "nothing is left of it");
}

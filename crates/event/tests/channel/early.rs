//! Pushes that arrive sooner than their consumer declared are counted and delivered; in virtual
//! time.

use crate::common::*;
use isorb_event::{
    Channel, ConnectError, ConsumerQos, Filter, Overflow, Quality, Scheduled, Strategy, VirtualClock,
};
use isorb_sched::graph::{Call, Dependency, Graph, Operation};
use isorb_sched::{Nanos, Plan, Policy, Preemption, RuntimeScheduler};
use std::sync::Arc;
use std::time::Duration;

const MS: u64 = 1_000_000;

fn every(period: u64, jitter: u64) -> Quality {
    let ms = Duration::from_millis;
    Quality { period: Some(ms(period)), jitter: ms(jitter), ..Quality::default() }
}

/// Pushes after these milliseconds each; served as they arrive, or all at the end.
fn pushes(channel: &Channel, clock: &VirtualClock, pauses: &[u64], serve: bool) {
    let supplier = channel.for_suppliers().connect().unwrap();
    for pause in pauses {
        clock.advance(pause * MS);
        supplier.push(&event(20, 0, 0));
        while serve && channel.step() {}
    }
    while channel.step() {}
}

#[test]
fn early_pushes_are_counted_under_any_dispatching() {
    let cases: [(Quality, &[u64], u64); 5] = [
        (every(10, 0), &[0, 10, 10, 12, 10], 0),
        (every(10, 0), &[0, 5, 5, 5, 5, 5, 5], 3),
        (every(10, 0), &[0, 12, 8, 10], 1),
        (every(10, 3), &[0, 12, 8, 7, 10], 1),
        (Quality::default(), &[0, 0, 0], 0),
    ];
    for strategy in [Strategy::Direct, Strategy::ByHand { upcalls: false }] {
        for (number, (quality, pauses, early)) in cases.iter().enumerate() {
            // Served later, they are still counted by their arrival.
            for serve in [true, false] {
                let (channel, clock) = still(Channel::builder().strategy(strategy));
                let log = Log::default();
                let proxy = log.connect(&channel, wants(Filter::of(20, 0)).quality(quality.clone()));
                pushes(&channel, &clock, pauses, serve);
                let counted = (proxy.counts().early, log.take().len());
                assert_eq!(counted, (*early, pauses.len()), "{strategy:?}, case {number}, {serve}");
            }
        }
    }
}

#[test]
fn early_counts_pushes_including_lost_ones() {
    let by_hand = || still(Channel::builder().strategy(Strategy::ByHand { upcalls: false }));
    // Two events are one push.
    let (channel, clock) = by_hand();
    let both = Filter::all_of([Filter::of(20, 0), Filter::of(21, 0)]);
    let proxy = Log::default().connect(&channel, wants(both).quality(every(10, 0)));
    let supplier = channel.for_suppliers().connect().unwrap();
    for _ in 0..2 {
        supplier.push(&event(20, 0, 0));
        supplier.push(&event(21, 0, 0));
        clock.advance(10 * MS);
    }
    assert_eq!((proxy.counts().queued, proxy.counts().early), (2, 0));
    // A time-out is a push too.
    let (channel, clock) = by_hand();
    let often = wants(Filter::interval(Duration::from_millis(4))).quality(every(10, 0));
    let proxy = Log::default().connect(&channel, often);
    for _ in 0..5 {
        clock.advance(4 * MS);
        channel.expire();
    }
    assert_eq!((proxy.counts().timeouts, proxy.counts().early), (5, 3), "at 4 and 16 they are not");
    // A push that finds no room was too early all the same.
    let (channel, clock) = by_hand();
    let full = Quality { queue: 1, overflow: Overflow::DropNewest, ..every(10, 0) };
    let proxy = Log::default().connect(&channel, wants(Filter::of(20, 0)).quality(full));
    pushes(&channel, &clock, &[0, 5, 5], false);
    assert_eq!((proxy.counts().dropped, proxy.counts().early), (2, 1));
}

fn scheduled() -> Arc<Scheduled> {
    let plan = Plan::with_levels(Policy::RateMonotonic, &[10, 100].map(Nanos::from_ms), 1..=100).unwrap();
    Arc::new(Scheduled::new(RuntimeScheduler::new(plan.preemption(Preemption::None))))
}

fn channel(scheduler: &Arc<Scheduled>) -> (Channel, Arc<VirtualClock>) {
    let (levels, scheduler) = (scheduler.levels(), scheduler.clone());
    still(
        Channel::builder().strategy(Strategy::ByHand { upcalls: false }).levels(levels).scheduler(scheduler),
    )
}

/// Jitter lets pushes arrive close together, and so uses capacity.
#[test]
fn admission_accounts_for_the_declared_jitter() {
    let scheduler = scheduled();
    let (channel, clock) = channel(&scheduler);
    let connect = |name: &str, quality: Quality| {
        let qos = ConsumerQos::new(name, Filter::of(20, 0)).quality(quality);
        channel.for_consumers().connect(Log::default().consumer(), qos)
    };
    let fast = |jitter| Quality {
        worst_case: Some(Duration::from_millis(6)),
        deadline: Some(Duration::from_millis(30)),
        ..every(10, jitter)
    };
    let slow = Quality {
        worst_case: Some(Duration::from_millis(10)),
        deadline: Some(Duration::from_millis(20)),
        ..every(40, 0)
    };
    let first = connect("fast", fast(5)).unwrap();
    // Without jitter one job of the fast task is before it. With jitter the next may arrive 5 ms
    // later, and is before it too.
    let Err(ConnectError::NotAdmitted(why)) = connect("slow", slow.clone()) else { panic!("admitted") };
    assert!(why.to_string().contains("slow cannot be admitted: it would take at least 22 ms"), "{why}");
    pushes(&channel, &clock, &[0, 6, 4, 6], true);
    assert_eq!(
        first.counts().early,
        1,
        "one may come 6 ms after another, the one after it no sooner than 15 ms after the first"
    );
    drop(first);
    let second = connect("fast", fast(0)).unwrap();
    let _slow = connect("slow", slow).unwrap();
    pushes(&channel, &clock, &[0, 6, 4, 6], true);
    assert_eq!(second.counts().early, 2);
}

/// A consumer of a chain declares nothing: its pushes may be as late as those before it allow.
#[test]
fn a_chain_slot_has_the_chains_period() {
    let after = |on| vec![Dependency { on, call: Call::OneWay, times: 1 }];
    let mut graph = Graph::new();
    let operation = |name: &str, worst| Operation { worst: Nanos::from_ms(worst), ..Operation::new(name) };
    let sensor = graph.add(Operation { period: Nanos::from_ms(100), ..operation("sensor", 8) }).unwrap();
    let show = Operation { dependencies: after(sensor), ..operation("show", 5) };
    graph.add(show).unwrap();
    let scheduler = scheduled();
    scheduler.admit_graph(&graph).unwrap();
    let (channel, clock) = channel(&scheduler);
    let proxy = Log::default().connect(&channel, ConsumerQos::new("show", Filter::of(20, 0)));
    // Of the 100 ms the sensor has 61 for its 8. It may end at that time once, and immediately
    // after its release the next time.
    pushes(&channel, &clock, &[61, 39, 100], true);
    assert_eq!(proxy.counts().early, 0);
    pushes(&channel, &clock, &[38], true);
    assert_eq!(proxy.counts().early, 1);
}

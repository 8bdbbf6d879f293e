//! After the first round, an event costs no allocation: not directly, not through queues, conjunctions and time-outs.

use crate::common::*;
use isorb_event::{Config, Configuration, Event, Filter, Quality, Strategy, SubPriority};
use isorb_rt::alloc_count::allocations_during;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn rounds(config: Config) {
    let (channel, clock) = still(Config { trace: true, latencies: true, ..config });
    let pushes = Arc::new(AtomicU64::new(0));
    let connect = |filter: Filter, quality: Quality| {
        let pushes = pushes.clone();
        let consumer = move |_: &[Event<'_>]| {
            pushes.fetch_add(1, Ordering::Relaxed);
        };
        channel.for_consumers().connect(Arc::new(consumer), wants(filter).quality(quality)).unwrap()
    };
    let timed = Quality {
        deadline: Some(Duration::from_millis(1)),
        worst_case: Some(Duration::from_millis(1)),
        sub_priority: SubPriority::Laxity,
        ..Quality::default()
    };
    let _c = [
        connect(Filter::of(20, 1), Quality::default()),
        connect(Filter::any_of([Filter::of_type(20), Filter::from_source(1)]), timed.clone()),
        connect(Filter::all_of([Filter::of(20, 1), Filter::of(21, 1), Filter::of(22, 1)]), timed.clone()),
        connect(Filter::all_of((0..9).map(|i| Filter::of(20 + i, 1))), timed),
        connect(Filter::interval(Duration::from_millis(2)), Quality::default()),
        connect(
            Filter::any_of([Filter::of(23, 1), Filter::deadline(Duration::from_millis(3))]),
            Quality::default(),
        ),
        connect(Filter::Everything, Quality { queue: 2, ..Quality::default() }),
    ];
    let supplier = channel.for_suppliers().connect().unwrap();
    let round = || {
        for i in 0..9 {
            supplier.push(&event(20 + i, 1, 0).octets(b"some data"));
            if i % 3 == 0 {
                while channel.step() {}
            }
            clock.advance(700_000);
            channel.expire();
        }
        while channel.step() {}
    };
    (0..3).for_each(|_| round());
    let before = pushes.load(Ordering::Relaxed);
    assert_eq!(allocations_during(|| (0..20).for_each(|_| round())), 0);
    assert!(pushes.load(Ordering::Relaxed) - before > 20 * 9);
}

#[test]
fn every_way_is_free_of_allocations() {
    assert!(allocations_during(|| drop(Box::new(1))) > 0, "the allocator counts");
    for configuration in [
        Configuration::Full,
        Configuration::ForwardingDiscriminator,
        Configuration::SubscriptionAndFiltering,
        Configuration::Broadcaster,
    ] {
        rounds(Config { configuration, ..Config::default() });
    }
    rounds(Config::with(Strategy::ByHand { upcalls: false }));
    rounds(Config::with(Strategy::ByHand { upcalls: true }));
}

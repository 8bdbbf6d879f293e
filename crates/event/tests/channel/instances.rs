//! Ownership, and the deadline of each instance.

use crate::common::*;
use isorb_event::{
    Channel, ConsumerQos, Filter, Limits, Ownership, ProxyPushConsumer, Quality, Strategy, SupplierQos,
    designator,
};
use isorb_rt::alloc_count::allocations_during;
use std::time::Duration;

fn supplier(channel: &Channel, ownership: Ownership) -> ProxyPushConsumer {
    let qos = SupplierQos { ownership: Some(ownership), ..SupplierQos::default() };
    channel.for_suppliers().connect_with(qos).unwrap()
}

const MS: u64 = 1_000_000;

#[test]
fn the_strongest_supplier_of_each_instance_is_heard() {
    let (channel, _) = still(Channel::builder());
    let log = Log::default();
    let _c = log.connect(&channel, wants(Filter::of_type(20)));
    let weak = supplier(&channel, Ownership::new(1));
    let strong = supplier(&channel, Ownership::new(5));
    let equal = supplier(&channel, Ownership::new(5));
    let shared = channel.for_suppliers().connect().unwrap();
    assert_eq!(weak.push(&event(20, 1, 1)).not_owned, 0);
    strong.push(&event(20, 1, 2));
    // The weaker one, and the equal one that came later.
    assert_eq!((weak.push(&event(20, 1, 3)).not_owned, equal.push(&event(20, 1, 4)).not_owned), (1, 1));
    // Another instance is not owned yet, and one without an ownership is always heard.
    weak.push(&event(20, 2, 5));
    shared.push(&event(20, 1, 6));
    strong.push(&event(20, 1, 7));
    assert_eq!(log.take_times(), [[1], [2], [5], [6], [7]]);
    let totals = channel.totals();
    assert_eq!((totals.not_owned, totals.owners_changed), (2, 3));
    // The owner leaves: the next one to push is heard at once.
    drop(strong);
    weak.push(&event(20, 1, 8));
    equal.push(&event(20, 1, 9));
    weak.push(&event(20, 1, 10));
    assert_eq!(log.take_times(), [[8], [9]]);
}

#[test]
fn a_silent_owner_gives_way_and_takes_back() {
    let (channel, clock) = still(Channel::builder());
    let log = Log::default();
    let _c = log.connect(&channel, wants(Filter::of_type(20)));
    let weak = supplier(&channel, Ownership::new(1));
    let strong = supplier(&channel, Ownership::new(2).lease(Duration::from_millis(100)));
    strong.push(&event(20, 1, 1));
    clock.advance(99 * MS);
    weak.push(&event(20, 1, 2));
    assert_eq!(log.take_times(), [[1]]);
    clock.advance(MS);
    weak.push(&event(20, 1, 3));
    strong.push(&event(20, 1, 4));
    weak.push(&event(20, 1, 5));
    assert_eq!(log.take_times(), [[3], [4]]);
    // Its events keep its lease.
    for n in 6..20 {
        clock.advance(60 * MS);
        strong.push(&event(20, 1, n));
        weak.push(&event(20, 1, 100));
    }
    assert!(log.take_times().concat().into_iter().eq(6..20));
}

#[test]
fn more_instances_than_are_known_are_delivered_and_counted() {
    let limits = Limits { instances: 4, ..Limits::default() };
    let (channel, _) = still(Channel::builder().limits(limits));
    let log = Log::default();
    let _c = log.connect(&channel, wants(Filter::of_type(20)));
    let (one, two) = (supplier(&channel, Ownership::new(1)), supplier(&channel, Ownership::new(2)));
    (0..100).for_each(|source| _ = two.push(&event(20, source, 0)));
    let taken: u32 = (0..100).map(|source| one.push(&event(20, source, 0)).taken).sum();
    assert_eq!(u64::from(taken), channel.totals().owners_unknown / 2);
    assert!((50..100).contains(&taken), "{taken}");
    assert_eq!(log.take().len() as u32, 100 + taken);
}

fn watching(filter: Filter, period_ms: u64) -> ConsumerQos {
    let period = Some(Duration::from_millis(period_ms));
    wants(filter).quality(Quality { instance_period: period, ..Quality::default() })
}

#[test]
fn a_consumer_learns_once_that_an_instance_fell_silent() {
    for strategy in [Strategy::Direct, Strategy::ByHand { upcalls: false }] {
        let (channel, clock) = still(Channel::builder().strategy(strategy));
        let log = Log::default();
        let proxy = log.connect(&channel, watching(Filter::of_type(20), 100));
        let supplier = channel.for_suppliers().connect().unwrap();
        // Source 1 each 50 ms; source 2 once; other types do not count.
        supplier.push(&event(20, 2, 0));
        supplier.push(&event(21, 3, 0));
        for _ in 0..10 {
            supplier.push(&event(20, 1, 0));
            clock.advance(50 * MS);
            channel.expire();
            while channel.step() {}
        }
        let told = |log: &Log| -> Vec<(i32, i32, u64)> {
            log.take().concat().into_iter().filter(|(of, ..)| *of == designator::INSTANCE_TIMEOUT).collect()
        };
        // Its source, and its type as the time.
        assert_eq!(told(&log), [(designator::INSTANCE_TIMEOUT, 2, 20)], "{strategy:?}");
        assert_eq!(proxy.counts().instances_missed, 1);
        // It comes again, and falls silent again; so does the other.
        supplier.push(&event(20, 2, 0));
        for _ in 0..10 {
            clock.advance(50 * MS);
            channel.expire();
            while channel.step() {}
        }
        let mut both = told(&log);
        both.sort_unstable();
        assert_eq!(both.iter().map(|(_, source, _)| *source).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(proxy.counts().instances_missed, 3);
        // Also after a change of its registrations, and not when it is gone.
        proxy.resubscribe(vec![Filter::of_type(21)]).unwrap();
        supplier.push(&event(21, 4, 0));
        clock.advance(200 * MS);
        channel.expire();
        while channel.step() {}
        assert_eq!(told(&log), [(designator::INSTANCE_TIMEOUT, 4, 21)]);
        drop(proxy);
        clock.advance(500 * MS);
        channel.expire();
        while channel.step() {}
        assert!(log.take().is_empty());
    }
}

#[test]
fn neither_allocates() {
    let (channel, clock) = still(Channel::builder());
    let consumer = std::sync::Arc::new(|_: &[isorb_event::Event<'_>]| ());
    let qos = watching(Filter::of_type(20), 100);
    let _c = channel.for_consumers().connect(consumer, qos).unwrap();
    let owner = supplier(&channel, Ownership::new(1).lease(Duration::from_millis(10)));
    owner.push(&event(20, 0, 0));
    channel.expire();
    let allocations = allocations_during(|| {
        for n in 0..200 {
            owner.push(&event(20, n % 50, 0));
            clock.advance(5 * MS);
            channel.expire();
        }
    });
    assert_eq!(allocations, 0);
}

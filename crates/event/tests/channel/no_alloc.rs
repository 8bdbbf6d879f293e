//! After the first round an event allocates no memory: neither directly nor through queues,
//! conjunctions and time-outs.

use crate::common::*;
use isorb_event::{
    Channel, ChannelBuilder, Configuration, Event, Filter, Overflow, Pushed, Quality, Strategy, SubPriority,
};
use isorb_rt::alloc_count::allocations_during;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// No thread serves the queues: each follows its policy, everything is counted, and nothing grows.
#[test]
fn a_flood_on_full_queues_is_counted_and_takes_no_memory() {
    const FLOOD: u64 = 3_000;
    let block = Duration::from_nanos(1);
    let config = Channel::builder().strategy(Strategy::ByHand { upcalls: false }).trace(true).block(block);
    let (channel, _) = still(config);
    let policies = [Overflow::DropOldest, Overflow::DropNewest, Overflow::Refuse, Overflow::Block];
    let consumers = policies.map(|overflow| {
        let quality = Quality { queue: 10, overflow, ..Quality::default() };
        channel
            .for_consumers()
            .connect(Arc::new(|_: &[Event<'_>]| ()), wants(Filter::of(20, 1)).quality(quality))
            .unwrap()
    });
    let supplier = channel.for_suppliers().connect().unwrap();
    // The queues' ten, and the first record of this thread.
    (0..10).for_each(|n| assert_eq!(supplier.push(&event(20, 1, n)).taken, 4));
    let copies = channel.free_copies();
    let mut total = Pushed::default();
    let flood = || {
        for n in 0..FLOOD {
            let pushed = supplier.push(&event(20, 1, 10 + n).octets(b"some data"));
            total.taken += pushed.taken;
            total.dropped += pushed.dropped;
            total.refused += pushed.refused;
        }
    };
    assert_eq!(allocations_during(flood), 0);
    let flood = FLOOD as u32;
    // The oldest is dropped for an accepted one; the supplier learns of the others.
    assert_eq!(total, Pushed { taken: flood, dropped: flood, refused: 2 * flood, ..Pushed::default() });
    let lost = consumers.each_ref().map(|consumer| (consumer.counts().dropped, consumer.counts().refused));
    assert_eq!(lost, [(FLOOD, 0), (FLOOD, 0), (0, FLOOD), (0, FLOOD)]);
    assert!(channel.consumers().iter().all(|consumer| consumer.waiting == 10));
    // The ten events in the first queue differ from the ten that the rest share.
    assert_eq!(channel.free_copies(), copies - 10);
    while channel.step() {}
    assert_eq!(channel.free_copies(), isorb_event::Limits::default().events);
}

fn rounds(config: ChannelBuilder) {
    let (channel, clock) = still(config.trace(true).latencies(true));
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
        rounds(Channel::builder().configuration(configuration));
    }
    rounds(Channel::builder().strategy(Strategy::ByHand { upcalls: false }));
    rounds(Channel::builder().strategy(Strategy::ByHand { upcalls: true }));
}

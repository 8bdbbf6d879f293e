//! Overruns and missed deadlines; in virtual time, which is also the processor time of consumers.

use crate::common::*;
use isorb_event::{Channel, Containment, Event, Filter, Priority, Quality, Strategy, VirtualClock};
use std::sync::Arc;
use std::time::Duration;

const MS: u64 = 1_000_000;

/// A consumer that runs for the milliseconds in an event's creation time, and declared two.
fn run(containment: Containment, times: &[u64]) -> (isorb_event::Counts, Vec<u64>, u8, bool) {
    let (channel, clock) = still(Channel::builder().strategy(Strategy::ByHand { upcalls: false }));
    let log = Log::default();
    let quality = Quality {
        priority: Priority::MAX,
        worst_case: Some(Duration::from_millis(2)),
        deadline: Some(Duration::from_millis(4)),
        containment,
        ..Quality::default()
    };
    let proxy = consumer(&channel, &log, clock, quality);
    let supplier = channel.for_suppliers().connect().unwrap();
    for time in times {
        supplier.push(&event(20, 0, *time));
        while channel.step() {}
    }
    let counts = proxy.counts();
    let level = channel.consumers()[0].level;
    let connected = proxy.is_connected();
    assert_eq!(channel.sweep(), usize::from(!connected));
    (counts, log.take_times().concat(), level, connected)
}

fn consumer(
    channel: &isorb_event::Channel,
    log: &Log,
    clock: Arc<VirtualClock>,
    quality: Quality,
) -> isorb_event::ProxyPushSupplier {
    let log = log.consumer();
    let consumer = move |events: &[Event<'_>]| {
        clock.advance(events[0].header.creation_time * MS);
        log.push(events).unwrap();
    };
    channel.for_consumers().connect(Arc::new(consumer), wants(Filter::of(20, 0)).quality(quality)).unwrap()
}

#[test]
fn overruns_are_counted() {
    let (counts, ran, level, connected) = run(Containment::Count, &[1, 3, 2, 5, 1]);
    assert_eq!((counts.overruns, counts.missed, counts.skipped), (2, 1, 0));
    assert_eq!((ran, level, connected), (vec![1, 3, 2, 5, 1], 3, true));
}

#[test]
fn the_next_event_is_skipped() {
    let (counts, ran, ..) = run(Containment::Skip, &[1, 3, 2, 1]);
    assert_eq!((counts.overruns, counts.skipped, ran), (1, 1, vec![1, 3, 1]));
}

#[test]
fn the_consumer_is_demoted() {
    let (counts, ran, level, _) = run(Containment::Demote, &[3, 1]);
    assert_eq!((counts.overruns, ran, level), (1, vec![3, 1], 0));
}

#[test]
fn the_consumer_is_disconnected() {
    let (counts, ran, _, connected) = run(Containment::Disconnect, &[1, 3, 1]);
    assert_eq!((counts.overruns, ran, connected), (1, vec![1, 3], false));
}

#[test]
fn a_deadline_counts_from_arrival() {
    let (channel, clock) = still(Channel::builder().strategy(Strategy::ByHand { upcalls: false }));
    let log = Log::default();
    let quality = Quality { deadline: Some(Duration::from_millis(4)), ..Quality::default() };
    let proxy = consumer(&channel, &log, clock, quality);
    let supplier = channel.for_suppliers().connect().unwrap();
    (0..3).for_each(|_| assert_eq!(supplier.push(&event(20, 0, 2)).taken, 1));
    while channel.step() {}
    // They end 2, 4 and 6 ms after their arrival.
    assert_eq!(proxy.counts().missed, 1);
}

/// The time of a nested, more urgent consumer does not count for the one that yielded.
#[test]
fn nested_consumers_do_not_count_as_overrun() {
    let (channel, clock) = still(Channel::builder().strategy(Strategy::ByHand { upcalls: true }));
    let supplier = Arc::new(channel.for_suppliers().connect().unwrap());
    let ms = |ms| Some(Duration::from_millis(ms));
    // Each takes 2 ms and pushes to the next, more urgent one in the middle. The last one takes
    // much longer.
    let connect = |type_: i32, priority: i16, longer: u64| {
        let (clock, supplier) = (clock.clone(), supplier.clone());
        let consumer = move |_: &[Event<'_>]| {
            clock.advance(MS);
            supplier.push(&event(type_ + 1, 0, 0));
            isorb_event::yield_now();
            clock.advance((1 + longer) * MS);
        };
        let priority = Priority::new(priority).unwrap();
        let quality = Quality {
            priority,
            worst_case: ms(2),
            deadline: ms(5),
            containment: Containment::Disconnect,
            ..Quality::default()
        };
        let qos = wants(Filter::of(type_, 0)).quality(quality);
        channel.for_consumers().connect(Arc::new(consumer), qos).unwrap()
    };
    let consumers = [connect(20, 0, 0), connect(21, 10_000, 0), connect(22, 20_000, 1)];
    supplier.push(&event(20, 0, 0));
    while channel.step() {}
    let seen = consumers.each_ref().map(|consumer| (consumer.counts().overruns, consumer.counts().missed));
    assert_eq!(seen, [(0, 1), (0, 0), (1, 0)], "7 ms of 5 for the first, 5 and 3 for the others");
}

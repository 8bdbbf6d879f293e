//! Conditions on the payload of events.

use crate::common::*;
use isorb_any::TypeCode;
use isorb_event::{
    Channel, Configuration, ConsumerQos, ContentFilter, Event, Filter, PayloadError, Quality, Strategy,
};
use isorb_rt::alloc_count::allocations_during;
use std::time::Duration;

/// Events with this number as payload.
fn number(value: i32) -> Vec<u8> {
    isorb_event::remote::encode(&value).unwrap()
}

fn above(limit: i32) -> ContentFilter {
    ContentFilter::new(&format!("payload > {limit}"), &TypeCode::LONG).unwrap()
}

#[test]
fn a_consumer_receives_the_events_that_satisfy_its_condition() {
    let (channel, _) = still(Channel::builder());
    let (some, all) = (Log::default(), Log::default());
    let some_proxy = some.connect(&channel, wants(Filter::of_type(20)).content(above(5)));
    let _all = all.connect(&channel, wants(Filter::of_type(20)));
    let supplier = channel.for_suppliers().connect().unwrap();
    let taken: Vec<u32> =
        (0..10).map(|n| supplier.push(&event(20, 1, n).octets(&number(n as i32))).taken).collect();
    assert_eq!(taken, [1, 1, 1, 1, 1, 1, 2, 2, 2, 2]);
    assert_eq!(some.take_times(), [[6], [7], [8], [9]]);
    assert_eq!(all.take().len(), 10);
    let counts = some_proxy.counts();
    assert_eq!((counts.pushed, counts.filtered, counts.unreadable), (4, 6, 0));
    // The condition stays when the registrations change.
    some_proxy.resubscribe(vec![Filter::of_type(21)]).unwrap();
    (0..10).for_each(|n| _ = supplier.push(&event(21, 1, n).octets(&number(n as i32))));
    assert_eq!(some.take().len(), 4);
}

#[test]
fn events_that_cannot_be_read_are_counted_and_disturb_no_other_consumer() {
    let (channel, _) = still(Channel::builder());
    let (some, all) = (Log::default(), Log::default());
    let proxy = some.connect(&channel, wants(Filter::Everything).content(above(5)));
    let _all = all.connect(&channel, wants(Filter::Everything));
    let supplier = channel.for_suppliers().connect().unwrap();
    let good = number(6);
    assert_eq!(above(5).matches(&good[..7]), Err(PayloadError::Malformed));
    for octets in [&[][..], &good[..1], &good[..7], &good] {
        supplier.push(&event(20, 1, octets.len() as u64).octets(octets));
    }
    assert_eq!(some.take_times(), [[good.len() as u64]]);
    assert_eq!(all.take().len(), 4);
    assert_eq!((proxy.counts().unreadable, proxy.counts().filtered), (3, 0));
}

#[test]
fn conjunctions_see_only_what_satisfies_the_condition_and_time_outs_pass() {
    let (channel, clock) = still(Channel::builder());
    let (pairs, timed) = (Log::default(), Log::default());
    let both = Filter::all_of([Filter::of_type(20), Filter::of_type(21)]);
    let _pairs = pairs.connect(&channel, wants(both).content(above(5)));
    let timer = Filter::interval(Duration::from_millis(1));
    let _timed = timed.connect(&channel, wants(timer).content(above(5)));
    let supplier = channel.for_suppliers().connect().unwrap();
    let push = |event_type, time, value| {
        supplier.push(&event(event_type, 1, time).octets(&number(value)));
    };
    push(20, 1, 9);
    push(21, 2, 3);
    push(20, 3, 4);
    assert!(pairs.take().is_empty());
    push(21, 4, 7);
    assert_eq!(pairs.take_times(), [[1, 4]]);
    clock.advance(1_000_000);
    channel.expire();
    assert_eq!(timed.take().len(), 1);
}

#[test]
fn what_is_filtered_takes_neither_a_queue_nor_a_copy() {
    let (channel, _) = still(Channel::builder().strategy(Strategy::ByHand { upcalls: false }));
    let log = Log::default();
    let quality = Quality { queue: 2, ..Quality::default() };
    let proxy = log.connect(&channel, wants(Filter::of_type(20)).content(above(5)).quality(quality));
    let supplier = channel.for_suppliers().connect().unwrap();
    let copies = channel.free_copies();
    let none = number(5);
    assert_eq!(
        allocations_during(|| (0..100).for_each(|n| _ = supplier.push(&event(20, 1, n).octets(&none)))),
        0
    );
    assert_eq!((proxy.waiting(), channel.free_copies()), (0, copies));
    supplier.push(&event(20, 1, 7).octets(&number(6)));
    assert_eq!(proxy.waiting(), 1);
    while channel.step() {}
    assert_eq!(log.take_times(), [[7]]);
}

#[test]
fn an_evaluation_takes_no_memory() {
    let list = TypeCode::sequence(&TypeCode::STRING, 0).unwrap();
    let members = [("names", list), ("wide", TypeCode::WSTRING), ("id", TypeCode::LONG)];
    let tc = TypeCode::new_struct("IDL:N:1.0", "N", &members).unwrap();
    let text =
        r#"names[1] == "b" && wide != names[0] && starts_with(wide, "x") || len(names) > 2 && id == 7"#;
    let filter = ContentFilter::new(text, &tc).unwrap();
    let mut octets = vec![1, 0, 0, 0, 3, 0, 0, 0];
    for name in [b"a\0\0\0", b"b\0\0\0", b"c\0\0\0"] {
        octets.extend([2, 0, 0, 0]);
        octets.extend(name);
    }
    octets.extend([4, 0, 0, 0, 0, b'y', 0, b'z', 7, 0, 0, 0]);
    for length in 0..=octets.len() {
        assert_eq!(allocations_during(|| _ = filter.matches(&octets[..length])), 0);
    }
    assert_eq!(filter.matches(&octets), Ok(true));
}

#[test]
fn a_channel_without_filtering_has_no_conditions_either() {
    let (channel, _) = still(Channel::builder().configuration(Configuration::Broadcaster));
    let log = Log::default();
    let qos = ConsumerQos { content: Some(above(5)), ..wants(Filter::of_type(20)) };
    let _proxy = log.connect(&channel, qos);
    let supplier = channel.for_suppliers().connect().unwrap();
    supplier.push(&Event::new(20, 1).octets(&number(1)));
    assert_eq!(log.take().len(), 1);
}

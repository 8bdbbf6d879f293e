//! Wishes that are too long for a datagram.

use crate::datagrams::{free_port, member};
use crate::until;
use isorb_event::federation::Federation;
use isorb_event::servants::{UdpGateway, UdpOptions};
use isorb_event::{Channel, Config, ConsumerQos, Event, Filter, MAX_TERMS};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

/// An event that somebody with all these wishes wants, and one that he does not, at a link by
/// datagrams: the first comes, and the second is sent or not, as `sent` has it.
fn try_wishes(wishes: Vec<Filter>, wanted: &Event<'_>, unwanted: &Event<'_>, sent: bool) {
    let near = member(1, 1);
    let channel = Channel::new(Config { id: 2, ..Config::default() }).unwrap();
    let far = Federation::builder(&channel).build().unwrap();
    let got = Arc::new(Mutex::new(Vec::new()));
    let log = got.clone();
    let consumer = move |events: &[Event<'_>]| {
        log.lock().unwrap().extend(events.iter().map(|event| event.header.event_type));
    };
    let filters = wishes.chunks(MAX_TERMS).map(|some| Filter::any_of(some.iter().cloned())).collect();
    let qos = ConsumerQos { filters, ..ConsumerQos::new("wide", Filter::Everything) };
    let _consumer = channel.for_consumers().connect(Arc::new(consumer), qos).unwrap();

    let (here, there) = (free_port(), free_port());
    let _one = UdpGateway::start(&near.federation, UdpOptions::to_neighbour(here, there)).unwrap();
    let _other = UdpGateway::start(&far, UdpOptions::to_neighbour(there, here)).unwrap();
    let supplier = near.channel.for_suppliers().connect().unwrap();
    let clock = AtomicU64::new(1);
    until("the wish is known and an event comes", || {
        let now = clock.fetch_add(1, SeqCst);
        near.federation.tick(now, u64::MAX);
        far.tick(now, u64::MAX);
        supplier.push(wanted);
        !got.lock().unwrap().is_empty()
    });
    // Once what was asked for again is through, one event is sent at once or not at all.
    until(if sent { "everything is sent" } else { "what nobody wants is not sent" }, || {
        let before = near.federation.counts().forwarded;
        supplier.push(unwanted);
        (near.federation.counts().forwarded != before) == sent
    });
    assert_eq!(near.federation.counts().lost, 0);
    assert!(got.lock().unwrap().iter().all(|event_type| *event_type == wanted.header.event_type));
}

#[test]
fn who_wants_more_than_a_datagram_says_is_sent_everything() {
    let plain: Vec<Filter> = (1..=4_000).map(|number| Filter::of(1_000 + number, number)).collect();
    try_wishes(plain, &Event::new(4_999, 3_999), &Event::new(4_999, 17), true);
}

#[test]
fn who_wants_what_just_fits_a_datagram_is_sent_that() {
    // 124 groups, 3,967 of 16 octets and as many positions of groups.
    let plain: Vec<Filter> = (1..=3_967).map(|number| Filter::of(1_000 + number, number)).collect();
    try_wishes(plain, &Event::new(4_967, 3_967), &Event::new(4_967, 17), false);
}

#[test]
fn many_masks_are_told_as_well() {
    let masked = |number: u32| Filter::Masked {
        source_mask: 0,
        type_mask: u32::MAX,
        source: 0,
        event_type: 1_000 + number,
    };
    try_wishes((1..=1_400).map(masked).collect(), &Event::new(2_400, 1), &Event::new(3, 1), true);
}

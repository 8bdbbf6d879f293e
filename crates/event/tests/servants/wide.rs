//! Interests that are too long for a datagram.

use crate::datagrams::{free_port, member};
use isorb_event::federation::Federation;
use isorb_event::servants::{UdpGateway, UdpOptions};
use isorb_event::{Channel, ConsumerQos, Event, Filter, MAX_TERMS};
use isorb_testkit::wait_until;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

/// With an interest of all these filters, over a link by datagrams: an event that matches arrives,
/// and one that does not is sent or not, as `sent` says.
fn try_interest(filters: Vec<Filter>, wanted: &Event<'_>, unwanted: &Event<'_>, sent: bool) {
    let near = member(1, 1);
    let channel = Channel::builder().id(2).build().unwrap();
    let far = Federation::builder(&channel).build().unwrap();
    let got = Arc::new(Mutex::new(Vec::new()));
    let log = got.clone();
    let consumer = move |events: &[Event<'_>]| {
        log.lock().unwrap().extend(events.iter().map(|event| event.header.event_type));
    };
    let filters = filters.chunks(MAX_TERMS).map(|some| Filter::any_of(some.iter().cloned())).collect();
    let qos = ConsumerQos { filters, ..ConsumerQos::new("wide", Filter::Everything) };
    let _consumer = channel.for_consumers().connect(Arc::new(consumer), qos).unwrap();

    let (here, there) = (free_port(), free_port());
    let _one = UdpGateway::start(&near.federation, UdpOptions::to_neighbour(here, there)).unwrap();
    let _other = UdpGateway::start(&far, UdpOptions::to_neighbour(there, here)).unwrap();
    let supplier = near.channel.for_suppliers().connect().unwrap();
    let clock = AtomicU64::new(1);
    wait_until("the wish is known and an event comes", || {
        let now = clock.fetch_add(1, SeqCst);
        near.federation.tick(now, u64::MAX);
        far.tick(now, u64::MAX);
        supplier.push(wanted);
        !got.lock().unwrap().is_empty()
    });
    // Once repeated events have arrived, one event is sent at once or not at all.
    wait_until(if sent { "everything is sent" } else { "unwanted events are not sent" }, || {
        let before = near.federation.counts().forwarded;
        supplier.push(unwanted);
        (near.federation.counts().forwarded != before) == sent
    });
    assert_eq!(near.federation.counts().lost, 0);
    assert!(got.lock().unwrap().iter().all(|event_type| *event_type == wanted.header.event_type));
}

#[test]
fn an_interest_larger_than_a_datagram_is_sent_as_everything() {
    let plain: Vec<Filter> = (1..=4_000).map(|number| Filter::of(1_000 + number, number)).collect();
    try_interest(plain, &Event::new(4_999, 3_999), &Event::new(4_999, 17), true);
}

#[test]
fn an_interest_that_just_fits_a_datagram_is_exact() {
    // 124 groups: 3,967 entries of 16 octets, and the designators of the groups.
    let plain: Vec<Filter> = (1..=3_967).map(|number| Filter::of(1_000 + number, number)).collect();
    try_interest(plain, &Event::new(4_967, 3_967), &Event::new(4_967, 17), false);
}

#[test]
fn many_masks_are_sent_too() {
    let masked = |number: u32| Filter::Masked {
        source_mask: 0,
        type_mask: u32::MAX,
        source: 0,
        event_type: 1_000 + number,
    };
    try_interest((1..=1_400).map(masked).collect(), &Event::new(2_400, 1), &Event::new(3, 1), true);
}

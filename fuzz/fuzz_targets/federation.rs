//! Datagrams of a neighbour in a federation of event channels: raw octets, and octets behind a head
//! that passes the first checks.
#![no_main]

use isorb_event::federation::Federation;
use isorb_event::servants::receive_datagrams;
use isorb_event::{Channel, ConsumerQos, Event, Filter, Limits};
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const LEVELS: u8 = 1;

// A datagram is its kind, its length, and its body. The sender is in the body.
fuzz_target!(|data: &[u8]| {
    // A large pool would take most of the time.
    let limits = Limits { events: 8, payload: 256, larger: Default::default(), ..Limits::default() };
    let channel = Channel::builder().id(1).limits(limits).build().expect("a channel");
    let received = Arc::new(AtomicUsize::new(0));
    let count = received.clone();
    let consumer = move |events: &[Event<'_>]| {
        count.fetch_add(events.len(), Ordering::Relaxed);
    };
    let qos = ConsumerQos::new("all", Filter::of(0, 0));
    let _consumer = channel.for_consumers().connect(Arc::new(consumer), qos).expect("a consumer");
    let federation = Federation::builder(&channel).build().expect("a federation");
    let mut datagrams = Vec::new();
    let mut rest = data;
    while let [kind, length, after @ ..] = rest {
        let (body, after) = after.split_at(usize::from(*length).min(after.len()));
        rest = after;
        let mut datagram = b"isEv\x04".to_vec();
        datagram.extend([kind % 5, kind >> 7 | LEVELS << 1, kind >> 5 & 1]);
        datagram.extend_from_slice(body);
        datagrams.push(body.to_vec());
        datagrams.push(datagram);
    }
    let sent = datagrams.len();
    let taken = receive_datagrams(&federation, datagrams.into_iter()).expect("a socket");
    assert!(taken <= sent && received.load(Ordering::Relaxed) <= taken);
});

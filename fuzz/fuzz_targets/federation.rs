//! Datagrams of a neighbour in a federation of event channels: raw octets, and octets behind a head
//! that passes the first checks.
#![no_main]

use isorb_event::federation::Federation;
use isorb_event::servants::DatagramFeed;
use isorb_event::{Channel, ConsumerQos, Event, Filter, Limits, ProxyPushSupplier};
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const LEVELS: u8 = 1;
/// Inputs for one federation. Its threads and its pool take milliseconds, and what one input leaves
/// behind is what the next one finds, as with a real neighbour.
const INPUTS: u32 = 10_000;

/// A channel with its federation and a link.
struct Member {
    inputs: u32,
    received: Arc<AtomicUsize>,
    feed: DatagramFeed,
    _consumer: ProxyPushSupplier,
}

impl Member {
    fn new() -> Member {
        let limits = Limits { events: 8, payload: 256, larger: Default::default(), ..Limits::default() };
        let channel = Channel::builder().id(1).limits(limits).build().expect("a channel");
        let received = Arc::new(AtomicUsize::new(0));
        let count = received.clone();
        let consumer = move |events: &[Event<'_>]| {
            count.fetch_add(events.len(), Ordering::Relaxed);
        };
        let qos = ConsumerQos::new("all", Filter::of(0, 0));
        let consumer = channel.for_consumers().connect(Arc::new(consumer), qos).expect("a consumer");
        let federation = Federation::builder(&channel).build().expect("a federation");
        let feed = DatagramFeed::new(&federation).expect("a socket");
        Member { inputs: 0, received, feed, _consumer: consumer }
    }
}

thread_local! {
    static MEMBER: RefCell<Option<Member>> = const { RefCell::new(None) };
}

// A datagram is its kind, its length, and its body. The sender is in the body.
fuzz_target!(|data: &[u8]| {
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
    MEMBER.with_borrow_mut(|member| {
        if member.as_ref().is_some_and(|member| member.inputs == INPUTS) {
            *member = None;
        }
        let member = member.get_or_insert_with(Member::new);
        member.inputs += 1;
        let before = member.received.load(Ordering::Relaxed);
        let taken = member.feed.receive(datagrams.into_iter());
        let received = member.received.load(Ordering::Relaxed) - before;
        assert!(taken <= sent && received <= taken);
    });
});

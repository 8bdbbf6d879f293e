//! Remote consumers that join late, and those that want fewer events.

use crate::{client, server};
use isorb_event::remote::{RemoteChannel, RemoteError, RemoteQos};
use isorb_event::servants::{EventServiceOptions, RtecEventService};
use isorb_event::{Channel, Event, Filter, HistoryQos, HistoryRequest, VirtualClock};
use isorb_testkit::wait_until;
use std::sync::{Arc, Mutex};
use std::time::Duration;

type ReceivedEvents = Arc<Mutex<Vec<(i32, u64)>>>;

/// A consumer that records type and number of each event.
fn recording() -> (ReceivedEvents, impl Fn(&Event<'_>) + Send + Sync + 'static) {
    let seen = ReceivedEvents::default();
    let log = seen.clone();
    (seen, move |event: &Event<'_>| log.lock().unwrap().push((event.header.event_type, event.origin.number)))
}

#[test]
fn a_remote_consumer_gets_the_history_first_with_the_numbers_of_suppliers() {
    let config = Channel::builder().history(HistoryQos::keep_last(3));
    let (orb, channel) = server(config);
    let service = RtecEventService::start(&orb, &channel, EventServiceOptions::default()).unwrap();
    let client = client();
    let remote = RemoteChannel::connect(&client, &service.object().to_string()).unwrap();
    let supplier = remote.supplier().unwrap();
    for _ in 0..5 {
        supplier.push(&Event::new(20, 1)).unwrap();
    }
    supplier.push(&Event::new(21, 1)).unwrap();
    let (seen, log) = recording();
    let qos = RemoteQos::history(HistoryRequest::last(9));
    let late =
        remote.consume_with(qos, Filter::any_of([Filter::of_type(20), Filter::of_type(21)]), log).unwrap();
    // Before a later event overwrites one of them.
    wait_until("it has the history", || seen.lock().unwrap().len() == 4);
    let (fresh_seen, log) = recording();
    let _fresh = remote.consume(Filter::of_type(20), log).unwrap();
    supplier.push(&Event::new(20, 1)).unwrap();
    wait_until("the later event comes", || seen.lock().unwrap().len() == 5);
    assert_eq!(*seen.lock().unwrap(), [(20, 3), (20, 4), (20, 5), (21, 1), (20, 6)]);
    let counts = late.counts();
    assert_eq!((counts.received, counts.lost, counts.repeated, counts.connected), (5, 0, 0, 1));
    wait_until("the other one gets it, too", || *fresh_seen.lock().unwrap() == [(20, 6)]);
}

#[test]
fn a_channel_without_a_history_refuses_and_says_why() {
    let (orb, channel) = server(Channel::builder());
    let service = RtecEventService::start(&orb, &channel, EventServiceOptions::default()).unwrap();
    let client = client();
    let remote = RemoteChannel::connect(&client, &service.object().to_string()).unwrap();
    let qos = RemoteQos::history(HistoryRequest::last(1));
    let refused = remote.consume_with(qos, Filter::Everything, |_| ()).err().unwrap();
    assert!(
        matches!(&refused, RemoteError::System(why) if why.kind == isorb::Kind::NoResources),
        "{refused}"
    );
    assert!(refused.to_string().contains("--keep-last"), "{refused}");
    assert!(channel.consumers().is_empty());
}

/// The time between the events is that of the channel's clock, and gaps in the numbers are no
/// losses.
#[test]
fn a_remote_consumer_wants_an_event_in_a_time_only() {
    let clock = Arc::new(VirtualClock::new());
    let (orb, channel) = server(Channel::builder().clock(Arc::new(clock.clone())));
    let service = RtecEventService::start(&orb, &channel, EventServiceOptions::default()).unwrap();
    let client = client();
    let remote = RemoteChannel::connect(&client, &service.object().to_string()).unwrap();
    let (seen, log) = recording();
    let qos = RemoteQos { min_separation: Duration::from_millis(10), ..RemoteQos::default() };
    let consumer = remote.consume_with(qos, Filter::of_type(20), log).unwrap();
    let supplier = remote.supplier().unwrap();
    for _ in 0..10 {
        supplier.push(&Event::new(20, 1)).unwrap();
        clock.advance(4_000_000);
    }
    wait_until("the last one comes", || seen.lock().unwrap().last() == Some(&(20, 10)));
    assert_eq!(*seen.lock().unwrap(), [(20, 1), (20, 4), (20, 7), (20, 10)]);
    assert_eq!((consumer.counts().received, consumer.counts().lost), (4, 0));
    assert_eq!(channel.consumers()[0].counts.too_soon, 6);
}

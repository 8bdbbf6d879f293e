//! Priority levels of a federation: each is independent, and each consumer receives its events in
//! order.

use crate::common::*;
use isorb_event::federation::{
    ControlMessage, Federation, ForwardError, ForwardedEvent, Gateways, Levels, LinkDown, LinkId, Transport,
};
use isorb_event::{Channel, ConsumerQos, Event, Filter, Priority, ProxyPushSupplier, Quality, ThreadSetup};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// A transport inside the process.
#[derive(Default)]
struct Wire(OnceLock<(Federation, LinkId)>);

impl Transport for Wire {
    fn announce(&self, messages: &[ControlMessage]) -> Result<(), LinkDown> {
        let (far, link) = self.0.get().ok_or(LinkDown)?;
        messages.iter().for_each(|message| {
            far.receive_message(*link, message);
        });
        Ok(())
    }

    fn forward(&self, event: &ForwardedEvent<'_>) -> Result<(), ForwardError> {
        let (far, link) = self.0.get().ok_or(ForwardError::Down)?;
        far.receive_event(*link, event);
        Ok(())
    }
}

struct Member {
    channel: Channel,
    node: Federation,
}

fn member(id: u64, levels: &Levels) -> Member {
    let channel = Channel::builder().id(id).own_threads(false).build().unwrap();
    let node = Federation::builder(&channel).levels(levels.clone()).build().unwrap();
    Member { channel, node }
}

/// Two linked members.
fn pair(levels: &Levels) -> [Member; 2] {
    let members = [member(1, levels), member(2, levels)];
    let wires: [Arc<Wire>; 2] = Default::default();
    let links = [0, 1].map(|i| members[i].node.join(wires[i].clone()));
    for (i, far) in [(0, 1), (1, 0)] {
        assert!(wires[i].0.set((members[far].node.clone(), links[far])).is_ok());
    }
    members.iter().for_each(|member| member.node.tick(1, 1_000));
    members
}

fn at(priority: Priority, filter: Filter) -> ConsumerQos {
    ConsumerQos::new("consumer", filter).quality(Quality { priority, ..Quality::default() })
}

impl Member {
    fn push(&self, event_type: i32, time: u64) {
        self.channel.for_suppliers().connect().unwrap().push(&event(event_type, 1, time).ttl(5));
    }

    fn consume(&self, log: &Log, priority: Priority, filter: Filter) -> ProxyPushSupplier {
        log.connect(&self.channel, at(priority, filter))
    }
}

/// Both levels receive all events, once and in order. Events that both want cross twice.
#[test]
fn an_event_wanted_at_two_levels_arrives_once_at_each() {
    let [near, far] = pair(&Levels::default());
    let (low, high) = (Log::default(), Log::default());
    let _low = far.consume(&low, Priority::MIN, Filter::any_of([Filter::of(20, 0), Filter::of(21, 0)]));
    let _high = far.consume(&high, Priority::MAX, Filter::of(21, 0));
    for (event_type, time) in [(20, 1), (21, 2), (20, 3), (21, 4), (22, 5)] {
        near.push(event_type, time);
    }
    assert_eq!(low.take_times().concat(), [1, 2, 3, 4]);
    assert_eq!(high.take_times().concat(), [2, 4]);
    assert_eq!((near.node.counts().forwarded, far.node.counts().received), (6, 6));
}

/// The parts come from both sides, and the push is at its consumer's level.
#[test]
fn a_conjunction_at_an_urgent_level_is_fed_from_both_sides() {
    let [near, far] = pair(&Levels::default());
    let log = Log::default();
    let both = Filter::all_of([Filter::of(20, 0), Filter::of(21, 0)]);
    let _c = near.consume(&log, Priority::MAX, both);
    near.push(20, 1);
    assert!(log.take().is_empty());
    far.push(21, 2);
    assert_eq!(log.take_times(), [[1, 2]]);
}

#[test]
fn a_disconnected_consumer_receives_nothing_at_any_level() {
    let [near, far] = pair(&Levels::default());
    let log = Log::default();
    for priority in [Priority::MIN, Priority::MAX] {
        let consumer = far.consume(&log, priority, Filter::of(20, 0));
        near.push(20, 1);
        consumer.suspend().unwrap();
        near.push(20, 2);
        consumer.resume().unwrap();
        near.push(20, 3);
        drop(consumer);
        near.push(20, 4);
        assert_eq!(log.take_times().concat(), [1, 3]);
    }
    assert_eq!(near.node.counts().forwarded, 4);
}

/// A less urgent consumer does not return until an urgent one was called by a later event, or the
/// wait was in vain. Returns whether it was called.
fn urgent_event_arrives_meanwhile(levels: &Levels) -> bool {
    let [near, far] = pair(levels);
    let [begun, came, looked] = [0; 3].map(|_| Arc::<AtomicBool>::default());
    let (seen, met, released) = (begun.clone(), came.clone(), looked.clone());
    let low = move |_: &[Event<'_>]| {
        seen.store(true, SeqCst);
        let since = Instant::now();
        // So that a failing test ends.
        while !met.load(SeqCst) && !released.load(SeqCst) && since.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let urgent = came.clone();
    let urgent = move |_: &[Event<'_>]| urgent.store(true, SeqCst);
    let admin = far.channel.for_consumers();
    let _low = admin.connect(Arc::new(low), at(Priority::MIN, Filter::of(20, 0))).unwrap();
    let _urgent = admin.connect(Arc::new(urgent), at(Priority::MAX, Filter::of(21, 0))).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| near.push(20, 1));
        while !begun.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        // On this thread. Work left to the other, busy thread may not be done on return.
        near.push(21, 2);
        let meanwhile = came.load(SeqCst);
        looked.store(true, SeqCst);
        meanwhile
    })
}

#[test]
fn urgent_events_are_not_delayed_by_less_urgent_consumers() {
    assert!(urgent_event_arrives_meanwhile(&Levels::default()));
    // The control: one level with a busy thread.
    assert!(!urgent_event_arrives_meanwhile(&Levels::one()));
}

#[test]
fn gateways_on_threads_of_their_level_deliver_in_order() {
    let channel = Channel::builder().id(1).build().unwrap();
    let node =
        Federation::builder(&channel).gateways(Gateways::Threads(1, ThreadSetup::default())).build().unwrap();
    let far = member(2, &Levels::default());
    let log = Log::default();
    let _c = far.consume(&log, Priority::MAX, Filter::of(20, 0));
    let (ab, ba) = (Arc::new(Wire::default()), Arc::new(Wire::default()));
    let (at_a, at_b) = (node.join(ab.clone()), far.node.join(ba.clone()));
    assert!(ab.0.set((far.node.clone(), at_b)).is_ok() && ba.0.set((node.clone(), at_a)).is_ok());
    let begun = Instant::now();
    let tick = || {
        let now = 1 + begun.elapsed().as_millis() as u64;
        node.tick(now, 1_000);
        far.node.tick(now, 1_000);
        assert!(begun.elapsed() < Duration::from_secs(60), "waited in vain");
        std::thread::sleep(Duration::from_millis(1));
    };
    tick();
    let supplier = channel.for_suppliers().connect().unwrap();
    // A thread notifies the neighbour. Before the interest in them is known, events go nowhere.
    while supplier.push(&event(20, 1, 0).ttl(2)).taken == 0 {
        tick();
    }
    (1..=50).for_each(|n| {
        supplier.push(&event(20, 1, n).ttl(2));
    });
    let mut all = Vec::new();
    while all.len() < 51 {
        all.extend(log.take_times().concat());
        tick();
    }
    assert_eq!(all, (0..=50).collect::<Vec<_>>());
}

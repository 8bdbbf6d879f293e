//! A queue and a placement for each registration of a consumer.

use crate::common::*;
use isorb_event::{
    Channel, ConnectError, ConsumerQos, Event, Filter, NotAdmitted, Placement, Priority, ProxyPushSupplier,
    Pushed, Quality, Registrations, RunTimeScheduler, Strategy,
};
use isorb_rt::alloc_count::allocations_during;
use std::sync::{Arc, Mutex};

const BULK: i32 = 20;
const ALARM: i32 = 30;
const QUEUE: usize = 16;

fn by_hand() -> Channel {
    still(Channel::builder().strategy(Strategy::ByHand { upcalls: false })).0
}

fn at(name: &str, priority: Priority, filter: Filter) -> ConsumerQos {
    ConsumerQos::new(name, filter).quality(Quality { priority, queue: QUEUE, ..Quality::default() })
}

/// One consumer of these registrations, the less urgent one first.
fn connect(channel: &Channel, log: &Log, filters: [Filter; 2]) -> [ProxyPushSupplier; 2] {
    let [bulk, alarm] = filters;
    let registrations = [("bulk", Priority::MIN, bulk), ("alarm", Priority::MAX, alarm)];
    let registrations = registrations
        .map(|(name, priority, filter)| Registrations::new(log.consumer(), at(name, priority, filter)));
    let proxies = channel.for_consumers().connect_each(registrations.into()).unwrap();
    <[ProxyPushSupplier; 2]>::try_from(proxies).unwrap()
}

fn all(channel: &Channel, log: &Log) -> Vec<(i32, u64)> {
    while channel.step() {}
    log.take().into_iter().flatten().map(|(event_type, _, time)| (event_type, time)).collect()
}

#[test]
fn an_alarm_does_not_queue_behind_bulk_of_the_same_consumer() {
    let channel = by_hand();
    let log = Log::default();
    let [bulk, alarm] = connect(&channel, &log, [Filter::of_type(BULK), Filter::of_type(ALARM)]);
    let supplier = channel.for_suppliers().connect().unwrap();
    let push = |event_type, time| supplier.push(&event(event_type, 1, time));
    (0..5).for_each(|time| assert_eq!(push(BULK, time).taken, 1));
    (5..7).for_each(|time| assert_eq!(push(ALARM, time).taken, 1));
    assert_eq!((bulk.waiting(), alarm.waiting()), (5, 2));
    // The order within a registration is kept.
    let expected = [(ALARM, 5), (ALARM, 6), (BULK, 0), (BULK, 1), (BULK, 2), (BULK, 3), (BULK, 4)];
    assert_eq!(all(&channel, &log), expected);

    // Bulk that overflows takes no slot of the alarm, and each is counted by itself.
    for time in 0..100 {
        push(BULK, time);
    }
    push(ALARM, 100);
    assert_eq!(all(&channel, &log)[0], (ALARM, 100));
    assert_eq!((bulk.counts().dropped, alarm.counts().dropped), (100 - QUEUE as u64, 0));
    assert_eq!((bulk.counts().pushed, alarm.counts().pushed), (5 + QUEUE as u64, 3));

    // With one registration for both, the alarm is the last.
    let channel = by_hand();
    let one = Filter::any_of([Filter::of_type(BULK), Filter::of_type(ALARM)]);
    let _one = log.connect(&channel, at("one", Priority::MAX, one));
    let supplier = channel.for_suppliers().connect().unwrap();
    for time in 0..5 {
        supplier.push(&event(BULK, 1, time));
    }
    supplier.push(&event(ALARM, 1, 5));
    assert_eq!(all(&channel, &log).last(), Some(&(ALARM, 5)));
}

#[test]
fn an_event_of_several_registrations_is_pushed_once_by_the_most_urgent() {
    let everything_but = Filter::Not(Box::new(Filter::of_type(40)));
    for bulk in [Filter::Everything, Filter::any_of([everything_but, Filter::of(40, 0)])] {
        let channel = by_hand();
        let log = Log::default();
        let alarms = Filter::any_of([Filter::of_type(ALARM), Filter::of(40, 7)]);
        let [bulk, alarm] = connect(&channel, &log, [bulk, alarms]);
        let supplier = channel.for_suppliers().connect().unwrap();
        let taken = |event_type, source| supplier.push(&event(event_type, source, 0)).taken;
        assert_eq!([taken(ALARM, 1), taken(BULK, 1), taken(40, 1), taken(40, 7)], [1; 4]);
        assert_eq!((bulk.waiting(), alarm.waiting()), (2, 2));
        assert_eq!(all(&channel, &log).len(), 4);
    }
    // A conjunction needs the event for another one.
    let channel = by_hand();
    let log = Log::default();
    let both = Filter::all_of([Filter::of_type(ALARM), Filter::of_type(BULK)]);
    let [_bulk, _alarm] = connect(&channel, &log, [both, Filter::of_type(ALARM)]);
    let supplier = channel.for_suppliers().connect().unwrap();
    supplier.push(&event(ALARM, 1, 1));
    supplier.push(&event(BULK, 1, 2));
    while channel.step() {}
    assert_eq!(log.take_times(), [vec![1], vec![1, 2]]);
}

/// Admits by handle, each once: 1 is urgent, 2 is not, 9 is refused. Keeps the admissions.
#[derive(Clone, Default)]
struct ByHandle(Arc<Mutex<Vec<i32>>>);

impl RunTimeScheduler for ByHandle {
    fn admit(&self, name: &str, q: &Quality) -> Result<(Placement, u64), NotAdmitted> {
        let mut admitted = self.0.lock().unwrap();
        if q.rt_info == 9 || admitted.contains(&q.rt_info) {
            return Err(NotAdmitted(format!("{name} cannot be admitted as {}", q.rt_info)));
        }
        admitted.push(q.rt_info);
        let priority = Priority::new(if q.rt_info == 1 { 20_000 } else { 10 }).unwrap();
        let placement = Placement {
            priority,
            sub_priority: q.sub_priority,
            deadline: None,
            worst_case: None,
            period: None,
            jitter: q.jitter,
        };
        Ok((placement, u64::from(q.rt_info.unsigned_abs())))
    }

    fn leave(&self, number: u64) {
        self.0.lock().unwrap().retain(|handle| u64::from(handle.unsigned_abs()) != number);
    }
}

#[test]
fn all_operations_of_a_consumer_are_admitted_or_none() {
    let scheduler = ByHandle::default();
    let levels = [10, 20_000].map(|level| Priority::new(level).unwrap()).to_vec();
    let config = Channel::builder().scheduler(Arc::new(scheduler.clone())).levels(levels);
    let (channel, _) = still(config.strategy(Strategy::ByHand { upcalls: false }));
    let admitted = || {
        let mut admitted = scheduler.0.lock().unwrap().clone();
        admitted.sort_unstable();
        admitted
    };
    let log = Log::default();
    let one = |rt_info, further: &[i32], event_type| Registrations {
        operations: further.to_vec(),
        ..Registrations::new(
            log.consumer(),
            wants(Filter::of_type(event_type)).quality(Quality { rt_info, ..Quality::default() }),
        )
    };
    let connect = |registrations| channel.for_consumers().connect_each(registrations);
    for refused in [
        vec![one(1, &[], 20), one(9, &[], 21)],
        vec![one(1, &[2], 20), one(3, &[9], 21)],
        vec![one(1, &[], 20), one(1, &[], 21)],
    ] {
        let Err(ConnectError::NotAdmitted(why)) = connect(refused) else { panic!("it is refused") };
        assert!(why.to_string().starts_with("test cannot be admitted as "), "{why}");
        assert!(channel.consumers().is_empty() && admitted().is_empty());
    }
    // So it is where the channel cannot connect one of them.
    let unknown = ConsumerQos { filters: vec![Filter::Disjunction(vec![])], ..wants(Filter::Everything) };
    let broken = Registrations::new(log.consumer(), unknown);
    assert!(matches!(connect(vec![one(1, &[], 20), broken]), Err(ConnectError::Filter(_))));
    assert!(channel.consumers().is_empty() && admitted().is_empty());

    // The most urgent of several operations places their registrations.
    let proxies = connect(vec![one(2, &[], 20), one(3, &[1], 21)]).unwrap();
    let priorities: Vec<_> = proxies.iter().map(|proxy| proxy.priority().unwrap().get()).collect();
    assert_eq!((priorities, admitted()), (vec![10, 20_000], vec![1, 2, 3]));
    drop(proxies);
    assert!(admitted().is_empty());
}

#[test]
fn pushes_to_several_registrations_allocate_nothing() {
    let channel = by_hand();
    let log = Arc::new(|_: &[Event<'_>]| ());
    let qos =
        [at("bulk", Priority::MIN, Filter::Everything), at("alarm", Priority::MAX, Filter::of_type(ALARM))];
    let registrations = qos.map(|qos| Registrations::new(log.clone(), qos)).into();
    let _proxies = channel.for_consumers().connect_each(registrations).unwrap();
    let supplier = channel.for_suppliers().connect().unwrap();
    let round = || {
        let mut taken = Pushed::default();
        for _ in 0..QUEUE {
            taken.taken += supplier.push(&event(BULK, 1, 0).octets(b"some data")).taken;
            taken.taken += supplier.push(&event(ALARM, 1, 0).octets(b"some data")).taken;
        }
        while channel.step() {}
        taken.taken
    };
    for _ in 0..3 {
        round();
    }
    let mut taken = 0;
    assert_eq!(allocations_during(|| taken = (0..20).map(|_| round()).sum()), 0);
    assert_eq!(taken, 20 * 2 * QUEUE as u32);
}

//! Subscriptions, suspension, configurations, limits.

use crate::common::*;
use isorb_event::{
    Channel, ChannelBuilder, Configuration, ConnectError, ConsumerQos, Event, Failure, Filter, Fixed,
    FixedBroadcaster, FixedDiscriminator, FixedFiltering, Limits, Malformed, Overflow, Priority,
    PushConsumer, Pushed, Quality, Strategy, ThreadSetup,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[test]
fn by_source_by_type_by_both_by_mask() {
    let channel = Channel::builder().build().unwrap();
    let filters = [
        Filter::of(20, 1),
        Filter::of_type(20),
        Filter::from_source(1),
        Filter::of(0, 0),
        Filter::Everything,
        Filter::Masked { source_mask: 0, type_mask: 0xf, source: 0, event_type: 4 },
        Filter::Bits { source_mask: 1, type_mask: 4, behind: Box::new(Filter::Everything) },
        Filter::Not(Box::new(Filter::of_type(20))),
        Filter::LogicalAnd(vec![Filter::from_source(1), Filter::Not(Box::new(Filter::of_type(20)))]),
    ];
    let logs: Vec<Log> = filters.iter().map(|_| Log::default()).collect();
    let connected: Vec<_> =
        filters.iter().zip(&logs).map(|(filter, log)| log.connect(&channel, wants(filter.clone()))).collect();
    let supplier = channel.for_suppliers().connect().unwrap();
    let got = |event: Event<'_>| -> Vec<usize> {
        let pushed = supplier.push(&event);
        let got: Vec<usize> = (0..logs.len()).filter(|i| !logs[*i].take().is_empty()).collect();
        assert_eq!(pushed, Pushed { taken: got.len() as u32, ..Pushed::default() });
        got
    };
    assert_eq!(got(event(20, 1, 0)), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(got(event(20, 2, 0)), [1, 3, 4, 5]);
    assert_eq!(got(event(21, 1, 0)), [2, 3, 4, 6, 7, 8]);
    assert_eq!(got(event(17, 2, 0)), [3, 4, 7]);
    drop(connected);
    assert_eq!((got(event(20, 1, 0)), channel.lookups()), (vec![], 0));
}

#[test]
fn a_registration_is_served_once_an_event_and_registrations_are_independent() {
    let channel = Channel::builder().build().unwrap();
    let log = Log::default();
    let any = Filter::any_of([Filter::of(20, 1), Filter::of_type(20), Filter::from_source(1)]);
    let _c = log.connect(&channel, wants(any).filter(Filter::of(20, 1)));
    let supplier = channel.for_suppliers().connect().unwrap();
    supplier.push(&event(20, 1, 5));
    assert_eq!(log.take_times(), [[5], [5]]);
    supplier.push(&event(21, 1, 6));
    assert_eq!(log.take_times(), [[6]]);
}

#[test]
fn each_kind_of_subscription_costs_one_look_up() {
    let limits = Limits { consumers: 3_000, ..Limits::default() };
    let channel = Channel::builder().limits(limits).build().unwrap();
    let log = Log::default();
    let admin = channel.for_consumers();
    let connect = |filter| admin.connect(log.consumer(), wants(filter)).unwrap();
    let _exact: Vec<_> = (0..2_000).map(|i| connect(Filter::of(20 + i, 1 + i % 7))).collect();
    assert_eq!(channel.lookups(), 1);
    let sources: Vec<_> = (0..100).map(|i| connect(Filter::from_source(100 + i))).collect();
    assert_eq!(channel.lookups(), 2);
    let supplier = channel.for_suppliers().connect().unwrap();
    (0..2_000).for_each(|i| assert_eq!(supplier.push(&event(20 + i, 1 + i % 7, 0)).taken, 1));
    drop(sources);
    assert_eq!(channel.lookups(), 1);
}

/// With bit masks there is one look-up for each distinct pair of masks, however many consumers use
/// it.
#[test]
fn each_distinct_mask_costs_one_look_up() {
    let limits = Limits { consumers: 3_000, ..Limits::default() };
    let channel = Channel::builder().limits(limits).build().unwrap();
    let admin = channel.for_consumers();
    let count = Arc::new(AtomicU32::new(0));
    let counting = count.clone();
    let consumer: Arc<dyn PushConsumer> = Arc::new(move |_: &[Event<'_>]| {
        counting.fetch_add(1, Ordering::Relaxed);
    });
    let connect = |filter| admin.connect(consumer.clone(), wants(filter)).unwrap();
    // Eight bits of the type; four of the source; both together. Up to 100 values each.
    let masks = [(0xff, 0), (0, 0xf), (0xff, 0xf)];
    let mut connected: Vec<Vec<_>> = Vec::new();
    for (distinct, (type_mask, source_mask)) in masks.into_iter().enumerate() {
        connected.push(
            (0..100_u32)
                .map(|i| {
                    let (event_type, source) = (i & type_mask, (i / 7) & source_mask);
                    connect(Filter::Masked { source_mask, type_mask, source, event_type })
                })
                .collect(),
        );
        assert_eq!(channel.lookups(), distinct + 1);
    }
    let supplier = channel.for_suppliers().connect().unwrap();
    let wanted = |event_type: u32, source: u32| {
        let wants = |(type_mask, source_mask): (u32, u32), i: u32| {
            (event_type & type_mask, source & source_mask) == (i & type_mask, (i / 7) & source_mask)
        };
        masks.iter().map(|masks| (0..100).filter(|i| wants(*masks, *i)).count()).sum::<usize>() as u32
    };
    for (event_type, source) in [(0x120, 3), (0x163, 14), (0x1f0, 9), (0x150, 11)] {
        let taken = supplier.push(&event(event_type, source, 0)).taken;
        assert_eq!(taken, wanted(event_type as u32, source as u32), "{event_type:#x} of {source}");
        assert_eq!(taken, count.swap(0, Ordering::Relaxed));
    }
    // A mask costs a look-up while a consumer uses it.
    for left in (0..masks.len()).rev() {
        connected.pop();
        assert_eq!(channel.lookups(), left);
    }
}

#[test]
fn suspended_consumers_cost_nothing_and_resume() {
    let channel = Channel::builder().build().unwrap();
    let log = Log::default();
    let proxy = log.connect(&channel, wants(Filter::all_of([Filter::of(20, 0), Filter::of(21, 0)])));
    let supplier = channel.for_suppliers().connect().unwrap();
    supplier.push(&event(20, 1, 1));
    proxy.suspend().unwrap();
    proxy.suspend().unwrap();
    assert_eq!(channel.lookups(), 0);
    assert_eq!(supplier.push(&event(21, 1, 2)), Pushed::default());
    proxy.resume().unwrap();
    assert_eq!(supplier.push(&event(21, 1, 3)).taken, 1);
    assert_eq!(log.take_times(), [[1, 3]]);
    proxy.suspend().unwrap();
    proxy.disconnect();
    assert!(channel.consumers().is_empty());
}

#[test]
fn urgent_consumers_of_a_pattern_are_first() {
    let channel = Channel::builder().build().unwrap();
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let _c: Vec<_> = [5, 30, 10]
        .into_iter()
        .map(|priority| {
            let order = order.clone();
            let quality = Quality { priority: Priority::new(priority).unwrap(), ..Quality::default() };
            let consumer = move |_: &[Event<'_>]| order.lock().unwrap().push(priority);
            let qos = wants(Filter::of(20, 0)).quality(quality);
            channel.for_consumers().connect(Arc::new(consumer), qos).unwrap()
        })
        .collect();
    channel.for_suppliers().connect().unwrap().push(&event(20, 1, 0));
    assert_eq!(*order.lock().unwrap(), [30, 10, 5]);
}

/// How each configuration treats a conjunction, a filter and an unwanted event.
fn behaves(configuration: Configuration, push: impl Fn(&Log, &Log, [Event<'static>; 3])) {
    let (both, one) = (Log::default(), Log::default());
    push(&both, &one, [event(20, 1, 1), event(21, 1, 2), event(30, 1, 3)]);
    let (both, one) = (both.take_times(), one.take_times());
    match configuration {
        Configuration::Full | Configuration::ForwardingDiscriminator => {
            assert_eq!((both, one), (vec![vec![1, 2]], vec![vec![1]]));
        }
        Configuration::SubscriptionAndFiltering => {
            assert_eq!((both, one), (vec![vec![1], vec![2]], vec![vec![1]]));
        }
        Configuration::Broadcaster => {
            let all = vec![vec![1], vec![2], vec![3]];
            assert_eq!((both, one), (all.clone(), all));
        }
    }
}

fn connect_and_push<M: isorb_event::ModuleSet>(
    channel: &Channel<M>,
    both: &Log,
    one: &Log,
    events: &[Event<'_>],
) {
    let _b = both.connect(channel, wants(Filter::all_of([Filter::of(20, 0), Filter::of(21, 0)])));
    let _o = one.connect(channel, wants(Filter::of(20, 1)));
    let supplier = channel.for_suppliers().connect().unwrap();
    supplier.push_all(events);
    while channel.step() {}
}

#[test]
fn configurations_use_their_modules() {
    use Configuration::*;
    for configuration in [Full, ForwardingDiscriminator, SubscriptionAndFiltering, Broadcaster] {
        for strategy in [Strategy::Direct, Strategy::ByHand { upcalls: false }] {
            behaves(configuration, |both, one, events| {
                let channel =
                    Channel::builder().strategy(strategy).configuration(configuration).build().unwrap();
                assert_eq!(channel.configuration(), configuration);
                connect_and_push(&channel, both, one, &events);
            });
        }
    }
}

#[test]
fn configurations_by_type_use_their_modules() {
    let fixed = |config| {
        move |both: &Log, one: &Log, events: [Event<'static>; 3]| match config {
            Configuration::Broadcaster => {
                let channel =
                    Channel::builder().build_fixed(FixedBroadcaster::new(isorb_event::dispatch::Direct));
                connect_and_push(&channel.unwrap(), both, one, &events);
            }
            Configuration::SubscriptionAndFiltering => {
                let channel =
                    Channel::builder().build_fixed(FixedFiltering::new(isorb_event::dispatch::Direct));
                connect_and_push(&channel.unwrap(), both, one, &events);
            }
            Configuration::ForwardingDiscriminator => {
                let channel =
                    Channel::builder().build_fixed(FixedDiscriminator::new(isorb_event::dispatch::Direct));
                connect_and_push(&channel.unwrap(), both, one, &events);
            }
            Configuration::Full => {
                let queued = isorb_event::dispatch::Queued::alone(
                    Strategy::ByHand { upcalls: false },
                    &ChannelBuilder::default_levels(),
                    &ThreadSetup::default(),
                );
                let modules = Fixed::<true, true, _>::new(queued.unwrap().unwrap());
                connect_and_push(&Channel::builder().build_fixed(modules).unwrap(), both, one, &events);
            }
        }
    };
    use Configuration::*;
    for configuration in [Full, ForwardingDiscriminator, SubscriptionAndFiltering, Broadcaster] {
        behaves(configuration, fixed(configuration));
    }
}

#[test]
fn limits_hold_and_refusals_leave_nothing() {
    let limits = Limits {
        consumers: 2,
        suppliers: 1,
        masks: 1,
        timers: 1,
        events: 1,
        payload: 4,
        ..Limits::default()
    };
    let channel = Channel::builder().limits(limits).own_threads(false).build().unwrap();
    let connect = |filter: Filter| channel.for_consumers().connect(Log::default().consumer(), wants(filter));
    let refused = |filter: Filter| connect(filter).unwrap_err();
    let second = Duration::from_secs(1);
    assert_eq!(refused(Filter::all_of([])), ConnectError::Filter(Malformed::EmptyGroup));
    assert_eq!(refused(Filter::any_of([Filter::of(20, 0), Filter::of(20, 1)])), ConnectError::TooManyMasks);
    assert_eq!(
        refused(Filter::any_of([Filter::interval(second), Filter::deadline(second)])),
        ConnectError::TooManyTimers
    );
    assert_eq!((channel.consumers().len(), channel.lookups(), channel.next_timeout()), (0, 0, None));
    let one = connect(Filter::of(20, 0)).unwrap();
    let _two = connect(Filter::of(21, 0)).unwrap();
    assert_eq!(refused(Filter::of(22, 0)), ConnectError::TooMany);
    drop(one);
    let _three = connect(Filter::of(22, 0)).unwrap();
    let _s = channel.for_suppliers().connect().unwrap();
    assert_eq!(channel.for_suppliers().connect().unwrap_err(), ConnectError::TooMany);
    channel.destroy();
    assert_eq!(refused(Filter::of(22, 0)), ConnectError::Destroyed);
    assert_eq!(channel.for_suppliers().connect().unwrap_err(), ConnectError::Destroyed);
}

#[test]
fn failed_copies_are_counted_and_reported() {
    let limits = Limits { events: 1, payload: 4, larger: Default::default(), ..Limits::default() };
    let channel = Channel::builder().limits(limits).build().unwrap();
    let log = Log::default();
    let quality = Quality { overflow: Overflow::Refuse, ..Quality::default() };
    let pair = Filter::all_of([Filter::of(20, 0), Filter::of(21, 0)]);
    let proxy = log.connect(&channel, wants(pair.clone()).quality(quality));
    let supplier = channel.for_suppliers().connect().unwrap();
    assert_eq!(supplier.push(&event(20, 0, 1).octets(b"12345")).too_large, 1);
    assert_eq!(supplier.push(&event(20, 0, 2).octets(b"1234")).taken, 1);
    let other = log.connect(&channel, wants(Filter::all_of([Filter::of(22, 0), Filter::of(23, 0)])));
    assert_eq!(supplier.push(&event(22, 0, 3)).dropped, 1);
    // The last event of a conjunction needs no copy, so any size is accepted.
    assert_eq!(supplier.push(&event(21, 0, 4).octets(&[0; 100])).taken, 1);
    assert_eq!(log.take_times(), [[2, 4]]);
    assert_eq!((proxy.counts().too_large, other.counts().not_kept, channel.free_copies()), (1, 1, 1));
    assert_eq!((proxy.counts().not_kept, channel.totals().too_large), (0, 1));
}

#[test]
fn failing_and_panicking_consumers_are_evicted_and_delay_no_other() {
    struct Failing(AtomicU32);
    impl PushConsumer for Failing {
        fn push(&self, events: &[Event<'_>]) -> Result<(), Failure> {
            assert!(events[0].header.event_type != 21, "on purpose");
            Err(Failure::Failed)
        }
        fn disconnected(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let channel = Channel::builder().own_threads(false).build().unwrap();
    let failing = Arc::new(Failing(AtomicU32::new(0)));
    let quality = Quality { failures: 3, priority: Priority::MAX, ..Quality::default() };
    let qos = ConsumerQos::new("failing", Filter::Everything).quality(quality);
    let proxy = channel.for_consumers().connect(failing.clone(), qos).unwrap();
    let log = Log::default();
    let _other = log.connect(&channel, wants(Filter::Everything));
    let supplier = channel.for_suppliers().connect().unwrap();
    let taken: Vec<u32> = (0..4).map(|i| supplier.push(&event(20 + i % 2, 0, 0)).taken).collect();
    assert_eq!(taken, [2, 2, 2, 1]);
    assert_eq!((proxy.counts().failed, log.take().len(), proxy.is_connected()), (3, 4, false));
    assert_eq!((channel.sweep(), failing.0.load(Ordering::SeqCst), channel.consumers().len()), (1, 1, 1));
}

#[test]
fn a_consumer_may_connect_and_disconnect_others_while_it_runs() {
    let channel = Channel::builder().build().unwrap();
    let log = Log::default();
    let held = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (inner, inner_log, inner_held) = (channel.clone(), log.clone(), held.clone());
    let consumer = move |_: &[Event<'_>]| {
        let mut held = inner_held.lock().unwrap();
        held.clear();
        // More changes than versions of the tables.
        (0..40).for_each(|_| held.push(inner_log.connect(&inner, wants(Filter::of(21, 0)))));
    };
    let _c = channel.for_consumers().connect(Arc::new(consumer), wants(Filter::of(20, 0))).unwrap();
    let supplier = channel.for_suppliers().connect().unwrap();
    (0..3).for_each(|_| assert_eq!(supplier.push(&event(20, 0, 0)).taken, 1));
    assert_eq!(supplier.push(&event(21, 0, 7)).taken, 40);
    assert_eq!(log.take().len(), 40);
    held.lock().unwrap().clear();
}

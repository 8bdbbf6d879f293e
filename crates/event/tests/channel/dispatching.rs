//! Order, queues, upcalls, threads.

use crate::common::*;
use isorb_event::{
    Channel, Event, Filter, Limits, Overflow, Priority, Pushed, Quality, Strategy, SubPriority, yield_now,
};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

const BY_HAND: Strategy = Strategy::ByHand { upcalls: false };

fn at(priority: i16) -> Quality {
    Quality { priority: Priority::new(priority).unwrap(), ..Quality::default() }
}

fn drain(channel: &Channel) {
    while channel.step() {}
}

/// Consumers of types 20, 21, ... with these qualities, all writing to one log.
fn consumers(channel: &Channel, log: &Log, qualities: &[Quality]) -> Vec<isorb_event::ProxyPushSupplier> {
    let connect = |(i, quality): (usize, &Quality)| {
        log.connect(channel, wants(Filter::of_type(20 + i as i32)).quality(quality.clone()))
    };
    qualities.iter().enumerate().map(connect).collect()
}

#[test]
fn levels_first_then_arrival() {
    let (channel, _) = still(Channel::builder().strategy(BY_HAND));
    let log = Log::default();
    let _c = consumers(&channel, &log, &[at(0), at(30_000), at(9_000), at(8_192), at(100)]);
    let supplier = channel.for_suppliers().connect().unwrap();
    for (i, t) in [20, 24, 22, 23, 21, 20, 21].into_iter().enumerate() {
        supplier.push(&event(t, 0, i as u64));
    }
    drain(&channel);
    // A consumer with more pushes is queued behind those of its level that arrived meanwhile.
    let types: Vec<i32> = log.take().iter().map(|push| push[0].0).collect();
    assert_eq!(types, [21, 21, 22, 23, 20, 24, 20]);
}

#[test]
fn sub_priorities_order_a_level() {
    let ms = Duration::from_millis;
    let (channel, clock) = still(Channel::builder().strategy(BY_HAND));
    let log = Log::default();
    let timed = |deadline, worst, sub_priority| Quality {
        deadline: Some(ms(deadline)),
        worst_case: Some(ms(worst)),
        sub_priority,
        ..Quality::default()
    };
    let types = |log: &Log| -> Vec<i32> { log.take().iter().map(|push| push[0].0).collect() };
    let push_all = |channel: &Channel, count: i32| {
        let supplier = channel.for_suppliers().connect().unwrap();
        (0..count).for_each(|i| {
            supplier.push(&event(20 + i, 0, 0));
            clock.advance(1_000_000);
        });
        drain(channel);
    };
    {
        let fixed = |value| Quality { sub_priority: SubPriority::Static(value), ..Quality::default() };
        let _c = consumers(&channel, &log, &[fixed(1), fixed(i32::MIN), fixed(i32::MAX), fixed(1)]);
        push_all(&channel, 4);
        assert_eq!(types(&log), [22, 20, 23, 21]);
    }
    {
        use SubPriority::Deadline;
        let _c =
            consumers(&channel, &log, &[timed(9, 1, Deadline), timed(5, 1, Deadline), timed(6, 1, Deadline)]);
        push_all(&channel, 3);
        assert_eq!(types(&log), [21, 22, 20]);
    }
    {
        use SubPriority::Laxity;
        let _c = consumers(&channel, &log, &[timed(9, 8, Laxity), timed(5, 1, Laxity), timed(6, 5, Laxity)]);
        push_all(&channel, 3);
        assert_eq!(types(&log), [20, 22, 21]);
    }
}

#[test]
fn a_full_queue_follows_the_overflow_policy() {
    let policies = [
        (Overflow::DropOldest, vec![2, 3], Pushed { taken: 1, ..Pushed::default() }),
        (Overflow::DropNewest, vec![1, 2], Pushed { dropped: 1, ..Pushed::default() }),
        (Overflow::Refuse, vec![1, 2], Pushed { refused: 1, ..Pushed::default() }),
        (Overflow::Block, vec![1, 2], Pushed { refused: 1, ..Pushed::default() }),
    ];
    for (overflow, left, third) in policies {
        let config = Channel::builder().strategy(BY_HAND).block(Duration::from_millis(2));
        let (channel, _) = still(config);
        let (log, other) = (Log::default(), Log::default());
        let quality = Quality { queue: 2, overflow, ..Quality::default() };
        let proxy = log.connect(&channel, wants(Filter::of(20, 0)).quality(quality));
        let _other = other.connect(&channel, wants(Filter::of(21, 0)));
        let supplier = channel.for_suppliers().connect().unwrap();
        supplier.push(&event(20, 0, 1));
        supplier.push(&event(20, 0, 2));
        assert_eq!(supplier.push(&event(20, 0, 3)), third, "{overflow:?}");
        assert_eq!(supplier.push(&event(21, 0, 9)).taken, 1, "the other has a queue of its own");
        let counts = proxy.counts();
        assert_eq!(counts.dropped + counts.refused, 1);
        drain(&channel);
        assert_eq!(log.take_times().concat(), left, "{overflow:?}");
        assert_eq!(other.take().len(), 1);
        assert_eq!(channel.free_copies(), isorb_event::Limits::default().events);
    }
}

#[test]
fn a_blocked_supplier_goes_on_when_there_is_room() {
    let config = Channel::builder().strategy(BY_HAND).block(Duration::from_secs(60));
    let (channel, _) = still(config);
    let log = Log::default();
    let quality = Quality { queue: 1, overflow: Overflow::Block, ..Quality::default() };
    let _c = log.connect(&channel, wants(Filter::of(20, 0)).quality(quality));
    let supplier = channel.for_suppliers().connect().unwrap();
    supplier.push(&event(20, 0, 1));
    std::thread::scope(|s| {
        let t = s.spawn(|| supplier.push(&event(20, 0, 2)).taken);
        while log.take().is_empty() {
            channel.step();
        }
        assert_eq!(t.join().unwrap(), 1);
    });
    drain(&channel);
    assert_eq!(log.take_times(), [[2]]);
}

#[test]
fn a_consumer_may_own_a_supplier() {
    let limits = Limits { suppliers: 2, ..Limits::default() };
    let channel = Channel::builder().limits(limits).own_threads(false).build().unwrap();
    for _ in 0..10 {
        let supplier = channel.for_suppliers().connect().unwrap();
        let forwards = move |_: &[Event<'_>]| {
            supplier.push(&event(21, 1, 0));
        };
        let forwards = channel.for_consumers().connect(Arc::new(forwards), wants(Filter::of(20, 1))).unwrap();
        // It is disconnected while an event is under way, so the next change drops the tables, and
        // with them the consumer and its supplier.
        let forwards = Mutex::new(Some(forwards));
        let ends = move |_: &[Event<'_>]| drop(forwards.lock().unwrap().take());
        let ends = channel.for_consumers().connect(Arc::new(ends), wants(Filter::of(22, 1))).unwrap();
        let first = channel.for_suppliers().connect().unwrap();
        first.push(&event(20, 1, 0));
        first.push(&event(22, 1, 0));
        drop(ends);
    }
}

#[test]
fn one_copy_however_many_queues() {
    let (channel, _) = still(Channel::builder().strategy(BY_HAND));
    let log = Log::default();
    let _c: Vec<_> = (0..20).map(|_| log.connect(&channel, wants(Filter::of(20, 0)))).collect();
    let all = channel.free_copies();
    channel.for_suppliers().connect().unwrap().push(&event(20, 0, 0).octets(b"data"));
    assert_eq!(channel.free_copies(), all - 1);
    drain(&channel);
    assert_eq!((channel.free_copies(), log.take().len()), (all, 20));
}

/// The address of an event's data as its consumer sees it, and the free copies meanwhile.
fn seen_at(strategy: Strategy) -> (Vec<(usize, usize)>, usize, usize) {
    let channel = Channel::builder().strategy(strategy).own_threads(false).build().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let connect = || {
        let (seen, inner) = (seen.clone(), channel.clone());
        let consumer = move |events: &[Event<'_>]| {
            assert_eq!(events[0].data.octets, b"data");
            let at = events[0].data.octets.as_ptr().addr();
            seen.lock().unwrap().push((at, inner.free_copies()));
        };
        channel.for_consumers().connect(Arc::new(consumer), wants(Filter::of(20, 0))).unwrap()
    };
    let _consumers = [connect(), connect()];
    let data = *b"data";
    channel.for_suppliers().connect().unwrap().push(&event(20, 0, 0).octets(&data));
    drain(&channel);
    let seen = seen.lock().unwrap().clone();
    (seen, data.as_ptr().addr(), channel.free_copies())
}

#[test]
fn an_event_reaches_consumers_without_dispatching_by_reference_and_queued_ones_in_one_copy() {
    let (seen, own, free) = seen_at(Strategy::Direct);
    assert_eq!(seen, [(own, free); 2], "the supplier's own octets, and no copy in use");
    let (seen, own, free) = seen_at(BY_HAND);
    assert_eq!(seen.len(), 2);
    assert!(seen.iter().all(|(at, _)| *at == seen[0].0 && *at != own), "one copy for both: {seen:?}, {own}");
    assert_eq!(seen.iter().map(|(_, free)| *free).collect::<Vec<_>>(), [free - 1; 2]);
}

#[test]
fn conjunctions_of_many_go_through_queues_whole() {
    let (channel, _) = still(Channel::builder().strategy(BY_HAND));
    let log = Log::default();
    let all = Filter::all_of((0..32).map(|i| Filter::of(20 + i, 0)));
    let _c = log.connect(&channel, wants(all));
    let supplier = channel.for_suppliers().connect().unwrap();
    (0..32).rev().for_each(|i| assert_eq!(supplier.push(&event(20 + i, 0, 50 - i as u64)).taken, 1));
    drain(&channel);
    assert_eq!(log.take_times(), [(19..=50).collect::<Vec<u64>>()]);
    assert_eq!(channel.free_copies(), isorb_event::Limits::default().events);
}

/// The low consumer pushes to two others and yields; the log has the order.
fn upcalls(strategy: Strategy) -> Vec<&'static str> {
    let channel = Channel::builder().strategy(strategy).own_threads(false).build().unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    let supplier = Arc::new(channel.for_suppliers().connect().unwrap());
    let connect = |event_type, priority, names: [&'static str; 2], next: Option<i32>| {
        let (log, supplier) = (log.clone(), supplier.clone());
        let consumer = move |_: &[Event<'_>]| {
            log.lock().unwrap().push(names[0]);
            if let Some(next) = next {
                supplier.push(&event(next, 0, 0));
                supplier.push(&event(30, 0, 0));
                yield_now();
            }
            log.lock().unwrap().push(names[1]);
        };
        let qos = wants(Filter::of(event_type, 0)).quality(at(priority));
        channel.for_consumers().connect(Arc::new(consumer), qos).unwrap()
    };
    let c = [
        connect(20, 0, ["low", "/low"], Some(21)),
        connect(21, 16_384, ["mid", "/mid"], Some(22)),
        connect(22, 24_576, ["high", "/high"], None),
        connect(30, 0, ["equal", "/equal"], None),
    ];
    supplier.push(&event(20, 0, 0));
    while channel.step() {}
    drop(c);
    std::mem::take(&mut *log.lock().unwrap())
}

#[test]
fn upcalls_nest_only_by_priority() {
    let nested = upcalls(Strategy::ByHand { upcalls: true });
    assert_eq!(nested, ["low", "mid", "high", "/high", "/mid", "/low", "equal", "/equal", "equal", "/equal"]);
    // The control: without upcalls each runs to its end.
    let flat = upcalls(BY_HAND);
    assert_eq!(flat, ["low", "/low", "mid", "/mid", "high", "/high", "equal", "/equal", "equal", "/equal"]);
    assert_eq!(yield_now(), 0, "outside of a dispatcher it does nothing");
}

/// Each strategy with threads: all events arrive, in order for each supplier, one push at a time
/// for each consumer.
#[test]
fn threads_lose_double_and_reorder_no_events() {
    const EVENTS: u64 = 3_000;
    for strategy in [Strategy::SingleThreaded, Strategy::Threads { per_level: 3 }, Strategy::Upcalls] {
        let config = Channel::builder().strategy(strategy).block(Duration::from_secs(60));
        let channel = config.build().unwrap();
        let logs: Vec<Log> = (0..4).map(|_| Log::default()).collect();
        let proxies: Vec<_> = logs
            .iter()
            .enumerate()
            .map(|(i, log)| {
                let running = AtomicBool::new(false);
                let inner = log.consumer();
                let consumer = move |events: &[Event<'_>]| {
                    assert!(!running.swap(true, Ordering::SeqCst), "one push at a time");
                    yield_now();
                    inner.push(events).unwrap();
                    running.store(false, Ordering::SeqCst);
                };
                let quality = Quality { overflow: Overflow::Block, queue: 16, ..at(i as i16 * 8_192) };
                let qos = wants(Filter::Everything).quality(quality);
                channel.for_consumers().connect(Arc::new(consumer), qos).unwrap()
            })
            .collect();
        let start = Barrier::new(2);
        std::thread::scope(|s| {
            for source in 1..=2 {
                let (channel, start) = (&channel, &start);
                s.spawn(move || {
                    let supplier = channel.for_suppliers().connect().unwrap();
                    start.wait();
                    (1..=EVENTS).for_each(|n| assert_eq!(supplier.push(&event(20, source, n)).taken, 4));
                });
            }
        });
        while proxies.iter().any(|proxy| proxy.counts().pushed < 2 * EVENTS) {
            std::thread::sleep(Duration::from_millis(1));
        }
        channel.destroy();
        for log in logs {
            let got = log.take().concat();
            for source in 1..=2 {
                let times: Vec<u64> = got.iter().filter(|e| e.1 == source).map(|e| e.2).collect();
                assert_eq!(times, (1..=EVENTS).collect::<Vec<_>>(), "{strategy:?}");
            }
        }
    }
}

/// A consumer that never returns in time delays no other. Only its own queue fills.
#[test]
fn a_slow_consumer_delays_no_other_level() {
    let channel = Channel::builder().strategy(Strategy::Threads { per_level: 1 }).build().unwrap();
    let (go, fast) = (Arc::new(Barrier::new(2)), Arc::new(AtomicU32::new(0)));
    let begun = Arc::new(AtomicBool::new(false));
    let (begins, wait, count) = (begun.clone(), go.clone(), fast.clone());
    let slow = move |_: &[Event<'_>]| {
        begins.store(true, Ordering::SeqCst);
        wait.wait();
    };
    let quick = move |_: &[Event<'_>]| {
        count.fetch_add(1, Ordering::SeqCst);
    };
    let quality = Quality { queue: 2, overflow: Overflow::Refuse, ..at(0) };
    let slow =
        channel.for_consumers().connect(Arc::new(slow), wants(Filter::of(20, 0)).quality(quality)).unwrap();
    let _q = channel
        .for_consumers()
        .connect(Arc::new(quick), wants(Filter::of(20, 0)).quality(at(30_000)))
        .unwrap();
    let supplier = channel.for_suppliers().connect().unwrap();
    let mut refused = 0;
    for _ in 0..50 {
        refused += supplier.push(&event(20, 0, 0)).refused;
        while fast.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        fast.store(0, Ordering::SeqCst);
    }
    assert!((47..=48).contains(&refused), "one runs, two wait: {refused}");
    assert_eq!(slow.counts().refused, u64::from(refused));
    // On a busy machine its thread may not have reached it yet.
    while !begun.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    // Release it; its queued events are dropped.
    drop(slow);
    go.wait();
}

/// Registrations are replaced in one step; queued events still arrive, first.
#[test]
fn resubscribing_loses_no_queued_events() {
    let limits = Limits { masks: 2, ..Limits::default() };
    let config = Channel::builder().strategy(Strategy::ByHand { upcalls: false }).limits(limits);
    let (channel, _) = still(config);
    let log = Log::default();
    let proxy = log.connect(&channel, wants(Filter::of(20, 0)));
    let supplier = channel.for_suppliers().connect().unwrap();
    let push = |event_type, time| supplier.push(&event(event_type, 1, time)).taken;
    assert_eq!((push(20, 1), push(21, 2)), (1, 0));
    proxy.resubscribe(vec![Filter::of(21, 0)]).unwrap();
    assert_eq!((push(20, 3), push(21, 4), proxy.waiting()), (0, 1, 2));
    // An invalid request is refused and changes nothing.
    let mask = |source_mask| Filter::Masked { source_mask, type_mask: 1, source: 0, event_type: 0 };
    let refused = proxy.resubscribe(vec![mask(2), mask(4), mask(8)]);
    assert_eq!(refused, Err(isorb_event::ConnectError::TooManyMasks));
    assert!(proxy.resubscribe(vec![Filter::Conjunction(vec![])]).is_err());
    assert_eq!((push(20, 5), push(21, 6)), (0, 1));
    while channel.step() {}
    assert_eq!(log.take_times(), [[1], [4], [6]]);
    proxy.suspend().unwrap();
    proxy.resubscribe(vec![Filter::of(22, 0)]).unwrap();
    assert_eq!((push(21, 7), push(22, 8)), (0, 0), "it is still suspended");
    proxy.resume().unwrap();
    assert_eq!((push(21, 9), push(22, 10)), (0, 1));
}

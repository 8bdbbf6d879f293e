//! Late joiners, lifespans and time-based filters.

use crate::common::*;
use isorb_event::{
    Channel, ChannelBuilder, ConnectError, ConsumerQos, Event, Filter, HistoryQos, HistoryRequest, Lifespan,
    Quality, Strategy,
};
use isorb_rt::alloc_count::allocations_during;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

fn keeping(depth: usize) -> ChannelBuilder {
    Channel::builder().history(HistoryQos { streams: 8, ..HistoryQos::keep_last(depth) })
}

fn late(filter: Filter, last: usize) -> ConsumerQos {
    wants(filter).history(HistoryRequest::last(last))
}

#[test]
fn a_late_joiner_gets_the_last_events_of_each_type_and_source_first() {
    for strategy in
        [Strategy::Direct, Strategy::ByHand { upcalls: false }, Strategy::Threads { per_level: 1 }]
    {
        let (channel, _) = still(keeping(3).strategy(strategy));
        let supplier = channel.for_suppliers().connect().unwrap();
        for n in 1..=5 {
            supplier.push(&event(20, 1, n));
        }
        supplier.push(&event(21, 1, 6));
        supplier.push(&event(20, 2, 7));
        let (all, two, none, other) = (Log::default(), Log::default(), Log::default(), Log::default());
        let _all = all.connect(&channel, late(Filter::of_type(20), 9));
        let two_proxy = two.connect(&channel, late(Filter::Everything, 2));
        let _none = none.connect(&channel, wants(Filter::Everything));
        // Two registrations that let the event through, and one that cannot be met by one event.
        let conjunction = Filter::all_of([Filter::of_type(21), Filter::of_type(20)]);
        let qos = late(Filter::of_type(21), 9).filter(Filter::of(21, 1)).filter(conjunction);
        let _other = other.connect(&channel, qos);
        // Before a later event overwrites one of them.
        while channel.step() {}
        let read = || channel.consumers().iter().map(|consumer| consumer.counts.from_history).sum::<u64>();
        wait_until("all have the history", || read() == 4 + 4 + 1);
        supplier.push(&event(20, 1, 8));
        while channel.step() {}
        let expected = |times: &[u64]| times.iter().map(|time| vec![*time]).collect::<Vec<_>>();
        let pushed = || channel.consumers().iter().map(|consumer| consumer.counts.pushed).sum::<u64>();
        wait_until("all have the later one", || pushed() == 5 + 5 + 1 + 1);
        assert_eq!(all.take_times(), expected(&[3, 4, 5, 7, 8]), "{strategy:?}");
        assert_eq!(two.take_times(), expected(&[4, 5, 6, 7, 8]));
        assert_eq!(none.take_times(), expected(&[8]));
        assert_eq!(other.take_times(), expected(&[6]), "once, and the conjunction has one event only");
        assert_eq!((two_proxy.counts().from_history, two_proxy.counts().history_lost), (4, 0));
        let status = channel.history().unwrap();
        let streams: Vec<_> =
            status.streams.iter().map(|s| (s.event_type, s.source, s.kept, s.overwritten)).collect();
        assert_eq!(streams, [(20, 1, 3, 3), (20, 2, 1, 0), (21, 1, 1, 0)]);
    }
}

#[test]
fn a_channel_without_a_history_says_so() {
    let (channel, _) = still(Channel::builder());
    let refused = channel.for_consumers().connect(Log::default().consumer(), late(Filter::Everything, 1));
    let why = refused.unwrap_err();
    assert_eq!(why, ConnectError::NoHistory);
    assert!(why.to_string().contains("--keep-last"));
    assert!(channel.history().is_none() && channel.consumers().is_empty());
}

#[test]
fn what_is_not_kept_is_counted() {
    let qos = HistoryQos { streams: 2, payload: 4, ..HistoryQos::keep_last(2) };
    let (channel, _) = still(Channel::builder().history(qos));
    let supplier = channel.for_suppliers().connect().unwrap();
    supplier.push(&event(20, 1, 1).octets(b"12345"));
    supplier.push(&event(21, 1, 2).octets(b"1234"));
    supplier.push(&event(22, 1, 3));
    supplier.push(&event(22, 1, 4));
    let status = channel.history().unwrap();
    assert_eq!((status.too_large, status.no_stream, status.no_copy), (1, 2, 0));
    assert_eq!(status.streams.iter().map(|stream| stream.kept).collect::<Vec<_>>(), [0, 1]);
    let memory = HistoryQos { depth: 1 << 40, ..HistoryQos::default() };
    let refused = Channel::builder().history(memory).build().unwrap_err();
    assert!(refused.to_string().contains("HistoryQos::depth"), "{refused}");
}

#[test]
fn old_events_leave_the_history() {
    let qos = HistoryQos { age: Some(Duration::from_millis(10)), ..HistoryQos::keep_last(9) };
    let (channel, clock) = still(Channel::builder().history(qos));
    let supplier = channel.for_suppliers().connect().unwrap();
    for n in 1..=5 {
        supplier.push(&event(20, 1, n));
        clock.advance(4_000_000);
    }
    let log = Log::default();
    let _all = log.connect(&channel, late(Filter::Everything, 9));
    assert_eq!(log.take_times(), [[4], [5]], "the third is 12 ms old");
    let _new = log.connect(
        &channel,
        wants(Filter::Everything).history(HistoryRequest::within(Duration::from_millis(5))),
    );
    assert_eq!(log.take_times(), [[5]]);
}

#[test]
fn an_event_that_outlived_its_lifespan_is_dropped_and_counted() {
    let spans = [Lifespan { event_type: 20, span: Duration::from_millis(5) }];
    let config = keeping(9).lifespans(spans.to_vec()).strategy(Strategy::ByHand { upcalls: false });
    let (channel, clock) = still(config);
    let log = Log::default();
    let proxy = log.connect(&channel, wants(Filter::any_of([Filter::of_type(20), Filter::of_type(21)])));
    let both = Log::default();
    let both_proxy =
        both.connect(&channel, wants(Filter::all_of([Filter::of_type(20), Filter::of_type(21)])));
    let supplier = channel.for_suppliers().connect().unwrap();
    supplier.push(&event(20, 1, 1));
    supplier.push(&event(21, 1, 2));
    clock.advance(3_000_000);
    supplier.push(&event(20, 1, 3));
    clock.advance(3_000_000);
    while channel.step() {}
    assert_eq!(log.take_times(), [[2], [3]]);
    assert_eq!((proxy.counts().expired, proxy.counts().pushed), (1, 2));
    assert_eq!((both.take_times().len(), both_proxy.counts().expired), (0, 1), "a set with one such event");
    clock.advance(3_000_000);
    let late_proxy = log.connect(&channel, late(Filter::Everything, 9));
    while channel.step() {}
    assert_eq!(log.take_times(), [[2]]);
    assert_eq!((late_proxy.counts().expired, late_proxy.counts().from_history), (2, 1));
}

#[test]
fn a_time_based_filter_lets_one_event_through_in_its_time() {
    let separated = Quality { min_separation: Duration::from_millis(10), ..Quality::default() };
    for strategy in [Strategy::Direct, Strategy::ByHand { upcalls: false }] {
        let (channel, clock) = still(Channel::builder().strategy(strategy));
        let (one, pair, all) = (Log::default(), Log::default(), Log::default());
        let connect = |log: &Log, filter| log.connect(&channel, wants(filter).quality(separated.clone()));
        let proxy = connect(&one, Filter::of_type(20));
        let pair_proxy = connect(&pair, Filter::all_of([Filter::of_type(20), Filter::of_type(21)]));
        let _all = all.connect(&channel, wants(Filter::of_type(20)));
        let supplier = channel.for_suppliers().connect().unwrap();
        for n in 0..10 {
            supplier.push(&event(20, 1, n));
            supplier.push(&event(21, 1, n));
            while channel.step() {}
            clock.advance(4_000_000);
        }
        assert_eq!(one.take_times(), [[0], [3], [6], [9]], "{strategy:?}: each 12 ms");
        assert_eq!((proxy.counts().too_soon, proxy.counts().pushed), (6, 4));
        assert_eq!(pair.take_times(), [[0, 0], [3, 3], [6, 6], [9, 9]]);
        assert_eq!(pair_proxy.counts().too_soon, 6);
        assert_eq!(all.take_times().len(), 10);
    }
}

/// The loop of a supplier never meets the memory's end: rings, pools and backlogs are made before.
#[test]
fn a_history_costs_a_push_no_memory() {
    let spans = vec![Lifespan { event_type: 0, span: Duration::from_secs(1) }];
    let (channel, _) = still(keeping(16).lifespans(spans));
    let separated = Quality { min_separation: Duration::from_nanos(1), ..Quality::default() };
    let nothing = Arc::new(|_: &[Event<'_>]| ());
    let _c = channel.for_consumers().connect(nothing, wants(Filter::of_type(20)).quality(separated)).unwrap();
    let supplier = channel.for_suppliers().connect().unwrap();
    supplier.push(&event(20, 1, 0).octets(b"some data"));
    let allocated = allocations_during(|| {
        for n in 0..10_000_i32 {
            // More streams than there is room for.
            supplier.push(&event(20 + n % 3, n % 5, 1).octets(b"some data"));
        }
    });
    assert_eq!(allocated, 0);
    let status = channel.history().unwrap();
    assert!(
        status.no_stream > 0 && status.streams.len() == 8 && status.streams.iter().all(|s| s.overwritten > 0)
    );
}

/// Suppliers push without a break, while consumers come: each gets the events from some number on,
/// without gap and without repetition.
#[test]
fn joining_under_load_neither_loses_nor_repeats_events() {
    // More than is pushed while a thread waits for a processor.
    const DEPTH: usize = 20_000;

    /// Ends the suppliers also when an assertion fails.
    struct Stop<'s>(&'s AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    for strategy in [Strategy::Direct, Strategy::Threads { per_level: 1 }] {
        let qos = HistoryQos { streams: 8, payload: 8, ..HistoryQos::keep_last(DEPTH) };
        let limits = isorb_event::Limits { events: 100_000, payload: 8, ..Default::default() };
        let channel = Channel::builder().history(qos).limits(limits).strategy(strategy).build().unwrap();
        let stop = AtomicBool::new(false);
        let pushed = [AtomicU64::new(0), AtomicU64::new(0)];
        std::thread::scope(|scope| {
            let _stop = Stop(&stop);
            for source in [1_i32, 2] {
                let supplier = channel.for_suppliers().connect().unwrap();
                let (stop, pushed) = (&stop, &pushed[source as usize - 1]);
                scope.spawn(move || {
                    let mut n = 0;
                    while !stop.load(Relaxed) {
                        n += 1;
                        supplier.push(&event(20, source, n));
                        pushed.fetch_add(1, Relaxed);
                        if n % 64 == 0 {
                            std::thread::sleep(Duration::from_micros(200));
                        }
                    }
                });
            }
            for round in 0..30 {
                let targets = pushed.each_ref().map(|pushed| pushed.load(Relaxed) + 100);
                wait_until("events of both come", || {
                    pushed.iter().zip(targets).all(|(pushed, target)| pushed.load(Relaxed) >= target)
                });
                let log = Log::default();
                let quality = Quality { queue: 1 << 17, ..Quality::default() };
                let qos = late(Filter::of_type(20), 100).quality(quality);
                let proxy = log.connect(&channel, qos);
                wait_until("it has the history", || proxy.counts().from_history == 200);
                let before = proxy.counts().pushed;
                wait_until("it gets later ones, too", || proxy.counts().pushed > before + 100);
                let counts = proxy.counts();
                assert_eq!(
                    (counts.dropped, counts.not_kept, counts.history_lost),
                    (0, 0, 0),
                    "{strategy:?} {round}"
                );
                proxy.disconnect();
                let got = log.take();
                for source in 1..=2 {
                    let numbers: Vec<u64> =
                        got.iter().flatten().filter(|e| e.1 == source).map(|e| e.2).collect();
                    assert!(numbers.len() >= 100, "{strategy:?} {round}: {}", numbers.len());
                    let gap = numbers.windows(2).find(|pair| pair[1] != pair[0] + 1);
                    assert_eq!(gap, None, "{strategy:?} {round}");
                }
            }
        });
    }
}

/// A consumer that is slower than the suppliers loses what is overwritten, counts it, and takes no
/// copies away from the history.
#[test]
fn a_slow_late_joiner_disturbs_no_history() {
    let (channel, _) = still(keeping(4).strategy(Strategy::ByHand { upcalls: false }));
    let supplier = channel.for_suppliers().connect().unwrap();
    (1..=4).for_each(|n| _ = supplier.push(&event(20, 1, n)));
    let log = Log::default();
    let qos = late(Filter::of_type(20), 4).quality(Quality { queue: 1_000, ..Quality::default() });
    let slow = log.connect(&channel, qos);
    assert!(channel.step());
    (5..=7).for_each(|n| _ = supplier.push(&event(20, 1, n)));
    while channel.step() {}
    assert_eq!(log.take_times(), [[1], [4], [5], [6], [7]]);
    assert_eq!((slow.counts().from_history, slow.counts().history_lost), (2, 2));
    let status = channel.history().unwrap();
    assert_eq!((status.streams[0].kept, status.no_copy), (4, 0));
}

/// Prints the cost of a history: `cargo test --release -p isorb-event --test channel -- --ignored
/// --nocapture history::rates`.
#[test]
#[ignore = "a measurement"]
fn rates() {
    const EVENTS: u64 = 200_000;
    let per_event = |took: Duration| took.as_nanos() as f64 / EVENTS as f64;
    for depth in [0, 1_000, EVENTS as usize] {
        let qos = HistoryQos { streams: 1, payload: 256, ..HistoryQos::keep_last(depth) };
        let channel = Channel::builder().history(qos).build().unwrap();
        let nothing = Arc::new(|_: &[Event<'_>]| ());
        let _one = channel.for_consumers().connect(nothing.clone(), wants(Filter::of_type(20))).unwrap();
        let supplier = channel.for_suppliers().connect().unwrap();
        for round in ["first", "second"] {
            let begin = std::time::Instant::now();
            (0..EVENTS).for_each(|n| _ = supplier.push(&event(20, 1, n).octets(&[7; 256])));
            println!("depth {depth}, {round} round: {:.0} ns a push", per_event(begin.elapsed()));
        }
        if depth < EVENTS as usize {
            continue;
        }
        let begin = std::time::Instant::now();
        let late = channel.for_consumers().connect(nothing, late(Filter::of_type(20), depth)).unwrap();
        let took = begin.elapsed();
        assert_eq!(late.counts().from_history, EVENTS);
        println!("a late joiner read {EVENTS} events at {:.0} a second", 1e9 / per_event(took));
    }
}

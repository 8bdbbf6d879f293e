//! Modules replaced while events flow: none lost, doubled or reordered for a consumer.

use crate::common::*;
use isorb_event::{Channel, Config, Configuration, Event, Filter, Overflow, Quality, Strategy, SwapError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const ROWS: [(Configuration, Strategy); 7] = [
    (Configuration::Full, Strategy::Threads { per_level: 2 }),
    (Configuration::ForwardingDiscriminator, Strategy::Direct),
    (Configuration::Full, Strategy::SingleThreaded),
    (Configuration::Broadcaster, Strategy::Direct),
    (Configuration::Full, Strategy::Upcalls),
    (Configuration::SubscriptionAndFiltering, Strategy::Direct),
    (Configuration::Full, Strategy::Direct),
];

/// Suppliers push numbered events to consumers of all of them while the row is replaced again and again. Each consumer must see each
/// supplier's numbers from 1 on, without a gap, a repetition or a step back.
#[test]
fn nothing_is_lost_doubled_or_reordered() {
    const SUPPLIERS: usize = 2;
    const SWAPS: usize = 70;
    let config = Config { block: Duration::from_secs(60), ..Config::default() };
    let channel = Channel::new(config).unwrap();
    let wrong = Arc::new(AtomicU64::new(0));
    let last: Arc<Vec<Vec<AtomicU64>>> =
        Arc::new((0..3).map(|_| (0..SUPPLIERS).map(|_| AtomicU64::new(0)).collect()).collect());
    let _consumers: Vec<_> = (0..last.len())
        .map(|i| {
            let (last, wrong) = (last.clone(), wrong.clone());
            let consumer = move |events: &[Event<'_>]| {
                for event in events {
                    let seen = &last[i][event.header.source as usize];
                    if seen.swap(event.header.creation_time, Ordering::SeqCst) + 1
                        != event.header.creation_time
                    {
                        wrong.fetch_add(1, Ordering::SeqCst);
                    }
                }
            };
            let quality = Quality {
                priority: isorb_event::Priority::new(i as i16 * 10_000).unwrap(),
                overflow: Overflow::Block,
                queue: 8,
                ..Quality::default()
            };
            // Alike in every configuration: one plain registration for everything.
            let qos = wants(Filter::Everything).quality(quality);
            channel.for_consumers().connect(Arc::new(consumer), qos).unwrap()
        })
        .collect();
    let stop = AtomicBool::new(false);
    let sent: Vec<u64> = std::thread::scope(|s| {
        let suppliers: Vec<_> = (0..SUPPLIERS)
            .map(|source| {
                let (channel, stop) = (&channel, &stop);
                s.spawn(move || {
                    let supplier = channel.for_suppliers().connect().unwrap();
                    let mut number = 0;
                    while !stop.load(Ordering::Relaxed) {
                        number += 1;
                        assert_eq!(supplier.push(&event(20, source as i32, number)).taken, 3);
                    }
                    number
                })
            })
            .collect();
        for swap in 0..SWAPS {
            let (configuration, strategy) = ROWS[swap % ROWS.len()];
            channel.reconfigure(configuration, strategy, Duration::from_secs(60)).unwrap();
            assert_eq!(channel.configuration(), configuration);
            std::thread::sleep(Duration::from_millis(2));
        }
        stop.store(true, Ordering::Relaxed);
        suppliers.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let arrived = |i: usize| -> Vec<u64> { last[i].iter().map(|n| n.load(Ordering::SeqCst)).collect() };
    let patience = std::time::Instant::now();
    while (0..last.len()).any(|i| arrived(i) != sent) && patience.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
    (0..last.len()).for_each(|i| assert_eq!(arrived(i), sent));
    assert_eq!(wrong.load(Ordering::SeqCst), 0);
    assert!(sent.iter().all(|sent| *sent > SWAPS as u64 / 2), "{sent:?}");
    assert_eq!(channel.free_copies(), isorb_event::Limits::default().events);
}

#[test]
fn what_waits_in_a_queue_comes_before_what_is_pushed_directly_later() {
    let (channel, _) = still(Config::with(Strategy::ByHand { upcalls: false }));
    let log = Log::default();
    let _c = log.connect(&channel, wants(Filter::of(20, 0)));
    let supplier = channel.for_suppliers().connect().unwrap();
    (1..=3).for_each(|n| assert_eq!(supplier.push(&event(20, 0, n)).taken, 1));
    assert!(log.take().is_empty());
    channel.reconfigure(Configuration::ForwardingDiscriminator, Strategy::Direct, Duration::ZERO).ok();
    supplier.push(&event(20, 0, 4));
    let patience = std::time::Instant::now();
    let mut seen = vec![];
    while seen.len() < 4 && patience.elapsed() < Duration::from_secs(60) {
        seen.extend(log.take_times().concat());
    }
    assert_eq!(seen, [1, 2, 3, 4]);
}

#[test]
fn a_consumer_may_replace_the_modules_that_run_it() {
    for strategy in [Strategy::Direct, Strategy::SingleThreaded, Strategy::Threads { per_level: 1 }] {
        // Only a direct upcall stands in the way of its own swap; the others wait for a dispatcher, however late it runs.
        let patience = Duration::from_millis(if strategy == Strategy::Direct { 5 } else { 60_000 });
        let channel = Channel::new(Config::with(strategy)).unwrap();
        let log = Log::default();
        let (inner, result) = (channel.clone(), Arc::new(std::sync::Mutex::new(None)));
        let (said, first) = (result.clone(), AtomicBool::new(true));
        let consumer = move |_: &[Event<'_>]| {
            if first.swap(false, Ordering::SeqCst) {
                let swapped = inner.reconfigure(Configuration::Full, Strategy::Upcalls, patience);
                *said.lock().unwrap() = Some(swapped);
            }
        };
        let _c = channel.for_consumers().connect(Arc::new(consumer), wants(Filter::of(20, 0))).unwrap();
        let _l = log.connect(&channel, wants(Filter::of(20, 0)));
        let supplier = channel.for_suppliers().connect().unwrap();
        (1..=3).for_each(|n| assert_eq!(supplier.push(&event(20, 0, n)).taken, 2));
        let begun = std::time::Instant::now();
        let mut seen = vec![];
        while seen.len() < 3 && begun.elapsed() < Duration::from_secs(60) {
            seen.extend(log.take_times().concat());
        }
        assert_eq!(seen, [1, 2, 3]);
        let result = *result.lock().unwrap();
        let expected = if strategy == Strategy::Direct { Err(SwapError::Unfinished) } else { Ok(()) };
        assert_eq!(result, Some(expected), "{strategy:?}");
    }
}

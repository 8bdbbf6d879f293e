//! Modules replaced while events flow: no event is lost, doubled or reordered for a consumer.

use crate::common::*;
use isorb_event::{Channel, Configuration, Event, Filter, Overflow, Quality, Strategy, SwapError};
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

/// Suppliers push numbered events to consumers of all of them while the modules are replaced
/// repeatedly. Each consumer must receive each supplier's numbers from 1 on, without a gap, a
/// repetition or a step back.
#[test]
fn no_event_is_lost_doubled_or_reordered() {
    const SUPPLIERS: usize = 2;
    const SWAPS: usize = 70;
    /// The least events of each supplier while modules are replaced.
    const ENOUGH: u64 = SWAPS as u64 / 2;
    let config = Channel::builder().block(Duration::from_secs(60));
    let channel = config.build().unwrap();
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
            // The same in every configuration: one plain registration for everything.
            let qos = wants(Filter::Everything).quality(quality);
            channel.for_consumers().connect(Arc::new(consumer), qos).unwrap()
        })
        .collect();
    let stop = AtomicBool::new(false);
    let sent: Vec<AtomicU64> = (0..SUPPLIERS).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|s| {
        for (source, sent) in sent.iter().enumerate() {
            let (channel, stop) = (&channel, &stop);
            s.spawn(move || {
                let supplier = channel.for_suppliers().connect().unwrap();
                while !stop.load(Ordering::Relaxed) {
                    let number = sent.load(Ordering::Relaxed) + 1;
                    assert_eq!(supplier.push(&event(20, source as i32, number)).taken, 3);
                    sent.store(number, Ordering::Relaxed);
                }
            });
        }
        // However late a supplier begins, it pushes some.
        let scarce = || sent.iter().any(|sent| sent.load(Ordering::Relaxed) <= ENOUGH);
        let begun = std::time::Instant::now();
        for swap in 0.. {
            if swap >= SWAPS && !(scarce() && begun.elapsed() < Duration::from_secs(60)) {
                break;
            }
            let (configuration, strategy) = ROWS[swap % ROWS.len()];
            channel.reconfigure(configuration, strategy, Duration::from_secs(60)).unwrap();
            assert_eq!(channel.configuration(), configuration);
            std::thread::sleep(Duration::from_millis(2));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let sent: Vec<u64> = sent.into_iter().map(AtomicU64::into_inner).collect();
    let arrived = |i: usize| -> Vec<u64> { last[i].iter().map(|n| n.load(Ordering::SeqCst)).collect() };
    let start = std::time::Instant::now();
    while (0..last.len()).any(|i| arrived(i) != sent) && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
    (0..last.len()).for_each(|i| assert_eq!(arrived(i), sent));
    assert_eq!(wrong.load(Ordering::SeqCst), 0);
    assert!(sent.iter().all(|sent| *sent > ENOUGH), "{sent:?}");
    assert_eq!(channel.free_copies(), isorb_event::Limits::default().events);
}

#[test]
fn queued_events_arrive_before_later_direct_pushes() {
    let (channel, _) = still(Channel::builder().strategy(Strategy::ByHand { upcalls: false }));
    let log = Log::default();
    let _c = log.connect(&channel, wants(Filter::of(20, 0)));
    let supplier = channel.for_suppliers().connect().unwrap();
    (1..=3).for_each(|n| assert_eq!(supplier.push(&event(20, 0, n)).taken, 1));
    assert!(log.take().is_empty());
    let swapped =
        channel.reconfigure(Configuration::ForwardingDiscriminator, Strategy::Direct, Duration::ZERO);
    assert_eq!(swapped, Ok(()));
    assert_eq!(channel.configuration(), Configuration::ForwardingDiscriminator);
    supplier.push(&event(20, 0, 4));
    let start = std::time::Instant::now();
    let mut seen = vec![];
    while seen.len() < 4 && start.elapsed() < Duration::from_secs(60) {
        seen.extend(log.take_times().concat());
    }
    assert_eq!(seen, [1, 2, 3, 4]);
}

#[test]
fn a_consumer_may_replace_the_modules_that_run_it() {
    for strategy in [Strategy::Direct, Strategy::SingleThreaded, Strategy::Threads { per_level: 1 }] {
        // Only a direct upcall blocks its own replacement; the others wait for a dispatcher,
        // however late it runs.
        let limit = Duration::from_millis(if strategy == Strategy::Direct { 5 } else { 60_000 });
        let channel = Channel::builder().strategy(strategy).build().unwrap();
        let log = Log::default();
        let (inner, result) = (channel.clone(), Arc::new(std::sync::Mutex::new(None)));
        let (message, first) = (result.clone(), AtomicBool::new(true));
        let consumer = move |_: &[Event<'_>]| {
            if first.swap(false, Ordering::SeqCst) {
                let swapped = inner.reconfigure(Configuration::Full, Strategy::Upcalls, limit);
                *message.lock().unwrap() = Some(swapped);
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
        // The replacement may end after the last push.
        isorb_testkit::wait_until("the replacement has ended", || result.lock().unwrap().is_some());
        let result = *result.lock().unwrap();
        let expected = if strategy == Strategy::Direct { Err(SwapError::Unfinished) } else { Ok(()) };
        assert_eq!(result, Some(expected), "{strategy:?}");
    }
}

/// Events held by conjunctions, and armed timers, survive configurations without correlation, where
/// each event arrives by itself. With correlation, a conjunction continues with the events it held.
#[test]
fn conjunctions_and_timers_survive_a_replacement() {
    const MS: u64 = 1_000_000;
    for between in [
        Configuration::ForwardingDiscriminator,
        Configuration::SubscriptionAndFiltering,
        Configuration::Broadcaster,
    ] {
        let (channel, clock) = still(Channel::builder());
        let (both, silence) = (Log::default(), Log::default());
        let _b = both.connect(&channel, wants(Filter::all_of([Filter::of(20, 0), Filter::of(21, 0)])));
        let awaited = [Filter::of(22, 0), Filter::deadline(Duration::from_millis(10))];
        let _s = silence.connect(&channel, wants(Filter::any_of(awaited)));
        let supplier = channel.for_suppliers().connect().unwrap();
        supplier.push(&event(20, 0, 1));
        assert!(both.take().is_empty(), "the half of a conjunction waits");
        let swap = |to| channel.reconfigure(to, Strategy::Direct, Duration::from_secs(60)).unwrap();
        swap(between);
        supplier.push(&event(20, 0, 2));
        let correlates = between == Configuration::ForwardingDiscriminator;
        let by_itself = if correlates { vec![] } else { vec![vec![(20, 0, 2)]] };
        assert_eq!(both.take(), by_itself, "{between:?}");
        // A broadcaster delivers it to all.
        let notices = usize::from(between == Configuration::Broadcaster);
        assert_eq!(silence.take().len(), notices, "{between:?}");
        clock.advance(10 * MS);
        assert_eq!(channel.expire(), 1);
        // A time-out's type, with its period in 100 ns.
        let [[timeout]] =
            &silence.take().into_iter().map(|push| push.try_into().unwrap()).collect::<Vec<[_; 1]>>()[..]
        else {
            panic!("one time-out under {between:?}")
        };
        assert_eq!(timeout.2, 100_000);
        swap(Configuration::Full);
        supplier.push(&event(21, 0, 3));
        let kept = if correlates { 2 } else { 1 };
        assert_eq!(both.take(), [[(20, 0, kept), (21, 0, 3)]], "after {between:?}");
        assert_eq!(channel.free_copies(), isorb_event::Limits::default().events);
    }
}

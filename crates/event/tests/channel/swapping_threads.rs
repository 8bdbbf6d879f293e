//! Conjunctions and timers while modules are replaced, on real threads: swapping.rs has the same in
//! virtual time.

use crate::common::*;
use isorb_event::{Channel, Configuration, Event, Filter, Overflow, Priority, Quality, Strategy};
use isorb_rt::time::now_ns;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const SWAPS: usize = 36;
const SUPPLIERS: usize = 2;

/// Modules with correlation.
const CORRELATING: [(Configuration, Strategy); 6] = [
    (Configuration::Full, Strategy::Threads { per_level: 2 }),
    (Configuration::ForwardingDiscriminator, Strategy::Direct),
    (Configuration::Full, Strategy::SingleThreaded),
    (Configuration::Full, Strategy::Upcalls),
    (Configuration::Full, Strategy::Direct),
    (Configuration::Full, Strategy::Threads { per_level: 1 }),
];

/// Those, alternating with modules without correlation.
const ALL: [(Configuration, Strategy); 6] = [
    (Configuration::Full, Strategy::Threads { per_level: 2 }),
    (Configuration::SubscriptionAndFiltering, Strategy::Direct),
    (Configuration::ForwardingDiscriminator, Strategy::Direct),
    (Configuration::SubscriptionAndFiltering, Strategy::Direct),
    (Configuration::Full, Strategy::Upcalls),
    (Configuration::Full, Strategy::SingleThreaded),
];

fn patient(priority: i16) -> Quality {
    let priority = Priority::new(priority).unwrap();
    Quality { priority, overflow: Overflow::Block, queue: 8, ..Quality::default() }
}

/// Replaces the modules by each of these in turn.
fn swap(channel: &Channel, rows: &[(Configuration, Strategy)], mut between: impl FnMut(usize)) {
    for number in 0..SWAPS {
        let (configuration, strategy) = rows[number % rows.len()];
        channel.reconfigure(configuration, strategy, PATIENCE).unwrap();
        between(number);
    }
}

/// Each supplier repeatedly pushes a position and a speed with the same number; a consumer for each
/// supplier wants both. Returns what each consumer received, and the number of pairs each supplier
/// pushed.
fn pairs(rows: &[(Configuration, Strategy)], end: (Configuration, Strategy)) -> (Vec<Vec<Push>>, Vec<u64>) {
    let channel = Channel::builder().block(PATIENCE).build().unwrap();
    let logs: Vec<Log> = (0..SUPPLIERS).map(|_| Log::default()).collect();
    let consumers: Vec<_> = (logs.iter().enumerate())
        .map(|(i, log)| {
            let source = 1 + i as i32;
            let both = Filter::all_of([Filter::of(20, source), Filter::of(21, source)]);
            log.connect(&channel, wants(both).quality(patient(i as i16 * 20_000)))
        })
        .collect();
    let sent: Vec<AtomicU64> = (0..SUPPLIERS).map(|_| AtomicU64::new(0)).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (i, sent) in sent.iter().enumerate() {
            let (channel, stop) = (&channel, &stop);
            scope.spawn(move || {
                let supplier = channel.for_suppliers().connect().unwrap();
                let source = 1 + i as i32;
                while !stop.load(SeqCst) {
                    let number = sent.load(SeqCst) + 1;
                    supplier.push(&event(20, source, number));
                    supplier.push(&event(21, source, number));
                    sent.store(number, SeqCst);
                }
            });
        }
        let numbers = || sent.iter().map(|sent| sent.load(SeqCst)).collect::<Vec<_>>();
        swap(&channel, rows, |_| {
            let before = numbers();
            wait_until("events flow", || numbers().iter().zip(&before).all(|(now, then)| *now > then + 2));
        });
        stop.store(true, SeqCst);
    });
    let sent: Vec<u64> = sent.into_iter().map(AtomicU64::into_inner).collect();
    channel.reconfigure(end.0, end.1, PATIENCE).unwrap();
    // One more of each shows that all earlier ones have arrived.
    let supplier = channel.for_suppliers().connect().unwrap();
    let mut got: Vec<Vec<Push>> = vec![Vec::new(); SUPPLIERS];
    for (i, got) in got.iter_mut().enumerate() {
        let (source, last) = (1 + i as i32, sent[i] + 1);
        supplier.push(&event(20, source, last));
        supplier.push(&event(21, source, last));
        wait_until("the last comes", || {
            got.extend(logs[i].take());
            got.last().is_some_and(|push| push.last() == Some(&(21, source, last)))
        });
    }
    drop(consumers);
    assert_eq!(channel.free_copies(), isorb_event::Limits::default().events, "no copy is held for ever");
    (got, sent.iter().map(|sent| sent + 1).collect())
}

#[test]
fn a_conjunction_is_complete_exactly_once_under_any_dispatcher() {
    let (got, sent) = pairs(&CORRELATING, CORRELATING[0]);
    for (i, (got, sent)) in got.iter().zip(sent).enumerate() {
        assert!(sent > SWAPS as u64);
        let source = 1 + i as i32;
        let wanted = (1..=sent).map(|n| vec![(20, source, n), (21, source, n)]);
        assert!(wanted.eq(got.iter().cloned()), "supplier {source}: {sent} pairs, {} pushes", got.len());
    }
}

/// Modules without correlation pass each event by itself. An event held by a conjunction waits, and
/// is replaced by a newer one when modules with correlation return. So a replacement drops at most
/// one event, and none arrives twice.
#[test]
fn no_event_arrives_twice_if_correlation_is_switched() {
    let (got, sent) = pairs(&ALL, ALL[1]);
    for (got, sent) in got.iter().zip(sent) {
        let (alone, together): (Vec<&Push>, Vec<&Push>) = got.iter().partition(|push| push.len() == 1);
        assert!(!alone.is_empty() && !together.is_empty(), "both kinds of modules were tried");
        for kind in [20, 21] {
            let numbers = |of: &[&Push]| -> Vec<u64> {
                of.iter().copied().flatten().filter(|e| e.0 == kind).map(|e| e.2).collect()
            };
            let (alone, together) = (numbers(&alone), numbers(&together));
            for way in [&alone, &together] {
                assert!(way.windows(2).all(|pair| pair[0] < pair[1]), "type {kind}: in order");
            }
            assert!(!alone.iter().any(|number| together.binary_search(number).is_ok()), "type {kind}: twice");
        }
        let came: usize = got.iter().map(Vec::len).sum();
        let forgotten = 2 * sent - came as u64;
        assert!(forgotten <= SWAPS as u64 + 1, "{forgotten} of {sent} pairs' events by {SWAPS} changes");
    }
}

/// An interval timer keeps its grid: each point is a time-out or is counted as late, and each
/// time-out is one push.
#[test]
fn intervals_keep_their_phase() {
    const PERIOD: u64 = 1_000_000;
    let channel = Channel::builder().block(PATIENCE).build().unwrap();
    let (came, wrong) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (coming, strange) = (came.clone(), wrong.clone());
    let consumer = move |events: &[Event<'_>]| {
        let alone =
            events.len() == 1 && events[0].header.event_type == isorb_event::designator::INTERVAL_TIMEOUT;
        coming.fetch_add(1, SeqCst);
        strange.fetch_add(u64::from(!alone), SeqCst);
    };
    let qos = wants(Filter::interval(Duration::from_nanos(PERIOD))).quality(patient(10_000));
    let proxy = channel.for_consumers().connect(Arc::new(consumer), qos).unwrap();
    // When the next one is due, and how many points of the grid have passed; not read between a
    // time-out and its count.
    let grid = || {
        let points = || proxy.counts().timeouts + proxy.counts().late_intervals;
        let (next, behind) = (channel.next_timeout().unwrap(), points());
        (channel.next_timeout() == Some(next) && points() == behind).then_some((next, behind))
    };
    let mut first = None;
    wait_until("the first is awaited", || {
        first = grid();
        first.is_some()
    });
    let (first, behind) = first.unwrap();
    swap(&channel, &ALL, |number| {
        wait_until("time-outs come", || came.load(SeqCst) > 2 * number as u64);
        assert_eq!((channel.next_timeout().unwrap() - first) % PERIOD, 0, "after {number} changes");
    });
    wait_until("each point of the grid is accounted for", || {
        let accounted = |(next, now): (u64, u64)| (next - first) / PERIOD == now - behind;
        grid().is_some_and(accounted) && came.load(SeqCst) == proxy.counts().timeouts
    });
    assert_eq!(wrong.load(SeqCst), 0);
}

/// A deadline timer fires repeatedly if nothing satisfies it, with all modules, and never twice for
/// one interval.
#[test]
fn deadline_timers_fire_again_and_not_too_often() {
    const DEADLINE: u64 = 2_000_000;
    let channel = Channel::builder().block(PATIENCE).build().unwrap();
    let log = Log::default();
    let within = Filter::deadline(Duration::from_nanos(DEADLINE));
    let filter = Filter::any_of([Filter::of(20, 0), within]);
    let start = now_ns();
    let proxy = log.connect(&channel, wants(filter).quality(patient(10_000)));
    let supplier = channel.for_suppliers().connect().unwrap();
    let mut got: Vec<Push> = Vec::new();
    swap(&channel, &ALL, |number| {
        supplier.push(&event(20, 0, number as u64));
        let before = got.len();
        wait_until("the event comes, and then a deadline", || {
            got.extend(log.take());
            let place = got[before..].iter().position(|push| push[..] == [(20, 0, number as u64)]);
            place.is_some_and(|place| got[before + place..].len() > 1)
        });
    });
    let events = got.iter().filter(|push| push[0].0 == 20).count();
    assert_eq!(events, SWAPS, "each event once");
    wait_until("each that was counted comes", || {
        got.extend(log.take());
        (got.len() - SWAPS) as u64 == proxy.counts().timeouts
    });
    let (came, most) = ((got.len() - SWAPS) as u64, (now_ns() - start) / DEADLINE);
    assert!(came >= SWAPS as u64 && came <= most, "{came} of {most} at the most");
}

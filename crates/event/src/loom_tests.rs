//! Loom models of the channel: how a push is handed to the thread that serves it while modules are
//! replaced. Run with `RUSTFLAGS="--cfg loom" cargo test -p isorb-event --release --lib loom`.
//!
//! The models run the channel itself, its dispatchers and threads included. Loom replaces threads,
//! atomic operations and the kernel's part of locks. Trace, counters and timers are not modelled,
//! since the order of events does not depend on them.

use crate::{
    Channel, Configuration, ConsumerQos, Event, Filter, Limits, Overflow, ProxyPushConsumer,
    ProxyPushSupplier, Quality, Strategy,
};
use isorb_rt::priority::Priority;
use isorb_rt::sync::PiMutex;
use loom::thread;
use std::sync::Arc;
use std::time::Duration;

/// Longer than any run of a model.
const LONG: Duration = Duration::from_secs(3_600);
const COPIES: usize = 4;

/// All interleavings with at most this many pre-emptions, or `LOOM_MAX_PREEMPTIONS`.
fn model(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.or(Some(preemptions));
    model.max_branches = 10_000;
    model.check(f);
}

fn channel(configuration: Configuration, strategy: Strategy) -> Channel {
    let limits = Limits {
        consumers: 2,
        suppliers: 4,
        events: COPIES,
        payload: 0,
        larger: Default::default(),
        sets: 1,
        parts: 1,
        timers: 0,
        trace_threads: 0,
        trace_records: 0,
        ..Limits::default()
    };
    let levels = vec![Priority::MIN];
    let config = Channel::builder()
        .configuration(configuration)
        .strategy(strategy)
        .limits(limits)
        .levels(levels)
        .own_threads(false);
    config.build().unwrap()
}

/// The events that a consumer received: pairs of supplier and number.
#[derive(Clone)]
struct Got(Arc<PiMutex<Vec<(i32, u64)>>>);

impl Got {
    fn connect(channel: &Channel, quality: Quality) -> (Got, ProxyPushSupplier) {
        let got = Got(Arc::new(PiMutex::new(Vec::new())));
        let log = got.clone();
        let consumer = move |events: &[Event<'_>]| {
            events.iter().for_each(|e| log.0.lock().push((e.header.source, e.header.creation_time)));
        };
        let qos = ConsumerQos::new("model", Filter::Everything).quality(quality);
        let proxy = channel.for_consumers().connect(Arc::new(consumer), qos).unwrap();
        (got, proxy)
    }

    /// The numbers of one supplier.
    fn of(&self, source: i32) -> Vec<u64> {
        self.0.lock().iter().filter(|(from, _)| *from == source).map(|(_, number)| *number).collect()
    }
}

/// A supplier on its own thread that pushes the numbers from 1 to `count`.
fn supplier(channel: &Channel, source: i32, count: u64) -> thread::JoinHandle<()> {
    let proxy = channel.for_suppliers().connect().unwrap();
    thread::spawn(move || push(&proxy, source, count))
}

fn push(supplier: &ProxyPushConsumer, source: i32, count: u64) {
    for number in 1..=count {
        assert_eq!(supplier.push(&Event::new(20, source).created(number)).taken, 1);
    }
}

/// Replaces the modules while events flow, and ends the channel's threads by replacing them again.
fn swap(from: (Configuration, Strategy), to: (Configuration, Strategy), count: u64, preemptions: usize) {
    model(preemptions, move || {
        let channel = channel(from.0, from.1);
        let (got, proxy) = Got::connect(&channel, Quality::default());
        // The supplier starts first, so that no pre-emption is spent on starting it.
        let swapped = channel.clone();
        let swapper = thread::spawn(move || swapped.reconfigure(to.0, to.1, LONG).unwrap());
        let supplier = channel.for_suppliers().connect().unwrap();
        push(&supplier, 1, count);
        swapper.join().unwrap();
        channel.reconfigure(Configuration::Full, Strategy::Direct, LONG).unwrap();
        assert!(got.of(1).into_iter().eq(1..=count), "none lost, doubled or reordered");
        assert_eq!(channel.free_copies(), COPIES);
        drop(proxy);
    });
}

const NONE: (Configuration, Strategy) = (Configuration::Full, Strategy::Direct);
const ONE: (Configuration, Strategy) = (Configuration::Full, Strategy::SingleThreaded);

#[test]
fn loom_swap_of_a_thread_for_none() {
    swap(ONE, NONE, 1, 2);
}

#[test]
fn loom_swap_of_a_thread_for_none_between_two_events() {
    swap(ONE, NONE, 2, 2);
}

#[test]
fn loom_swap_of_none_for_a_thread() {
    swap((Configuration::Broadcaster, Strategy::Direct), ONE, 2, 2);
}

#[test]
fn loom_swap_of_a_thread_for_another() {
    let threads = Strategy::Threads { per_level: 1 };
    swap((Configuration::Full, threads), (Configuration::Full, Strategy::Upcalls), 1, 2);
}

/// Two suppliers and some dispatching threads: each supplier's events stay in order.
fn hand_over(threads: usize, other: u64, preemptions: usize) {
    model(preemptions, move || {
        let channel = channel(Configuration::Full, Strategy::Threads { per_level: threads });
        let (got, proxy) = Got::connect(&channel, Quality::default());
        let second = (other > 0).then(|| supplier(&channel, 1, other));
        let own = channel.for_suppliers().connect().unwrap();
        push(&own, 2, 2);
        second.into_iter().for_each(|thread| thread.join().unwrap());
        channel.reconfigure(Configuration::Full, Strategy::Direct, LONG).unwrap();
        assert!(got.of(1).into_iter().eq(1..=other));
        assert_eq!(got.of(2), [1, 2]);
        assert_eq!(channel.free_copies(), COPIES);
        drop(proxy);
    });
}

#[test]
fn loom_hand_over_from_two_suppliers() {
    hand_over(1, 1, 1);
}

#[test]
fn loom_hand_over_to_two_threads() {
    hand_over(2, 0, 2);
}

/// Suppliers that find the queue full wait for room and are woken.
fn full_queue(other: u64, preemptions: usize) {
    model(preemptions, move || {
        let channel = channel(Configuration::Full, Strategy::SingleThreaded);
        let full = Quality { queue: 1, overflow: Overflow::Block, ..Quality::default() };
        let (got, proxy) = Got::connect(&channel, full);
        let second = (other > 0).then(|| supplier(&channel, 1, other));
        let own = channel.for_suppliers().connect().unwrap();
        push(&own, 2, 3);
        second.into_iter().for_each(|thread| thread.join().unwrap());
        channel.reconfigure(Configuration::Full, Strategy::Direct, LONG).unwrap();
        assert!(got.of(1).into_iter().eq(1..=other));
        assert_eq!(got.of(2), [1, 2, 3]);
        drop(proxy);
    });
}

#[test]
fn loom_hand_over_through_a_full_queue() {
    full_queue(0, 2);
}

#[test]
fn loom_hand_over_from_two_suppliers_through_a_full_queue() {
    full_queue(1, 1);
}

/// A consumer disconnects while it is pushed to and served. It has received a prefix of the events,
/// and no copy is leaked.
#[test]
fn loom_consumer_leaves_while_it_is_served() {
    model(2, || {
        let channel = channel(Configuration::Full, Strategy::SingleThreaded);
        let (got, proxy) = Got::connect(&channel, Quality::default());
        let own = channel.for_suppliers().connect().unwrap();
        let pushing = thread::spawn(move || {
            (1..=2).for_each(|n| {
                let _ = own.push(&Event::new(20, 1).created(n));
            });
        });
        drop(proxy);
        pushing.join().unwrap();
        channel.reconfigure(Configuration::Full, Strategy::Direct, LONG).unwrap();
        assert!([1, 2].starts_with(&got.of(1)), "{:?}", got.of(1));
        assert_eq!(channel.free_copies(), COPIES);
    });
}

//! Real-time upcalls: which consumers yield to which, and how deep they nest (TAO event service
//! paper, section 5.1.1).

use crate::common::*;
use isorb_event::{
    Channel, Event, Filter, Priority, ProxyPushConsumer, ProxyPushSupplier, Quality, Strategy, ThreadSetup,
    yield_now,
};
use isorb_rt::sched::{Cpus, SchedClass, current_cpus, set_current_cpus};
use isorb_rt::time::{Deadline, now_ns, sleep_until};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

/// One for each level of the default configuration.
const PRIORITIES: [i16; 4] = [0, 8_192, 16_384, 24_576];

fn connect(
    channel: &Channel,
    type_: i32,
    level: usize,
    consumer: impl Fn(&[Event<'_>]) + Send + Sync + 'static,
) -> ProxyPushSupplier {
    let quality = Quality { priority: Priority::new(PRIORITIES[level]).unwrap(), ..Quality::default() };
    channel.for_consumers().connect(Arc::new(consumer), wants(Filter::of(type_, 0)).quality(quality)).unwrap()
}

/// A low consumer yields while two of one level are ready, each of which yields in turn.
#[test]
fn of_two_that_are_ready_at_a_level_one_is_nested_after_the_other() {
    let (channel, _) = still(Channel::builder().strategy(Strategy::ByHand { upcalls: true }));
    let log = Arc::new(Mutex::new(Vec::new()));
    let supplier = Arc::new(channel.for_suppliers().connect().unwrap());
    let named = |type_, level, [begins, ends]: [&'static str; 2], pushes: &'static [i32]| {
        let (log, supplier) = (log.clone(), supplier.clone());
        connect(&channel, type_, level, move |_| {
            log.lock().unwrap().push(begins);
            pushes.iter().for_each(|type_| assert_eq!(supplier.push(&event(*type_, 0, 0)).taken, 1));
            yield_now();
            log.lock().unwrap().push(ends);
        })
    };
    let _consumers = [
        named(20, 0, ["low", "/low"], &[21, 22]),
        named(21, 2, ["one", "/one"], &[23]),
        named(22, 2, ["two", "/two"], &[24]),
        named(23, 2, ["three", "/three"], &[]),
        named(24, 3, ["top", "/top"], &[]),
    ];
    supplier.push(&event(20, 0, 0));
    while channel.step() {}
    // The event that arrived while one ran is queued behind two.
    let expected = ["low", "one", "/one", "two", "top", "/top", "/two", "three", "/three", "/low"];
    assert_eq!(*log.lock().unwrap(), expected);
}

/// Consumers that push to each other as a seed decides, and yield in between.
struct Crowd {
    channel: Channel,
    supplier: ProxyPushConsumer,
    random: AtomicU64,
    left: AtomicU64,
    /// The levels of the consumers on the stack.
    stack: Mutex<Vec<usize>>,
    deepest: AtomicU64,
    /// Two of one level were on the stack together, or a less urgent one above a more urgent one.
    wrong: AtomicBool,
    makes_way: fn(&Channel),
}

const EACH: usize = 3;

impl Crowd {
    /// The next of a linear congruential generator.
    fn random(&self, below: u64) -> u64 {
        let step = |state: u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        (self.random.fetch_update(SeqCst, SeqCst, step).unwrap() >> 33) % below
    }

    fn consume(&self, level: usize) {
        let mut stack = self.stack.lock().unwrap();
        if stack.iter().any(|below| *below >= level) {
            self.wrong.store(true, SeqCst);
        }
        stack.push(level);
        self.deepest.fetch_max(stack.len() as u64, SeqCst);
        drop(stack);
        for _ in 0..self.random(4) {
            if self.left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
                let to = self.random((EACH * PRIORITIES.len()) as u64) as i32;
                self.supplier.push(&event(20 + to, 0, 0));
            }
            (self.makes_way)(&self.channel);
        }
        self.stack.lock().unwrap().pop();
    }
}

/// The deepest nesting, and whether two of one level ever nested.
fn crowd(seed: u64, makes_way: fn(&Channel)) -> (u64, bool) {
    let (channel, _) = still(Channel::builder().strategy(Strategy::ByHand { upcalls: true }));
    let crowd = Arc::new(Crowd {
        supplier: channel.for_suppliers().connect().unwrap(),
        channel,
        random: AtomicU64::new(seed),
        left: AtomicU64::new(300),
        stack: Mutex::new(Vec::new()),
        deepest: AtomicU64::new(0),
        wrong: AtomicBool::new(false),
        makes_way,
    });
    let join = |index: usize| {
        let (crowd, level) = (crowd.clone(), index % PRIORITIES.len());
        connect(&crowd.clone().channel, 20 + index as i32, level, move |_| crowd.consume(level))
    };
    let _consumers: Vec<_> = (0..EACH * PRIORITIES.len()).map(join).collect();
    while crowd.left.load(SeqCst) > 0 {
        crowd.left.fetch_sub(1, SeqCst);
        crowd.supplier.push(&event(20, 0, 0));
        while crowd.channel.step() {}
    }
    crowd.channel.destroy();
    (crowd.deepest.load(SeqCst), crowd.wrong.load(SeqCst))
}

#[test]
fn at_most_one_upcall_a_level_is_nested() {
    let nested = |_: &Channel| {
        yield_now();
    };
    let anybody = |channel: &Channel| {
        channel.step();
    };
    let mut deepest = 0;
    for seed in 0..50 {
        let (deep, wrong) = crowd(seed, nested);
        assert!(!wrong && deep <= PRIORITIES.len() as u64, "seed {seed}: {deep} deep");
        deepest = deepest.max(deep);
    }
    assert_eq!(deepest, PRIORITIES.len() as u64, "there was one of each level");
    // The control: without the rule two of one level are soon on the stack.
    assert!((0..50).all(|seed| crowd(seed, anybody).1));
}

/// On one processor a low consumer computes until an event arrived for a high one, and for 20 ms
/// more. Returns whether the high one finishes first.
fn high_is_through_first(strategy: Strategy, yields: bool) -> bool {
    let cpu = current_cpus().unwrap().iter().next().unwrap();
    let threads = ThreadSetup::fifo().on(Cpus::one(cpu));
    let channel = Channel::builder().strategy(strategy).threads(threads).own_threads(false).build().unwrap();
    let supplier = channel.for_suppliers().connect().unwrap();
    let begun = Arc::new(AtomicBool::new(false));
    let pushed = Arc::new(AtomicBool::new(false));
    let through = Arc::new(Mutex::new(Vec::new()));
    let _low = {
        let (begun, pushed, through) = (begun.clone(), pushed.clone(), through.clone());
        connect(&channel, 20, 0, move |_| {
            begun.store(true, SeqCst);
            let mut until = u64::MAX;
            while now_ns() < until {
                if until == u64::MAX && pushed.load(SeqCst) {
                    until = now_ns() + 20_000_000;
                }
                if yields {
                    yield_now();
                }
            }
            through.lock().unwrap().push("low");
        })
    };
    let _high = {
        let through = through.clone();
        connect(&channel, 21, 3, move |_| through.lock().unwrap().push("high"))
    };
    std::thread::scope(|s| {
        s.spawn(|| {
            set_current_cpus(&Cpus::one(cpu)).unwrap();
            // Above all consumers, so that it is never kept from pushing.
            SchedClass::Fifo(99).set_current().unwrap();
            supplier.push(&event(20, 0, 0));
            while !begun.load(SeqCst) {
                sleep_until(Deadline::at_ns(now_ns() + 1_000_000));
            }
            supplier.push(&event(21, 0, 0));
            pushed.store(true, SeqCst);
        });
    });
    while through.lock().unwrap().len() < 2 {
        sleep_until(Deadline::at_ns(now_ns() + 1_000_000));
    }
    channel.destroy();
    let through = through.lock().unwrap();
    through[0] == "high"
}

#[test]
fn on_one_processor_a_yielding_consumer_lets_the_urgent_one_finish_first() {
    let may = std::thread::spawn(|| SchedClass::Fifo(99).set_current().is_ok()).join().unwrap();
    if !may {
        println!("SKIPPED: no right to real-time scheduling here");
        return;
    }
    assert!(high_is_through_first(Strategy::Upcalls, true));
    // The controls: a consumer that never yields, and a thread that never nests.
    assert!(!high_is_through_first(Strategy::Upcalls, false), "without yield_now");
    assert!(!high_is_through_first(Strategy::SingleThreaded, true), "one thread, without upcalls");
}

//! What a push costs here: `cargo run --release -p isorb-event --example cost`. Medians over blocks that take turns, in nanoseconds a push.

use isorb_event::{
    Channel, Config, ConsumerQos, Event, Filter, FixedDiscriminator, Limits, Priority, PushConsumer, Quality,
    Rack, Strategy, dispatch::Direct,
};
use isorb_rt::sync::Parker;
use isorb_rt::time::{Deadline, now_ns};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Keeps the compiler from leaving a result's making out.
fn sink<T>(result: T) {
    let _ = black_box(result);
}

const BLOCK: u64 = 2_000;
const BLOCKS: usize = 101;

/// The median cost of a call of each of `subjects`, in blocks that take turns.
fn medians(subjects: &mut [(&str, &mut dyn FnMut())]) {
    let mut samples = vec![Vec::new(); subjects.len()];
    for _ in 0..BLOCKS {
        for ((_, subject), samples) in subjects.iter_mut().zip(&mut samples) {
            let start = now_ns();
            (0..BLOCK).for_each(|_| subject());
            samples.push((now_ns() - start) as f64 / BLOCK as f64);
        }
    }
    for ((name, _), samples) in subjects.iter().zip(&mut samples) {
        samples.sort_by(f64::total_cmp);
        println!("{name:<58} p50 {:8.1}  min {:8.1}", samples[BLOCKS / 2], samples[0]);
    }
}

fn consumer(sum: &Arc<AtomicU64>) -> Arc<dyn PushConsumer> {
    let sum = sum.clone();
    Arc::new(move |events: &[Event<'_>]| {
        // One plain addition: what a consumer at least does.
        sum.store(sum.load(Ordering::Relaxed) + events.len() as u64, Ordering::Relaxed);
    })
}

fn connect<R: Rack>(channel: &Channel<R>, sum: &Arc<AtomicU64>, filters: impl Iterator<Item = Filter>) {
    for filter in filters {
        let qos = ConsumerQos::of("cost", filter);
        if let Ok(proxy) = channel.for_consumers().connect(consumer(sum), qos) {
            proxy.detach();
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sum = Arc::new(AtomicU64::new(0));
    let event = Event::new(20, 1).octets(b"some payload");
    let limits = Limits { consumers: 200_000, parts: 512, trace_records: 1 << 12, ..Limits::default() };
    let make = |trace, counting| Channel::new(Config { limits, trace, counting, ..Config::default() });

    println!("one consumer, no dispatching");
    let (traced, counted, bare) = (make(true, true)?, make(false, true)?, make(false, false)?);
    let fixed = Channel::fixed(
        Config { limits, counting: false, ..Config::default() },
        FixedDiscriminator::new(Direct),
    )?;
    [&traced, &counted, &bare].into_iter().for_each(|c| connect(c, &sum, [Filter::of(20, 1)].into_iter()));
    connect(&fixed, &sum, [Filter::of(20, 1)].into_iter());
    let (t, c, b, f) = (
        traced.for_suppliers().connect()?,
        counted.for_suppliers().connect()?,
        bare.for_suppliers().connect()?,
        fixed.for_suppliers().connect()?,
    );
    let one = consumer(&sum);
    medians(&mut [
        ("a dynamic call", &mut || sink(black_box(&one).push(std::slice::from_ref(&event)))),
        ("trace on, counting", &mut || sink(t.push(&event))),
        ("trace off, counting", &mut || sink(c.push(&event))),
        ("trace off, not counting", &mut || sink(b.push(&event))),
        ("trace off, not counting, modules by type", &mut || sink(f.push(&event))),
    ]);

    println!("twenty consumers, no dispatching");
    let (twenty, twenty_fixed) = (
        make(false, false)?,
        Channel::fixed(
            Config { limits, counting: false, ..Config::default() },
            FixedDiscriminator::new(Direct),
        )?,
    );
    connect(&twenty, &sum, (0..20).map(|_| Filter::of(20, 1)));
    connect(&twenty_fixed, &sum, (0..20).map(|_| Filter::of(20, 1)));
    let (a, b) = (twenty.for_suppliers().connect()?, twenty_fixed.for_suppliers().connect()?);
    let many: Vec<_> = (0..20).map(|_| consumer(&sum)).collect();
    medians(&mut [
        ("a loop of dynamic calls", &mut || {
            for one in black_box(&many) {
                sink(one.push(std::slice::from_ref(&event)));
            }
        }),
        ("replaceable modules", &mut || sink(a.push(&event))),
        ("modules by type", &mut || sink(b.push(&event))),
    ]);

    println!("how many subscriptions, one of which matches");
    let channels: Vec<Channel> = [10, 1_000, 100_000]
        .into_iter()
        .map(|n| {
            let channel = make(false, true)?;
            let start = now_ns();
            connect(&channel, &sum, (0..n).map(|i| Filter::of(20 + i / 100, 1 + i % 100)));
            println!("  {n} connected in {} us each", (now_ns() - start) / 1_000 / n as u64);
            Ok(channel)
        })
        .collect::<Result<_, isorb_event::StartError>>()?;
    let s: Vec<_> = channels.iter().map(|c| c.for_suppliers().connect()).collect::<Result<_, _>>()?;
    let (mut cold, cold_events) = (0, (0..100_000).map(|i| Event::new(20 + i / 100, 1 + i % 100)));
    let mut cold_events: Vec<_> = cold_events.collect();
    // Far apart from each other, so that each is a miss.
    (0..cold_events.len()).for_each(|i| cold_events.swap(i, i * 7_919 % 100_000));
    medians(&mut [
        ("10, hot key", &mut || sink(s[0].push(&event))),
        ("1,000, hot key", &mut || sink(s[1].push(&event))),
        ("100,000, hot key", &mut || sink(s[2].push(&event))),
        ("100,000, cold keys", &mut || {
            cold = (cold + 1) % cold_events.len();
            sink(s[2].push(&cold_events[cold]));
        }),
    ]);

    println!("to another thread and back, the second half a bare parker");
    let threaded = Channel::new(Config { limits, ..Config::with(Strategy::Threads { per_level: 1 }) })?;
    let back = Arc::new(Parker::new());
    let answer = back.clone();
    let quality = Quality { priority: Priority::MIN, ..Quality::default() };
    let pong = move |_: &[Event<'_>]| answer.unpark();
    let qos = ConsumerQos::of("pong", Filter::of(20, 1)).quality(quality);
    let _pong = threaded.for_consumers().connect(Arc::new(pong), qos)?;
    let supplier = threaded.for_suppliers().connect()?;
    let (there, here) = (Arc::new(Parker::new()), Arc::new(Parker::new()));
    let (far, near) = (there.clone(), here.clone());
    std::thread::spawn(move || {
        while far.park_until(Deadline::NONE) {
            near.unpark();
        }
    });
    medians(&mut [
        ("two bare hand-overs", &mut || {
            there.unpark();
            here.park_until(Deadline::NONE);
        }),
        ("one through the channel, one bare", &mut || {
            supplier.push(&event);
            back.park_until(Deadline::NONE);
        }),
    ]);
    threaded.destroy();

    println!("through one thread to one consumer");
    let config = Config { limits, ..Config::with(Strategy::SingleThreaded) };
    let flow = Channel::new(config)?;
    let quality = Quality { queue: 512, overflow: isorb_event::Overflow::Block, ..Quality::default() };
    let qos = ConsumerQos::of("flow", Filter::of(20, 1)).quality(quality);
    let proxy = flow.for_consumers().connect(consumer(&sum), qos)?;
    let supplier = flow.for_suppliers().connect()?;
    const EVENTS: u64 = 2_000_000;
    let start = now_ns();
    (0..EVENTS).for_each(|_| sink(supplier.push(&event)));
    while proxy.counts().pushed < EVENTS {
        std::thread::yield_now();
    }
    println!("  {:.2} million events a second", EVENTS as f64 * 1e3 / (now_ns() - start) as f64);
    flow.destroy();

    println!("100,000 timers set");
    let mut timers = isorb_rt::timers::TimerHeap::with_capacity(100_001);
    let mut at = 1_u64;
    // Points without an order, as periods of many consumers have none.
    let mut point = move || {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        at >> 16
    };
    (0..100_000).for_each(|_| sink(timers.insert(point(), ())));
    medians(&mut [("set and cancel one more", &mut || {
        if let Ok(timer) = timers.insert(point(), ()) {
            sink(timers.cancel(timer));
        }
    })]);
    Ok(())
}

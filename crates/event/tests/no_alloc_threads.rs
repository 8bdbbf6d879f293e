//! With threads of the channel's own, neither an event nor a time-out allocates on any of them. The
//! only test of this program, since all of its threads are counted.

use isorb_event::{
    Channel, ConsumerQos, Event, Filter, Overflow, Priority, ProxyPushConsumer, Quality, Strategy,
};
use isorb_rt::alloc_count::process_allocations;
use isorb_rt::timers::TimerHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: isorb_rt::alloc_count::CountingAllocator = isorb_rt::alloc_count::CountingAllocator;

fn until(what: &str, so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !so() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Connects consumers of all kinds. Returns the count of each.
fn connect(channel: &Channel, supplier: &Arc<ProxyPushConsumer>) -> [Arc<AtomicU64>; 5] {
    let deadline = Filter::deadline(Duration::from_millis(1));
    let filters = [
        Filter::of(20, 1),
        Filter::all_of([Filter::of(20, 1), Filter::of(21, 1)]),
        Filter::interval(Duration::from_millis(1)),
        Filter::any_of([Filter::of(99, 1), deadline]),
        // Pushed by the first consumer.
        Filter::of(30, 1),
    ];
    let levels = [0, 9_000, 17_000, 25_000, 17_000];
    let mut number = 0;
    filters.map(|filter| {
        let (counted, supplier, chained) = (Arc::new(AtomicU64::new(0)), supplier.clone(), number == 0);
        let count = counted.clone();
        let consumer = move |_: &[Event<'_>]| {
            if chained {
                supplier.push(&Event::new(30, 1).octets(b"more"));
                isorb_event::yield_now();
            }
            count.fetch_add(1, SeqCst);
        };
        let quality = Quality {
            priority: Priority::new(levels[number]).unwrap(),
            deadline: Some(Duration::from_secs(1)),
            worst_case: Some(Duration::from_secs(1)),
            overflow: Overflow::Block,
            ..Quality::default()
        };
        number += 1;
        let qos = ConsumerQos::new("test", filter).quality(quality);
        channel.for_consumers().connect(Arc::new(consumer), qos).unwrap().detach();
        counted
    })
}

fn rounds(strategy: Strategy) {
    let block = Duration::from_secs(60);
    let channel =
        Channel::builder().strategy(strategy).trace(true).latencies(true).block(block).build().unwrap();
    let supplier = Arc::new(channel.for_suppliers().connect().unwrap());
    let counts = connect(&channel, &supplier);
    let round = |n: u64| {
        let before = counts.each_ref().map(|count| count.load(SeqCst));
        for i in 0..n {
            supplier.push(&Event::new(20 + (i % 2) as i32, 1).octets(b"some data"));
        }
        let got = |i: usize| counts[i].load(SeqCst) - before[i];
        until("all consumers were called", || {
            got(0) >= n / 2 && got(1) >= n / 2 && got(2) > 3 && got(3) > 0 && got(4) >= n / 2
        });
    };
    // A thread's first record takes a ring, whenever the thread first runs. Later ones allocate
    // nothing.
    let mut in_a_row = 0;
    for _ in 0..60 {
        let before = process_allocations();
        (0..2).for_each(|_| round(100));
        in_a_row = if process_allocations() == before { in_a_row + 1 } else { 0 };
        if in_a_row == 5 {
            break;
        }
    }
    assert_eq!(in_a_row, 5, "{strategy:?}: it goes on allocating");
    channel.destroy();
}

#[test]
fn no_thread_of_a_channel_allocates() {
    let before = process_allocations();
    std::thread::spawn(|| drop(std::hint::black_box(Box::new(1)))).join().unwrap();
    assert!(process_allocations() - before > 0, "other threads are counted");
    let threads = [1, 2].map(|per_level| Strategy::Threads { per_level });
    for strategy in [Strategy::Direct, Strategy::SingleThreaded, Strategy::Upcalls].into_iter().chain(threads)
    {
        rounds(strategy);
    }
    // Timers: 100,000 armed, one more armed and cancelled, all of them expired.
    let mut timers = TimerHeap::with_capacity(100_001);
    let at = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
    let before = process_allocations();
    (0..100_000).for_each(|n| assert!(timers.push(at(n), ()).is_ok()));
    for n in 0..1_000 {
        let timer = timers.push(at(n), ()).unwrap();
        assert!(timers.remove(timer).is_some());
    }
    assert_eq!(process_allocations() - before, 0, "timers");
}

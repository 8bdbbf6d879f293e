//! The trace records of pushes, runs, pre-emptions and deadlines.

use crate::common::*;
use isorb_event::dispatch::{Dispatch, Queued};
use isorb_event::{
    Channel, ChannelBuilder, Event, Filter, Priority, ProxyPushConsumer, Quality, Strategy, ThreadSetup,
    yield_now,
};
use isorb_rt::sched::{Cpus, current_cpus};
use isorb_trace::{Record, RecordKind};
use std::sync::Arc;
use std::time::{Duration, Instant};

const MS: u64 = 1_000_000;

#[test]
fn a_nested_run_is_in_the_trace_from_push_to_deadline() {
    let config = Channel::builder().strategy(Strategy::ByHand { upcalls: true }).trace(true);
    let (channel, clock) = still(config);
    let supplier = Arc::new(channel.for_suppliers().connect().unwrap());
    let (time, inner) = (clock.clone(), supplier.clone());
    let low = move |_: &[Event<'_>]| {
        time.advance(MS);
        inner.push(&event(21, 0, 0));
        yield_now();
        time.advance(MS);
    };
    let time = clock.clone();
    let high = move |_: &[Event<'_>]| time.advance(3 * MS);
    let admin = channel.for_consumers();
    let quality = Quality { deadline: Some(Duration::from_millis(4)), ..Quality::default() };
    let low = admin.connect(Arc::new(low), wants(Filter::of(20, 0)).quality(quality)).unwrap();
    let quality = Quality { priority: Priority::MAX, ..Quality::default() };
    let high = admin.connect(Arc::new(high), wants(Filter::of(21, 0)).quality(quality)).unwrap();
    supplier.push(&event(20, 7, 0));
    assert!(channel.step());
    let tracks = channel.recorder().snapshot();
    assert_eq!((tracks.len(), tracks[0].overwritten), (1, 0));
    let start = tracks[0].records[0].at;
    let seen: Vec<_> = tracks[0].records.iter().map(|r| ((r.at - start) / MS, r.kind, r.id, r.a)).collect();
    let (s, l, h) = (supplier.id(), low.id(), high.id());
    assert_eq!(
        seen,
        [
            (0, RecordKind::Push, s, (20 << 32) + 7),
            (0, RecordKind::Queue, l, 1),
            (0, RecordKind::Begin, l, 0),
            (1, RecordKind::Push, s, 21 << 32),
            (1, RecordKind::Queue, h, 1),
            (1, RecordKind::Preempt, l, 3),
            (1, RecordKind::Begin, h, 0),
            (4, RecordKind::End, h, 3 * MS),
            (4, RecordKind::Resume, l, 3 * MS),
            (5, RecordKind::End, l, 5 * MS),
            (5, RecordKind::Miss, l, MS),
        ]
    );
    assert_eq!(tracks[0].records[6].level, 3);
    channel.recorder().switch(false);
    supplier.push(&event(20, 7, 0));
    assert!(channel.step());
    assert_eq!(channel.recorder().snapshot(), tracks);
}

/// Waits without yielding the processor.
fn wait_until(what: &str, so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !so() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::hint::spin_loop();
    }
}

/// The records of all threads by time; those of one thread stay in order.
fn records(channel: &Channel) -> Vec<Record> {
    let tracks = channel.recorder().snapshot();
    let mut all: Vec<Record> = tracks.into_iter().flat_map(|track| track.records).collect();
    all.sort_by_key(|record| record.at);
    all
}

fn of(records: &[Record], kind: RecordKind) -> Vec<Record> {
    records.iter().copied().filter(|record| record.kind == kind).collect()
}

/// A channel with threads for each level, all on this processor.
fn on(cpu: usize) -> ChannelBuilder {
    let threads = ThreadSetup::default().on(Cpus::one(cpu));
    Channel::builder().strategy(Strategy::Threads { per_level: 1 }).trace(true).threads(threads)
}

fn at(priority: i16) -> Quality {
    Quality { priority: Priority::new(priority).unwrap(), ..Quality::default() }
}

/// A consumer of type 20 that pushes an event of type 21 and returns after that one's consumer.
fn waits(channel: &Channel, supplier: &Arc<ProxyPushConsumer>) -> impl Fn(&[Event<'_>]) + use<> {
    let (channel, supplier) = (channel.clone(), supplier.clone());
    move |_| {
        supplier.push(&event(21, 0, 0));
        wait_until("the other one returns", || !of(&records(&channel), RecordKind::End).is_empty());
    }
}

/// Runs a consumer at `first` that does not end before one at `second` has returned. Returns the
/// records.
fn two(
    config: ChannelBuilder,
    first: i16,
    second: i16,
    own: Option<Arc<dyn Dispatch>>,
) -> (Vec<Record>, u32, u32) {
    let channel = config.build().unwrap();
    let supplier = Arc::new(channel.for_suppliers().connect().unwrap());
    let admin = channel.for_consumers();
    let outer = Arc::new(waits(&channel, &supplier));
    let outer = admin.connect(outer, wants(Filter::of(20, 0)).quality(at(first))).unwrap();
    let inner = Arc::new(|_: &[Event<'_>]| ());
    let mut qos = wants(Filter::of(21, 0)).quality(at(second));
    qos.dispatch = own;
    let inner = admin.connect(inner, qos).unwrap();
    supplier.push(&event(20, 0, 0));
    let ended = || of(&records(&channel), RecordKind::End).len() == 2;
    wait_until("both have returned", ended);
    // By then the records after the end of a run are written too.
    let (outer, inner) = (outer.id(), inner.id());
    channel.destroy();
    (records(&channel), outer, inner)
}

#[test]
fn a_preemption_by_another_thread_is_in_the_trace() {
    let cpu = current_cpus().unwrap().iter().next().unwrap();
    let (records, low, high) = two(on(cpu), 0, 30_000, None);
    let (lost, back) = (of(&records, RecordKind::Preempt), of(&records, RecordKind::Resume));
    let [begun] =
        of(&records, RecordKind::Begin).into_iter().filter(|r| r.id == high).collect::<Vec<_>>()[..]
    else {
        panic!("the urgent one runs once: {records:?}")
    };
    let [ended] = of(&records, RecordKind::End).into_iter().filter(|r| r.id == high).collect::<Vec<_>>()[..]
    else {
        panic!("and returns: {records:?}")
    };
    let expected =
        Record { at: begun.at, kind: RecordKind::Preempt, level: 0, id: low, a: 3, b: high.into() };
    assert_eq!(lost, [expected]);
    let expected = Record { at: ended.at, kind: RecordKind::Resume, a: ended.a, ..expected };
    assert_eq!(back, [expected]);
    // All threads of the channel are confined.
    assert!(of(&records, RecordKind::End).iter().all(|end| end.b == 0), "{records:?}");
}

#[test]
fn less_urgent_runs_other_processors_and_ended_runs_are_no_preemption() {
    let cpus: Vec<usize> = current_cpus().unwrap().iter().collect();
    let none = |(records, ..): (Vec<Record>, u32, u32)| {
        let lost = [RecordKind::Preempt, RecordKind::Resume].map(|what| of(&records, what));
        assert_eq!(lost, [Vec::new(), Vec::new()], "{records:?}");
    };
    none(two(on(cpus[0]), 30_000, 0, None));
    // Equal levels: two threads of one level.
    let strategy = Strategy::Threads { per_level: 2 };
    none(two(on(cpus[0]).strategy(strategy), 9_000, 9_000, None));
    match cpus[..] {
        [first, .., last] => {
            let levels = ChannelBuilder::default_levels();
            let setup = ThreadSetup::default().on(Cpus::one(last));
            let own = Queued::alone(Strategy::SingleThreaded, &levels, &setup).unwrap().unwrap();
            none(two(on(first), 0, 30_000, Some(Arc::new(own))));
        }
        _ => println!("skipped in part: there is one processor only"),
    }
    // One after the other.
    let (channel, [low, high]) = (on(cpus[0]).build().unwrap(), [0, 30_000].map(at));
    let nothing = || Arc::new(|_: &[Event<'_>]| ());
    let admin = channel.for_consumers();
    let _low = admin.connect(nothing(), wants(Filter::of(20, 0)).quality(low)).unwrap();
    let _high = admin.connect(nothing(), wants(Filter::of(21, 0)).quality(high)).unwrap();
    let supplier = channel.for_suppliers().connect().unwrap();
    for (n, event_type) in [20, 21, 20, 21].into_iter().enumerate() {
        supplier.push(&event(event_type, 0, 0));
        wait_until("it has returned", || of(&records(&channel), RecordKind::End).len() == n + 1);
    }
    channel.destroy();
    none((records(&channel), 0, 0));
}

//! Pushes on the supplier's own thread: to one consumer, to twenty, and among many subscriptions.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use isorb_event::dispatch::Direct;
use isorb_event::{
    Channel, ChannelBuilder, ConsumerQos, Event, Filter, FixedDiscriminator, Limits, ModuleSet, PushConsumer,
};

use super::super::refused;
use super::{BARE, CHANNEL, controls, rows};
use crate::blocks::{Local, keep};
use crate::experiments::BenchError;
use crate::figure::Row;

/// Calls to a sample.
const TOGETHER: u32 = 200;
/// Of subscriptions that are not asked for twice in a row.
const STRIDE: u64 = 7_919;
/// Sources of a type.
const SOURCES: u32 = 100;

/// As [`CHANNEL`]: without trace, without counts, and with its modules chosen by type.
pub const UNTRACED: &str = "no-trace";
pub const UNCOUNTED: &str = "no-counts";
pub const BY_TYPE: &str = "modules-by-type";
/// Subscriptions that were not looked up shortly before.
pub const COLD: &str = "cold-keys";

fn config(trace: bool, counting: bool) -> ChannelBuilder {
    let limits = Limits { consumers: 200_000, trace_records: 1 << 12, ..Limits::default() };
    Channel::builder().limits(limits).trace(trace).counting(counting)
}

/// A consumer with the least possible work.
pub fn consumer(sum: &Arc<AtomicU64>) -> Arc<dyn PushConsumer> {
    let sum = sum.clone();
    // One plain addition.
    Arc::new(move |events: &[Event<'_>]| sum.store(sum.load(Relaxed) + events.len() as u64, Relaxed))
}

fn connect<M: ModuleSet>(
    channel: &Channel<M>,
    sum: &Arc<AtomicU64>,
    filters: impl Iterator<Item = Filter>,
) -> Result<(), BenchError> {
    for filter in filters {
        let qos = ConsumerQos::new("cost", filter);
        channel.for_consumers().connect(consumer(sum), qos).map_err(refused)?.detach();
    }
    Ok(())
}

/// To one consumer and to twenty, beside a loop of dynamic calls.
pub fn consumers(rounds: u32) -> Result<Vec<Row>, BenchError> {
    let sum = Arc::new(AtomicU64::new(0));
    let event = Event::new(20, 1).octets(b"some payload");
    let mut all = Vec::new();
    for count in [1_u32, 20] {
        let channels = [config(true, true), config(false, true), config(false, false)]
            .map(|config| config.build().map_err(refused));
        let by_type = config(false, false).build_fixed(FixedDiscriminator::new(Direct)).map_err(refused)?;
        let wanted = || (0..count).map(|_| Filter::of(20, 1));
        connect(&by_type, &sum, wanted())?;
        let x = f64::from(count);
        let bare: Vec<_> = (0..count).map(|_| consumer(&sum)).collect();
        let mut subjects = vec![Local::called(BARE, x, [10, TOGETHER], || {
            black_box(&bare).iter().for_each(|one| keep(one.push(std::slice::from_ref(&event))));
        })];
        for (name, channel) in [CHANNEL, UNTRACED, UNCOUNTED].into_iter().zip(channels) {
            let channel = channel?;
            connect(&channel, &sum, wanted())?;
            let supplier = channel.for_suppliers().connect().map_err(refused)?;
            let event = &event;
            subjects.push(Local::called(name, x, [10, TOGETHER], move || keep(supplier.push(event))));
        }
        let (supplier, event) = (by_type.for_suppliers().connect().map_err(refused)?, &event);
        subjects.push(Local::called(BY_TYPE, x, [10, TOGETHER], move || keep(supplier.push(event))));
        subjects.extend([controls::formatted(&bare, event), controls::copies(&bare, event)]);
        all.extend(rows("push", rounds, &mut subjects));
    }
    Ok(all)
}

/// A consumer for each of so many keys. Takes some seconds; not for a measuring thread.
pub fn subscribed(count: u32) -> Result<Channel, BenchError> {
    let channel = config(false, true).build().map_err(refused)?;
    let sum = Arc::new(AtomicU64::new(0));
    connect(&channel, &sum, (0..count).map(|i| Filter::of(key(i).0, key(i).1)))?;
    Ok(channel)
}

fn key(i: u32) -> (i32, i32) {
    let number = |n| i32::try_from(n).unwrap_or(0);
    (20 + number(i / SOURCES), 1 + number(i % SOURCES))
}

/// One consumer gets each event; the others wait for other keys. The last of the channels is asked
/// for other keys as well.
pub fn subscriptions(rounds: u32, channels: &[(u32, Channel)]) -> Result<Vec<Row>, BenchError> {
    let hot = Event::new(20, 1).octets(b"some payload");
    let most = channels.last().map_or(1, |&(count, _)| count);
    // Far apart from each other, so that each is a miss.
    let far = |i| u32::try_from(u64::from(i) * STRIDE % u64::from(most)).unwrap_or(0);
    let cold: Vec<Event<'_>> = (0..most).map(|i| key(far(i))).map(|(t, s)| Event::new(t, s)).collect();
    let mut subjects = Vec::new();
    for (count, channel) in channels {
        let supplier = channel.for_suppliers().connect().map_err(refused)?;
        let (hot, x) = (&hot, f64::from(*count));
        subjects.push(Local::called(CHANNEL, x, [10, TOGETHER], move || keep(supplier.push(hot))));
    }
    if let Some((count, channel)) = channels.last() {
        let supplier = channel.for_suppliers().connect().map_err(refused)?;
        let mut next = cold.iter().cycle();
        let push = move || next.next().map_or((), |event| keep(supplier.push(event)));
        subjects.push(Local::called(COLD, f64::from(*count), [10, TOGETHER], push));
    }
    subjects.push(controls::scan((0..most).map(key).collect(), &hot));
    Ok(rows("subscriptions", rounds, &mut subjects))
}

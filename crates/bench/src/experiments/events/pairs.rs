//! Suppliers that push at fixed rates, each to a consumer that works: through a channel, and as
//! bare threads.

use std::sync::{Arc, Mutex};

use isorb_event::{Channel, ConsumerQos, Event, Filter, Priority, Strategy, ThreadSetup, dispatch};
use isorb_rt::priority::{Linear, PriorityMapping};
use isorb_rt::sched::{Cpus, NativeRange, SchedClass, ThreadSpec};
use isorb_rt::time::{Deadline, NS_PER_S, now_ns, sleep_until};

use super::super::{BenchError, Context};
use super::{SOURCE, age, refused};
use crate::load::work;

/// A supplier and its consumer.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Events a second.
    pub hz: u32,
    /// Work of the consumer for an event, as [`work`] counts; 0 is an idle consumer of another
    /// channel's events.
    pub work: i32,
    /// CORBA priority of the consumer; below [`ORDINARY_BELOW`] it is an ordinary thread.
    pub priority: i16,
}

/// Consumers of lower priority run in the ordinary class.
pub const ORDINARY_BELOW: i16 = 1_000;
/// Of the first pair's events.
const FIRST_TYPE: i32 = 16;
/// How far an event goes in a federation.
const HOPS: i32 = 4;
/// A consumer offers to yield after so many units of work.
const PIECE: i32 = 1_000;

/// Spreads priorities over native ones that leave the kernel's own threads above; the lowest are
/// ordinary.
struct Spread;

impl PriorityMapping for Spread {
    fn to_native(&self, corba: Priority) -> Option<u8> {
        if corba.get() < ORDINARY_BELOW { None } else { linear().to_native(corba) }
    }

    fn to_corba(&self, native: u8) -> Option<Priority> {
        linear().to_corba(native)
    }
}

fn linear() -> Linear {
    Linear(NativeRange::new(1, 45).unwrap_or_default())
}

/// The ages of events when their consumers were done with them, in nanoseconds; one list a pair. An
/// event's age counts from when it was due.
pub type Ages = Vec<Vec<u64>>;

/// A channel and a consumer a pair, on one processor.
pub struct Consumers {
    /// The channel.
    pub channel: Channel,
    connected: Vec<isorb_event::ProxyPushSupplier>,
    seen: Vec<Arc<Mutex<Vec<u64>>>>,
}

impl Consumers {
    /// On `cpu`; `real_time` says whether consumers above [`ORDINARY_BELOW`] are of a real-time
    /// class. `id` is the channel's in a federation.
    pub fn connect(
        id: u64,
        cpu: usize,
        real_time: bool,
        strategy: Strategy,
        pairs: &[Pair],
        ms: u32,
    ) -> Result<Consumers, BenchError> {
        let mut levels: Vec<Priority> =
            pairs.iter().filter_map(|pair| Priority::new(pair.priority)).collect();
        levels.sort_unstable();
        let mut threads = ThreadSetup::default().on(Cpus::one(cpu));
        if real_time {
            threads.mapping = Some(Arc::new(Spread));
        }
        let channel = Channel::builder()
            .strategy(strategy)
            .id(id)
            .levels(levels)
            .threads(threads)
            .build()
            .map_err(refused)?;
        let seen: Vec<Arc<Mutex<Vec<u64>>>> =
            pairs.iter().map(|pair| Arc::new(Mutex::new(Vec::with_capacity(count(pair, ms))))).collect();
        let mut connected = Vec::new();
        for ((event_type, &pair), seen) in (FIRST_TYPE..).zip(pairs).zip(&seen) {
            let mut qos = ConsumerQos::new(format!("{} Hz", pair.hz), Filter::of(event_type, SOURCE));
            if let Some(priority) = Priority::new(pair.priority) {
                qos.quality.priority = priority;
            }
            let consumer = Arc::new(works(pair.work, seen.clone()));
            connected.push(channel.for_consumers().connect(consumer, qos).map_err(refused)?);
        }
        Ok(Consumers { channel, connected, seen })
    }

    /// The ages that they saw since this was last asked.
    pub fn take(&self) -> Ages {
        let of = |seen: &Arc<Mutex<Vec<u64>>>| match seen.lock() {
            Ok(mut seen) => std::mem::take(&mut *seen),
            Err(_) => Vec::new(),
        };
        self.seen.iter().map(of).collect()
    }

    /// Disconnects them, and ends the channel.
    pub fn end(mut self) -> Ages {
        self.connected.clear();
        self.channel.destroy();
        self.take()
    }
}

/// A consumer that works, and notes how old the event was when it was done.
fn works(units: i32, seen: Arc<Mutex<Vec<u64>>>) -> impl Fn(&[Event<'_>]) + Send + Sync + 'static {
    move |events| {
        let mut left = units;
        while left > 0 {
            work(left.min(PIECE));
            left -= PIECE;
            dispatch::yield_now();
        }
        // The lock is uncontended until the run has ended.
        if let (Some(age), Ok(mut seen)) = (events.first().and_then(age), seen.lock()) {
            seen.push(age);
        }
    }
}

/// A supplier a pair pushes into `channel` for so long, on the processor that contenders share.
fn supply(cx: &Context<'_>, channel: &Channel, pairs: &[Pair], ms: u32) -> Result<(), BenchError> {
    supply_from(now_ns() + 20_000_000, (cx.cpu(), cx.fifo.is_some()), channel, pairs, ms)
}

/// The same from a point of the clock on, on this processor, at a real-time priority or not.
/// Pairs without work have no supplier here: their consumer is idle, and their events come from
/// another channel.
pub fn supply_from(
    start: u64,
    (cpu, real_time): (usize, bool),
    channel: &Channel,
    pairs: &[Pair],
    ms: u32,
) -> Result<(), BenchError> {
    let mut suppliers = Vec::new();
    for (event_type, &pair) in (FIRST_TYPE..).zip(pairs).filter(|(_, pair)| pair.work > 0) {
        let supplier = channel.for_suppliers().connect().map_err(refused)?;
        // Above every consumer, and away in microseconds.
        let class = if real_time { SchedClass::Fifo(60) } else { SchedClass::Other };
        let spec = ThreadSpec::new(format!("supplier-{}", pair.hz)).class(class).cpus(Cpus::one(cpu));
        let thread = spec.spawn(move || {
            let period = NS_PER_S / u64::from(pair.hz);
            let count = count(&pair, ms) as u64;
            for k in 0..count {
                let at = start + k * period;
                sleep_until(Deadline::at_ns(at));
                supplier.push(&Event::new(event_type, SOURCE).ttl(HOPS).octets(&at.to_ne_bytes()));
            }
            // The last event has its period.
            sleep_until(Deadline::at_ns(start + count * period));
        });
        suppliers.push(thread?);
    }
    suppliers.into_iter().for_each(|thread| drop(thread.join()));
    Ok(())
}

/// Through a channel, on the processor that contenders share.
pub fn through_channel(
    cx: &Context<'_>,
    strategy: Strategy,
    pairs: &[Pair],
    ms: u32,
) -> Result<Ages, BenchError> {
    let consumers = Consumers::connect(0, cx.cpu(), cx.fifo.is_some(), strategy, pairs, ms)?;
    supply(cx, &consumers.channel, pairs, ms)?;
    Ok(consumers.end())
}

/// As threads that do the consumers' work themselves, at the same native priorities.
pub fn bare(cx: &Context<'_>, pairs: &[Pair], ms: u32) -> Result<Ages, BenchError> {
    let start = now_ns() + 20_000_000;
    let mut threads = Vec::new();
    for &pair in pairs {
        let native = Priority::new(pair.priority).and_then(|priority| Spread.to_native(priority));
        let class = native.filter(|_| cx.fifo.is_some()).map_or(SchedClass::Other, SchedClass::Fifo);
        let spec = ThreadSpec::new(format!("bare-{}", pair.hz)).class(class).cpus(Cpus::one(cx.cpu()));
        let thread = spec.spawn(move || {
            let period = NS_PER_S / u64::from(pair.hz);
            let releases = (0..count(&pair, ms) as u64).map(|k| start + k * period);
            let end = start + count(&pair, ms) as u64 * period;
            let mut ages = Vec::with_capacity(count(&pair, ms));
            // What is not begun when the run ends is not done, as with a channel that is destroyed.
            for at in releases.take_while(|_| now_ns() < end) {
                sleep_until(Deadline::at_ns(at));
                work(pair.work);
                ages.push(now_ns().saturating_sub(at));
            }
            ages
        });
        threads.push(thread?);
    }
    Ok(threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect())
}

/// Events of a pair in a run.
pub fn count(pair: &Pair, ms: u32) -> usize {
    usize::try_from(u64::from(ms) * u64::from(pair.hz) / 1000).unwrap_or(0)
}

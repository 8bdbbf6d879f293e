//! Events for another thread: the time of one, and the throughput.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;

use isorb_event::{Channel, ConsumerQos, Event, Filter, Overflow, Quality, Strategy, ThreadSetup};
use isorb_rt::priority::PriorityMapping;
use isorb_rt::sched::{Cpus, SchedClass, ThreadSpec};
use isorb_rt::sync::Parker;
use isorb_rt::time::{Deadline, now_ns};

use super::super::{SOURCE, TYPE, age, refused, stamped};
use super::{AGAIN, BARE, CHANNEL, controls, rows};
use crate::blocks::{Local, keep};
use crate::event_peers::OneLevel;
use crate::experiments::BenchError;
use crate::figure::Row;

/// Hand-overs of a block.
const BLOCK: usize = 300;
/// Events under way at a time.
const QUEUE: usize = 512;

/// Where the threads run: all on one processor, at one priority.
#[derive(Clone, Copy)]
pub struct Setup {
    pub cpu: usize,
    pub fifo: Option<u8>,
}

impl Setup {
    pub fn spec(self, name: &str) -> ThreadSpec {
        let class = self.fifo.map_or(SchedClass::Other, SchedClass::Fifo);
        ThreadSpec::new(name).class(class).cpus(Cpus::one(self.cpu))
    }

    fn channel(self, strategy: Strategy) -> Result<Channel, BenchError> {
        let mut threads = ThreadSetup::default().on(Cpus::one(self.cpu));
        threads.mapping = self.fifo.map(|native| Arc::new(OneLevel(native)) as Arc<dyn PriorityMapping>);
        Channel::builder().strategy(strategy).threads(threads).build().map_err(refused)
    }
}

/// A thread that is woken, records the time that this took, and wakes the other.
struct Bare {
    there: Arc<Parker>,
    here: Arc<Parker>,
    woken: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
    took: Arc<AtomicU64>,
}

impl Bare {
    fn start(setup: Setup) -> Result<Bare, BenchError> {
        let bare = Bare {
            there: Arc::default(),
            here: Arc::default(),
            woken: Arc::default(),
            ended: Arc::default(),
            took: Arc::default(),
        };
        let Bare { there, here, woken, ended, took } = &bare;
        let (there, here, woken) = (there.clone(), here.clone(), woken.clone());
        let (ended, took) = (ended.clone(), took.clone());
        let serve = move || {
            while there.park_until(Deadline::NONE) && !ended.load(Relaxed) {
                took.store(now_ns().saturating_sub(woken.load(Relaxed)), Relaxed);
                here.unpark();
            }
        };
        drop(setup.spec("bare").spawn(serve)?);
        Ok(bare)
    }

    /// Another thread between them passes the event on.
    fn behind_another(setup: Setup) -> Result<Bare, BenchError> {
        let mut bare = Bare::start(setup)?;
        let (woken, ended) = (Arc::new(Parker::new()), bare.ended.clone());
        let first = woken.clone();
        let second = std::mem::replace(&mut bare.there, first);
        let pass_on = move || {
            while woken.park_until(Deadline::NONE) {
                second.unpark();
                if ended.load(Relaxed) {
                    break;
                }
            }
        };
        drop(setup.spec("control").spawn(pass_on)?);
        Ok(bare)
    }

    fn hand_over(&self) -> u64 {
        self.woken.store(now_ns(), Relaxed);
        self.there.unpark();
        self.here.park_until(Deadline::NONE);
        self.took.load(Relaxed)
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
        self.there.unpark();
    }
}

/// From the supplier's push to the consumer on its thread, beside a futex that is waited on and
/// woken.
pub fn hand_over(setup: Setup, rounds: u32) -> Result<Vec<Row>, BenchError> {
    let (one, other, detour) = (Bare::start(setup)?, Bare::start(setup)?, Bare::behind_another(setup)?);
    let channel = setup.channel(Strategy::Threads { per_level: 1 })?;
    let (back, took) = (Arc::new(Parker::new()), Arc::new(AtomicU64::new(0)));
    let (answer, noted) = (back.clone(), took.clone());
    let consumer = move |events: &[Event<'_>]| {
        noted.store(events.first().and_then(age).unwrap_or(0), Relaxed);
        answer.unpark();
    };
    let qos = ConsumerQos::new("woken", Filter::of(TYPE, SOURCE));
    let connected = channel.for_consumers().connect(Arc::new(consumer), qos).map_err(refused)?;
    let supplier = channel.for_suppliers().connect().map_err(refused)?;
    let through_channel = || {
        stamped(|event| supplier.push(event));
        back.park_until(Deadline::NONE);
        took.load(Relaxed)
    };
    let mut subjects = [
        Local::timed(BARE, 1.0, BLOCK, || one.hand_over()),
        Local::timed(AGAIN, 1.0, BLOCK, || other.hand_over()),
        Local::timed(CHANNEL, 1.0, BLOCK, through_channel),
        Local::timed(controls::DETOUR, 1.0, BLOCK, || detour.hand_over()),
    ];
    let rows = rows("hand-over", rounds, &mut subjects);
    drop(connected);
    channel.destroy();
    Ok(rows)
}

/// Nanoseconds an event, many one after the other, through a queue of [`QUEUE`] to one thread;
/// beside a channel of the standard library.
pub fn flow(setup: Setup, rounds: u32, events: u64) -> Result<Vec<Row>, BenchError> {
    let standard = || {
        let (send, receive) = sync_channel::<[u8; 64]>(QUEUE);
        let start = now_ns();
        let body = move || receive.iter().fold(0, |sum, one| sum + u64::from(one[0]));
        let Ok(thread) = setup.spec("bare").spawn(body) else { return 0 };
        (0..events).for_each(|_| keep(send.send([1; 64])));
        drop(send);
        let sum = thread.join().unwrap_or(0);
        if sum == events { (now_ns() - start) / events } else { 0 }
    };
    let channel = setup.channel(Strategy::SingleThreaded)?;
    let (count, done) = (Arc::new(AtomicU64::new(0)), Arc::new(Parker::new()));
    let (counted, last) = (count.clone(), done.clone());
    let consumer = move |_: &[Event<'_>]| {
        // One thread at a time calls it.
        let n = counted.load(Relaxed) + 1;
        counted.store(n, Relaxed);
        if n == events {
            last.unpark();
        }
    };
    let quality = Quality { queue: QUEUE, overflow: Overflow::Block, ..Quality::default() };
    let qos = ConsumerQos::new("flow", Filter::of(TYPE, SOURCE)).quality(quality);
    let connected = channel.for_consumers().connect(Arc::new(consumer), qos).map_err(refused)?;
    let supplier = channel.for_suppliers().connect().map_err(refused)?;
    let event = Event::new(TYPE, SOURCE).octets(&[1; 64]);
    let through_channel = || {
        count.store(0, Relaxed);
        let start = now_ns();
        (0..events).for_each(|_| keep(supplier.push(&event)));
        done.park_until(Deadline::NONE);
        (now_ns() - start) / events
    };
    let mut subjects = [
        Local::timed(BARE, 1.0, 1, standard),
        Local::timed(CHANNEL, 1.0, 1, through_channel),
        controls::one_by_one(setup, events / 10),
    ];
    let rows = rows("flow", rounds, &mut subjects);
    drop(connected);
    channel.destroy();
    Ok(rows)
}

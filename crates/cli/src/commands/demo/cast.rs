//! The parts of the avionics demo: what each one receives, declares and pushes.

use isorb_event::{
    Channel, ConnectError, ConsumerQos, Event, Failure, Filter, ProxyPushConsumer, ProxyPushSupplier,
    PushConsumer, Quality,
};
use isorb_rt::sync::PiMutex;
use isorb_rt::time::{now_ns, thread_cpu_ns};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

// Event types. Types of applications begin at 16.
pub const ATTITUDE: i32 = 16;
pub const AIR: i32 = 17;
pub const FIX: i32 = 18;
pub const RADAR: i32 = 19;
pub const NAVIGATION: i32 = 20;
pub const TARGET: i32 = 21;
/// Only the pod has a consumer for it, so it must not cross the link.
pub const POD_HEALTH: i32 = 22;

/// The source of all events; the demo distinguishes events by type alone.
const SOURCE: i32 = 1;

/// Periods of 30, 15 and 5 Hz.
pub const FAST: Duration = Duration::from_micros(33_333);
pub const MIDDLE: Duration = Duration::from_micros(66_667);
pub const SLOW: Duration = Duration::from_millis(200);

/// A part of the mission computer or the pod.
pub struct Part {
    pub name: &'static str,
    pub filter: Filter,
    /// Shortest time between two calls, and the deadline.
    pub period: Duration,
    /// Processor time of a call.
    pub works: Duration,
    /// Type of the event that it pushes after each call.
    pub pushes: Option<i32>,
}

/// Processor time that a part declares for a call: twice what it uses, and a millisecond.
pub fn declared(works: Duration) -> Duration {
    works * 2 + Duration::from_millis(1)
}

/// A connected part.
pub struct Player {
    pub name: &'static str,
    pub period: Duration,
    pub works: Duration,
    pub consumer: ProxyPushSupplier,
    pub worker: Arc<Worker>,
    supplier: Option<u32>,
}

impl Player {
    /// Connects a part to a channel. It stores the ages of at most `most` events.
    pub fn connect(channel: &Channel, part: Part, most: usize) -> Result<Player, ConnectError> {
        let output = match part.pushes {
            Some(event_type) => Some((channel.for_suppliers().connect()?, event_type)),
            None => None,
        };
        let supplier = output.as_ref().map(|(supplier, _)| supplier.id());
        let worker = Arc::new(Worker {
            works: part.works,
            ages: PiMutex::new(Vec::with_capacity(most)),
            output,
            silent: AtomicBool::new(false),
        });
        let quality = Quality {
            worst_case: Some(declared(part.works)),
            period: Some(part.period),
            deadline: Some(part.period),
            ..Quality::default()
        };
        let qos = ConsumerQos::new(part.name, part.filter).quality(quality);
        let consumer = channel.for_consumers().connect(worker.clone(), qos)?;
        Ok(Player { name: part.name, period: part.period, works: part.works, consumer, worker, supplier })
    }
}

/// Names of the suppliers, for the recording.
pub fn suppliers(players: &[Player]) -> Vec<(u32, &'static str)> {
    players.iter().filter_map(|player| Some((player.supplier?, player.name))).collect()
}

/// The consumer of a part: computes, then pushes.
pub struct Worker {
    works: Duration,
    /// Age of each event on arrival in nanoseconds, since the sensor or facade made it. Allocated
    /// in advance.
    ages: PiMutex<Vec<u64>>,
    output: Option<(ProxyPushConsumer, i32)>,
    silent: AtomicBool,
}

impl Worker {
    /// Stops pushing, or resumes it.
    pub fn silence(&self, silent: bool) {
        self.silent.store(silent, Relaxed);
    }

    /// The ages of received events in ascending order.
    pub fn ages(&self) -> Vec<u64> {
        let mut ages = self.ages.lock().clone();
        ages.sort_unstable();
        ages
    }

    fn note(&self, age: u64) {
        let mut ages = self.ages.lock();
        if ages.len() < ages.capacity() {
            ages.push(age);
        }
    }
}

impl PushConsumer for Worker {
    fn push(&self, events: &[Event<'_>]) -> Result<(), Failure> {
        let application = events.iter().filter(|event| event.header.event_type >= ATTITUDE);
        // The latest event of a conjunction.
        if let Some(made) = application.map(|event| event.header.creation_time).max() {
            self.note(now_ns().saturating_sub(made.saturating_mul(100)));
        }
        let until = thread_cpu_ns() + self.works.as_nanos() as u64;
        while thread_cpu_ns() < until {
            std::hint::spin_loop();
        }
        if let Some((supplier, event_type)) = &self.output
            && !self.silent.load(Relaxed)
        {
            // The event crosses at most one link.
            supplier.push(&Event::new(*event_type, SOURCE).created(now_ns() / 100).octets(&[0; 64]));
        }
        Ok(())
    }
}

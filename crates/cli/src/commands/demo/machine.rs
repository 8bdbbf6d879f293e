//! What both processes of the avionics demo have: a scheduled channel, its federation, and threads.

use super::cast::{FAST, MIDDLE, SLOW};
use isorb_event::dispatch::Queued;
use isorb_event::federation::{Federation, Gateways};
use isorb_event::{Channel, Limits, Priority, Quality, Scheduled, Strategy, ThreadSetup};
use isorb_rt::priority::Direct;
use isorb_rt::sched::{Cpus, NativeRange, Need, RealTime, current_cpus};
use isorb_sched::{Nanos, Plan, Policy, RuntimeScheduler};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

/// Native priorities of the consumers' threads. The system's own threads have higher ones.
const LEAST: u8 = 40;
const MOST: u8 = 60;

/// A neighbour that is silent for longer is forgotten.
const NEIGHBOUR_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of calls to the other process. Long, since the demo on a busy machine should show late
/// events and not a cut link.
pub const CALL: Duration = Duration::from_secs(10);

pub struct Machine {
    pub channel: Channel,
    pub federation: Federation,
    /// Whether its threads share one processor and have fixed priorities.
    pub one_processor: bool,
}

impl Machine {
    /// Rate monotonic, with a level for each of the three rates. The first process runs on the last
    /// processor, the second on the first.
    pub fn start(id: u64, mode: &str, seconds: u64) -> Result<Machine, Box<dyn Error>> {
        let spans = [FAST, MIDDLE, SLOW].map(|span| Nanos::new(span.as_nanos() as u64));
        let plan = Plan::with_levels(Policy::RateMonotonic, &spans, LEAST.into()..=MOST.into())?;
        let scheduled = Scheduled::new(RuntimeScheduler::new(plan));
        let (threads, one_processor) = threads(mode, id == 1)?;
        let channel = Channel::builder()
            .levels(scheduled.levels())
            .scheduler(Arc::new(scheduled))
            .strategy(Strategy::Threads { per_level: 1 })
            .threads(threads)
            .trace(true)
            .id(id)
            .limits(Limits { trace_records: room(seconds) * 4, ..Limits::default() })
            .build()?;
        // A link that stalls loses events, but must not count as failed. It has a thread of its
        // own.
        let alone =
            Queued::alone(Strategy::Threads { per_level: 1 }, &[Priority::MIN], &ThreadSetup::default())?;
        let quality = Quality { failures: 0, ..Quality::default() };
        let gateways = match alone {
            Some(queued) => Gateways::Dispatcher(Arc::new(queued)),
            None => Gateways::Channel,
        };
        let federation = Federation::builder(&channel).quality(quality).gateways(gateways).build()?;
        let machine = Machine { channel, federation, one_processor };
        // Announcements before the first tick would count as received at time zero.
        machine.tick();
        Ok(machine)
    }

    /// Announces the channel to its neighbours. Call it about once a second.
    pub fn tick(&self) {
        self.federation.tick(isorb_rt::time::now_ns(), NEIGHBOUR_TIMEOUT.as_nanos() as u64);
    }
}

/// Space for the calls of one part in this time, and some more. Bounded, so that a long demo keeps
/// its last minutes.
pub fn room(seconds: u64) -> usize {
    (seconds.clamp(1, 120) as usize + 2) * 64
}

/// Real-time threads on one processor if granted, otherwise ordinary threads on all processors.
fn threads(mode: &str, first: bool) -> Result<(ThreadSetup, bool), Box<dyn Error>> {
    let mode: RealTime = mode.parse()?;
    let need = Need { native_priority: MOST, lock_memory: None };
    let granted = mode.resolve(need).map_err(|missing| missing.to_string())?;
    let all: Vec<usize> = current_cpus()?.iter().collect();
    let own = if first { all.last() } else { all.first() };
    match own {
        // Each process is analysed for itself, so it needs a processor for itself.
        Some(own) if granted.scheduling && (first || all.len() > 1) => {
            let mapping = Arc::new(Direct(NativeRange::system()));
            let setup = ThreadSetup { mapping: Some(mapping), ..ThreadSetup::default() };
            Ok((setup.on(Cpus::one(*own)), true))
        }
        _ => Ok((ThreadSetup::default(), false)),
    }
}

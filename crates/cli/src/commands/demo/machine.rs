//! What both processes of the avionics demo stand on: a channel under the scheduler's rule, a place in the federation, threads.

use super::cast::{FAST, MIDDLE, SLOW};
use isorb_event::dispatch::Queued;
use isorb_event::federation::{Federation, Gateways};
use isorb_event::{Channel, Config, Limits, Priority, Quality, Scheduled, Strategy, ThreadSetup};
use isorb_rt::priority::Direct;
use isorb_rt::sched::{Cpus, NativeRange, Need, RealTime, current_cpus};
use isorb_sched::{Nanos, Plan, Policy, RuntimeScheduler};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

/// Native priorities of the consumers' threads: high enough to be undisturbed, with room above for the system's own.
const LEAST: u8 = 40;
const MOST: u8 = 60;

/// How long a neighbour that says nothing is believed to be there.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a call to the other process may take: long, since what the demo shows on a busy machine is late events, not a cut link.
pub const CALL: Duration = Duration::from_secs(10);

pub struct Machine {
    pub channel: Channel,
    pub federation: Federation,
    /// Its threads share a processor and have fixed priorities.
    pub one_processor: bool,
}

impl Machine {
    /// Rate-monotonic: a level for each of the three rates. The first process takes the last processor, the second the first.
    pub fn start(id: u64, mode: &str, seconds: u64) -> Result<Machine, Box<dyn Error>> {
        let spans = [FAST, MIDDLE, SLOW].map(|span| Nanos::new(span.as_nanos() as u64));
        let plan = Plan::with_levels(Policy::RateMonotonic, &spans, LEAST.into()..=MOST.into())?;
        let scheduled = Scheduled::new(RuntimeScheduler::new(plan));
        let (threads, one_processor) = threads(mode, id == 1)?;
        let channel = Channel::new(Config {
            levels: scheduled.levels(),
            scheduler: Arc::new(scheduled),
            strategy: Strategy::Threads { per_level: 1 },
            threads,
            trace: true,
            id,
            limits: Limits { trace_records: room(seconds) * 4, ..Limits::default() },
            ..Config::default()
        })?;
        // A link that stalls loses events, and must not be thought to fail for good. It has a thread to stall.
        let alone =
            Queued::alone(Strategy::Threads { per_level: 1 }, &[Priority::MIN], &ThreadSetup::default())?;
        let quality = Quality { failures: 0, ..Quality::default() };
        let gateways = match alone {
            Some(queued) => Gateways::Dispatcher(Arc::new(queued)),
            None => Gateways::Channel,
        };
        let federation = Federation::builder(&channel).quality(quality).gateways(gateways).build()?;
        let machine = Machine { channel, federation, one_processor };
        // What is heard before the first tick counts as heard at time zero, and would be forgotten with it.
        machine.tick();
        Ok(machine)
    }

    /// To be called every second or so.
    pub fn tick(&self) {
        self.federation.tick(isorb_rt::time::now_ns(), PATIENCE.as_nanos() as u64);
    }
}

/// Calls of one part in so many seconds, and some to spare; bounded, so that a demo that runs for a day keeps its last minutes.
pub fn room(seconds: u64) -> usize {
    (seconds.clamp(1, 120) as usize + 2) * 64
}

/// Real-time threads on one processor where that is allowed, ordinary ones on all elsewhere.
fn threads(mode: &str, first: bool) -> Result<(ThreadSetup, bool), Box<dyn Error>> {
    let mode: RealTime = mode.parse()?;
    let need = Need { native_priority: MOST, lock_memory: None };
    let granted = mode.resolve(need).map_err(|missing| missing.to_string())?;
    let all: Vec<usize> = current_cpus()?.iter().collect();
    let own = if first { all.last() } else { all.first() };
    match own {
        // Two processes whose analysis knows only their own tasks need a processor each.
        Some(own) if granted.scheduling && (first || all.len() > 1) => {
            let mapping = Arc::new(Direct(NativeRange::system()));
            let setup = ThreadSetup { mapping: Some(mapping), ..ThreadSetup::default() };
            Ok((setup.on(Cpus::one(*own)), true))
        }
        _ => Ok((ThreadSetup::default(), false)),
    }
}

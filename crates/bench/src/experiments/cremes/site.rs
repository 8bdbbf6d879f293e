//! The two nodes, and one measurement between them.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use isorb_netlab::{Host, Lab, LinkSpec, Sorting};
use isorb_reflective_memory::idl::Path;
use isorb_rt::sched::{Cpus, SchedClass, Thread, ThreadSpec, set_current_cpus};
use isorb_rt::time::{Deadline, now_ns, sleep_until};

use super::echo::{Echo, Listener, STAMP, Trips, stamp};
use super::{
    CHANNEL, CHANNEL_ORB, MEMORY, OMNIORB, ONEWAY, ORB, ORB_BEST_EFFORT, bare, channel, memory, omniorb,
};
use crate::experiments::{BenchError, Context};

pub const LINK_KBIT: u32 = 100_000;
/// The high producer's, as in the paper.
pub const HIGH_PERIOD_NS: u64 = 50_000_000;
pub const LOW_PERIOD_NS: u64 = 100_000_000;
/// The delay of the high producer after the low ones, if it has to meet their values: at 100
/// megabits a second, 25 KB of them have been sent by then.
const BEHIND_NS: u64 = 2_000_000;
/// The least time from the last value of a pass to the first of the next, so that all stamps
/// return.
pub const LAST: Duration = Duration::from_millis(300);

/// Writes a value.
pub type Sender = Box<dyn FnMut(&[u8]) + Send>;

/// Values of a row beside the times.
pub type Counted = Vec<(&'static str, f64)>;

/// A subject that is ready.
pub struct ReadySubject {
    /// The writers of the high producer, then of the low ones. None if the producers are in another
    /// process.
    pub senders: Vec<Sender>,
    /// Runs the passes of producers in another process, and waits for their end.
    pub elsewhere: Option<RemoteRun>,
    /// The parts that must live while values flow.
    pub held: Box<dyn Any>,
    /// The subject's own counts of the high producer's values, beside the times; called before it
    /// ends.
    pub counts: Option<Box<dyn Fn() -> Counted>>,
}

/// Threads that end when this is dropped: they look at `stop`.
#[derive(Default)]
pub struct Threads {
    pub all: Vec<Thread<()>>,
    pub stop: Arc<AtomicBool>,
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.all.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// See [`ReadySubject::elsewhere`].
pub type RemoteRun = Box<dyn FnOnce(&[Pass]) -> Result<(), BenchError>>;

/// When the high producer is released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Release {
    /// With the low producers, as in the paper: the more urgent one runs first.
    Together,
    /// When the values of the low producers fill the queues.
    Behind,
}

/// The time of the first values.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// When the low ones are released first.
    pub start_ns: u64,
    /// How long it lasts.
    pub ms: u32,
    /// When the high one is released.
    pub release: Release,
}

impl Pass {
    /// How much later than the low ones the high one is released.
    pub fn offset_ns(&self) -> u64 {
        if self.release == Release::Behind { BEHIND_NS } else { 0 }
    }

    /// Values of a producer with that period that are measured.
    pub fn values(&self, period_ns: u64) -> u64 {
        (u64::from(self.ms) * 1_000_000 / period_ns).max(1)
    }
}

/// The two nodes.
pub struct Site<'a> {
    pub cx: &'a Context<'a>,
    pub lab: &'a Lab,
    /// The high producer's period.
    pub high_ns: u64,
}

/// The nodes' network; serves all measurements of a run.
pub fn lab() -> Result<Lab, BenchError> {
    let spec = LinkSpec { rate_kbit: LINK_KBIT, sorting: Sorting::OneQueue { packets: 1000 } };
    Ok(Lab::build(&spec)?)
}

impl Site<'_> {
    /// A class `above` native priorities over the usual one.
    pub fn class(&self, above: u8) -> SchedClass {
        self.fifo(above).map_or(SchedClass::Other, SchedClass::Fifo)
    }

    /// The same as a number, where real-time scheduling is to be had.
    pub fn fifo(&self, above: u8) -> Option<u8> {
        self.cx.fifo.map(|priority| priority.saturating_add(above).min(98))
    }

    /// Calls `f` at the producers' node. Sockets and threads that it makes stay there.
    pub fn left<R: Send>(&self, f: impl FnOnce() -> Result<R, BenchError> + Send) -> Result<R, BenchError> {
        run_at(self.lab.left(), self.cx.machine.cpus.first(), f)
    }

    /// Calls `f` at the consumers' node.
    pub fn right<R: Send>(&self, f: impl FnOnce() -> Result<R, BenchError> + Send) -> Result<R, BenchError> {
        run_at(self.lab.right(), self.cx.machine.cpus.last(), f)
    }

    fn wire(
        &self,
        subject: &'static str,
        low: u32,
        size: usize,
        echo: &Echo,
    ) -> Result<ReadySubject, BenchError> {
        match subject {
            MEMORY => memory::wire(self, Path::PathUdp, true, low, size, echo),
            ORB => memory::wire(self, Path::PathOrb, true, low, size, echo),
            ORB_BEST_EFFORT => memory::wire(self, Path::PathOrb, false, low, size, echo),
            ONEWAY => memory::wire(self, Path::PathOneway, false, low, size, echo),
            CHANNEL => channel::wire(self, channel::Link::Datagrams, low, size, echo),
            CHANNEL_ORB => channel::wire(self, channel::Link::Orb, low, size, echo),
            OMNIORB => omniorb::wire(self, low, size, echo),
            _ => bare::wire(self, low, size, echo),
        }
    }

    /// Round trips of one high producer and `low` others, values of `size` octets each: of each
    /// pass.
    pub fn measure(
        &self,
        subject: &'static str,
        low: u32,
        size: usize,
        passes: &[(Release, u32)],
    ) -> Result<(Vec<Trips>, Counted), BenchError> {
        let (listener, echo) = Listener::start(self, passes.len())?;
        let mut wired = self.wire(subject, low, size, &echo)?;
        // All producers are connected now.
        let passes = plan(passes, now_ns() + 100_000_000, self.high_ns);
        let senders = std::mem::take(&mut wired.senders);
        let producers: Result<Vec<_>, _> = (0..)
            .zip(senders)
            .map(|(pair, sender)| self.producer(pair, sender, size, passes.clone()))
            .collect();
        if let Some(elsewhere) = wired.elsewhere.take() {
            elsewhere(&passes)?;
        }
        producers?.into_iter().for_each(|thread| drop(thread.join()));
        let counted = wired.counts.map(|counts| counts()).unwrap_or_default();
        drop(wired.held);
        Ok((listener.end(), counted))
    }

    fn producer(
        &self,
        pair: u16,
        mut sender: Sender,
        size: usize,
        passes: Vec<Pass>,
    ) -> Result<Thread<()>, BenchError> {
        let (period, class) = match pair {
            0 => (self.high_ns, self.class(0)),
            _ => (LOW_PERIOD_NS, SchedClass::Other),
        };
        let produce = move || {
            let mut value = vec![0; size.max(STAMP)];
            for (number, pass) in (0..).zip(passes) {
                let first = pass.start_ns + if pair == 0 { pass.offset_ns() } else { 0 };
                for k in 0..pass.values(period) + u64::from(pair == 0) {
                    sleep_until(Deadline::at_ns(first + k * period));
                    stamp(&mut value, pair, number);
                    sender(&value);
                }
            }
            // Dropped only after the last value has arrived.
            std::thread::sleep(LAST);
        };
        let spec = ThreadSpec::new(format!("producer-{pair}")).class(class);
        self.left(|| spec.spawn(produce).map_err(BenchError::Thread))
    }
}

/// One pass after the other, the first from `start_ns` on.
fn plan(passes: &[(Release, u32)], mut start_ns: u64, high_ns: u64) -> Vec<Pass> {
    let after = |ms: u32| u64::from(ms) * 1_000_000 + LAST.as_nanos() as u64;
    let pass = |&(release, ms): &(Release, u32)| {
        let pass = Pass { start_ns, ms, release };
        start_ns += (after(ms) + high_ns).next_multiple_of(LOW_PERIOD_NS);
        pass
    };
    passes.iter().map(pass).collect()
}

fn run_at<R: Send>(
    host: &Host,
    cpu: Option<&usize>,
    f: impl FnOnce() -> Result<R, BenchError> + Send,
) -> Result<R, BenchError> {
    host.run(|| {
        if let Some(&cpu) = cpu {
            // Threads inherit it. Where it is refused they run anywhere, and only noise grows.
            let _ = set_current_cpus(&Cpus::one(cpu));
        }
        f()
    })?
}

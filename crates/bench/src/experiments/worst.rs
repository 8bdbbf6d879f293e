//! The worst case of every way through isorb, in one table: idle, and under all loads at once.
//!
//! Each subject makes cycles with short sleeps between them, beside a bare program of the same
//! threads, priorities and octets. A thread that only sleeps until points of the clock, as
//! cyclictest has it, says what the machine does to any of them. Beside the times of a cycle stands
//! how long its threads waited for the processor while they could run, and in a pass of its own how
//! long the kernel took from waking a thread to running it.

use std::fs;
use std::time::{Duration, Instant};

use isorb_rt::time::{Deadline, now_ns, sleep_until};

use super::catalogue::Experiment;
use super::events::cost::remote;
use super::memory_cost::local::{Exchange, Waits};
use super::{BenchError, Context};
use crate::blocks::{Rounds, Series, interleave_all};
use crate::cases::{self, Case};
use crate::claim::{AtLeast, AtMost, Cells, Claim, control, most, paper};
use crate::figure::{Figure, Measured, times};
use crate::process::Scheduling;
use crate::protocol::Block;
use crate::report::Placement;
use crate::stats::Samples;
use crate::subjects::{self, PairScheduling, StoppedPair};
use crate::tail::Tail;
use crate::wake_trace::WakeTrace;
use crate::workload::BackgroundLoad;

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "p99.9, p99.99 and maximum of a million cycles over every transport and service, idle and under all loads",
    source: "of our own, after cyclictest",
    paper: "calls, events and values at a priority meet the worst case of bare programs, whatever else the machine does",
    seconds: (45, 3_600),
    run,
    claims,
};

pub const NAME: &str = "worst";
/// Figures: without other programs, and with.
const LOADS: [(&str, &str, &str); 2] =
    [("idle", "wake-up-idle", "idle"), ("loaded", "wake-up-loaded", "under all loads")];
const TIMER: &str = "timer";
const CONTROL: &str = "tcp-lane-ordinary";
/// Subject, its bare program, and that once more.
const BESIDE: [(&str, &str, &str); 7] = [
    ("tcp-lane", "raw-tcp", "raw-tcp-again"),
    ("banded", "raw-tcp", "raw-tcp-again"),
    ("unix", "raw-unix", "raw-unix-again"),
    ("segment", "futex", "futex-again"),
    ("segment-lane", "futex", "futex-again"),
    ("event-channel", "raw-events", "raw-events-again"),
    ("reflective-memory", "raw-memory", "raw-memory-again"),
];
/// Pairs of processes by their names here.
pub const PAIRS: [(&str, subjects::Subject); 12] = [
    ("raw-tcp", subjects::Subject::Raw),
    ("tcp-lane", subjects::Subject::IsorbLane),
    ("raw-tcp-again", subjects::Subject::Raw),
    ("banded", subjects::Subject::IsorbBand),
    ("raw-unix", subjects::Subject::RawUnix),
    ("unix", subjects::Subject::IsorbUnix),
    ("raw-unix-again", subjects::Subject::RawUnix),
    ("futex", subjects::Subject::Futex),
    ("segment", subjects::Subject::IsorbSegment),
    ("segment-lane", subjects::Subject::IsorbSegmentLane),
    ("futex-again", subjects::Subject::Futex),
    (CONTROL, subjects::Subject::IsorbLane),
];
const CHANNELS: [(&str, &[&str], &str); 3] = [
    ("raw-events", &["raw-channel"], "raw-supplier-consumer"),
    ("event-channel", &["channel", "--", "-ORBConcurrency", "connection"], "supplier-consumer"),
    ("raw-events-again", &["raw-channel"], "raw-supplier-consumer"),
];
const MEMORIES: [(&str, bool); 3] =
    [("raw-memory", false), ("reflective-memory", true), ("raw-memory-again", false)];
/// Blocks of each subject in full: a million cycles.
const BLOCKS: usize = 1_000;
/// Cycles of a block.
const CALLS: usize = 1_000;
/// Of the control, which shares the processor with all loads.
const CONTROL_CALLS: usize = 40;
const CONTROL_BLOCKS: usize = 4;
/// Microseconds between two cycles, so that other programs get the processor: without them the
/// loads would wait all the time.
const GAP_US: u32 = 50;
/// Cycles of the pass with trace points.
const TRACED: usize = 2_000;
/// Octets of a value of reflective memory.
const VALUE: usize = 64;
const VOID: Case = Case { kind: cases::Kind::Void, size: 0 };

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    let mut all = subjects(cx, out)?;
    let rounds = if cx.is_smoke() { 2 } else { cx.blocks.unwrap_or(cx.pick(10, BLOCKS)) };
    for (figure, traced, words) in LOADS {
        let load = if figure == LOADS[1].0 { Some(BackgroundLoad::all(cx)?) } else { None };
        let series = measure(cx, &mut all, rounds, words)?;
        for (subject, series) in all.iter().zip(series) {
            let mut values = series.values();
            let cycles = (subject.cycles as f64).max(1.0);
            values.push(("waiting_ns", (subject.waited_ns as f64 / cycles).round()));
            out.row(figure, subject.name, 1.0, values);
        }
        trace(cx, &mut all, traced, out)?;
        drop(load);
    }
    all.into_iter().for_each(|subject| {
        if let Kind::Pair(pair) = subject.kind {
            pair.end();
        }
    });
    let figure =
        |id, title| Figure::new(id, title, "cycle", "microseconds", &["p999_ns", "p9999_ns", "max_ns"]);
    out.figures = vec![
        figure(LOADS[0].0, "A cycle, idle"),
        figure(LOADS[1].0, "A cycle under all loads at once"),
        figure(LOADS[0].1, "From waking a thread to running it, idle"),
        figure(LOADS[1].1, "From waking a thread to running it, under all loads"),
    ];
    out.figures.retain(|figure| out.rows.iter().any(|row| row.figure == figure.id));
    out.note(format!(
        "{} cycles a subject, interleaved in blocks of {CALLS}; both ends on one processor at the usual priority. '{TIMER}' sleeps \
         {GAP_US} us at a time, and the others as long between two cycles. 'waiting_ns': what the threads of a cycle waited for the processor, in the mean; it is missing for \
         subjects within this process.",
        rounds * CALLS
    ));
    out.note(
        "All loads: four ordinary threads that compute, six real-time threads of low priority that want six tenths of the \
         processor, one that takes and returns memory, one that sends packets to this host.",
    );
    Ok(())
}

/// A subject that is ready.
struct Subject {
    name: &'static str,
    kind: Kind,
    cycles: usize,
    waited_ns: u64,
}

enum Kind {
    Pair(StoppedPair),
    Channel(remote::Subject),
    /// Reflective memory within a node, or bare hand-overs.
    Memory(bool),
    Timer,
}

/// All that can be had here; with servers elsewhere, those only.
fn subjects(cx: &mut Context<'_>, out: &mut Measured) -> Result<Vec<Subject>, BenchError> {
    let ours = PairScheduling::of(Placement::OneCore, &cx.machine);
    let mut all = vec![(TIMER, Kind::Timer)];
    for (name, subject) in PAIRS {
        cx.progress(format!("{NAME}: {name} is set up"));
        let elsewhere = cx.servers.as_ref().map(|servers| servers.get(name).cloned());
        let scheduling = if name == CONTROL { ordinary(ours) } else { ours };
        let pair = match (subject.programs(cx.launcher), elsewhere) {
            (Err(missing), _) => {
                out.note(format!("{name}: {missing}"));
                continue;
            }
            (Ok(_), Some(None)) => continue,
            (Ok(programs), Some(Some(address))) => {
                StoppedPair::to(cx.launcher, subject, &programs, &address, scheduling)?
            }
            (Ok(programs), None) => StoppedPair::start(cx.launcher, subject, &programs, scheduling)?,
        };
        all.push((name, Kind::Pair(pair)));
    }
    if cx.servers.is_none() {
        for (name, channel, supplier) in CHANNELS {
            cx.progress(format!("{NAME}: {name} is set up"));
            all.push((name, Kind::Channel(remote::Subject::start(cx, name, channel, supplier)?)));
        }
        all.extend(MEMORIES.map(|(name, ours)| (name, Kind::Memory(ours))));
    }
    Ok(all.into_iter().map(|(name, kind)| Subject { name, kind, cycles: 0, waited_ns: 0 }).collect())
}

fn ordinary(of: PairScheduling) -> PairScheduling {
    let without = |scheduling| Scheduling { fifo: None, ..scheduling };
    PairScheduling { client: without(of.client), server: without(of.server) }
}

fn measure(
    cx: &mut Context<'_>,
    all: &mut [Subject],
    rounds: usize,
    words: &str,
) -> Result<Vec<Series<BenchError>>, BenchError> {
    for subject in &mut *all {
        (subject.cycles, subject.waited_ns) = (0, 0);
    }
    let length = Rounds { at_least: rounds, ..Rounds::until(Instant::now()) };
    let blocks = rounds * all.len();
    let mut done = 0;
    interleave_all(all, length, |subject| {
        // Shown a hundred times.
        if done % (blocks / 100).max(1) == 0 {
            cx.progress(format!("{NAME}: {words}, {done} of {blocks} blocks"));
        }
        done += 1;
        let calls = match subject.name {
            CONTROL if subject.cycles >= CONTROL_BLOCKS * CONTROL_CALLS => return Ok(Vec::new()),
            CONTROL => CONTROL_CALLS,
            _ => CALLS,
        };
        let before = subject.waited();
        let block = subject.block(cx, calls)?;
        subject.waited_ns += subject.waited().saturating_sub(before);
        subject.cycles += block.len();
        Ok(block)
    })
}

impl Subject {
    fn block(&mut self, cx: &Context<'_>, calls: usize) -> Result<Vec<u64>, BenchError> {
        let gap = Duration::from_micros(GAP_US.into());
        let exchange =
            Exchange { class: cx.class(0), size: VALUE, rounds: calls, gap, waits: Waits::Sleeping };
        Ok(match &mut self.kind {
            Kind::Pair(pair) => pair.block(Block { case: VOID, warm: 20, calls, gap_us: GAP_US })?,
            Kind::Channel(channel) => channel.block(calls, GAP_US)?,
            Kind::Memory(true) => exchange.by_areas(cx)?,
            Kind::Memory(false) => exchange.by_bare_memory(cx)?,
            Kind::Timer => cx.on_thread(move || {
                let late = |_| {
                    let at = now_ns() + u64::from(GAP_US) * 1_000;
                    sleep_until(Deadline::at_ns(at));
                    now_ns().saturating_sub(at)
                };
                (0..calls).map(late).collect()
            })?,
        })
    }

    fn processes(&self) -> Vec<u32> {
        match &self.kind {
            Kind::Pair(pair) => pair.pair.ids(),
            Kind::Channel(channel) => channel.ids(),
            Kind::Memory(_) | Kind::Timer => Vec::new(),
        }
    }

    /// The ids of its threads.
    fn threads(&self) -> Vec<u32> {
        let of = |id: u32| fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
        let tasks = self.processes().into_iter().flat_map(of);
        tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
    }

    /// What its threads have waited for the processor so far, in nanoseconds.
    fn waited(&self) -> u64 {
        let of = |thread: u32| {
            let text = fs::read_to_string(format!("/proc/{thread}/schedstat")).ok()?;
            text.split(' ').nth(1)?.parse::<u64>().ok()
        };
        self.threads().into_iter().filter_map(of).sum()
    }
}

/// A pass with trace points for each subject, which costs the figures nothing.
fn trace(
    cx: &mut Context<'_>,
    all: &mut [Subject],
    figure: &'static str,
    out: &mut Measured,
) -> Result<(), BenchError> {
    for subject in all.iter_mut().filter(|subject| subject.name != CONTROL) {
        cx.progress(format!("{NAME}: trace points, {}", subject.name));
        let trace = match WakeTrace::start() {
            Ok(trace) => trace,
            Err(why) => {
                let note = format!("The kernel's wake-up latency is not shown: {why}.");
                if !out.notes.contains(&note) {
                    out.notes.push(note);
                }
                return Ok(());
            }
        };
        subject.block(cx, TRACED)?;
        let threads = subject.threads();
        // Threads of this process that measure have these names.
        let inside = threads.is_empty();
        let wanted =
            |id: u32, name: &str| threads.contains(&id) || inside && ["crm-cost", "measure"].contains(&name);
        let samples: Samples = trace.end(wanted)?.into_iter().collect();
        out.row(figure, subject.name, 1.0, times(&samples.summary()));
    }
    Ok(())
}

fn claims() -> Vec<Claim> {
    let mut claims = Vec::new();
    for (figure, _, when) in LOADS {
        for (subject, bare, again) in BESIDE {
            let words = format!("{subject}, {when}");
            // With servers on another host, some are not measured.
            let is_measured = move |r: &dyn Cells| !r.series(figure, subject, "n").is_empty();
            let tail = Tail { figure, subject, bare, again, x: 1.0 };
            claims.extend(tail.claims(&words).into_iter().map(|claim| claim.when(is_measured)));
        }
    }
    claims.push(paper(
        AtMost(2.0),
        "under all loads, p99.9 over TCP grows to at most {0:.2} times that of an idle machine \
         ({limit}; a timer's {1:.2})",
        |r| {
            let grows = |subject: &str| {
                let [idle, loaded] = LOADS.map(|(figure, ..)| r.at(figure, subject, "p999_ns", 1.0));
                loaded / idle
            };
            [most(["tcp-lane", "banded"].map(grows)), grows(TIMER)]
        },
    ));
    claims.push(
        control(
            AtLeast(5.0),
            "without real-time priorities, under all loads, p99.9 over TCP is {0:.0} times as long ({limit})",
            |r| {
                let [control, lane] = [CONTROL, "tcp-lane"].map(|of| r.at(LOADS[1].0, of, "p999_ns", 1.0));
                [control / lane]
            },
        )
        .when(|r| !r.series(LOADS[1].0, CONTROL, "n").is_empty()),
    );
    claims
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_that_is_judged_is_measured() {
        let pairs = PAIRS.iter().map(|(name, _)| *name);
        let channels = CHANNELS.iter().map(|(name, ..)| *name);
        let names: Vec<&str> = pairs.chain(channels).chain(MEMORIES.map(|(name, _)| name)).collect();
        for (subject, bare, again) in BESIDE {
            assert!([subject, bare, again].iter().all(|name| names.contains(name)), "{subject}");
        }
    }
}

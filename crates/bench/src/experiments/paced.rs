//! Three clients at rate-monotonic priorities on lanes, with continuous clients of the ordinary
//! class below them, on one processor that other programs want as well.
//!
//! Beside it the same work in bare threads at the same native priorities: what those meet, the ORB
//! must meet too.

use std::sync::mpsc::sync_channel;
use std::time::Duration;

use isorb_rt::sched::{Cpus, SchedClass, ThreadSpec};
use isorb_rt::time::{Deadline, NS_PER_S, now_ns, sleep_until};

use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::claim::{Above, AtMost, Cells, Claim, claims, control, paper};
use crate::figure::{Figure, Measured};
use crate::load::work;
use crate::workload::{BackgroundLoad, Plan, Role, Setup, Workload, calibrate_work};

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Deadlines of clients at 75, 50 and 25 Hz on lanes, beside four that call without a pause",
    source: "a test of ours; rates and priorities are those of common Real-Time CORBA demonstrations",
    paper: "lanes and bands meet every deadline that bare threads with the same work meet; without them deadlines are missed",
    seconds: (42, 190),
    run,
    claims,
};

const NAME: &str = "paced";
/// Calls a second, CORBA priority, and the native one of the bare thread.
const CLIENTS: [(u32, i16, u8); 3] = [(75, 32_767, 45), (50, 21_844, 30), (25, 10_922, 15)];
const LOWEST: i16 = 100;
const CONTINUOUS: u32 = 4;
const WORK_MS: f64 = 0.35;
const SORTED: &str = "lanes";
const CONTROL: &str = "one-pool-control";
const BARE: &str = "bare-threads";

/// Other programs on the processor.
const BUSY: u32 = 8;

/// Due and in time, of each client.
type DeadlinesMet = [(u64, u64); 3];

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    let (rounds, ms) = (cx.pick(3, 10), cx.ms(4_100, 6_000));
    let work = (WORK_MS * calibrate_work(cx)?).round() as i32;
    let lanes: Vec<i16> =
        [LOWEST].into_iter().chain(CLIENTS.iter().rev().map(|&(_, priority, _)| priority)).collect();
    let sorted = Setup { ordinary_below: 1000, ..Setup::lanes(&lanes) };
    let control = Setup { sorted: false, ..sorted.clone() };
    let mut workloads =
        [Workload::start(cx, SORTED, &sorted, None)?, Workload::start(cx, CONTROL, &control, None)?];
    let _busy = BackgroundLoad::start(cx, BUSY)?;
    let mut results = [BARE, SORTED, CONTROL].map(|subject| (subject, DeadlinesMet::default()));
    // In turns, so that a stall of the machine has the same chance to hit each of them.
    for round in 1..=rounds {
        cx.progress(format!("{NAME}: {BARE}, round {round}"));
        add(&mut results[0].1, bare(cx, work, Duration::from_millis(ms.into()))?);
        for (workload, (subject, met)) in workloads.iter_mut().zip(&mut results[1..]) {
            cx.progress(format!("{NAME}: {subject}, round {round}"));
            let mut roles = CLIENTS.map(|(hz, priority, _)| Role::new(1, hz, work, priority)).to_vec();
            roles.push(Role::new(CONTINUOUS, 0, work, LOWEST));
            let results = workload.run(&Plan { ms, roles })?;
            add(met, results.iter().take(CLIENTS.len()).map(|p| (p.due, p.in_time)));
        }
    }
    workloads.into_iter().for_each(Workload::end);
    for (subject, met) in results {
        for ((hz, ..), (due, in_time)) in CLIENTS.into_iter().zip(met) {
            let missed = due.saturating_sub(in_time);
            let percent = 100.0 * in_time as f64 / due.max(1) as f64;
            let values = vec![("due", due as f64), ("missed", missed as f64), ("in_time_percent", percent)];
            out.row("deadlines", subject, hz, values);
        }
    }
    let title = "Calls that ended within their period";
    let figure = Figure::new("deadlines", title, "calls a second", "percent", &["in_time_percent"]);
    out.figures = vec![figure.divide(1.0).linear()];
    out.note(format!(
        "A call is {WORK_MS} ms of work. {CONTINUOUS} more clients call without a pause, and {BUSY} threads of other programs keep the \
         processor background, all of the ordinary class. {rounds} rounds of {} s each.",
        f64::from(ms) / 1000.0
    ));
    Ok(())
}

fn add(to: &mut DeadlinesMet, more: impl IntoIterator<Item = (u64, u64)>) {
    for ((due, met), (more_due, more_met)) in to.iter_mut().zip(more) {
        *due += more_due;
        *met += more_met;
    }
}

/// Due and met of each client, as threads of this process that do the work themselves.
fn bare(cx: &Context<'_>, units: i32, length: Duration) -> Result<Vec<(u64, u64)>, BenchError> {
    // In the place of the clients that call without a pause.
    let _continuous = BackgroundLoad::start(cx, CONTINUOUS)?;
    let length = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    let paced = CLIENTS.map(|(hz, _, native)| {
        let class = if cx.fifo.is_some() { SchedClass::Fifo(native) } else { SchedClass::Other };
        let (sender, receiver) = sync_channel::<u64>(1);
        let thread = ThreadSpec::new("paced").class(class).cpus(Cpus::one(cx.cpu())).spawn(move || {
            let Ok(start) = receiver.recv() else { return (0, 0) };
            let (period, stop) = (NS_PER_S / u64::from(hz), start.saturating_add(length));
            let releases = (0..).map(|k| start + k * period).take_while(|&release| release < stop);
            releases.fold((0, 0), |(due, met), release| {
                sleep_until(Deadline::at_ns(release));
                work(units);
                (due + 1, met + u64::from(now_ns() <= release + period))
            })
        });
        (thread, sender)
    });
    // Only when all of them are there: among so many ordinary threads, making them takes as long as
    // it takes.
    let start = now_ns() + 20_000_000;
    for (_, sender) in &paced {
        // One that could not be made shows below.
        let _ = sender.send(start);
    }
    let mut results = Vec::new();
    for (thread, _) in paced {
        results.push(thread?.join().unwrap_or((0, 0)));
    }
    Ok(results)
}

fn missed(r: &dyn Cells, subject: &str) -> f64 {
    CLIENTS.iter().map(|&(hz, ..)| r.at("deadlines", subject, "missed", hz.into())).sum()
}

fn claims() -> Vec<Claim> {
    claims! {
        paper AtMost(0.0), "lanes and bands miss {1} deadlines, bare threads {2} ({0} more; {limit})",
            |r| {
                let [lanes, bare] = [SORTED, BARE].map(|subject| missed(r, subject));
                [lanes - bare, lanes, bare]
            };
        control Above(10.0), "without lanes and bands {1} are missed ({0} more than with them; {limit})",
            |r| {
                let [lanes, control] = [SORTED, CONTROL].map(|subject| missed(r, subject));
                [control - lanes, control]
            };
    }
}

//! Three periodic clients on three lanes of one thread each, with more and more work a call, until
//! one processor does not suffice.

use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::claim::{Above, AtLeast, Below, Cells, Claim, aim, claims, control, least, paper};
use crate::figure::{Figure, Measured};
use crate::workload::{Plan, Role, Setup, Workload, calibrate_work};

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Deadlines met by clients at 20, 15 and 10 Hz as the work of a call grows beyond the processor",
    source: "Zou, Levy, Liu: figures 12 and 13",
    paper: "as the work grows, the client of the lowest priority misses its deadlines first and that of the highest last",
    seconds: (48, 690),
    run,
    claims,
};

const NAME: &str = "server-work";
/// Their rates add up to 45 calls a second: beyond 22 ms a call, one processor does not suffice.
const CLIENTS: [(&str, u32, i16); 3] = [("low", 10, 5_000), ("medium", 15, 15_000), ("high", 20, 25_000)];
/// The medium client's periods begin this much after those of the others. Every 200 ms the three
/// come back to where they were, so how they lie decides whether there is any load at which medium
/// meets all and low nothing. If all began together, medium's first call would have to end before
/// the high one's second begins (at most 25 ms of work), and low would get 28 ms of its every other
/// period at 24 ms of work: no such load. Begun so, medium fits in up to 26.6 ms, and from 24.2 ms
/// on no period of low's has a call's work left.
const MEDIUM_DELAY_US: u32 = 13_300;
const PAYLOAD: u32 = 256;
/// A quick run makes so many times as many calls with as much less work: at the paper's rates it
/// has no time for 300.
const QUICK: u32 = 8;
/// At 25 ms high and medium leave the lowest nothing to meet; beyond 33 ms the high one leaves the
/// medium one too little.
const WORK_MS: [u32; 11] = [5, 10, 15, 20, 22, 25, 28, 32, 36, 40, 45];
const QUICK_WORK_MS: [u32; 5] = [5, 15, 25, 32, 45];
/// A client that meets this percentage is in time: the kernel stops real-time threads for a
/// twentieth of a second each second when they want all of it.
const MET: f64 = 90.0;
const SORTED: &str = "lanes";
const CONTROL: &str = "control";

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    let works: &[u32] = cx.pick(&QUICK_WORK_MS, &WORK_MS);
    // 300 calls of the slowest.
    let (ms, faster) = (cx.ms(3_900, 30_100), cx.pick(QUICK, 1));
    let unit = calibrate_work(cx)?;
    let mut workloads = Vec::new();
    for (figure, setup) in [SORTED, CONTROL].into_iter().zip(setups()) {
        workloads.push((figure, Workload::start(cx, figure, &setup, None)?));
    }
    for &work_ms in works {
        for (figure, workload) in &mut workloads {
            cx.progress(format!("{NAME}: {figure}, {work_ms} ms"));
            let work = (f64::from(work_ms) * unit / f64::from(faster)).round() as i32;
            let roles = CLIENTS.map(|(subject, hz, priority)| Role {
                payload: PAYLOAD,
                delay_us: if subject == "medium" { MEDIUM_DELAY_US / faster } else { 0 },
                ..Role::new(1, hz * faster, work, priority)
            });
            let results = workload.run(&Plan { ms, roles: roles.to_vec() })?;
            for ((subject, ..), results) in CLIENTS.into_iter().zip(results) {
                let per_s = |calls: u64| calls as f64 * 1000.0 / f64::from(ms * faster);
                let values = vec![
                    ("calls_per_s", per_s(results.calls)),
                    ("in_time_per_s", per_s(results.in_time)),
                    ("in_time_percent", (results.in_time_percent() * 10.0).round() / 10.0),
                ];
                out.row(figure, subject, work_ms, values);
            }
        }
    }
    workloads.into_iter().for_each(|(_, workload)| workload.end());
    let figure = |id, title, draw| {
        Figure::new(id, title, "work of a call, ms", "calls a second", draw).divide(1.0).linear()
    };
    out.figures = vec![
        figure(SORTED, "Calls made", &["calls_per_s"]),
        figure(SORTED, "Calls in time", &["in_time_per_s"]),
        figure(CONTROL, "Calls in time, all at one priority", &["in_time_per_s"]),
    ];
    if faster > 1 {
        out.note(format!("Everything runs {faster} times as fast: rates, delays, and the work of a call."));
    }
    out.note(format!(
        "'{CONTROL}': the server declares one priority for all requests. {unit:.0} units of work are a millisecond here. Calls are due 20, 15 and 10 times a second, the medium client's {:.1} ms after \
         the others'. High and medium lanes are real-time threads, the low lane is an ordinary one.",
        f64::from(MEDIUM_DELAY_US) / 1000.0
    ));
    Ok(())
}

/// Lanes, and the control.
fn setups() -> [Setup; 2] {
    // The lowest lane is of the ordinary class: what overload there is shall not be decided by the
    // kernel's throttling.
    let sorted = Setup { ordinary_below: 10_000, ..Setup::lanes(&CLIENTS.map(|(_, _, priority)| priority)) };
    // All requests are equal. Threads of one pool would run at their clients' priorities, never
    // rest under overload, and be ended by the kernel.
    let control = Setup { declared: true, ..sorted.clone() };
    [sorted, control]
}

const PERCENT: &str = "in_time_percent";

/// The least work with which a client misses its deadlines; infinite if it never does.
fn first_miss(r: &dyn Cells, subject: &str) -> f64 {
    let met = r.series(SORTED, subject, PERCENT);
    met.into_iter().find(|&(_, percent)| percent < MET).map_or(f64::INFINITY, |(work, _)| work)
}

fn claims() -> Vec<Claim> {
    claims! {
        paper AtLeast(MET), "with the least work every client meets at least {0:.1} % ({limit})",
            |r| {
                let met = |(subject, ..): (&str, u32, i16)| r.values(SORTED, subject, PERCENT).first().copied();
                [least(CLIENTS.map(|client| met(client).unwrap_or(f64::NAN)))]
            };
        paper Above(0.5), "low misses first, at {1} ms, then medium, at {2} ms, and high last, at {3} ms",
            |r| {
                let [low, medium, high] = CLIENTS.map(|(subject, ..)| first_miss(r, subject));
                let in_order = low.is_finite() && low < medium && medium <= high;
                [f64::from(u8::from(in_order)), low, medium, high]
            };
        control Below(90.0), "at one priority for all the high client meets as few as {0:.0} % where \
             its own lets it meet all ({limit})",
            |r| {
                let met =
                    r.series(SORTED, "high", PERCENT).into_iter().filter(|&(_, percent)| percent >= MET);
                [least(met.map(|(work, _)| r.at(CONTROL, "high", PERCENT, work)))]
            };
        aim AtLeast(0.0), "at {0} ms high and medium miss nothing while low misses all (at any work)",
            |r| {
                // One call of two hundred may be lost to a stall of the machine.
                let kept = |subject: &str, work: f64| r.at(SORTED, subject, PERCENT, work) >= 99.5;
                let mut works = r.series(SORTED, "low", PERCENT).into_iter().filter(|&(_, low)| low <= 0.5);
                let found = works.find(|&(work, _)| kept("high", work) && kept("medium", work));
                [found.map_or(f64::NAN, |(work, _)| work)]
            };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_turns_one_switch() {
        let [sorted, control] = setups();
        assert_eq!(sorted.switches(&control), ["declared"]);
    }
}

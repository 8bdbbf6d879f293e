//! Many clients of one server with a pool of two threads, its upcalls' memory in scopes and on the heap.
//!
//! ZEN's heap had a collector that stopped everybody. The C library's has a lock without priority inheritance: where the rest of the
//! program uses the heap as well, an urgent request waits for whichever thread was pre-empted in there, and for those who share the
//! processor with it. So there are two scenes, with nobody else at the heap and with two such threads.

use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::cases::READINGS;
use crate::contention::{Busy, Call, Contest, Order, Role, Setup};
use crate::figure::{Claim, Figure, Outcome, Row, Verdict, at, series, times};
use crate::stats::Samples;

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Round trips of 1 to 200 clients of a pool of two threads, memory in scopes and on the heap",
    source: "Krishna, Schmidt, Klefstad (ZEN): figure 5",
    paper: PAPER,
    seconds: (45, 210),
    run,
};

const NAME: &str = "clients";
const PAPER: &str = "round trips grow with the number of clients; with scoped memory they scatter up to half as much as with the heap";
const CLIENTS: [u32; 5] = [1, 50, 100, 150, 200];
const QUICK_CLIENTS: [u32; 3] = [1, 50, 200];
/// Calls a second of each client.
const HZ: u32 = 50;
/// Of the pool and of the clients: real time, as the upcalls of ZEN that its collector may not stop.
const PRIORITY: i16 = 20_000;
const SUBJECTS: [(&str, bool); 2] = [("scope", false), ("heap", true)];
/// Nobody else uses the heap.
const CALM: &str = "calm";
/// Two ordinary threads of the server use it, and other programs the processor.
const PRESSED: &str = "pressed";
const ALLOCATING: u32 = 2;
const BUSY: u32 = 2;

fn run(cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let mut rows = scene(cx, CALM, 0)?;
    let busy = Busy::start(cx, BUSY)?;
    rows.extend(scene(cx, PRESSED, ALLOCATING)?);
    drop(busy);
    let figure = |id, title, y, draw| Figure { id, title, x: "clients", y, draw, divide: 1000.0, log: true };
    let figures = vec![
        figure(CALM, "Round trip", "microseconds", &["mean_ns", "p99_ns"][..]),
        figure(CALM, "Its scatter", "microseconds, standard deviation", &["stddev_ns"][..]),
        figure(
            PRESSED,
            "Its scatter while others use the heap",
            "microseconds, standard deviation",
            &["stddev_ns"][..],
        ),
    ];
    let notes = vec![
        format!(
            "Each client calls {HZ} times a second, all at the same moments: {READINGS} structures there and back, which the server \
             takes apart in the upcall's memory. Heap and scope take turns."
        ),
        format!(
            "Pressed: {ALLOCATING} ordinary threads of the server take memory and give it back without a pause, and {BUSY} threads of \
             other programs want the processor. All of the server has one heap (MALLOC_ARENA_MAX=1), as programs with many threads \
             have in effect."
        ),
    ];
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    Ok(Outcome { figures, rows, notes, verdict })
}

/// Both memories with so many threads beside that use the heap.
fn scene(cx: &mut Context<'_>, figure: &'static str, allocating: u32) -> Result<Vec<Row>, BenchError> {
    let numbers: &[u32] = cx.pick(&QUICK_CLIENTS, &CLIENTS);
    let (rounds, ms) = (cx.pick(4, 10), cx.ms(700, 1_000));
    let mut contests = Vec::new();
    for (subject, heap) in SUBJECTS {
        // One pool of two threads; a connection for each client.
        let setup = Setup {
            sorted: false,
            heap,
            allocating,
            ordinary_below: 1000,
            connections: 200,
            ..Setup::lanes(&[PRIORITY, PRIORITY + 1])
        };
        let contest = Contest::start(cx, subject, &setup, None)?;
        contest.pause();
        contests.push((subject, contest, Samples::new()));
    }
    let mut rows = Vec::new();
    for &threads in numbers {
        for round in 1..=rounds {
            cx.step(format!("{NAME}: {figure}, {threads}, round {round}"));
            for (_, contest, samples) in &mut contests {
                let clients = Role {
                    threads,
                    hz: HZ,
                    call: Call::Structures(READINGS),
                    priority: Some(PRIORITY),
                    ..Role::default()
                };
                contest.resume();
                let played = contest.run(&Order { ms, roles: vec![clients] });
                contest.pause();
                samples.extend(played?.into_iter().flat_map(|played| played.latencies));
            }
        }
        for (subject, _, samples) in &mut contests {
            let values = times(&std::mem::take(samples).summary());
            rows.push(Row { experiment: NAME, figure, subject, x: threads.into(), values });
        }
    }
    contests.into_iter().for_each(|(_, contest, _)| contest.end());
    Ok(rows)
}

fn judge(rows: &[Row]) -> Vec<Claim> {
    let mean = |clients| at(rows, CALM, "scope", "mean_ns", clients);
    let growth = mean(200.0) / mean(1.0);
    let scatter = |figure: &str, subject: &str| series(rows, figure, subject, "stddev_ns");
    let over = |of: Vec<(f64, f64)>, to: Vec<(f64, f64)>| -> Vec<f64> {
        of.iter().zip(to).map(|(of, to)| of.1 / to.1.max(1.0)).collect()
    };
    let calm = over(scatter(CALM, "heap"), scatter(CALM, "scope"));
    let pressed = over(scatter(PRESSED, "heap"), scatter(PRESSED, "scope"));
    let suffered = over(scatter(PRESSED, "scope"), scatter(CALM, "scope"));
    let wins = pressed.iter().filter(|&&ratio| ratio > 1.0).count();
    let most = |ratios: &[f64]| ratios.iter().copied().fold(f64::NAN, f64::max);
    let (calm, worst, suffered) = (most(&calm), most(&pressed), most(&suffered));
    vec![
        Claim::paper(growth > 2.0, format!("200 clients wait {growth:.0} times as long as one (above 2)")),
        Claim::paper(
            2 * wins > pressed.len(),
            format!(
                "while others use it, the heap scatters more than scopes at {wins} of {} places (the paper: at all)",
                pressed.len()
            ),
        ),
        Claim::control(
            worst >= 2.0,
            format!(
                "at most it scatters {worst:.1} times as much as scopes (at least 2); with nobody else at the heap {calm:.2} times"
            ),
        ),
        Claim::aim(
            suffered <= 2.0,
            format!(
                "scopes scatter at most {suffered:.2} times as much while others use the heap as when nobody does (at most 2)"
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(value: impl Fn(&str, &str, f64) -> (f64, f64)) -> (bool, Option<bool>, bool) {
        let mut rows = Vec::new();
        for figure in [CALM, PRESSED] {
            for (subject, _) in SUBJECTS {
                for n in CLIENTS {
                    let x = f64::from(n);
                    let (mean, stddev) = value(figure, subject, x);
                    let values = vec![("mean_ns", mean), ("stddev_ns", stddev)];
                    rows.push(Row { experiment: NAME, figure, subject, x, values });
                }
            }
        }
        let v = Verdict::new(NAME, PAPER, judge(&rows));
        (v.shape_holds, v.control_fails, v.claims[3].holds)
    }

    #[test]
    fn shapes_are_told_apart() {
        let as_seen = |figure: &str, subject: &str, n: f64| match (figure, subject) {
            (PRESSED, "heap") => (40.0 * n, 10.0 * n),
            _ => (20.0 * n, n + 2.0),
        };
        assert_eq!(verdict(as_seen), (true, Some(true), true));
        assert_eq!(verdict(|_, _, n| (20.0 * n, n + 2.0)), (false, Some(false), true), "no difference");
        assert_eq!(
            verdict(|figure, _, n| (20.0 * n, if figure == PRESSED { 9.0 * n } else { n })),
            (false, Some(false), false),
            "scopes suffer as well"
        );
        assert!(!verdict(|_, subject, _| (20.0, if subject == "heap" { 5.0 } else { 2.0 })).0, "no growth");
        assert!(!Verdict::new(NAME, PAPER, judge(&[])).shape_holds);
    }
}

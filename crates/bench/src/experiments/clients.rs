//! Many clients of one server with a pool of two threads, its upcalls' memory in scopes and on the heap.

use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::contention::{Contest, Order, Role, Setup};
use crate::figure::{Claim, Figure, Outcome, Row, Verdict, at, series, times};
use crate::stats::Samples;

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Round trips of 1 to 200 clients of a pool of two threads, memory in scopes and on the heap",
    source: "Krishna, Schmidt, Klefstad (ZEN): figure 5",
    paper: PAPER,
    seconds: (30, 120),
    run,
};

const NAME: &str = "clients";
const PAPER: &str = "round trips grow with the number of clients; with scoped memory they scatter up to half as much as with the heap";
const CLIENTS: [u32; 5] = [1, 50, 100, 150, 200];
const QUICK_CLIENTS: [u32; 3] = [1, 50, 200];
const PAYLOAD: u32 = 64;
const SUBJECTS: [(&str, bool); 2] = [("scope", false), ("heap", true)];

fn run(cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let numbers: &[u32] = cx.pick(&QUICK_CLIENTS, &CLIENTS);
    let (rounds, ms) = (cx.pick(4, 10), cx.ms(800, 1_000));
    let mut contests = Vec::new();
    for (subject, heap) in SUBJECTS {
        // One pool of two ordinary threads; a connection for each client.
        let setup = Setup {
            sorted: false,
            heap,
            ordinary_below: 1000,
            connections: 200,
            ..Setup::lanes(&[100, 200])
        };
        contests.push((subject, Contest::start(cx, subject, &setup, None)?, Samples::new()));
    }
    let mut rows = Vec::new();
    for &threads in numbers {
        for round in 0..rounds {
            cx.step(format!("{NAME}: {threads}, round {}", round + 1));
            for (_, contest, samples) in &mut contests {
                let clients =
                    Role { threads, hz: 0, work: 0, payload: PAYLOAD, priority: None, ..Role::default() };
                let played = contest.run(&Order { ms, roles: vec![clients] })?;
                samples.extend(played.into_iter().flat_map(|played| played.latencies));
            }
        }
        for (subject, _, samples) in &mut contests {
            let values = times(&std::mem::take(samples).summary());
            rows.push(Row { experiment: NAME, figure: "round-trip", subject, x: threads.into(), values });
        }
    }
    contests.into_iter().for_each(|(_, contest, _)| contest.end());
    let figure =
        |title, y, draw| Figure { id: "round-trip", title, x: "clients", y, draw, divide: 1000.0, log: true };
    let figures = vec![
        figure("Round trip", "microseconds", &["mean_ns", "p99_ns"][..]),
        figure("Its scatter", "microseconds, standard deviation", &["stddev_ns"][..]),
    ];
    let notes = vec![format!(
        "Each client calls without a pause, a message of {PAYLOAD} octets there and back; heap and scope take turns."
    )];
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    Ok(Outcome { figures, rows, notes, verdict })
}

fn judge(rows: &[Row]) -> Vec<Claim> {
    let mean = |clients| at(rows, "round-trip", "scope", "mean_ns", clients);
    let growth = mean(200.0) / mean(1.0);
    let deviations = |subject: &str| series(rows, "round-trip", subject, "stddev_ns");
    let ratios: Vec<f64> = deviations("heap")
        .iter()
        .zip(deviations("scope"))
        .map(|(heap, scope)| heap.1 / scope.1.max(1.0))
        .collect();
    let best = ratios.iter().copied().fold(f64::NAN, f64::max);
    let wins = ratios.iter().filter(|&&ratio| ratio > 1.0).count();
    vec![
        Claim::paper(growth > 2.0, format!("200 clients wait {growth:.0} times as long as one (above 2)")),
        Claim::paper(
            best > 1.0 && 2 * wins > ratios.len(),
            format!(
                "the heap scatters more than scopes at {wins} of {} places, at most {best:.2} times as much (the paper: up to 2)",
                ratios.len()
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(value: impl Fn(&str, f64) -> (f64, f64)) -> bool {
        let mut rows = Vec::new();
        for (subject, _) in SUBJECTS {
            for n in CLIENTS {
                let x = f64::from(n);
                let (mean, stddev) = value(subject, x);
                let values = vec![("mean_ns", mean), ("stddev_ns", stddev)];
                rows.push(Row { experiment: NAME, figure: "round-trip", subject, x, values });
            }
        }
        Verdict::new(NAME, PAPER, judge(&rows)).shape_holds
    }

    #[test]
    fn shapes_are_told_apart() {
        assert!(holds(|subject, n| (20.0 * n, if subject == "heap" { 1.5 * n + 5.0 } else { n + 2.0 })));
        assert!(!holds(|_, n| (20.0 * n, n + 2.0)), "no difference");
        assert!(!holds(|subject, _| (20.0, if subject == "heap" { 5.0 } else { 2.0 })), "no growth");
    }
}

//! One high periodic client beside more and more low ones that call without a pause, all on one processor.

use super::catalogue::Experiment;
use super::{BenchError, Context, split};
use crate::contention::{Call, Contest, Order, Role, Setup};
use crate::figure::{Claim, Figure, Outcome, Row, Verdict, at, times};

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Latency of one high periodic client beside 0 to 50 low continuous ones",
    source: "Zou, Levy, Liu: figures 8 and 9",
    paper: PAPER,
    seconds: (60, 440),
    run,
};

const NAME: &str = "low-threads";
const PAPER: &str =
    "without payload, low clients do not slow the high one down, however many; with 10 KB, inversion shows";
const HIGH: i16 = 30_000;
const LOW: i16 = 100;
/// The paper does not give the rate; this is ours.
const HZ: u32 = 20;
/// As the paper's, in our units: about 0.1 ms.
const WORK: i32 = 100;
const SORTED: &str = "lanes";
const CONTROL: &str = "one-pool-control";
/// A raw socket at the high client's priority, beside the lanes: what the kernel alone does to whoever is urgent.
const RAW: &str = "raw-socket";
const PAYLOADS: [(&str, u32); 2] = [("empty", 0), ("loaded", 10 << 10)];
/// Figures of layers: name, title, payload.
const LAYERS: [(&str, &str, u32); 2] = [
    ("layers-empty", "Layers of a call without payload", 0),
    ("layers", "Layers of a call with 10 KiB", 10 << 10),
];

fn run(cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let lows: &[u32] = cx.pick(&[0, 10, 50], &[0, 10, 20, 30, 40, 50]);
    let ms = cx.ms(3_500, 15_000);
    // Low clients and their lane are ordinary threads.
    let sorted = Setup { ordinary_below: 1000, probe: true, ..Setup::lanes(&[LOW, HIGH]) };
    let control = Setup { sorted: false, probe: false, ..sorted.clone() };
    let mut contests = Vec::new();
    for (subject, setup) in [(SORTED, sorted.clone()), (CONTROL, control)] {
        contests.push((subject, Contest::start(cx, subject, &setup, None)?));
    }
    let mut rows = Vec::new();
    for (figure, payload) in PAYLOADS {
        for &low in lows {
            for (subject, contest) in &mut contests {
                cx.step(format!("{NAME}: {subject}, {low} low, {payload} B"));
                let high =
                    Role { threads: 1, hz: HZ, work: WORK, payload, priority: Some(HIGH), ..Role::default() };
                let others =
                    Role { threads: low, hz: 0, work: WORK, payload, priority: Some(LOW), ..Role::default() };
                let mut roles = vec![high, others];
                if *subject == SORTED {
                    // Half a period later, so that it never meets the high client.
                    roles.push(Role { delay_us: 500_000 / HZ, work: 0, call: Call::Raw, ..high });
                }
                let played = contest.run(&Order { ms, roles })?;
                let low_calls = played[1].calls as f64 * 1000.0 / f64::from(ms);
                for (subject, played) in [(*subject, played.first()), (RAW, played.get(2))] {
                    let Some(played) = played else { continue };
                    let mut values = times(&played.summary());
                    values.push(("low_calls_per_s", low_calls));
                    rows.push(Row { experiment: NAME, figure, subject, x: low.into(), values });
                }
            }
        }
    }
    contests.into_iter().for_each(|(_, contest)| contest.end());
    rows.extend(layers(cx, lows, &sorted)?);
    let figure = |id, title| Figure {
        id,
        title,
        x: "low clients",
        y: "microseconds, of the high client",
        draw: &["mean_ns", "p99_ns", "max_ns"],
        divide: 1000.0,
        log: true,
    };
    let mut figures = vec![figure("empty", "Without payload"), figure("loaded", "With 10 KiB")];
    figures.extend(LAYERS.map(|(id, title, _)| split::figure(id, title, "low clients")));
    let mut notes = vec![format!(
        "The high client calls {HZ} times a second (the paper does not say); each call is {WORK} units of work. The raw socket \
         is called as often, at the same priority and without work."
    )];
    notes.push(split::NOTE.to_owned());
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    Ok(Outcome { figures, rows, notes, verdict })
}

/// Of the urgent client in its lane: alone, and among the most low ones.
fn layers(cx: &mut Context<'_>, lows: &[u32], sorted: &Setup) -> Result<Vec<Row>, BenchError> {
    let mut contest = Contest::start(cx, SORTED, &split::stamped(sorted), None)?;
    let ms = cx.ms(2_500, 10_000);
    let mut rows = Vec::new();
    for (figure, _, payload) in LAYERS {
        for low in [lows.first(), lows.last()].into_iter().flatten().copied() {
            cx.step(format!("{NAME}: layers, {low} low, {payload} B"));
            let role = |threads, hz, priority| Role {
                threads,
                hz,
                work: WORK,
                payload,
                priority: Some(priority),
                ..Role::default()
            };
            let place = split::Place { experiment: NAME, figure, x: low.into() };
            rows.extend(split::rows(&mut contest, place, ms, role(1, HZ, HIGH), &[role(low, 0, LOW)])?);
        }
    }
    contest.end();
    Ok(rows)
}

fn judge(rows: &[Row]) -> Vec<Claim> {
    let of = |figure: &str, subject: &str, value: &str, low: f64| at(rows, figure, subject, value, low);
    let growth = |figure: &str, value: &str| of(figure, SORTED, value, 50.0) / of(figure, SORTED, value, 0.0);
    let (mean, p99, loaded) =
        (growth("empty", "mean_ns"), growth("empty", "p99_ns"), growth("loaded", "p99_ns"));
    let raw = of("empty", RAW, "p99_ns", 50.0) / of("empty", RAW, "p99_ns", 0.0);
    let control = of("empty", CONTROL, "p99_ns", 50.0) / of("empty", SORTED, "p99_ns", 50.0);
    vec![
        Claim::paper(
            mean < 1.5,
            format!(
                "without payload, the mean beside 50 low clients is {mean:.2} times that alone (below 1.5)"
            ),
        ),
        Claim::control(
            control >= 5.0,
            format!(
                "without lanes and bands, p99 beside 50 is {control:.1} times that with them (at least 5)"
            ),
        ),
        Claim::aim(
            p99 <= 1.5,
            format!(
                "without payload, p99 beside 50 is {p99:.2} times that alone (at most 1.5), that of a raw socket at its priority {raw:.2}"
            ),
        ),
        Claim::aim(
            loaded <= 2.0,
            format!(
                "with 10 KiB, p99 beside 50 is {loaded:.2} times that alone (at most 2: better than the paper's)"
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(ns: impl Fn(&str, f64) -> f64) -> (bool, Option<bool>) {
        let mut rows = Vec::new();
        for (figure, _) in PAYLOADS {
            for subject in [SORTED, CONTROL] {
                for x in [0.0, 50.0] {
                    let values = ["mean_ns", "p99_ns"].map(|value| (value, ns(subject, x))).to_vec();
                    rows.push(Row { experiment: NAME, figure, subject, x, values });
                }
            }
        }
        let v = Verdict::new(NAME, PAPER, judge(&rows));
        (v.shape_holds, v.control_fails)
    }

    #[test]
    fn shapes_are_told_apart() {
        assert_eq!(
            verdict(|subject, x| if subject == SORTED { 150.0 } else { 150.0 + 50.0 * x }),
            (true, Some(true))
        );
        assert_eq!(verdict(|_, _| 150.0), (true, Some(false)));
        assert_eq!(verdict(|_, x| 150.0 + 50.0 * x), (false, Some(false)));
        assert_eq!(verdict(|_, _| f64::NAN), (false, Some(false)));
    }
}

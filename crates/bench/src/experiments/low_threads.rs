//! One high periodic client beside more and more low ones that call without a pause, all on one
//! processor.

use super::catalogue::Experiment;
use super::{BenchError, Context, call_layers};
use crate::claim::{AtLeast, AtMost, Below, Claim, aim, claims, control, paper};
use crate::figure::{Figure, Measured, times};
use crate::workload::{Plan, Role, Setup, Workload};

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Latency of one high periodic client beside 0 to 50 low continuous ones",
    source: "Zou, Levy, Liu: figures 8 and 9",
    paper: PAPER,
    seconds: (60, 440),
    run,
    claims,
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
/// A raw socket at the high client's priority, beside the lanes: what the kernel alone does to an
/// urgent thread.
const RAW: &str = "raw-socket";
const PAYLOADS: [(&str, u32); 2] = [("empty", 0), ("loaded", 10 << 10)];
/// Figures of layers: name, title, payload.
const LAYERS: [(&str, &str, u32); 2] = [
    ("layers-empty", "Layers of a call without payload", 0),
    ("layers", "Layers of a call with 10 KiB", 10 << 10),
];

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    let lows: &[u32] = cx.pick(&[0, 10, 50], &[0, 10, 20, 30, 40, 50]);
    let ms = cx.ms(3_500, 15_000);
    // Low clients and their lane are ordinary threads.
    let sorted = Setup { ordinary_below: 1000, probe: true, ..Setup::lanes(&[LOW, HIGH]) };
    let control = Setup { sorted: false, probe: false, ..sorted.clone() };
    let mut workloads = Vec::new();
    for (subject, setup) in [(SORTED, sorted.clone()), (CONTROL, control)] {
        workloads.push((subject, Workload::start(cx, subject, &setup, None)?));
    }
    for (figure, payload) in PAYLOADS {
        for &low in lows {
            for (subject, workload) in &mut workloads {
                cx.progress(format!("{NAME}: {subject}, {low} low, {payload} B"));
                let mut roles = roles(low, payload).to_vec();
                if *subject == SORTED {
                    roles.push(roles[0].raw_between());
                }
                let results = workload.run(&Plan { ms, roles })?;
                let low_calls = results[1].calls as f64 * 1000.0 / f64::from(ms);
                for (subject, results) in [(*subject, results.first()), (RAW, results.get(2))] {
                    let Some(results) = results else { continue };
                    let mut values = times(&results.summary());
                    values.push(("low_calls_per_s", low_calls));
                    out.row(figure, subject, low, values);
                }
            }
        }
    }
    workloads.into_iter().for_each(|(_, workload)| workload.end());
    // Layers of the high client's calls: alone, and beside the most low clients.
    let mut workload = Workload::start(cx, SORTED, &call_layers::stamped(&sorted), None)?;
    let ms = cx.ms(2_500, 10_000);
    for (figure, _, payload) in LAYERS {
        for low in [lows[0], lows[lows.len() - 1]] {
            cx.progress(format!("{NAME}: layers, {low} low, {payload} B"));
            let [high, others] = roles(low, payload);
            call_layers::rows(&mut workload, out, (figure, low), ms, high, &[others])?;
        }
    }
    workload.end();
    let (x, y) = ("low clients", "microseconds, of the high client");
    let figure = |id, title| Figure::new(id, title, x, y, &["mean_ns", "p99_ns", "max_ns"]);
    out.figures = vec![figure("empty", "Without payload"), figure("loaded", "With 10 KiB")];
    out.figures.extend(LAYERS.map(|(id, title, _)| call_layers::figure(id, title, x)));
    out.note(format!(
        "The high client calls {HZ} times a second (the paper does not say); each call is {WORK} units of \
         work. The raw socket is called as often, at the same priority and without work."
    ));
    out.note(call_layers::NOTE);
    Ok(())
}

/// The high client, and so many low ones.
fn roles(low: u32, payload: u32) -> [Role; 2] {
    [Role::new(1, HZ, WORK, HIGH), Role::new(low, 0, WORK, LOW)].map(|role| Role { payload, ..role })
}

fn claims() -> Vec<Claim> {
    const ENDS: [f64; 2] = [0.0, 50.0];
    claims! {
        paper Below(1.5), "without payload, the mean beside 50 low clients is {0:.2} times that alone \
             ({limit})", |r| [r.growth("empty", SORTED, "mean_ns", ENDS)];
        control AtLeast(5.0), "without lanes and bands, p99 beside 50 is {0:.1} times that with them \
             ({limit})",
            |r| [r.at("empty", CONTROL, "p99_ns", 50.0) / r.at("empty", SORTED, "p99_ns", 50.0)];
        aim AtMost(1.5), "without payload, p99 beside 50 is {0:.2} times that alone ({limit}), that of a \
             raw socket at its priority {1:.2}",
            |r| [SORTED, RAW].map(|subject| r.growth("empty", subject, "p99_ns", ENDS));
        aim AtMost(2.0), "with 10 KiB, p99 beside 50 is {0:.2} times that alone ({limit}: better than \
             the paper's)", |r| [r.growth("loaded", SORTED, "p99_ns", ENDS)];
    }
}

//! One high periodic client beside more and more low ones that call without a pause, all on one
//! processor; and beside periodic low ones of a real-time class.
//!
//! Two clients of a raw socket at the high client's priority, with the same octets and work, call a
//! quarter and three quarters of a period later: the bare program, and that once more.

use super::catalogue::Experiment;
use super::{BenchError, Context, call_layers};
use crate::blocks::Series;
use crate::claim::{AtLeast, AtMost, Below, Claim, aim, claims, control, paper};
use crate::figure::{Figure, Measured};
use crate::tail::Tail;
use crate::workload::{Plan, Role, Setup, Workload, calibrate_work};

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Latency of one high periodic client beside 0 to 50 low continuous ones",
    source: "Zou, Levy, Liu: figures 8 and 9",
    paper: "without payload, low clients do not slow the high one down, however many; with 10 KB, inversion shows",
    seconds: (60, 560),
    run,
    claims,
};

const NAME: &str = "low-threads";
const HIGH: i16 = 30_000;
const LOW: i16 = 100;
/// The paper does not give the rate; this is ours. A quick run has no time for 300 calls at it.
const HZ: u32 = 20;
const QUICK_HZ: u32 = 100;
/// As the paper's, in our units: about 0.1 ms.
const WORK: i32 = 100;
const SORTED: &str = "lanes";
/// One pool instead of lanes.
const CONTROL: &str = "one-pool-control";
const RAW: &str = "raw-socket";
const AGAIN: &str = "raw-socket-again";
/// Low clients of a real-time class call so often, with so much work each time: six of them want
/// six tenths of the processor, and the kernel stops none.
const REAL_TIME: &str = "real-time";
const REAL_TIME_LOWS: [u32; 4] = [0, 2, 4, 6];
const REAL_TIME_HZ: u32 = 100;
const REAL_TIME_MS: f64 = 1.0;
/// Their priority, which is no ordinary one.
const URGENT_ENOUGH: i16 = 5_000;
const PAYLOADS: [(&str, u32); 2] = [("empty", 0), ("loaded", 10 << 10)];
/// Figures of layers: name, title, payload.
const LAYERS: [(&str, &str, u32); 2] = [
    ("layers-empty", "Layers of a call without payload", 0),
    ("layers", "Layers of a call with 10 KiB", 10 << 10),
];

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    let lows: &[u32] = cx.pick(&[0, 10, 50], &[0, 10, 20, 30, 40, 50]);
    let ms = cx.ms(3_100, 15_000);
    let hz = cx.pick(QUICK_HZ, HZ);
    let [sorted, one_pool] = setups();
    let mut workloads = Vec::new();
    for (subject, setup) in [(SORTED, sorted.clone()), (CONTROL, one_pool)] {
        workloads.push((subject, Workload::start(cx, subject, &setup, None)?));
    }
    for (figure, payload) in PAYLOADS {
        for &low in lows {
            for (subject, workload) in &mut workloads {
                cx.progress(format!("{NAME}: {subject}, {low} low, {payload} B"));
                point(out, (figure, low), subject, workload, ms, roles(low, hz, payload))?;
            }
        }
    }
    let real_time = Setup { ordinary_below: 1000, probe: true, ..Setup::lanes(&[URGENT_ENOUGH, HIGH]) };
    let mut workload = Workload::start(cx, REAL_TIME, &real_time, None)?;
    let work = (REAL_TIME_MS * calibrate_work(cx)?).round() as i32;
    for low in cx.pick(&[0, 6][..], &REAL_TIME_LOWS).iter().copied() {
        cx.progress(format!("{NAME}: {low} low ones of a real-time class"));
        let [high, _] = roles(low, hz, 0);
        let lows = Role::new(low, REAL_TIME_HZ, work, URGENT_ENOUGH);
        point(out, (REAL_TIME, low), SORTED, &mut workload, ms, [high, lows])?;
    }
    workload.end();
    workloads.into_iter().for_each(|(_, workload)| workload.end());
    // Layers of the high client's calls: alone, and beside the most low clients.
    let mut workload = Workload::start(cx, SORTED, &call_layers::stamped(&sorted), None)?;
    let ms = cx.ms(2_500, 10_000);
    for (figure, _, payload) in LAYERS {
        for low in [lows[0], lows[lows.len() - 1]] {
            cx.progress(format!("{NAME}: layers, {low} low, {payload} B"));
            let [high, others] = roles(low, hz, payload);
            call_layers::rows(&mut workload, out, (figure, low), ms, high, &[others])?;
        }
    }
    workload.end();
    let (x, y) = ("low clients", "microseconds, of the high client");
    let figure = |id, title| Figure::new(id, title, x, y, &["mean_ns", "p99_ns", "max_ns"]);
    out.figures = vec![
        figure("empty", "Without payload"),
        figure("loaded", "With 10 KiB"),
        figure(REAL_TIME, "Without payload, low clients of a real-time class"),
    ];
    out.figures.extend(LAYERS.map(|(id, title, _)| call_layers::figure(id, title, x)));
    out.note(format!(
        "The high client calls {hz} times a second (the paper does not say); each call is {WORK} units of \
         work. The raw socket is called as often, at the same priority and with the same work. Low clients \
         of a real-time class call {REAL_TIME_HZ} times a second with {REAL_TIME_MS} ms of work each."
    ));
    out.note(call_layers::NOTE);
    Ok(())
}

/// Lanes, and the control.
fn setups() -> [Setup; 2] {
    // Low clients and their lane are ordinary threads.
    let sorted = Setup { ordinary_below: 1000, probe: true, ..Setup::lanes(&[LOW, HIGH]) };
    let one_pool = Setup { sorted: false, ..sorted.clone() };
    [sorted, one_pool]
}

/// The high client, and so many low ones.
fn roles(low: u32, hz: u32, payload: u32) -> [Role; 2] {
    [Role::new(1, hz, WORK, HIGH), Role::new(low, 0, WORK, LOW)].map(|role| Role { payload, ..role })
}

/// The rows of a point: of the high client, and of the raw socket beside lanes.
fn point(
    out: &mut Measured,
    (figure, low): (&'static str, u32),
    subject: &'static str,
    workload: &mut Workload,
    ms: u32,
    [high, lows]: [Role; 2],
) -> Result<(), BenchError> {
    let roles = [[high, lows], [1, 3].map(|quarters| high.raw_after(quarters))].concat();
    let results = workload.run(&Plan { ms, roles })?;
    let low_calls = results[1].calls as f64 * 1000.0 / f64::from(ms);
    // The raw socket beside the control is load as beside lanes, and no yardstick.
    let measured = if subject == SORTED { &[(SORTED, 0), (RAW, 2), (AGAIN, 3)][..] } else { &[(subject, 0)] };
    for &(subject, i) in measured {
        let results = &results[i];
        let mut values = Series::<()>::of(&results.latencies, BLOCK).values();
        values.push(("low_calls_per_s", low_calls));
        out.row(figure, subject, low, values);
    }
    Ok(())
}

/// Calls of which the longest less the shortest is taken.
const BLOCK: usize = 30;

fn claims() -> Vec<Claim> {
    const ENDS: [f64; 2] = [0.0, 50.0];
    let mut claims = claims! {
        paper Below(1.5), "without payload, the mean beside 50 low clients is {0:.2} times that alone \
             ({limit})", |r| [r.growth("empty", SORTED, "mean_ns", ENDS)];
        control AtLeast(5.0), "in one pool instead of lanes, p99 beside 50 is {0:.1} times that with them \
             ({limit})", |r| [r.at("empty", CONTROL, "p99_ns", 50.0) / r.at("empty", SORTED, "p99_ns", 50.0)];
        aim AtMost(1.5), "without payload, p99 beside 50 is {0:.2} times that alone ({limit}), that of a \
             raw socket at its priority {1:.2}",
            |r| [SORTED, RAW].map(|subject| r.growth("empty", subject, "p99_ns", ENDS));
        aim AtMost(2.0), "with 10 KiB, p99 beside 50 is {0:.2} times that alone ({limit}: better than \
             the paper's)", |r| [r.growth("loaded", SORTED, "p99_ns", ENDS)];
    };
    for (figure, x, words) in [
        ("empty", 50.0, "beside 50 low clients"),
        ("loaded", 50.0, "beside 50 low clients, 10 KiB"),
        (REAL_TIME, 6.0, "beside 6 low clients of a real-time class"),
    ] {
        claims.extend(Tail { figure, subject: SORTED, bare: RAW, again: AGAIN, x }.claims(words));
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_turns_one_switch() {
        let [sorted, control] = setups();
        assert_eq!(sorted.switches(&control), ["sorted"]);
    }
}

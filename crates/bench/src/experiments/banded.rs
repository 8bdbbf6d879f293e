//! One high client with requests of growing size beside six low ones without arguments: connections in bands and one connection for
//! all, by TCP and by segments of memory that the peer writes into.

use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::contention::{Contest, Order, Role, Setup};
use crate::figure::{Claim, Figure, Outcome, Row, Verdict, series, times};

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Jitter of a high client with growing requests beside six low ones, in bands and on one connection, TCP and segments",
    source: "Lankes, Pfeiffer, Bemmerl (ROFES): figures 5 to 10",
    paper: PAPER,
    seconds: (45, 450),
    run,
};

const NAME: &str = "banded";
const PAPER: &str = "with banded connections the high client's jitter is far smaller, at about the same mean, on either network";
/// CORBA priorities as the paper's, its 8446 read as 8448.
const LOW: [i16; 6] = [8192, 8448, 8704, 8960, 9216, 9472];
const HIGH: i16 = 16_384;
/// The high client pauses, so that the low ones get the processor at all.
const HZ: u32 = 400;
/// Octets.
const SIZES: [u32; 6] = [0, 1 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10];
const QUICK_SIZES: [u32; 3] = [0, 4 << 10, 32 << 10];

/// Who is measured: name, transport, bands.
pub(super) const SUBJECTS: [(&str, &str, bool); 4] = [
    ("tcp-banded", "tcp", true),
    ("tcp-shared", "tcp", false),
    ("segment-banded", "segment", true),
    ("segment-shared", "segment", false),
];

fn run(cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let sizes: &[u32] = cx.pick(&QUICK_SIZES, &SIZES);
    let rows = measure(cx, NAME, sizes, cx.ms(3_000, 18_000), |_| 0)?;
    let notes = vec![
        format!(
            "The high client calls {HZ} times a second; six low ones of the ordinary class call without a pause and without \
             arguments."
        ),
        OF_SEGMENTS.to_owned(),
    ];
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    Ok(Outcome { figures: figures(), rows, notes, verdict })
}

/// What a reader of either experiment must know.
pub(super) const OF_SEGMENTS: &str = "Lanes of thread pools listen at TCP only. Over segments a thread of the ordinary class reads each \
     connection, and takes on a request's priority when it has read it: bands separate connections there, but not who reads them.";

/// Every subject at every size of the high client's requests; `low` says the size of the low ones' at that.
pub(super) fn measure(
    cx: &mut Context<'_>,
    name: &'static str,
    sizes: &[u32],
    ms: u32,
    low: impl Fn(u32) -> u32,
) -> Result<Vec<Row>, BenchError> {
    let mut contests = Vec::new();
    for (subject, transport, banded) in SUBJECTS {
        let lanes: Vec<i16> = LOW.into_iter().chain([HIGH]).collect();
        // Low clients and their lanes are ordinary threads; requests run at their clients' priorities either way.
        let setup = Setup {
            sorted: banded,
            propagated: true,
            connections: 1,
            ordinary_below: 10_000,
            transport: transport.to_owned(),
            ..Setup::lanes(&lanes)
        };
        contests.push((subject, Contest::start(cx, subject, &setup, None)?));
    }
    let mut rows = Vec::new();
    for &size in sizes {
        for (subject, contest) in &mut contests {
            cx.step(format!("{name}: {subject}, {size} B"));
            let role =
                |hz, payload, priority| Role { threads: 1, hz, work: 0, payload, priority: Some(priority) };
            let lows = LOW.map(|priority| role(0, low(size), priority));
            let roles = [role(HZ, size, HIGH)].into_iter().chain(lows).collect();
            let played = contest.run(&Order { ms, roles })?;
            let mut values = times(&played[0].summary());
            let calls: u64 = played[1..].iter().map(|low| low.calls).sum();
            values.push(("low_calls_per_s", calls as f64 * 1000.0 / f64::from(ms)));
            rows.push(Row { experiment: name, figure: "high", subject, x: size.into(), values });
        }
    }
    contests.into_iter().for_each(|(_, contest)| contest.end());
    Ok(rows)
}

pub(super) fn figures() -> Vec<Figure> {
    let figure = |title, y, draw| Figure {
        id: "high",
        title,
        x: "request, octets",
        y,
        draw,
        divide: 1000.0,
        log: true,
    };
    vec![
        figure("Jitter of the high client", "microseconds, standard deviation", &["stddev_ns"][..]),
        figure("Its worst spread", "microseconds, longest less shortest", &["max_minus_min_ns"][..]),
        figure("Its mean latency", "microseconds", &["mean_ns"][..]),
    ]
}

/// The median over sizes of a value of one subject over that of another.
pub(super) fn ratio(rows: &[Row], of: &str, to: &str, value: &str) -> f64 {
    let (of, to) = (series(rows, "high", of, value), series(rows, "high", to, value));
    let mut ratios: Vec<f64> = of.iter().zip(&to).map(|(of, to)| of.1 / to.1.max(1.0)).collect();
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN)
}

fn judge(rows: &[Row]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (transport, banded, shared) in
        [("TCP", "tcp-banded", "tcp-shared"), ("segments", "segment-banded", "segment-shared")]
    {
        let jitter = ratio(rows, shared, banded, "stddev_ns");
        let mean = ratio(rows, banded, shared, "mean_ns");
        claims.push(Claim::paper(
            mean < 1.2,
            format!("by {transport} the mean in bands is {mean:.2} times that on one connection (below 1.2)"),
        ));
        claims.push(Claim::control(
            jitter >= 2.0,
            format!(
                "by {transport} the jitter on one connection is {jitter:.1} times that in bands (at least 2)"
            ),
        ));
    }
    let faster = ratio(rows, "segment-banded", "tcp-banded", "mean_ns");
    claims.push(Claim::aim(
        faster < 1.0,
        format!("segments take {faster:.2} times as long as TCP, both in bands (below 1)"),
    ));
    claims
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(value: impl Fn(&str) -> (f64, f64)) -> (bool, Option<bool>) {
        let mut rows = Vec::new();
        for (subject, ..) in SUBJECTS {
            for size in SIZES {
                let (mean, stddev) = value(subject);
                let values = vec![("mean_ns", mean), ("stddev_ns", stddev)];
                rows.push(Row { experiment: NAME, figure: "high", subject, x: size.into(), values });
            }
        }
        let v = Verdict::new(NAME, PAPER, judge(&rows));
        (v.shape_holds, v.control_fails)
    }

    #[test]
    fn shapes_are_told_apart() {
        let as_seen = |subject: &str| if subject.ends_with("banded") { (30.0, 3.0) } else { (35.0, 30.0) };
        assert_eq!(verdict(as_seen), (true, Some(true)));
        assert_eq!(verdict(|_| (30.0, 3.0)), (true, Some(false)));
        assert_eq!(
            verdict(|subject| if subject.ends_with("banded") { (60.0, 3.0) } else { (35.0, 30.0) }),
            (false, Some(true))
        );
        assert!(!Verdict::new(NAME, PAPER, judge(&[])).shape_holds);
    }
}

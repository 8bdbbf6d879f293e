//! One high client with requests of growing size beside six low ones without arguments: connections in bands and one connection for
//! all, by TCP, by unix sockets and by segments of memory that the peer writes into.

use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::contention::{Contest, Order, Played, Role, Setup};
use crate::figure::{Claim, Figure, Outcome, Row, Verdict, series, times};
use crate::stats::{Samples, median};

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Jitter of a high client with growing requests beside six low ones, in bands and on one connection, over three transports",
    source: "Lankes, Pfeiffer, Bemmerl (ROFES): figures 5 to 10",
    paper: PAPER,
    seconds: (55, 600),
    run,
};

const NAME: &str = "banded";
const PAPER: &str = "with banded connections the high client's jitter is far smaller, at about the same mean, on either network";
/// CORBA priorities as the paper's, its 8446 read as 8448.
const LOW: [i16; 6] = [8192, 8448, 8704, 8960, 9216, 9472];
const HIGH: i16 = 16_384;
/// The high client pauses, so that the low ones get the processor at all.
const HZ: u32 = 400;
/// Calls whose jitter and spread are taken together. A virtual machine stalls for hundreds of microseconds about once a second: of rounds of a
/// second most would hold a stall, and the figures would be the host's.
const BLOCK: usize = 50;
/// Octets.
pub(super) const SIZES: [u32; 6] = [0, 1 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10];
const QUICK_SIZES: [u32; 3] = [0, 4 << 10, 32 << 10];
/// The high client beside the low ones, and by itself.
pub(super) const BESIDE: &str = "high";
pub(super) const ALONE: &str = "alone";

/// Who is measured: name, transport, bands.
pub(super) const SUBJECTS: [(&str, &str, bool); 6] = [
    ("tcp-banded", "tcp", true),
    ("tcp-shared", "tcp", false),
    ("unix-banded", "unix", true),
    ("unix-shared", "unix", false),
    ("segment-banded", "segment", true),
    ("segment-shared", "segment", false),
];
/// The transports, as sentences name them, with their subjects in bands and on one connection.
pub(super) const TRANSPORTS: [(&str, &str, &str); 3] = [
    ("TCP", "tcp-banded", "tcp-shared"),
    ("unix sockets", "unix-banded", "unix-shared"),
    ("segments", "segment-banded", "segment-shared"),
];

fn run(cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let rows = measure(cx, NAME, |_| 0)?;
    let notes = vec![
        format!(
            "The high client calls {HZ} times a second; six low ones of the ordinary class call without a pause and without \
             arguments."
        ),
        OF_CONTROL.to_owned(),
    ];
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    Ok(Outcome { figures: figures(), rows, notes, verdict })
}

/// What a reader of either experiment must know.
pub(super) const OF_CONTROL: &str = "In bands each client's connection is served by the lane of its priority. Without them all clients share one connection: over TCP a \
     pool of as many threads serves it, otherwise one thread of the ordinary class; either runs a request at its client's priority once \
     it has read it. 'jitter' is the standard deviation of a block of 50 calls, 'spread' its longest less its shortest call; both are \
     medians over the blocks of all rounds, which alternate, so that stalls of the machine decide only where they hit every other eighth \
     of a second. 'max_minus_min_ns' leaves nothing out.";

/// Every subject at every size of the high client's requests, in rounds that alternate; `low` says the size of the low ones' at that.
/// Those in bands also without the low clients.
pub(super) fn measure(
    cx: &mut Context<'_>,
    name: &'static str,
    low: impl Fn(u32) -> u32,
) -> Result<Vec<Row>, BenchError> {
    let sizes: &[u32] = cx.pick(&QUICK_SIZES, &SIZES);
    let (rounds, ms) = (cx.pick(4, 10), cx.ms(400, 1_000));
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
        contests.push((subject, banded, Contest::start(cx, subject, &setup, None)?));
    }
    let mut rows = Vec::new();
    for &size in sizes {
        let role = |hz, payload, priority| Role {
            threads: 1,
            hz,
            work: 0,
            payload,
            priority: Some(priority),
            ..Role::default()
        };
        let high = role(HZ, size, HIGH);
        let lows = LOW.map(|priority| role(0, low(size), priority));
        let mut taken: Vec<[Rounds; 2]> = SUBJECTS.iter().map(|_| Default::default()).collect();
        for round in 1..=rounds {
            for ((subject, banded, contest), [beside, alone]) in contests.iter_mut().zip(&mut taken) {
                cx.step(format!("{name}: {subject}, {size} B, round {round}"));
                let roles = [high].into_iter().chain(lows).collect();
                beside.add(&contest.run(&Order { ms, roles })?);
                if *banded {
                    alone.add(&contest.run(&Order { ms, roles: vec![high] })?);
                }
            }
        }
        for ((subject, banded, _), [beside, alone]) in contests.iter().zip(taken) {
            let figures = [(BESIDE, beside, true), (ALONE, alone, *banded)];
            for (figure, rounds, _) in figures.into_iter().filter(|&(.., there)| there) {
                let values = rounds.values(ms);
                rows.push(Row { experiment: name, figure, subject, x: size.into(), values });
            }
        }
    }
    contests.into_iter().for_each(|(.., contest)| contest.end());
    Ok(rows)
}

/// What the rounds of one subject at one size came to.
#[derive(Default)]
struct Rounds {
    samples: Samples,
    jitters: Vec<u64>,
    spreads: Vec<u64>,
    low_calls: u64,
    rounds: u32,
}

impl Rounds {
    /// The high client is the first of those who played.
    fn add(&mut self, played: &[Played]) {
        let [high, lows @ ..] = played else { return };
        self.rounds += 1;
        // Calls that fill no block count among the samples only.
        for block in high.latencies.chunks_exact(BLOCK) {
            let mut samples = Samples::default();
            samples.extend(block.iter().copied());
            let summary = samples.summary();
            self.spreads.push(summary.max_ns - summary.min_ns);
            self.jitters.push(summary.stddev_ns.round() as u64);
        }
        self.samples.extend(high.latencies.iter().copied());
        self.low_calls += lows.iter().map(|low| low.calls).sum::<u64>();
    }

    fn values(self, ms: u32) -> Vec<(&'static str, f64)> {
        let mut values = times(&self.samples.summary());
        let of_blocks = |each: &[u64]| median(each).map_or(f64::NAN, |ns| ns as f64);
        values.push(("jitter_ns", of_blocks(&self.jitters)));
        values.push(("spread_ns", of_blocks(&self.spreads)));
        let seconds = f64::from(ms) * f64::from(self.rounds.max(1)) / 1000.0;
        values.push(("low_calls_per_s", (self.low_calls as f64 / seconds).round()));
        values
    }
}

pub(super) fn figures() -> Vec<Figure> {
    let figure =
        |id, title, y, draw| Figure { id, title, x: "request, octets", y, draw, divide: 1000.0, log: true };
    vec![
        figure(BESIDE, "Jitter of the high client", "microseconds, standard deviation", &["jitter_ns"][..]),
        figure(BESIDE, "Its spread", "microseconds, longest less shortest", &["spread_ns"][..]),
        figure(BESIDE, "Its mean latency", "microseconds", &["mean_ns"][..]),
        figure(
            ALONE,
            "Its spread without the low ones",
            "microseconds, longest less shortest",
            &["spread_ns"][..],
        ),
    ]
}

/// A value of one subject over that of another, at each size.
pub(super) fn ratios(rows: &[Row], of: (&str, &str), to: (&str, &str), value: &str) -> Vec<f64> {
    let (of, to) = (series(rows, of.0, of.1, value), series(rows, to.0, to.1, value));
    of.iter().zip(&to).map(|(of, to)| of.1 / to.1.max(1.0)).collect()
}

/// The median of that over the sizes.
pub(super) fn ratio(rows: &[Row], of: &str, to: &str, value: &str) -> f64 {
    let mut ratios = ratios(rows, (BESIDE, of), (BESIDE, to), value);
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN)
}

fn judge(rows: &[Row]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (transport, banded, shared) in TRANSPORTS {
        let jitter = ratio(rows, shared, banded, "jitter_ns");
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
                let values = vec![("mean_ns", mean), ("jitter_ns", stddev)];
                rows.push(Row { experiment: NAME, figure: BESIDE, subject, x: size.into(), values });
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

    /// Three rounds of two blocks each, with stalls in as many blocks as said.
    fn rounds(stalled: usize) -> Vec<(&'static str, f64)> {
        let mut rounds = Rounds::default();
        for round in 0..3 {
            let mut latencies: Vec<u64> = (0..2 * BLOCK as u64).map(|i| 10 + i % 20).collect();
            for block in (0..2).filter(|block| round * 2 + block < stalled) {
                latencies[block * BLOCK + 7] = 1_000_010;
            }
            // Too few for a block: not taken for one without jitter.
            latencies.extend([10; 3]);
            let n = latencies.len() as u64;
            let high = Played { calls: n, due: n, in_time: n, latencies, parts: vec![] };
            let low = Played { calls: 500, due: 500, in_time: 500, latencies: vec![], parts: vec![] };
            rounds.add(&[high, low]);
        }
        rounds.values(1000)
    }

    #[test]
    fn a_spread_is_the_median_of_those_of_the_blocks() {
        let of = |stalled: usize, name: &str| {
            rounds(stalled).into_iter().find(|(n, _)| *n == name).map_or(f64::NAN, |v| v.1)
        };
        assert_eq!((of(0, "spread_ns"), of(0, "low_calls_per_s"), of(0, "n")), (19.0, 500.0, 309.0));
        // A stall now and then does not decide, but is told; stalls all the time do.
        assert_eq!((of(2, "spread_ns"), of(2, "jitter_ns")), (19.0, of(0, "jitter_ns")));
        assert_eq!(of(2, "max_minus_min_ns"), 1_000_000.0);
        assert_eq!(of(5, "spread_ns"), 1_000_000.0);
        assert!(of(5, "jitter_ns") > 1000.0 * of(0, "jitter_ns"));
    }
}

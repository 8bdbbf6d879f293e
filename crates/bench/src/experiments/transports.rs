//! Each transport beside the least that anything of its kind takes, in one run: a bare socket, a
//! bare hand-over, rustls; and iceoryx2.
//!
//! Each comparison has a negative control, which must break the bound of the comparison, and its
//! yardstick a second time, which shows what of a ratio is noise.

use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::blocks::{Rounds, calibrate, interleave_all};
use crate::cases::{Case, Kind};
use crate::claim::{Above, AtLeast, AtMost, Below, Cells, Claim, Limit, aim, control, paper};
use crate::figure::{Figure, Measured, times};
use crate::report::Placement::{self, OneCore, TwoCore};
use crate::subjects::{PairScheduling, StoppedPair, Subject};
use std::time::{Duration, Instant};

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Calls over unix sockets, segments and TLS beside bare sockets, a bare futex, iceoryx2 and rustls",
    source: "of our own",
    paper: "a transport costs little more than the least that anything of its kind takes, and segments a fraction of the others",
    seconds: (50, 200),
    run,
    claims,
};

const NAME: &str = "transports";
/// The name of a figure's first subject when it runs a second time.
const AGAIN: &str = "again";
const VOID: Case = Case { kind: Kind::Void, size: 0 };
const fn octets(size: usize) -> Case {
    Case { kind: Kind::Octets, size }
}
const LARGE: Case = octets(64 << 10);
const VERY_LARGE: Case = octets(1 << 20);

/// The subjects of a comparison, the yardstick first and the negative control last, at which size
/// and where.
struct Comparison {
    figure: &'static str,
    title: &'static str,
    placement: Placement,
    subjects: &'static [Subject],
    cases: &'static [Case],
}

const COMPARISONS: [Comparison; 6] = [
    Comparison {
        figure: "unix",
        title: "Unix sockets, both ends on one processor",
        placement: OneCore,
        subjects: &[Subject::RawUnix, Subject::IsorbUnix, Subject::IsorbUnixUnlimited, Subject::Isorb],
        cases: &[VOID, octets(1 << 10), LARGE],
    },
    Comparison {
        figure: "asleep",
        title: "Segments with ends that sleep, both on one processor",
        placement: OneCore,
        subjects: &[Subject::Futex, Subject::IsorbSegment, Subject::IsorbUnix],
        cases: &[VOID],
    },
    Comparison {
        figure: "spinning",
        title: "Segments with ends that poll, and iceoryx2 polling, two processors",
        placement: TwoCore,
        subjects: &[Subject::Iceoryx2, Subject::IsorbSegment, Subject::IsorbSegmentAsleep],
        cases: &[VOID, octets(1 << 10), LARGE],
    },
    Comparison {
        figure: "tcp",
        title: "Segments with ends that poll, and TCP, two processors",
        placement: TwoCore,
        subjects: &[Subject::Isorb, Subject::IsorbSegment, Subject::IsorbUnix],
        cases: &[LARGE],
    },
    Comparison {
        figure: "tls",
        title: "TLS, both ends on one processor",
        placement: OneCore,
        subjects: &[Subject::RawTls, Subject::IsorbTls],
        cases: &[VOID, LARGE, VERY_LARGE],
    },
    // Apart, since a handshake takes so long that it would leave the others few rounds.
    Comparison {
        figure: "handshakes",
        title: "TLS with a handshake for each call, both ends on one processor",
        placement: OneCore,
        subjects: &[Subject::RawTls, Subject::IsorbTlsEachCall],
        cases: &[LARGE],
    },
];

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    out.note(format!(
        "ratio: the median over rounds of the ratio of a round's medians to those of the first subject of \
         a figure; {AGAIN}: the first subject once more."
    ));
    for comparison in &COMPARISONS {
        if comparison.placement == TwoCore && cx.machine.cpus.len() < 2 {
            out.note(format!("{}: left out, this process may use one processor only", comparison.title));
            continue;
        }
        comparison.run(cx, out)?;
    }
    let x = "octets there and back, 0 for a void call";
    let figure = |comparison: &Comparison| {
        Figure::new(comparison.figure, comparison.title, x, "microseconds", &["p50_ns"])
    };
    out.figures = COMPARISONS.iter().map(figure).collect();
    Ok(())
}

impl Comparison {
    fn run(&self, cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
        let scheduling = PairScheduling::of(self.placement, &cx.machine);
        let mut pairs = Vec::new();
        // That it runs is shown without the minute of building iceoryx2.
        let smoke = cx.is_smoke();
        let left_out = |subject: Subject| smoke && subject == Subject::Iceoryx2;
        let mut names = Vec::new();
        let again = std::iter::once((self.subjects[0], AGAIN));
        let all = self.subjects.iter().map(|&subject| (subject, subject.name())).chain(again);
        for (subject, name) in all.filter(|&(subject, _)| !left_out(subject)) {
            cx.progress(format!("{NAME}: {subject} is set up"));
            match subject.programs(cx.launcher) {
                Ok(programs) => {
                    pairs.push(StoppedPair::start(cx.launcher, subject, &programs, scheduling)?);
                    names.push(name);
                }
                Err(_) if name == AGAIN => {}
                Err(missing) => out.note(format!("{subject}: {missing}")),
            }
        }
        for &case in self.cases {
            cx.progress(format!("{NAME}: {}, {case}", self.title));
            let Some(first) = pairs.first_mut() else { break };
            let block = calibrate(|block| first.block(block), case)?;
            let until = Instant::now() + Duration::from_millis(cx.ms(2_500, 12_000).into());
            let all = interleave_all(&mut pairs, Rounds::until(until), |pair| pair.block(block))?;
            // Without its yardstick a figure has times and no ratios.
            let has_yardstick = pairs[0].subject == self.subjects[0];
            for (&subject, series) in names.iter().zip(&all) {
                let mut values = times(&series.samples.summary());
                values.push(("ratio", if has_yardstick { series.ratio_to(&all[0]) } else { f64::NAN }));
                out.row(self.figure, subject, case.size as f64, values);
            }
        }
        pairs.into_iter().for_each(StoppedPair::end);
        Ok(())
    }
}

/// A bound on the ratio to the yardstick of a figure: figure, subject, octets, bound.
type Bound = (&'static str, Subject, usize, f64);

/// What is there: these decide about the shape.
const REACHED: [Bound; 4] = [
    ("spinning", Subject::IsorbSegment, 0, 0.5),
    ("tcp", Subject::IsorbSegment, 64 << 10, 1.0 / 3.0),
    ("tls", Subject::IsorbTls, 64 << 10, 1.3),
    ("tls", Subject::IsorbTls, 1 << 20, 1.3),
];
/// What we aim at, and come near.
const AIMS: [Bound; 5] = [
    ("unix", Subject::IsorbUnixUnlimited, 0, 1.12),
    ("unix", Subject::IsorbUnixUnlimited, 1 << 10, 1.12),
    // With the time-out that calls have by default, and the bare program has not.
    ("unix", Subject::IsorbUnix, 0, 1.12),
    ("unix", Subject::IsorbUnix, 1 << 10, 1.12),
    ("asleep", Subject::IsorbSegment, 0, 1.15),
];
/// How far from an aim is near, as a factor.
const NEAR: f64 = 1.3;
/// Controls that must break these bounds: another transport in the place of the comparison's, looks
/// turned off, a handshake for each call.
const CONTROLS: [Bound; 5] = [
    ("unix", Subject::Isorb, 0, 1.12 * NEAR),
    ("asleep", Subject::IsorbUnix, 0, 1.15 * NEAR),
    ("spinning", Subject::IsorbSegmentAsleep, 0, 0.5),
    ("tcp", Subject::IsorbUnix, 64 << 10, 1.0 / 3.0),
    ("handshakes", Subject::IsorbTlsEachCall, 64 << 10, 1.3),
];
/// The most that a void call over spinning segments may take, in nanoseconds.
const SPINNING_NS: f64 = 800.0;

fn claims() -> Vec<Claim> {
    let void = |r: &dyn Cells, subject: Subject| [r.at("spinning", subject.name(), "p50_ns", 0.0)];
    let mut claims = vec![
        paper(Below(SPINNING_NS), "a void call over spinning segments takes {0:.0} ns ({limit})", move |r| {
            void(r, Subject::IsorbSegment)
        }),
        control(
            AtLeast(SPINNING_NS),
            "asleep, a void call over segments takes {0:.0} ns ({limit})",
            move |r| void(r, Subject::IsorbSegmentAsleep),
        ),
    ];
    let within = |bounds: &[Bound], most: fn(f64) -> Limit, kind: fn(Limit, String, Ratio) -> Claim| {
        let claim = |bound: &Bound| claim(kind, *bound, most(bound.3));
        bounds.iter().map(claim).collect::<Vec<_>>()
    };
    claims.extend(within(&REACHED, AtMost, paper));
    claims.extend(within(&AIMS, AtMost, aim));
    claims.extend(within(&AIMS, |limit| AtMost(limit * NEAR), paper));
    claims.extend(within(&CONTROLS, Above, control));
    claims
}

/// A ratio to the yardstick of a figure, and that of the yardstick to itself.
type Ratio = Box<dyn Fn(&dyn Cells) -> [f64; 2]>;

fn claim(
    kind: fn(Limit, String, Ratio) -> Claim,
    (figure, subject, octets, _): Bound,
    limit: Limit,
) -> Claim {
    let comparison = COMPARISONS.iter().find(|comparison| comparison.figure == figure);
    let yardstick = comparison.map_or("", |comparison| comparison.subjects[0].name());
    let sentence = format!(
        "{subject}, {octets} octets: {{0:.3}} of {yardstick} ({{limit}}; {yardstick} again {{1:.3}})"
    );
    let ratio = move |r: &dyn Cells| {
        [subject.name(), AGAIN].map(|subject| r.at(figure, subject, "ratio", octets as f64))
    };
    kind(limit, sentence, Box::new(ratio))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_of_a_subject_that_is_measured() {
        for (figure, subject, octets, _) in REACHED.iter().chain(&AIMS).chain(&CONTROLS) {
            let comparison = COMPARISONS.iter().find(|comparison| comparison.figure == *figure).unwrap();
            assert!(comparison.subjects[1..].contains(subject), "{figure}: {subject}");
            assert!(comparison.cases.iter().any(|case| case.size == *octets), "{figure}: {octets}");
        }
    }
}

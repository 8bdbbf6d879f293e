//! Each transport beside the least that anything of its kind takes, in one run: a bare socket, a bare hand-over, rustls; and iceoryx2.

use super::catalogue::Experiment;
use super::seats::{PATIENCE, Seat, places};
use super::{BenchError, Context};
use crate::cases::{Case, Kind};
use crate::figure::{Claim, Figure, Outcome, Row, Verdict, at, times};
use crate::harness::{Limits, calibrate, interleave};
use crate::report::Placement::{self, OneCore, TwoCore};
use crate::stats::ratio_of_medians;
use crate::subjects::Subject;
use std::time::{Duration, Instant};

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Calls over unix sockets, segments and TLS beside bare sockets, a bare futex, iceoryx2 and rustls",
    source: "of our own",
    paper: PAPER,
    seconds: (40, 150),
    run,
};

const NAME: &str = "transports";
const PAPER: &str = "a transport costs little more than the least that anything of its kind takes";
const VOID: Case = Case { kind: Kind::Void, size: 0 };
const fn octets(size: usize) -> Case {
    Case { kind: Kind::Octets, size }
}
const LARGE: Case = octets(64 << 10);
const VERY_LARGE: Case = octets(1 << 20);

/// Who is compared, the control first, at which size and where.
struct Contest {
    figure: &'static str,
    title: &'static str,
    placement: Placement,
    subjects: &'static [Subject],
    cases: &'static [Case],
}

const CONTESTS: [Contest; 5] = [
    Contest {
        figure: "unix",
        title: "Unix sockets, both ends on one processor",
        placement: OneCore,
        subjects: &[Subject::RawUnix, Subject::IsorbUnix],
        cases: &[VOID, octets(1 << 10), LARGE],
    },
    Contest {
        figure: "asleep",
        title: "Segments whose ends sleep, both on one processor",
        placement: OneCore,
        subjects: &[Subject::Futex, Subject::IsorbSegment],
        cases: &[VOID],
    },
    Contest {
        figure: "spinning",
        title: "Segments whose ends look, and iceoryx2 polling, two processors",
        placement: TwoCore,
        subjects: &[Subject::Iceoryx2, Subject::IsorbSegment],
        cases: &[VOID, octets(1 << 10), LARGE],
    },
    Contest {
        figure: "tcp",
        title: "Segments whose ends look, and TCP, two processors",
        placement: TwoCore,
        subjects: &[Subject::Isorb, Subject::IsorbSegment],
        cases: &[LARGE],
    },
    Contest {
        figure: "tls",
        title: "TLS, both ends on one processor",
        placement: OneCore,
        subjects: &[Subject::RawTls, Subject::IsorbTls],
        cases: &[VOID, LARGE, VERY_LARGE],
    },
];

fn run(cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let mut rows = Vec::new();
    let mut notes = vec![
        "ratio: the median over rounds of the ratio of a round's medians to the control's, which is the first of a figure."
            .to_owned(),
    ];
    for contest in &CONTESTS {
        if contest.placement == TwoCore && cx.machine.cpus.len() < 2 {
            notes.push(format!("{}: left out, this process may use one processor only", contest.title));
            continue;
        }
        contest.run(cx, &mut rows, &mut notes)?;
    }
    let figure = |contest: &Contest| Figure {
        id: contest.figure,
        title: contest.title,
        x: "octets there and back, 0 for a void call",
        y: "microseconds",
        draw: &["p50_ns"],
        divide: 1000.0,
        log: true,
    };
    let figures = CONTESTS.iter().map(figure).collect();
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    Ok(Outcome { figures, rows, notes, verdict })
}

impl Contest {
    fn run(
        &self,
        cx: &mut Context<'_>,
        rows: &mut Vec<Row>,
        notes: &mut Vec<String>,
    ) -> Result<(), BenchError> {
        let places = places(self.placement, &cx.machine);
        let mut seats = Vec::new();
        // That it runs is shown without the minute of building iceoryx2.
        let left_out = |subject: Subject| cx.is_smoke() && subject == Subject::Iceoryx2;
        for subject in self.subjects.iter().copied().filter(|&subject| !left_out(subject)).collect::<Vec<_>>()
        {
            cx.step(format!("{NAME}: {subject} is set up"));
            match subject.programs(cx.launcher) {
                Ok(programs) => seats.push(Seat::take(cx.launcher, subject, &programs, places)?),
                Err(missing) => notes.push(format!("{subject}: {missing}")),
            }
        }
        for &case in self.cases {
            cx.step(format!("{NAME}: {}, {case}", self.title));
            let Some(first) = seats.first_mut() else { break };
            let block = calibrate(first, case)?;
            let until = Instant::now() + Duration::from_millis(cx.ms(2_500, 12_000).into());
            let outcomes = interleave(&mut seats, block, Limits { at_least: 3, until }, || ());
            // Without its control a figure has times and no ratios.
            let there = seats[0].subject == self.subjects[0];
            let control = if there { outcomes[0].medians.clone() } else { Vec::new() };
            for (seat, outcome) in seats.iter().zip(outcomes) {
                if let Some(error) = outcome.failed {
                    return Err(error.into());
                }
                let mut values = times(&outcome.samples.summary());
                values.push(("ratio", ratio_of_medians(&outcome.medians, &control).unwrap_or(f64::NAN)));
                let (figure, subject) = (self.figure, seat.subject.name());
                rows.push(Row { experiment: NAME, figure, subject, x: case.size as f64, values });
            }
        }
        for seat in seats {
            // Whether it ends by itself matters to nobody any more.
            let _ = seat.pair.end(PATIENCE);
        }
        Ok(())
    }
}

/// What we aim at: figure, subject, octets, and the ratio to the control.
const RATIOS: [(&str, &str, usize, f64); 7] = [
    ("unix", "isorb-unix", 0, 1.08),
    ("unix", "isorb-unix", 1 << 10, 1.08),
    ("asleep", "isorb-segment", 0, 1.15),
    ("spinning", "isorb-segment", 0, 0.5),
    ("tcp", "isorb-segment", 64 << 10, 1.0 / 3.0),
    ("tls", "isorb-tls", 64 << 10, 1.3),
    ("tls", "isorb-tls", 1 << 20, 1.3),
];

fn judge(rows: &[Row]) -> Vec<Claim> {
    let mut claims: Vec<Claim> = RATIOS
        .iter()
        .map(|&(figure, subject, octets, most)| {
            let ratio = at(rows, figure, subject, "ratio", octets as f64);
            let control = CONTESTS.iter().find(|contest| contest.figure == figure);
            let control = control.map_or("", |contest| contest.subjects[0].name());
            Claim::aim(
                ratio <= most,
                format!("{subject}, {octets} octets: {ratio:.3} of {control} (at most {most:.2})"),
            )
        })
        .collect();
    let void = at(rows, "spinning", "isorb-segment", "p50_ns", 0.0);
    claims.push(Claim::aim(
        void < 800.0,
        format!("a void call over spinning segments takes {void:.0} ns (below 800)"),
    ));
    // A factor of two is beyond what a machine with others on it does to a ratio of neighbours.
    let sound = RATIOS.iter().filter(|(figure, ..)| !matches!(*figure, "spinning" | "tcp"));
    let worst = sound
        .map(|&(figure, subject, octets, most)| at(rows, figure, subject, "ratio", octets as f64) / most);
    let worst = worst.fold(0.0, f64::max);
    claims.push(Claim::paper(
        worst <= 2.0,
        format!("none takes more than {worst:.2} of what it may (at most 2)"),
    ));
    claims
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_told_apart() {
        let verdict = |factor: f64| {
            let mut rows = Vec::new();
            for (figure, subject, octets, most) in RATIOS {
                let values = vec![("ratio", most * factor), ("p50_ns", 700.0)];
                rows.push(Row { experiment: NAME, figure, subject, x: octets as f64, values });
            }
            Verdict::new(NAME, PAPER, judge(&rows))
        };
        let good = verdict(0.9);
        assert!(good.shape_holds && good.claims.iter().all(|claim| claim.holds));
        let dear = verdict(1.1);
        assert!(dear.shape_holds && dear.claims.iter().filter(|claim| !claim.holds).count() == RATIOS.len());
        assert!(!verdict(2.1).shape_holds);
    }
}

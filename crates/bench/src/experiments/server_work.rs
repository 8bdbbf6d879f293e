//! Three periodic clients on three lanes of one thread each, with more and more work a call, until one processor does not suffice.

use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::contention::{Contest, Order, Role, Setup, calibrate_work};
use crate::figure::{Claim, Figure, Outcome, Row, Verdict, at, series};

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Deadlines met by clients at 20, 15 and 10 Hz as the work of a call grows beyond the processor",
    source: "Zou, Levy, Liu: figures 12 and 13",
    paper: PAPER,
    seconds: (45, 230),
    run,
};

const NAME: &str = "server-work";
const PAPER: &str = "as the work grows, the client of the lowest priority misses its deadlines first and that of the highest last";
/// Their rates add up to 45 calls a second: beyond 22 ms a call, one processor does not suffice.
const CLIENTS: [(&str, u32, i16); 3] = [("low", 10, 5_000), ("medium", 15, 15_000), ("high", 20, 25_000)];
/// The medium client's periods begin this much after those of the others. Every 200 ms the three come back to where they were, so how
/// they lie decides whether there is any load at which medium meets all and low nothing. If all began together, medium's first call
/// would have to end before the high one's second begins (at most 25 ms of work), and low would get 28 ms of its every other period at
/// 24 ms of work: no such load. Begun so, medium fits in up to 26.6 ms, and from 24.2 ms on no period of low's has a call's work left.
const MEDIUM_DELAY_US: u32 = 13_300;
const PAYLOAD: u32 = 256;
/// At 25 ms high and medium leave the lowest nothing to meet; beyond 33 ms the high one leaves the medium one too little.
const WORK_MS: [u32; 11] = [5, 10, 15, 20, 22, 25, 28, 32, 36, 40, 45];
const QUICK_WORK_MS: [u32; 5] = [5, 15, 25, 32, 45];
/// Who meets so many percent is in time: the kernel stops real-time threads for a twentieth of a second each second when they want all of it.
const MET: f64 = 90.0;
const SORTED: &str = "lanes";
const CONTROL: &str = "control";

fn run(cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let works: &[u32] = cx.pick(&QUICK_WORK_MS, &WORK_MS);
    let ms = cx.ms(4_000, 10_000);
    let unit = calibrate_work(cx)?;
    // The lowest lane is of the ordinary class: what overload there is shall not be decided by the kernel's throttling.
    let sorted = Setup { ordinary_below: 10_000, ..Setup::lanes(&CLIENTS.map(|(_, _, priority)| priority)) };
    let control = Setup { sorted: false, ..sorted.clone() };
    let mut contests = Vec::new();
    for (figure, setup) in [(SORTED, sorted), (CONTROL, control)] {
        contests.push((figure, Contest::start(cx, figure, &setup, None)?));
    }
    let mut rows = Vec::new();
    for &work_ms in works {
        for (figure, contest) in &mut contests {
            cx.step(format!("{NAME}: {figure}, {work_ms} ms"));
            let work = (f64::from(work_ms) * unit).round() as i32;
            let roles = CLIENTS.map(|(subject, hz, priority)| Role {
                threads: 1,
                hz,
                work,
                payload: PAYLOAD,
                priority: Some(priority),
                delay_us: if subject == "medium" { MEDIUM_DELAY_US } else { 0 },
                ..Role::default()
            });
            let played = contest.run(&Order { ms, roles: roles.to_vec() })?;
            for ((subject, ..), played) in CLIENTS.into_iter().zip(played) {
                let per_s = |calls: u64| calls as f64 * 1000.0 / f64::from(ms);
                let values = vec![
                    ("calls_per_s", per_s(played.calls)),
                    ("in_time_per_s", per_s(played.in_time)),
                    ("in_time_percent", (played.in_time_percent() * 10.0).round() / 10.0),
                ];
                rows.push(Row { experiment: NAME, figure, subject, x: work_ms.into(), values });
            }
        }
    }
    contests.into_iter().for_each(|(_, contest)| contest.end());
    let figure =
        |id, title, y, draw| Figure { id, title, x: "work of a call, ms", y, draw, divide: 1.0, log: false };
    let figures = vec![
        figure(SORTED, "Calls made", "calls a second", &["calls_per_s"][..]),
        figure(SORTED, "Calls in time", "calls a second", &["in_time_per_s"][..]),
        figure(CONTROL, "Calls in time, without lanes and bands", "calls a second", &["in_time_per_s"][..]),
    ];
    let notes = vec![format!(
        "{unit:.0} units of work are a millisecond here. Calls are due 20, 15 and 10 times a second, the medium client's {:.1} ms after \
         the others'. High and medium lanes are real-time threads, the low lane is an ordinary one.",
        f64::from(MEDIUM_DELAY_US) / 1000.0
    )];
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    Ok(Outcome { figures, rows, notes, verdict })
}

fn judge(rows: &[Row]) -> Vec<Claim> {
    let met = |figure: &str, subject: &str| series(rows, figure, subject, "in_time_percent");
    // Where it first misses; beyond all that was measured if it never does.
    let first = |figure: &str, subject: &str| {
        let missed = met(figure, subject).into_iter().find(|&(_, percent)| percent < MET);
        missed.map_or(f64::INFINITY, |(work, _)| work)
    };
    let [low, medium, high] = CLIENTS.map(|(subject, ..)| first(SORTED, subject));
    let least = met(SORTED, "low").first().is_some_and(|&(_, percent)| percent >= MET);
    let percent = |figure: &str, subject: &str, work: f64| at(rows, figure, subject, "in_time_percent", work);
    let places = || met(SORTED, "high").into_iter().map(|(work, _)| work);
    let worst_control = places()
        .filter(|&work| percent(SORTED, "high", work) >= MET)
        .map(|work| percent(CONTROL, "high", work))
        .fold(f64::NAN, f64::min);
    // One of two hundred may be lost to a stall of the machine.
    let kept = |subject: &str, work: f64| percent(SORTED, subject, work) >= 99.5;
    let served = places()
        .find(|&work| kept("high", work) && kept("medium", work) && percent(SORTED, "low", work) <= 0.5);
    let at_work =
        |work: f64| if work.is_finite() { format!("{work} ms") } else { "no work measured".to_owned() };
    vec![
        Claim::paper(least, "with the least work everybody is in time"),
        Claim::paper(
            low.is_finite() && low < medium && medium <= high,
            format!(
                "first misses: low at {}, medium at {}, high at {}",
                at_work(low),
                at_work(medium),
                at_work(high)
            ),
        ),
        Claim::control(
            worst_control < 90.0,
            format!(
                "without lanes and bands the high client meets as few as {worst_control:.0} % where lanes let it meet all (below 90)"
            ),
        ),
        Claim::aim(
            served.is_some(),
            match served {
                Some(work) => format!("at {work} ms high and medium miss nothing while low misses all"),
                None => "nowhere do high and medium miss nothing while low misses all".to_owned(),
            },
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(percent: impl Fn(&str, &str, u32) -> f64) -> (bool, Option<bool>, bool) {
        let mut rows = Vec::new();
        for figure in [SORTED, CONTROL] {
            for work in WORK_MS {
                for (subject, ..) in CLIENTS {
                    let values = vec![("in_time_percent", percent(figure, subject, work))];
                    rows.push(Row { experiment: NAME, figure, subject, x: work.into(), values });
                }
            }
        }
        let v = Verdict::new(NAME, PAPER, judge(&rows));
        (v.shape_holds, v.control_fails, v.claims[3].holds)
    }

    #[test]
    fn shapes_are_told_apart() {
        let limit = |subject: &str| match subject {
            "low" => 20,
            "medium" => 30,
            _ => 40,
        };
        let in_order = |figure: &str, subject: &str, work: u32| match figure {
            SORTED if work > limit(subject) => 0.0,
            CONTROL if work > 20 => 50.0,
            _ => 100.0,
        };
        assert_eq!(verdict(in_order), (true, Some(true), true));
        assert_eq!(verdict(|_, _, work| if work > 20 { 0.0 } else { 100.0 }), (false, Some(false), false));
        assert_eq!(verdict(|_, _, _| 100.0), (false, Some(false), false), "nobody misses anything");
    }
}

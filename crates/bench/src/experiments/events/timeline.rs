//! Suppliers and consumers at 40, 20 and 10 Hz whose slowest consumer works longer than the fastest's period: who meets his deadlines
//! under which dispatching.

use isorb_event::Strategy;
use isorb_rt::time::NS_PER_S;

use super::super::catalogue::Experiment;
use super::super::{BenchError, Context};
use super::pairs::{Pair, count, through_channel};
use crate::contention::calibrate_work;
use crate::figure::{Claim, Figure, Outcome, Row, Verdict, at};

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Deadlines of consumers at 40, 20 and 10 Hz under threaded, single-threaded and yielding dispatching",
    source: "Harrison, O'Ryan, Levine, Schmidt (TAO's event service): figures 12 and 13",
    paper: PAPER,
    seconds: (15, 65),
    run,
};

const NAME: &str = "tao-timeline";
const PAPER: &str = "with a thread for each priority every deadline is met; with a single thread the fastest consumer misses its own";
/// Hertz, work of a push in milliseconds, CORBA priority. Together they want 70 % of the processor.
const PAIRS: [(u32, u32, i16); 3] = [(40, 5, 25_000), (20, 10, 15_000), (10, 30, 5_000)];
const THREADED: &str = "threads";
const UPCALLS: &str = "upcalls";
const CONTROL: &str = "single-threaded";

fn run(cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let ms = cx.ms(4_000, 20_000);
    let unit = calibrate_work(cx)?;
    let mut rows = Vec::new();
    for (subject, strategy) in [
        (THREADED, Strategy::Threads { per_level: 1 }),
        (UPCALLS, Strategy::Upcalls),
        (CONTROL, Strategy::SingleThreaded),
    ] {
        cx.step(format!("{NAME}: {subject}"));
        let pairs = PAIRS.map(|(hz, work_ms, priority)| Pair {
            hz,
            work: (f64::from(work_ms) * unit).round() as i32,
            priority,
        });
        for (pair, ages) in pairs.iter().zip(through_channel(cx, strategy, &pairs, ms)?) {
            let period = NS_PER_S / u64::from(pair.hz);
            let in_time = ages.iter().filter(|&&age| age <= period).count();
            let due = count(pair, ms).max(1);
            let percent = 100.0 * in_time as f64 / due as f64;
            let latest = ages.iter().copied().max().unwrap_or(0);
            let values = vec![
                ("due", due as f64),
                ("in_time_percent", (percent * 10.0).round() / 10.0),
                ("latest_ms", latest as f64 / 1e6),
            ];
            rows.push(Row { experiment: NAME, figure: "deadlines", subject, x: pair.hz.into(), values });
        }
    }
    let figures = vec![Figure {
        id: "deadlines",
        title: "Events served within their supplier's period",
        x: "events a second",
        y: "percent",
        draw: &["in_time_percent"],
        divide: 1.0,
        log: false,
    }];
    let works = PAIRS.map(|(hz, ms, _)| format!("{ms} ms at {hz} Hz")).join(", ");
    let notes = vec![format!(
        "Consumers work {works}, on one processor. With 'upcalls' they offer to give way after every thousand units of work."
    )];
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    Ok(Outcome { figures, rows, notes, verdict })
}

fn judge(rows: &[Row]) -> Vec<Claim> {
    let met = |subject: &str, hz: u32| at(rows, "deadlines", subject, "in_time_percent", hz.into());
    let all = |subject: &str| PAIRS.into_iter().map(|(hz, ..)| met(subject, hz)).fold(f64::NAN, f64::min);
    let fastest = PAIRS[0].0;
    let (threads, upcalls, single) = (all(THREADED), all(UPCALLS), met(CONTROL, fastest));
    vec![
        Claim::paper(
            threads >= 99.0,
            format!("with threads every consumer meets at least {threads:.1} % (99)"),
        ),
        Claim::control(
            single < 90.0,
            format!("with a single thread the consumer at {fastest} Hz meets {single:.1} % (below 90)"),
        ),
        Claim::aim(
            upcalls >= 99.0,
            format!("with one thread that gives way every consumer meets at least {upcalls:.1} % (99)"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_told_apart() {
        let verdict = |percent: &dyn Fn(&str, u32) -> f64| {
            let mut rows = Vec::new();
            for subject in [THREADED, UPCALLS, CONTROL] {
                for (hz, ..) in PAIRS {
                    let values = vec![("in_time_percent", percent(subject, hz))];
                    rows.push(Row { experiment: NAME, figure: "deadlines", subject, x: hz.into(), values });
                }
            }
            let v = Verdict::new(NAME, PAPER, judge(&rows));
            (v.shape_holds, v.control_fails)
        };
        assert_eq!(
            verdict(&|subject, hz| if subject == CONTROL && hz == 40 { 50.0 } else { 100.0 }),
            (true, Some(true))
        );
        assert_eq!(verdict(&|_, _| 100.0), (true, Some(false)));
        assert_eq!(verdict(&|_, _| 50.0), (false, Some(true)));
    }
}

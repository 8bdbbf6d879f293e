//! What it costs to call through a table of methods instead of directly.

use std::collections::HashMap;
use std::hint::black_box;
use std::time::Duration;

use isorb_rt::time::now_ns;

use super::super::catalogue::Experiment;
use super::super::{BenchError, Context};
use crate::figure::{Claim, Figure, Outcome, Row, Verdict, at, times};
use crate::stats::Samples;

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "A call of a function and of a method against a call through a trait object",
    source: "Harrison, O'Ryan, Levine, Schmidt (TAO's event service): table 3",
    paper: PAPER,
    seconds: (2, 8),
    run,
};

const NAME: &str = "tao-dispatch-cost";
const PAPER: &str = "a virtual call takes 1 to 5 times as long as a direct one";
const SUBJECTS: [&str; 4] = ["function", "method", "trait-object", CONTROL];
/// The control: the function is looked up by its name each time.
const CONTROL: &str = "by-name";
/// Calls to a sample.
const TOGETHER: u64 = 1000;

/// The same step for all.
#[inline(never)]
fn function(x: u64) -> u64 {
    x.rotate_left(7) ^ 0x9e37_79b9
}

trait Step {
    fn step(&self, x: u64) -> u64;
}

struct A;
struct B;

impl A {
    #[inline(never)]
    fn method(&self, x: u64) -> u64 {
        x.rotate_left(7) ^ 0x9e37_79b9
    }
}

impl Step for A {
    #[inline(never)]
    fn step(&self, x: u64) -> u64 {
        x.rotate_left(7) ^ 0x9e37_79b9
    }
}

impl Step for B {
    #[inline(never)]
    fn step(&self, x: u64) -> u64 {
        x.rotate_left(9) ^ 0x9e37_79b9
    }
}

fn run(cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
    cx.step(NAME);
    let rounds = cx.pick(2_000, 20_000);
    let measured = cx.on_thread(move || measure(rounds))?;
    let mut rows = Vec::new();
    for (subject, samples) in SUBJECTS.into_iter().zip(measured) {
        // Picoseconds were measured.
        let mut values = times(&samples.summary());
        values.iter_mut().filter(|(name, _)| name.ends_with("_ns")).for_each(|(_, ps)| *ps /= 1000.0);
        rows.push(Row { experiment: NAME, figure: "call", subject, x: 1.0, values });
    }
    let figures = vec![Figure {
        id: "call",
        title: "A call",
        x: "",
        y: "nanoseconds",
        draw: &["p50_ns", "p99_ns"],
        divide: 1.0,
        log: false,
    }];
    let notes = vec![format!(
        "A sample is the mean of {TOGETHER} calls, each of which needs the result of the one before."
    )];
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    Ok(Outcome { figures, rows, notes, verdict })
}

/// Picoseconds a call, of each subject.
fn measure(rounds: usize) -> [Samples; 4] {
    // The compiler cannot know which of the two it is.
    let objects: [Box<dyn Step + Send>; 2] = [Box::new(A), Box::new(B)];
    let object: &dyn Step = objects[black_box(0)].as_ref();
    let names: HashMap<&str, fn(u64) -> u64> = HashMap::from([("function", function as fn(u64) -> u64)]);
    let name = black_box("function");
    let mut results: [Samples; 4] = Default::default();
    for round in 0..rounds {
        results[0].add(sample(function));
        results[1].add(sample(|x| A.method(x)));
        results[2].add(sample(|x| object.step(x)));
        results[3].add(sample(|x| names.get(name).map_or(x, |step| step(x))));
        if round % 50 == 49 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    results
}

#[inline(always)]
fn sample(step: impl Fn(u64) -> u64) -> u64 {
    let start = now_ns();
    let mut x = black_box(1);
    for _ in 0..TOGETHER {
        x = step(x);
    }
    black_box(x);
    (now_ns() - start) * 1000 / TOGETHER
}

fn judge(rows: &[Row]) -> Vec<Claim> {
    let p50 = |subject: &str| at(rows, "call", subject, "p50_ns", 1.0);
    let (to_function, to_method) =
        (p50("trait-object") / p50("function"), p50("trait-object") / p50("method"));
    let within = |ratio: f64| (0.8..=5.0).contains(&ratio);
    let by_name = p50(CONTROL) / p50("function");
    vec![
        Claim::paper(
            within(to_function) && within(to_method),
            format!(
                "a call through a trait object takes {to_function:.2} times a function's, {to_method:.2} times a method's (1 to 5)"
            ),
        ),
        Claim::control(
            by_name > 5.0,
            format!("one that looks the function up by its name takes {by_name:.1} times (above 5)"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_told_apart() {
        let verdict = |virtual_ns: f64, by_name: f64| {
            let row = |subject, ns| Row {
                experiment: NAME,
                figure: "call",
                subject,
                x: 1.0,
                values: vec![("p50_ns", ns)],
            };
            let rows = [
                row("function", 1.0),
                row("method", 1.0),
                row("trait-object", virtual_ns),
                row(CONTROL, by_name),
            ];
            let v = Verdict::new(NAME, PAPER, judge(&rows));
            (v.shape_holds, v.control_fails)
        };
        assert_eq!(verdict(1.4, 20.0), (true, Some(true)));
        assert_eq!(verdict(1.4, 1.4), (true, Some(false)));
        assert!(!verdict(7.0, 20.0).0 && !verdict(0.1, 20.0).0);
        assert!(!Verdict::new(NAME, PAPER, judge(&[])).shape_holds);
    }

    #[test]
    fn all_are_measured() {
        assert!(measure(3).iter().all(|samples| samples.summary().n == 3));
    }
}

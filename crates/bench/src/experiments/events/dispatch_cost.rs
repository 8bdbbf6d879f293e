//! What it costs to call through a table of methods instead of directly.

use std::collections::HashMap;
use std::hint::black_box;
use std::time::Duration;

use isorb_rt::time::now_ns;

use super::super::catalogue::Experiment;
use super::super::{BenchError, Context};
use crate::claim::{Above, Cells, Claim, Within, claims, control, paper};
use crate::figure::{Figure, Measured, times};
use crate::stats::Samples;

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "A call of a function and of a method against a call through a trait object",
    source: "Harrison, O'Ryan, Levine, Schmidt (TAO's event service): table 3",
    paper: "a virtual call takes 1 to 5 times as long as a direct one",
    seconds: (2, 8),
    run,
    claims,
};

const NAME: &str = "tao-dispatch-cost";
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

trait Operation {
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

impl Operation for A {
    #[inline(never)]
    fn step(&self, x: u64) -> u64 {
        x.rotate_left(7) ^ 0x9e37_79b9
    }
}

impl Operation for B {
    #[inline(never)]
    fn step(&self, x: u64) -> u64 {
        x.rotate_left(9) ^ 0x9e37_79b9
    }
}

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    cx.progress(NAME);
    let rounds = cx.pick(2_000, 20_000);
    let measured = cx.on_thread(move || measure(rounds))?;
    for (subject, samples) in SUBJECTS.into_iter().zip(measured) {
        // Picoseconds were measured.
        let mut values = times(&samples.summary());
        values.iter_mut().filter(|(name, _)| name.ends_with("_ns")).for_each(|(_, ps)| *ps /= 1000.0);
        out.row("call", subject, 1.0, values);
    }
    out.figures =
        vec![Figure::new("call", "A call", "", "nanoseconds", &["p50_ns", "p99_ns"]).divide(1.0).linear()];
    out.note(format!(
        "A sample is the mean of {TOGETHER} calls, each of which needs the result of the one before."
    ));
    Ok(())
}

/// Picoseconds a call, of each subject.
fn measure(rounds: usize) -> [Samples; 4] {
    // The compiler cannot know which of the two it is.
    let objects: [Box<dyn Operation + Send>; 2] = [Box::new(A), Box::new(B)];
    let object: &dyn Operation = objects[black_box(0)].as_ref();
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

fn claims() -> Vec<Claim> {
    let ratio = |of: &'static str, to: &'static str| {
        move |r: &dyn Cells| {
            [[of, to].map(|subject| r.at("call", subject, "p50_ns", 1.0))].map(|[of, to]| of / to)
        }
    };
    claims! {
        paper Within(0.8, 5.0), "a call through a trait object takes {0:.2} times a function's ({limit})",
            ratio("trait-object", "function");
        paper Within(0.8, 5.0), "and {0:.2} times a method's ({limit})", ratio("trait-object", "method");
        control Above(5.0), "one that looks the function up by its name takes {0:.1} times a function's \
             ({limit})", ratio(CONTROL, "function");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_measured() {
        assert!(measure(3).iter().all(|samples| samples.summary().n == 3));
    }
}

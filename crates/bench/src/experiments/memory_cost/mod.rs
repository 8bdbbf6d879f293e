//! What reflective memory costs, each beside a program that does the same hand-overs and nothing
//! else.

mod among;
mod attach;
mod flow;
pub(super) mod local;
mod remote;
mod rio;

use isorb_rt::sched::{Cpus, SchedClass, Thread, ThreadSpec};

use super::catalogue::Experiment;
use super::nodes::refused;
use super::{BenchError, Context};
use crate::blocks::Series;
use crate::claim::{Above, AtLeast, AtMost, Below, Cells, Claim, aim, claims, control, least, most, paper};
use crate::figure::{Figure, Measured, times};
use crate::stats::Samples;

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "What reflective memory costs beside bare hand-overs: within a node, to another, attaching, refusing",
    source: "ours",
    paper: "ours: a value is visible nearly as soon as bare hand-overs make it, and what sets channels up takes a bounded time among a thousand others",
    seconds: (50, 170),
    run,
    claims,
};

const NAME: &str = "crm-cost";

/// What a collocated call may add: less than the cheapest way to wake another thread.
const RIO_NS: f64 = 1_000.0;
/// Reflective memory.
const MEMORY: &str = "memory";
/// The same hand-overs without it.
const BARE: &str = "bare";
/// Reflective memory pushed each millisecond instead of on each write: the control of what comes at
/// once.
const PERIODIC: &str = "each-ms";
/// A reader that copies to see whether there is something new: the control of one that looks.
const COPYING: &str = "copying";
/// The control once more: what noise alone does.
const AGAIN: &str = "bare-again";

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    local::spinning(cx, out)?;
    local::blocking(cx, out)?;
    local::looking(cx, out)?;
    rio::measure(cx, out)?;
    remote::measure(cx, out)?;
    among::measure(cx, out)?;
    attach::measure(cx, out)?;
    let (bytes, ns, p50): (_, _, &[&str]) = ("octets of a value", "nanoseconds", &["p50_ns"]);
    let fast = |id, title, x, draw| Figure::new(id, title, x, ns, draw).divide(1.0);
    let slow = |id, title, x, draw| Figure::new(id, title, x, "microseconds", draw);
    let (tail, longest): (&[&str], &[&str]) = (&["p50_ns", "p99_ns"], &["p50_ns", "max_ns"]);
    let channels = "admitted channels";
    out.figures = vec![
        fast("spin", "From write to visible, spinning on two processors", bytes, p50),
        fast("block", "From write to visible, sleeping, on one processor", bytes, p50),
        fast("look", "A look without news", bytes, &["mean_ns"]),
        slow("remote", "From write to visible on another node, by datagrams", bytes, tail),
        slow("attach", "Attaching a reader", "readers or channels that are there", longest),
        slow("refuse", "A refusal, with what would be admitted", channels, longest),
        slow("flow", "The age of values at admitted readers, with everything there", channels, tail),
        fast("rio", "RIO called in its own process", bytes, &["mean_ns", "p50_ns"]),
        slow(
            "among",
            "From write to visible on another node, by the areas of the writer's process",
            "areas",
            p50,
        ),
        fast("many", "A write, by the readers that are attached", "readers", p50),
    ];
    out.notes = vec![
        "Half of a round trip within a node; one way to another, both nodes in this process and over loopback, a processor each.".to_owned(),
        "'bare' within a node: words in memory that both threads see, and a flag (spinning) or a futex; to another node: eventfd, a thread that copies and sends, a thread that receives and copies, a futex. It is measured twice.".to_owned(),
        "Ratios to 'bare' are medians over turns, each to the control's block of the same turn.".to_owned(),
        "While readers attach, each of the thousand areas is written once a second.".to_owned(),
    ];
    Ok(())
}

/// A thread on the `n`th processor that we may use (or the last), in the ordinary class.
fn thread<R: Send + 'static>(
    cx: &Context<'_>,
    n: usize,
    class: SchedClass,
    f: impl FnOnce() -> R + Send + 'static,
) -> Result<Thread<R>, BenchError> {
    let cpus = &cx.machine.cpus;
    let cpu = cpus.get(n).or(cpus.last()).copied().unwrap_or(0);
    ThreadSpec::new("crm-cost").class(class).cpus(Cpus::one(cpu)).spawn(f).map_err(BenchError::Thread)
}

/// What a thread that measures ends in.
fn joined<R>(thread: Thread<R>) -> Result<R, BenchError> {
    thread.join().map_err(|_| BenchError::Memory("a thread that measures panicked".into()))
}

fn row(out: &mut Measured, figure: &'static str, subject: &'static str, x: f64, samples: &Samples) {
    out.row(figure, subject, x, times(&samples.summary()));
}

/// Rows of subjects with their ratios to [`BARE`] in the same rounds.
fn rows(
    out: &mut Measured,
    figure: &'static str,
    x: usize,
    subjects: &[&'static str],
    all: &[Series<BenchError>],
) {
    let bare = subjects.iter().position(|&subject| subject == BARE).unwrap_or(0);
    for (&subject, series) in subjects.iter().zip(all) {
        let mut values = times(&series.samples.summary());
        values.push(("of_bare", series.ratio_to(&all[bare])));
        out.row(figure, subject, x as f64, values);
    }
}

/// The largest ratio of a subject's medians to the control's of the same rounds, and at which size.
fn worst_ratio(r: &dyn Cells, figure: &str, subject: &str) -> [f64; 2] {
    let ratios = r.series(figure, subject, "of_bare").into_iter().map(|(x, ratio)| [ratio, x]);
    ratios.reduce(|a, b| if b[0] > a[0] { b } else { a }).unwrap_or([f64::NAN; 2])
}

/// The largest of a subject's values.
fn top(r: &dyn Cells, figure: &str, subject: &str, value: &str) -> f64 {
    most(r.values(figure, subject, value))
}

/// The first and the last of a subject's medians.
fn ends(r: &dyn Cells, figure: &str, subject: &str) -> [f64; 2] {
    let all = r.values(figure, subject, "p50_ns");
    [all.first(), all.last()].map(|value| value.copied().unwrap_or(f64::NAN))
}

/// The last of the medians over the first.
fn growth(r: &dyn Cells, figure: &str) -> f64 {
    let [first, last] = ends(r, figure, MEMORY);
    last / first
}

fn claims() -> Vec<Claim> {
    let us = |subject, value| move |r: &dyn Cells| [top(r, "attach", subject, value) / 1000.0];
    let mut claims = Vec::new();
    for (figure, words, limit) in [
        ("spin", "within a node, spinning", 1.5),
        ("block", "within a node, sleeping on one processor", 1.3),
        ("remote", "to another node", 1.2),
    ] {
        claims.extend(claims! {
            paper AtMost(limit), format!("{words}: at worst {{0:.2}} of the bare program, at {{1}} octets \
                 ({{limit}}; the bare program beside itself {{2:.2}})"),
                move |r| {
                    let [ratio, x] = worst_ratio(r, figure, MEMORY);
                    [ratio, x, worst_ratio(r, figure, AGAIN)[0]]
                };
        });
    }
    for (subject, words, limit) in [
        (attach::WITHIN, "a best-effort attach within the node, among up to 10,000 readers", 1_000.0),
        (attach::BETWEEN, "a best-effort attach to another node", 1_000.0),
        (attach::GUARANTEED, "a guaranteed attach, among up to 1,000 channels", 10_000.0),
    ] {
        claims.extend(claims! {
            paper Below(limit), format!("{words}: p50 {{0:.0}} us at most ({{limit}})"), us(subject, "p50_ns");
            aim Below(limit), format!("{words}: p99 {{0:.0}} us at most ({{limit}})"), us(subject, "p99_ns");
        });
    }
    for (at, what) in ["a write", "a read"].into_iter().enumerate() {
        let first = move |r: &dyn Cells, names: [&str; 2]| ends(r, "rio", names[at])[0];
        claims.extend(claims! {
            aim AtMost(RIO_NS), format!("RIO in its own process: {what} takes {{1:.0}} ns where the Rust call \
                 takes {{2:.0}} and a dynamic one {{3:.0}}: {{0:.0}} more ({{limit}})"),
                move |r| {
                    let [rio, direct, dynamic] =
                        [rio::COLLOCATED, rio::DIRECT, rio::DYNAMIC].map(|names| first(r, names));
                    [rio - direct, rio, direct, dynamic]
                };
            control Above(RIO_NS), format!("by GIOP, {what} takes {{1:.0}} ns, {{0:.0}} more than the Rust call \
                 ({{limit}})"),
                move |r| {
                    let [giop, direct] = [rio::BY_GIOP, rio::DIRECT].map(|names| first(r, names));
                    [giop - direct, giop]
                };
        });
    }
    claims.extend(claims! {
        paper Below(20.0), "a look without news takes {0:.1} ns ({limit})",
            |r| [top(r, "look", MEMORY, "mean_ns")];
        control AtLeast(20.0), "a reader that copies 8 KiB to see whether it is new takes {0:.0} ns ({limit})",
            |r| [top(r, "look", COPYING, "mean_ns")];
        control Above(1.5), "within a node, a reader that sleeps takes {0:.1} times a bare copy by spinning \
             ({limit})", |r| [ends(r, "block", MEMORY)[0] / ends(r, "spin", BARE)[0]];
        control Above(1.2), "to another node, pushed each millisecond instead of on each write, at least \
             {0:.1} of the bare program ({limit})", |r| [least(r.values("remote", PERIODIC, "of_bare"))];
        control Above(1.0), "a refusal, which looks for the nearest period and deadline among as many channels, \
             takes {0:.1} times as long as an admission ({limit})",
            |r| {
                let [refusal, attach] =
                    ["refuse", "attach"].map(|figure| top(r, figure, attach::GUARANTEED, "p50_ns"));
                [refusal / attach]
            };
        paper AtLeast(99.0), "with all of them there and values flowing, {0:.1} % of the admitted readers have \
             a value that is younger than its period and their deadline ({limit}; the age's p99 {1:.0} ms)",
            |r| [top(r, "flow", MEMORY, "fresh_percent"), top(r, "flow", MEMORY, "p99_ns") / 1e6];
        aim Below(100.0), "the longest refusal among 1,000 channels took {0:.1} ms ({limit})",
            |r| [top(r, "refuse", attach::GUARANTEED, "max_ns") / 1e6];
        paper AtMost(1.2), "to another node, one of 1,000 areas of a process takes {0:.2} times as long as the \
             only one ({limit})", |r| [growth(r, "among")];
        control Above(1.2), "where all the others are written just before, {0:.1} times ({limit})",
            |r| [ends(r, "among", among::BUSY)[0] / ends(r, "among", MEMORY)[0]];
        aim AtMost(1.5), "a write takes {0:.2} times as long with 1,000 readers of its area and 10,000 of \
             others as with one of its own ({limit})", |r| [growth(r, "many")];
    });
    claims
}

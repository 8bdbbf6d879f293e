//! What reflective memory costs, each beside a program that does the same hand-overs and nothing else.

mod among;
mod attach;
mod flow;
mod local;
mod remote;
mod rio;
mod turns;

use isorb_rt::sched::{Cpus, SchedClass, Thread, ThreadSpec};

use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::figure::{Claim, Figure, Outcome, Row, Verdict, series, times};
use crate::stats::Samples;

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "What reflective memory costs beside bare hand-overs: within a node, to another, attaching, refusing",
    source: "ours",
    paper: PAPER,
    seconds: (50, 170),
    run,
};

const NAME: &str = "crm-cost";
const PAPER: &str = "ours: a value is visible nearly as soon as bare hand-overs make it, and what sets channels up takes a bounded time among a thousand others";

/// What a collocated call may add: less than the cheapest way to wake another thread.
const RIO_NS: f64 = 1_000.0;
/// Reflective memory.
const MEMORY: &str = "memory";
/// The same hand-overs without it.
const BARE: &str = "bare";
/// Reflective memory pushed each millisecond instead of on each write: the control of what comes at once.
const PERIODIC: &str = "each-ms";
/// A reader that copies to see whether there is something new: the control of one that looks.
const COPYING: &str = "copying";
/// The control once more: what noise alone does.
const AGAIN: &str = "bare-again";

fn run(cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let mut rows = Vec::new();
    local::spinning(cx, &mut rows)?;
    local::blocking(cx, &mut rows)?;
    local::looking(cx, &mut rows)?;
    rio::measure(cx, &mut rows)?;
    remote::measure(cx, &mut rows)?;
    among::measure(cx, &mut rows)?;
    attach::measure(cx, &mut rows)?;
    let (bytes, micro) = ("octets of a value", "microseconds");
    let figure = |id, title, x, y, draw, divide| Figure { id, title, x, y, draw, divide, log: true };
    let p50: &[&str] = &["p50_ns"];
    let figures = vec![
        figure("spin", "From write to visible, spinning on two processors", bytes, "nanoseconds", p50, 1.0),
        figure("block", "From write to visible, sleeping, on one processor", bytes, "nanoseconds", p50, 1.0),
        figure("look", "A look without news", bytes, "nanoseconds", &["mean_ns"], 1.0),
        figure(
            "remote",
            "From write to visible on another node, by datagrams",
            bytes,
            micro,
            &["p50_ns", "p99_ns"],
            1000.0,
        ),
        figure(
            "attach",
            "Attaching a reader",
            "readers or channels that are there",
            micro,
            &["p50_ns", "max_ns"],
            1000.0,
        ),
        figure(
            "refuse",
            "A refusal, with what would be admitted",
            "admitted channels",
            micro,
            &["p50_ns", "max_ns"],
            1000.0,
        ),
        figure(
            "flow",
            "The age of values at admitted readers, with everything there",
            "admitted channels",
            micro,
            &["p50_ns", "p99_ns"],
            1000.0,
        ),
        figure("rio", "RIO called in its own process", bytes, "nanoseconds", &["mean_ns", "p50_ns"], 1.0),
        figure(
            "among",
            "From write to visible on another node, by the areas of the writer's process",
            "areas",
            micro,
            p50,
            1000.0,
        ),
        figure("many", "A write, by the readers that are attached", "readers", "nanoseconds", p50, 1.0),
    ];
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    let notes = vec![
        "Half of a round trip within a node; one way to another, both nodes in this process and over loopback, a processor each.".to_owned(),
        "'bare' within a node: words in memory that both threads see, and a flag (spinning) or a futex; to another node: eventfd, a thread that copies and sends, a thread that receives and copies, a futex. It is measured twice.".to_owned(),
        "Ratios to 'bare' are medians over turns, each to the control's block of the same turn.".to_owned(),
        "While readers attach, each of the thousand areas is written once a second.".to_owned(),
    ];
    Ok(Outcome { figures, rows, notes, verdict })
}

fn judge(rows: &[Row]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (figure, words, limit) in [
        ("spin", "within a node, spinning", 1.5),
        ("block", "within a node, sleeping on one processor", 1.3),
        ("remote", "to another node", 1.2),
    ] {
        let (ratio, x) = worst_ratio(rows, figure, MEMORY);
        let (noise, _) = worst_ratio(rows, figure, AGAIN);
        claims.push(Claim::paper(
            ratio <= limit,
            format!("{words}: at worst {ratio:.2} of the bare program, at {x} octets (at most {limit}; the bare program beside itself {noise:.2})"),
        ));
    }
    let most = |figure: &str, subject: &str, value: &str| {
        series(rows, figure, subject, value).into_iter().map(|(_, v)| v).reduce(f64::max).unwrap_or(f64::NAN)
    };
    let look = most("look", MEMORY, "mean_ns");
    claims.push(Claim::paper(look < 20.0, format!("a look without news takes {look:.1} ns (under 20)")));
    let copies = most("look", COPYING, "mean_ns");
    claims.push(Claim::control(
        copies >= 20.0,
        format!("a reader that copies 8 KiB to see whether it is new takes {copies:.0} ns (at least 20)"),
    ));
    let first = |figure: &str, subject: &str| ends(&series(rows, figure, subject, "p50_ns")).0;
    let sleeping = first("block", MEMORY) / first("spin", BARE);
    claims.push(Claim::control(
        sleeping > 1.5,
        format!("within a node, a reader that sleeps takes {sleeping:.1} times a bare copy by spinning (more than 1.5)"),
    ));
    let periodic = series(rows, "remote", PERIODIC, "of_bare").into_iter().map(|(_, ratio)| ratio);
    let periodic = periodic.reduce(f64::min).unwrap_or(f64::NAN);
    claims.push(Claim::control(
        periodic > 1.2,
        format!("to another node, pushed each millisecond instead of on each write, at least {periodic:.1} of the bare program (more than 1.2)"),
    ));
    for (subject, words, limit) in [
        (attach::WITHIN, "a best-effort attach within the node, among up to 10,000 readers", 1e6),
        (attach::BETWEEN, "a best-effort attach to another node", 1e6),
        (attach::GUARANTEED, "a guaranteed attach, among up to 1,000 channels", 10e6),
    ] {
        let p50 = most("attach", subject, "p50_ns");
        claims.push(Claim::paper(
            p50 < limit,
            format!("{words}: p50 {:.0} us at most (under {:.0})", p50 / 1000.0, limit / 1000.0),
        ));
        let p99 = most("attach", subject, "p99_ns");
        claims.push(Claim::aim(
            p99 < limit,
            format!("{words}: p99 {:.0} us at most (under {:.0})", p99 / 1000.0, limit / 1000.0),
        ));
    }
    let (attach, refusal) =
        (most("attach", attach::GUARANTEED, "p50_ns"), most("refuse", attach::GUARANTEED, "p50_ns"));
    claims.push(Claim::control(
        refusal > attach,
        format!("a refusal, which looks for the nearest period and deadline among as many channels, takes {:.1} times as long as an admission (more)", refusal / attach),
    ));
    let (fresh, oldest) = (most("flow", MEMORY, "fresh_percent"), most("flow", MEMORY, "p99_ns"));
    claims.push(Claim::paper(
        fresh >= 99.0,
        format!("with all of them there and values flowing, {fresh:.1} % of the admitted readers have a value that is younger than its period and their deadline (at least 99; the age's p99 {:.0} ms)", oldest / 1e6),
    ));
    let refused = most("refuse", attach::GUARANTEED, "max_ns");
    claims.push(Claim::aim(
        refused < 100e6,
        format!("the longest refusal among 1,000 channels took {:.1} ms (under 100)", refused / 1e6),
    ));
    for at in 0..2 {
        let [direct, dynamic, rio, giop] =
            [rio::DIRECT, rio::DYNAMIC, rio::COLLOCATED, rio::BY_GIOP].map(|names| first("rio", names[at]));
        let what = ["a write", "a read"][at];
        claims.push(Claim::aim(
            rio - direct <= RIO_NS,
            format!("RIO in its own process: {what} takes {rio:.0} ns where the Rust call takes {direct:.0} and a dynamic one {dynamic:.0} (at most {RIO_NS:.0} more)"),
        ));
        claims.push(Claim::control(
            giop - direct > RIO_NS,
            format!("by GIOP, {what} takes {giop:.0} ns (more than {RIO_NS:.0} more)"),
        ));
    }
    let (one, among) = ends(&series(rows, "among", MEMORY, "p50_ns"));
    claims.push(Claim::paper(
        among <= 1.2 * one,
        format!("to another node, one of 1,000 areas of a process takes {:.2} times as long as the only one (at most 1.2)", among / one),
    ));
    let busy = first("among", among::BUSY);
    claims.push(Claim::control(
        busy > 1.2 * one,
        format!("where all the others are written just before, {:.1} times (more than 1.2)", busy / one),
    ));
    let (few, many) = ends(&series(rows, "many", MEMORY, "p50_ns"));
    claims.push(Claim::aim(
        many <= 1.5 * few,
        format!(
            "a write takes {:.2} times as long with 1,000 readers of its area and 10,000 of others as with one of its own (at most 1.5)",
            many / few
        ),
    ));
    claims
}

/// The largest ratio of a subject's medians to the control's of the same turns, and where. Not a number where one is missing.
fn worst_ratio(rows: &[Row], figure: &str, subject: &str) -> (f64, f64) {
    let ratios = series(rows, figure, subject, "of_bare").into_iter().map(|(x, ratio)| (ratio, x));
    ratios.reduce(|a, b| if b.0 > a.0 { b } else { a }).unwrap_or((f64::NAN, f64::NAN))
}

fn ends(points: &[(f64, f64)]) -> (f64, f64) {
    let value = |point: Option<&(f64, f64)>| point.map_or(f64::NAN, |(_, value)| *value);
    (value(points.first()), value(points.last()))
}

fn row(figure: &'static str, subject: &'static str, x: f64, samples: &Samples) -> Row {
    Row { experiment: NAME, figure, subject, x, values: times(&samples.summary()) }
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

/// What reflective memory refused.
fn refused(error: impl std::fmt::Display) -> BenchError {
    BenchError::Memory(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(ns: impl Fn(&str, &str) -> f64) -> bool {
        let mut rows = Vec::new();
        for figure in ["spin", "block", "look", "remote", "among", "attach", "refuse", "flow", "many"] {
            for subject in [MEMORY, BARE, AGAIN, attach::WITHIN, attach::BETWEEN, attach::GUARANTEED] {
                for x in [1.0, 2.0] {
                    let ns = ns(figure, subject);
                    let values = vec![
                        ("mean_ns", ns / 100.0),
                        ("p50_ns", ns),
                        ("p99_ns", ns),
                        ("max_ns", ns),
                        ("of_bare", ns / 1_000.0),
                        ("fresh_percent", ns / 11.9),
                    ];
                    rows.push(Row { experiment: NAME, figure, subject, x, values });
                }
            }
        }
        Verdict::new(NAME, PAPER, judge(&rows)).shape_holds
    }

    #[test]
    fn each_limit_is_looked_at() {
        let good = |_: &str, subject: &str| if subject == MEMORY { 1_190.0 } else { 1_000.0 };
        assert!(holds(good));
        for (figure, subject, ns) in [
            ("spin", MEMORY, 1_510.0),
            ("block", MEMORY, 1_310.0),
            ("remote", MEMORY, 1_210.0),
            ("look", MEMORY, 2_100.0),
            ("attach", attach::WITHIN, 1.1e6),
            ("attach", attach::BETWEEN, 1.1e6),
            ("attach", attach::GUARANTEED, 11e6),
            ("spin", MEMORY, f64::NAN),
            ("flow", MEMORY, 1_170.0),
            ("among", MEMORY, f64::NAN),
        ] {
            let bad = |f: &str, s: &str| if (f, s) == (figure, subject) { ns } else { good(f, s) };
            assert!(!holds(bad), "{figure} {subject}");
        }
        assert!(Verdict::new(NAME, PAPER, judge(&[])).claims.iter().all(|claim| !claim.holds));
    }
}

//! The cost of an event, in one process and through another, beside the same work without a
//! channel.

mod controls;
mod history;
mod push;
mod recording;
pub(in crate::experiments) mod remote;
mod tables;
mod threads;

use super::super::catalogue::Experiment;
use super::super::{BenchError, Context};
use crate::blocks::local_rows as rows;
use crate::claim::{Above, AtLeast, AtMost, Below, Cells, Claim, aim, claims, control, most, paper};
use crate::figure::{Figure, Measured};

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "What a push costs in a process, to another thread and through another process; timers and analysis beside it",
    source: "a measurement of ours, after Harrison, O'Ryan, Levine, Schmidt (TAO's event service)",
    paper: "a channel adds little to a call, to a futex and to two hops over TCP; how many have subscribed does not matter",
    seconds: (60, 300),
    run,
    claims,
};

const NAME: &str = "event-cost";
/// The control, and the control once more: their difference is noise.
const BARE: &str = "bare";
const AGAIN: &str = "bare-again";
/// The event channel, as it is by default.
const CHANNEL: &str = "channel";
/// With a thread that pushes to remote consumers.
const PUSH_THREADS: &str = "channel-push-thread";
const PREEMPTIVE: &str = "preemptive";
const NON_PREEMPTIVE: &str = "non-preemptive";
const DEADLINE: &str = "by-deadline";
const LAXITY: &str = "by-laxity";
/// Subscriptions, and timers.
const MANY: u32 = 100_000;

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    let rounds = cx.ms(100, 400);
    let few = cx.ms(20, 60);
    let many = cx.ms(MANY, MANY);
    let setup = threads::Setup { cpu: cx.cpu(), fifo: cx.fifo };
    cx.progress(format!("{NAME}: in a process"));
    out.rows.extend(cx.on_thread(move || push::consumers(rounds))??);
    cx.progress(format!("{NAME}: to another thread"));
    out.rows.extend(cx.on_thread(move || threads::hand_over(setup, rounds))??);
    out.rows.extend(cx.on_thread(move || threads::flow(setup, few, 50_000))??);
    cx.progress(format!("{NAME}: {many} subscriptions"));
    let channels = [10, 1_000, many].into_iter().map(|count| Ok((count, push::subscribed(count)?)));
    let channels = channels.collect::<Result<Vec<_>, BenchError>>()?;
    out.rows.extend(cx.on_thread(move || push::subscriptions(rounds, &channels))??);
    cx.progress(format!("{NAME}: timers, analysis"));
    out.rows.extend(cx.on_thread(move || tables::timers(rounds, many))?);
    out.rows.extend(cx.on_thread(move || tables::analysis(few))?);
    out.rows.extend(cx.on_thread(move || history::here(few.div_ceil(4)))??);
    history::over_tcp(cx, out)?;
    recording::run(cx, out)?;
    let ms = cx.ms(10_000, 40_000);
    remote::run(cx, out, ms)?;
    out.figures = FIGURES.to_vec();
    out.notes = NOTES.map(str::to_owned).to_vec();
    Ok(())
}

const fn figure(id: &'static str, title: &'static str, x: &'static str, y: &'static str) -> Figure {
    Figure::new(id, title, x, y, &["p50_ns"]).divide(1.0)
}

const FIGURES: [Figure; 9] = [
    figure("push", "A push on the supplier's thread", "consumers", "nanoseconds"),
    figure("subscriptions", "A push that one of many wants", "subscriptions", "nanoseconds"),
    figure("hand-over", "From the push to a consumer on another thread", "consumers", "nanoseconds"),
    figure("flow", "An event of many, through a queue to one thread", "consumers", "nanoseconds"),
    figure("timer", "Setting a timer and cancelling it", "timers set", "nanoseconds"),
    figure("analysis", "Response times of all tasks", "tasks", "milliseconds").divide(1e6),
    figure(history::FIGURE, "An event of the history, to a late joiner", "consumers", "nanoseconds"),
    Figure::new(
        recording::FIGURE,
        "Events that were recorded, of those that came",
        "consumers",
        "events a second",
        &["events_per_second"],
    )
    .divide(1.0),
    figure("remote", "Through a channel in another process", "consumers", "microseconds").divide(1000.0),
];

const NOTES: [&str; 5] = [
    "Subjects take turns in short blocks on one processor; 'ratio' is the median over rounds of the ratio to the first \
     subject of the figure in the same round, which is the bare control where there is one.",
    "push: the control is a loop of dynamic calls. hand-over: a futex. flow: a bounded channel of the standard library. \
     remote: a program of the same threads, with as many octets over as many TCP connections.",
    "Negative controls do the same work in ways that the channel avoids: a trace of text under a lock, a queued copy for \
     each consumer, a look at all subscriptions, a third thread, a queue of one event, timers in no order, ten tasks' \
     response times by testing every point at which one is released, a third process.",
    "history: a late joiner gets 100,000 events of 64 octets, in the process or over TCP, with both processes on any \
     processor (with --quick 10,000); the time of one is that from its request to the last, divided. recording: events of \
     256 octets into a file in tmpfs, for 30 s (with --quick 3).",
    "remote: time counts from the supplier's push to the consumer's upcall. The channel pushes on the thread that reads \
     from the supplier; 'channel-push-thread' has a thread of its own for that, so that a slow consumer delays no other.",
];

/// A median in units of `unit` nanoseconds.
fn p50(r: &dyn Cells, figure: &str, subject: &str, x: u32, unit: f64) -> f64 {
    r.at(figure, subject, "p50_ns", x.into()) / unit
}

/// Events of the history a second that a late joiner reads, in millions.
fn read(r: &dyn Cells, subject: &str) -> [f64; 1] {
    [1e3 / p50(r, history::FIGURE, subject, 1, 1.0)]
}

/// Events that were lost, of so many a second, over so many seconds.
fn recorded(r: &dyn Cells, subject: &str) -> [f64; 3] {
    ["lost", "events_per_second", "seconds"].map(|value| r.at(recording::FIGURE, subject, value, 1.0))
}

/// Whether there was room for the file.
fn is_recorded(r: &dyn Cells) -> bool {
    !r.values(recording::FIGURE, CHANNEL, "lost").is_empty()
}

/// Million events a second.
fn rate(r: &dyn Cells, subject: &str) -> [f64; 1] {
    [1e3 / p50(r, "flow", subject, 1, 1.0)]
}

fn claims() -> Vec<Claim> {
    let ratio = |r: &dyn Cells, figure: &str, subject: &str, x: u32| r.at(figure, subject, "ratio", x.into());
    claims! {
        paper Below(150.0), "a push to one consumer takes {0:.0} ns with the trace on ({limit})",
            |r| [p50(r, "push", CHANNEL, 1, 1.0)];
        paper AtMost(3.0), "one to twenty takes {0:.2} times a bare loop of calls, with the trace off \
             ({limit}; {1:.2} without counts by consumer)",
            move |r| [push::UNTRACED, push::UNCOUNTED].map(|subject| ratio(r, "push", subject, 20));
        paper AtMost(1.2), format!("among {MANY} subscriptions it takes {{0:.2}} times as long as among \
             10 ({{limit}})"), move |r| [ratio(r, "subscriptions", CHANNEL, MANY)];
        paper AtMost(1.2), "to a consumer on another thread it takes {0:.2} times a bare futex's \
             hand-over ({limit})", move |r| [ratio(r, "hand-over", CHANNEL, 1)];
        paper AtLeast(1.0), "{0:.2} million events a second go through one thread ({limit})",
            |r| {
                rate(r, CHANNEL)
            };
        paper Below(1000.0), format!("with {MANY} timers set, one more is set and cancelled in {{0:.0}} \
             ns ({{limit}})"), |r| [p50(r, "timer", CHANNEL, MANY, 1.0)];
        paper Below(100.0), "a thousand tasks are analysed in {1:.1} ms, {2:.1} without pre-emption, \
             {3:.1} by deadline, {4:.1} by laxity (each {limit})",
            |r| {
                let [a, b, c, d] = [PREEMPTIVE, NON_PREEMPTIVE, DEADLINE, LAXITY]
                    .map(|subject| p50(r, "analysis", subject, 1000, 1e6));
                [most([a, b, c, d]), a, b, c, d]
            };
        paper AtMost(1.25), "through another process an event takes {0:.2} times two bare hops over TCP \
             ({limit}; the control against itself {1:.2}; TAO on its path 2.2)",
            move |r| [CHANNEL, AGAIN].map(|subject| ratio(r, "remote", subject, 1));
        aim AtLeast(1.0), "a late joiner in the process reads {0:.2} million events of the history a \
             second ({limit})", |r| read(r, CHANNEL);
        aim AtLeast(0.2), "a late joiner over TCP reads {0:.2} million a second ({limit})",
            |r| read(r, history::TCP);
        aim AtMost(0.0), "of {1:.0} events a second of 256 octets, recorded for {2:.0} s, {0:.0} are \
             lost ({limit})", |r| recorded(r, CHANNEL), when is_recorded;
        control Above(0.0), "with a buffer of 64 KiB {0:.0} are lost ({limit})",
            |r| recorded(r, recording::SMALL_BUFFER), when is_recorded;
        control AtLeast(150.0), "a loop with a trace of text under a lock takes {0:.0} ns for one \
             consumer ({limit})", |r| [p50(r, "push", controls::FORMATTED, 1, 1.0)];
        control Above(3.0), "a loop that queues a copy for each of twenty takes {0:.2} times a bare one \
             ({limit})", move |r| [ratio(r, "push", controls::COPIES, 20)];
        control Above(1.2), format!("a look at all {MANY} subscriptions takes {{0:.0}} times as long as \
             a push among 10 ({{limit}})"), move |r| [ratio(r, "subscriptions", controls::SCAN, MANY)];
        control Above(1.2), "a hand-over by way of a third thread takes {0:.2} times a direct one \
             ({limit})", move |r| [ratio(r, "hand-over", controls::DETOUR, 1)];
        control Below(1.0), "through a queue of one event {0:.2} million a second go ({limit})",
            |r| {
                rate(r, controls::ONE_BY_ONE)
            };
        control AtLeast(1000.0), format!("among {MANY} timers in no order, setting one takes {{0:.0}} ns \
             ({{limit}})"), |r| [p50(r, "timer", controls::SCAN, MANY, 1.0)];
        control AtLeast(100.0), "the response times of the ten least urgent of a thousand tasks, by \
             testing every point at which one is released, take {0:.0} ms ({limit})",
            |r| [p50(r, "analysis", controls::ALL_POINTS, 1000, 1e6)];
        control Above(1.25), "by way of a third process the bare hops take {0:.2} times as long ({limit})",
            move |r| [ratio(r, "remote", controls::THIRD_PROCESS, 1)];
    }
}

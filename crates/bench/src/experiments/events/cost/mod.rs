//! What an event costs: in one process and through another, beside the same without a channel.

mod controls;
mod push;
mod remote;
mod tables;
mod threads;
mod turns;

use super::super::catalogue::Experiment;
use super::super::{BenchError, Context};
use crate::figure::{Claim, Figure, Outcome, Row, Verdict, at};

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "What a push costs in a process, to another thread and through another process; timers and analysis beside it",
    source: "a measurement of ours, after Harrison, O'Ryan, Levine, Schmidt (TAO's event service)",
    paper: PAPER,
    seconds: (40, 120),
    run,
};

const NAME: &str = "event-cost";
const PAPER: &str = "a channel adds little to a call, to a futex and to two hops over TCP; how many have subscribed does not matter";
/// The control, and the control once more: what the two differ by is noise.
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

fn run(cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let rounds = cx.ms(100, 400);
    let few = cx.ms(20, 60);
    let many = cx.ms(MANY, MANY);
    let setup = threads::Setup { cpu: cx.cpu(), fifo: cx.fifo };
    let mut rows = Vec::new();
    cx.step(format!("{NAME}: in a process"));
    rows.extend(cx.on_thread(move || push::consumers(rounds))??);
    cx.step(format!("{NAME}: to another thread"));
    rows.extend(cx.on_thread(move || threads::hand_over(setup, rounds))??);
    rows.extend(cx.on_thread(move || threads::flow(setup, few, 50_000))??);
    cx.step(format!("{NAME}: {many} subscriptions"));
    let channels = [10, 1_000, many].into_iter().map(|count| Ok((count, push::subscribed(count)?)));
    let channels = channels.collect::<Result<Vec<_>, BenchError>>()?;
    rows.extend(cx.on_thread(move || push::subscriptions(rounds, &channels))??);
    cx.step(format!("{NAME}: timers, analysis"));
    rows.extend(cx.on_thread(move || tables::timers(rounds, many))?);
    rows.extend(cx.on_thread(move || tables::analysis(few))?);
    let ms = cx.ms(10_000, 40_000);
    rows.extend(remote::run(cx, ms)?);
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    Ok(Outcome { figures: figures(), rows, notes: notes(), verdict })
}

fn figures() -> Vec<Figure> {
    let figure = |id, title, x, y, divide| Figure { id, title, x, y, draw: &["p50_ns"], divide, log: true };
    vec![
        figure("push", "A push on the supplier's thread", "consumers", "nanoseconds", 1.0),
        figure("subscriptions", "A push that one of many wants", "subscriptions", "nanoseconds", 1.0),
        figure("hand-over", "From the push to a consumer on another thread", "consumers", "nanoseconds", 1.0),
        figure("flow", "An event of many, through a queue to one thread", "consumers", "nanoseconds", 1.0),
        figure("timer", "Setting a timer and cancelling it", "timers set", "nanoseconds", 1.0),
        figure("analysis", "Response times of all tasks", "tasks", "milliseconds", 1e6),
        figure("remote", "Through a channel in another process", "consumers", "microseconds", 1000.0),
    ]
}

fn notes() -> Vec<String> {
    vec![
        "Subjects take turns in short blocks on one processor; 'ratio' is the median over rounds of the ratio to the first subject of the figure in the same round, which is the bare control where there is one.".to_owned(),
        "push: the control is a loop of dynamic calls. hand-over: a futex. flow: a bounded channel of the standard library. remote: a program of the same threads, with as many octets over as many TCP connections.".to_owned(),
        "Negative controls do the same work in ways that the channel avoids: a trace of text under a lock, a queued copy for each consumer, a look at all subscriptions, a third thread, a queue of one event, timers in no order, ten tasks' response times by testing every point at which one is released, a third process.".to_owned(),
        "remote: time counts from the supplier's push to the consumer's upcall. The channel pushes on the thread that reads from the supplier; 'channel-push-thread' has a thread of its own for that, so that a slow consumer holds up nobody.".to_owned(),
    ]
}

fn judge(rows: &[Row]) -> Vec<Claim> {
    let of = |figure: &str, subject: &str, value: &str, x: f64| at(rows, figure, subject, value, x);
    let many = f64::from(MANY);
    let one = of("push", CHANNEL, "p50_ns", 1.0);
    let (twenty, uncounted) =
        (of("push", push::UNTRACED, "ratio", 20.0), of("push", push::UNCOUNTED, "ratio", 20.0));
    let hot = of("subscriptions", CHANNEL, "ratio", many);
    let hand_over = of("hand-over", CHANNEL, "ratio", 1.0);
    let flow = 1e9 / of("flow", CHANNEL, "p50_ns", 1.0);
    let timer = of("timer", CHANNEL, "p50_ns", many);
    let analysis = of("analysis", PREEMPTIVE, "p50_ns", 1000.0) / 1e6;
    let slow = of("analysis", NON_PREEMPTIVE, "p50_ns", 1000.0) / 1e6;
    let deadline = of("analysis", DEADLINE, "p50_ns", 1000.0) / 1e6;
    let laxity = of("analysis", LAXITY, "p50_ns", 1000.0) / 1e6;
    let formatted = of("push", controls::FORMATTED, "p50_ns", 1.0);
    let copies = of("push", controls::COPIES, "ratio", 20.0);
    let scan = of("subscriptions", controls::SCAN, "ratio", many);
    let detour = of("hand-over", controls::DETOUR, "ratio", 1.0);
    let one_by_one = 1e9 / of("flow", controls::ONE_BY_ONE, "p50_ns", 1.0);
    let unsorted = of("timer", controls::SCAN, "p50_ns", many);
    let points = of("analysis", controls::ALL_POINTS, "p50_ns", 1000.0) / 1e6;
    let third = of("remote", controls::THIRD_PROCESS, "ratio", 1.0);
    let (remote, noise) = (of("remote", CHANNEL, "ratio", 1.0), of("remote", AGAIN, "ratio", 1.0));
    vec![
        Claim::paper(
            one < 150.0,
            format!("a push to one consumer takes {one:.0} ns with the trace on (below 150)"),
        ),
        Claim::paper(
            twenty <= 3.0,
            format!(
                "one to twenty takes {twenty:.2} times a bare loop of calls, with the trace off (at most 3; {uncounted:.2} without counts by consumer)"
            ),
        ),
        Claim::paper(
            hot <= 1.2,
            format!("among {MANY} subscriptions it takes {hot:.2} times as long as among 10 (at most 1.2)"),
        ),
        Claim::paper(
            hand_over <= 1.2,
            format!(
                "to a consumer on another thread it takes {hand_over:.2} times a bare futex's hand-over (at most 1.2)"
            ),
        ),
        Claim::paper(
            flow >= 1e6,
            format!("{:.2} million events a second go through one thread (at least 1)", flow / 1e6),
        ),
        Claim::paper(
            timer < 1000.0,
            format!("with {MANY} timers set, one more is set and cancelled in {timer:.0} ns (below 1000)"),
        ),
        Claim::paper(
            [analysis, slow, deadline, laxity].iter().all(|ms| *ms < 100.0),
            format!(
                "a thousand tasks are analysed in {analysis:.1} ms, {slow:.1} without pre-emption, {deadline:.1} by deadline, {laxity:.1} by laxity (below 100)"
            ),
        ),
        Claim::paper(
            remote <= 1.25,
            format!(
                "through another process an event takes {remote:.2} times two bare hops over TCP (at most 1.25; the control against itself {noise:.2}; TAO on its path 2.2)"
            ),
        ),
        Claim::control(
            formatted >= 150.0,
            format!(
                "a loop with a trace of text under a lock takes {formatted:.0} ns for one consumer (above 150)"
            ),
        ),
        Claim::control(
            copies > 3.0,
            format!(
                "a loop that queues a copy for each of twenty takes {copies:.2} times a bare one (above 3)"
            ),
        ),
        Claim::control(
            scan > 1.2,
            format!(
                "a look at all {MANY} subscriptions takes {scan:.0} times as long as a push among 10 (above 1.2)"
            ),
        ),
        Claim::control(
            detour > 1.2,
            format!("a hand-over by way of a third thread takes {detour:.2} times a direct one (above 1.2)"),
        ),
        Claim::control(
            one_by_one < 1e6,
            format!("through a queue of one event {:.2} million a second go (below 1)", one_by_one / 1e6),
        ),
        Claim::control(
            unsorted >= 1000.0,
            format!("among {MANY} timers in no order, setting one takes {unsorted:.0} ns (above 1000)"),
        ),
        Claim::control(
            points >= 100.0,
            format!(
                "the response times of the ten least urgent of a thousand tasks, by testing every point at which one is released, take {points:.0} ms (above 100)"
            ),
        ),
        Claim::control(
            third > 1.25,
            format!("by way of a third process the bare hops take {third:.2} times as long (above 1.25)"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(figure: &'static str, subject: &'static str, x: f64, p50: f64, ratio: f64) -> Row {
        Row { experiment: NAME, figure, subject, x, values: vec![("p50_ns", p50), ("ratio", ratio)] }
    }

    #[test]
    fn each_number_is_looked_at() {
        let good = [
            row("push", CHANNEL, 1.0, 100.0, 9.0),
            row("push", push::UNTRACED, 20.0, 100.0, 2.0),
            row("subscriptions", CHANNEL, 100_000.0, 100.0, 1.1),
            row("hand-over", CHANNEL, 1.0, 100.0, 1.1),
            row("flow", CHANNEL, 1.0, 300.0, 1.0),
            row("timer", CHANNEL, 100_000.0, 300.0, 3.0),
            row("analysis", PREEMPTIVE, 1000.0, 5e6, 3.0),
            row("analysis", NON_PREEMPTIVE, 1000.0, 6e6, 3.0),
            row("analysis", DEADLINE, 1000.0, 6e6, 3.0),
            row("analysis", LAXITY, 1000.0, 6e6, 3.0),
            row("remote", CHANNEL, 1.0, 15_000.0, 1.2),
        ];
        let holds = |rows: &[Row]| Verdict::new(NAME, PAPER, judge(rows)).shape_holds;
        assert!(holds(&good));
        for i in 0..good.len() {
            let mut bad = good.to_vec();
            bad[i].values.iter_mut().for_each(|(_, value)| *value *= 100.0);
            assert!(!holds(&bad), "{:?}", bad[i]);
            bad.remove(i);
            assert!(!holds(&bad), "without {:?}", good[i]);
        }
    }

    #[test]
    fn each_control_is_looked_at() {
        let slow = [
            row("push", controls::FORMATTED, 1.0, 400.0, 9.0),
            row("push", controls::COPIES, 20.0, 900.0, 9.0),
            row("subscriptions", controls::SCAN, 100_000.0, 90_000.0, 900.0),
            row("hand-over", controls::DETOUR, 1.0, 100.0, 2.0),
            row("flow", controls::ONE_BY_ONE, 1.0, 3_000.0, 9.0),
            row("timer", controls::SCAN, 100_000.0, 30_000.0, 3.0),
            row("analysis", controls::ALL_POINTS, 1000.0, 2e8, 1.0),
            row("remote", controls::THIRD_PROCESS, 1.0, 15_000.0, 1.9),
        ];
        let fails = |rows: &[Row]| Verdict::new(NAME, PAPER, judge(rows)).control_fails;
        assert_eq!(fails(&slow), Some(true));
        for i in 0..slow.len() {
            let mut fast = slow.to_vec();
            fast[i].values.iter_mut().for_each(|(_, value)| *value /= 1000.0);
            assert_eq!(fails(&fast), Some(false), "{:?}", fast[i]);
            fast.remove(i);
            assert_eq!(fails(&fast), Some(false), "without {:?}", slow[i]);
        }
    }
}

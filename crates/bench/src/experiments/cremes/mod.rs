//! The experiments of CReMeS: a high producer among low ones, from one node to another, over a link
//! of 100 megabits a second.
//!
//! The nodes are network namespaces, each with its processor where there are two. All producers and
//! consumers are connected before the first value is written.

mod bare;
mod channel;
mod echo;
pub mod jitter;
pub mod latency;
mod memory;
mod omniorb;
pub mod orb;
mod points;
mod site;
pub mod size;

use super::Context;
use crate::claim::{Cells, least};
use crate::figure::{Figure, Measured};

/// Reflective memory by datagrams, the high channel admitted.
const MEMORY: &str = "memory-udp";
/// Reflective memory by two-way calls (the paper's CReMeS-ORB), the high channel admitted.
const ORB: &str = "memory-orb";
/// The same with nothing admitted: the control of the guarantee on the ORB's path.
const ORB_BEST_EFFORT: &str = "memory-orb-best-effort";
/// Reflective memory by one-way calls, of which nothing is admitted: a window of values may be sent
/// at once.
const ONEWAY: &str = "memory-oneway";
/// The event channel, federated by datagrams.
const CHANNEL: &str = "event-channel";
/// The event channel, federated by the ORB.
const CHANNEL_ORB: &str = "event-channel-orb";
/// Two-way calls of omniORB, a process a node.
const OMNIORB: &str = "omniorb";
/// The control.
const BARE: &str = "bare";
/// The control once more, to show the effect of noise alone.
const AGAIN: &str = "bare-again";
/// The subjects of which the mean is to be known, where an experiment does not choose others.
const JUDGED: [&str; 2] = [MEMORY, CHANNEL];
/// The subjects in the order of their turns.
const SUBJECTS: [&str; 8] = [MEMORY, BARE, CHANNEL, ORB, ONEWAY, CHANNEL_ORB, AGAIN, OMNIORB];
/// How a quick run measures a point: fewer subjects, for so many milliseconds a pass.
struct Quick {
    subjects: &'static [&'static str],
    ms: u32,
}

impl Quick {
    fn applies(cx: &Context<'_>) -> bool {
        cx.quick && !cx.is_smoke()
    }

    /// Of `all` those that are measured.
    fn subjects(&self, cx: &Context<'_>, all: &[&'static str]) -> Vec<&'static str> {
        if Quick::applies(cx) { self.subjects.to_vec() } else { all.to_vec() }
    }

    /// How long a pass lasts, in milliseconds, and the high producer's period in nanoseconds. A
    /// pass of a quick run has 300 of its values.
    fn lengths(&self, cx: &Context<'_>) -> (u32, u64) {
        let quick_ns = u64::from(self.ms) * 1_000_000 / 300;
        let high_ns = if Quick::applies(cx) { quick_ns } else { site::HIGH_PERIOD_NS };
        (cx.ms(self.ms, 7_500), high_ns)
    }
}

/// The subjects that can be measured here, and a note where one is missing.
fn subjects(cx: &mut Context<'_>) -> (Vec<&'static str>, Vec<String>) {
    let mut subjects = SUBJECTS.to_vec();
    if Quick::applies(cx) {
        return (subjects, Vec::new());
    }
    cx.progress("cremes: omniORB's programs");
    let missing = omniorb::programs().err();
    if missing.is_some() {
        subjects.retain(|subject| *subject != OMNIORB);
    }
    (subjects, missing.map(|missing| format!("'omniorb' is missing: {missing}.")).into_iter().collect())
}

/// The least and the most turns of a subject: see [`points`].
fn turns(cx: &Context<'_>) -> [u32; 2] {
    cx.pick([1, 1], [2, 8])
}

/// A figure over the number of low producers.
fn figure(id: &'static str, title: &'static str, x: &'static str, draw: &'static [&'static str]) -> Figure {
    Figure::new(id, title, x, "microseconds", draw)
}

/// The notes that apply to all three experiments.
fn notes(out: &mut Measured, missing: Vec<String>) {
    out.notes = vec![
        "One high producer every 50 ms (in a quick run as often as gives 300 values), low ones every 100 ms in the ordinary class; a round trip ends when the consumer's datagram with the time stamp is back.".to_owned(),
        "All are released together, as in the paper; where it says that the high one meets the low ones, it is released 2 ms after them, when what they wrote fills the queues. Then every second of its values meets them, in a quick run all that are released in the third of a period that their values take.".to_owned(),
        "A deviation leaves out a subject's worst value only where the bare program has one as long in the same run.".to_owned(),
        "Turns are repeated until the mean of the high producer's round trips through reflective memory and the event channel (in 'cremes-orb' both by the ORB) is known to a tenth, with a confidence of 95 %, up to a limit.".to_owned(),
        "The high channel of 'memory-udp' and of 'memory-orb' is admitted with the tightest deadline that the nodes grant ('deadline_ns'). Of its pushes by datagrams, 'contained' cost more than declared and went on as best effort; 'cost' is the most processor time of one.".to_owned(),
        "The nodes are network namespaces of one machine with 100 Mbit/s between them. Both nodes' threads are in this process, except omniORB's: they share neither sockets nor memory but the stamps that come back.".to_owned(),
        "Subjects take turns. The high producer's first value of a pass is not measured: it comes while threads are still being started. A value of the high producer that did not come back counts as one that took 300 ms.".to_owned(),
        "By 'omniorb' each value is a two-way call, from a process at one node to a process at the other, with omniORB's own settings: threads of all producers share its connections.".to_owned(),
        "'bare' is a program with the hand-overs of reflective memory and no service. By 'memory-orb' (two-way calls, the paper's CReMeS-ORB) a thread, a connection and a lane of its own push the high channel. Of 'memory-orb-best-effort', its control, and of 'memory-oneway', a window of which could occupy the link for 13 ms at once, nothing is admitted, and calls are served in the ordinary class.".to_owned(),
        "The event channels of 'event-channel' are federated by datagrams, one a value; those of 'event-channel-orb' by one-way calls over one connection, as the paper's were.".to_owned(),
    ];
    out.notes.extend(missing);
}

/// The standard deviation in microseconds. The largest value is left out where the bare program had
/// one as long in the same run: then the machine held it up.
fn explained_deviation(r: &dyn Cells, figure: &str, subject: &str, x: f64) -> f64 {
    let at = |subject: &str, name: &str| r.at(figure, subject, name, x);
    let [n, mean, deviation, largest] = ["n", "mean_ns", "stddev_ns", "max_ns"].map(|name| at(subject, name));
    let machine = [BARE, AGAIN].into_iter().any(|bare| bare != subject && at(bare, "max_ns") >= largest);
    if !machine {
        return deviation / 1000.0;
    }
    let squares = (n - 1.0) * deviation.powi(2) - (largest - mean).powi(2) * n / (n - 1.0);
    // Rounding may take it below zero; NaN, where something is missing, stays NaN.
    let squares = if squares < 0.0 { 0.0 } else { squares };
    (squares / (n - 2.0)).sqrt() / 1000.0
}

/// The smallest share of stamps that came back in any of the rows, in percent.
fn returned(r: &dyn Cells, figure: &str, subject: &str) -> f64 {
    least(r.values(figure, subject, "returned_percent"))
}

#[cfg(test)]
mod tests {
    use isorb_rt::sched::RealTime;

    use super::super::Urgency;
    use super::*;
    use crate::figure::Row;
    use crate::process::Launcher;

    #[test]
    fn a_pass_has_at_least_300_values_of_the_high_producer() {
        let launcher = Launcher::current().unwrap();
        let ordinary = Urgency { real_time: RealTime::Off, priority: 40 };
        for quick in [true, false] {
            let (cx, _) = Context::new(&launcher, ordinary, quick, 1).unwrap();
            for point in latency::QUICK.iter().chain([&size::QUICK, &jitter::QUICK, &orb::QUICK]) {
                let (ms, high_ns) = point.lengths(&cx);
                let pass = site::Pass { start_ns: 0, ms, release: site::Release::Together };
                let values = u64::from(turns(&cx)[0]) * pass.values(high_ns);
                assert!(values >= 300, "{values} of {ms} ms");
            }
        }
    }

    #[test]
    fn the_largest_value_is_left_out_where_the_bare_program_has_one() {
        let samples = [10.0, 12.0, 17.0, 20.0, 900.0f64];
        let (n, mean) = (samples.len() as f64, samples.iter().sum::<f64>() / samples.len() as f64);
        let squares: f64 = samples.iter().map(|us| (us - mean).powi(2)).sum();
        let all = (squares / (n - 1.0)).sqrt();
        let values =
            vec![("n", n), ("mean_ns", mean * 1000.0), ("stddev_ns", all * 1000.0), ("max_ns", 900_000.0)];
        let row = |subject, values| Row { figure: "high", subject, x: 50.0, values };
        let of = |bare: f64| {
            let rows = vec![row(MEMORY, values.clone()), row(BARE, vec![("max_ns", bare)])];
            explained_deviation(&rows, "high", MEMORY, 50.0)
        };
        assert!((of(900_000.0) - 4.573_474_244_670_748).abs() < 1e-6, "of 10, 12, 17 and 20 alone");
        assert!((of(800_000.0) - all).abs() < 1e-6, "of all");
        assert!(explained_deviation(&Vec::new(), "high", MEMORY, 50.0).is_nan());
    }
}

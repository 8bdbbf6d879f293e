//! The experiments of CReMeS: a high producer among low ones, from one node to another, over a link of 100 megabits a second.
//!
//! The nodes are network namespaces, each with its processor where there are two; their threads are in this process. All producers and
//! consumers are connected before the first value is written.

mod bare;
mod channel;
mod echo;
pub mod jitter;
pub mod latency;
mod memory;
pub mod size;

use std::any::Any;
use std::time::Duration;

use isorb_crm::idl::Path;
use isorb_netlab::{Host, Lab, LinkSpec, Sorting};
use isorb_rt::sched::{Cpus, SchedClass, ThreadSpec, set_current_cpus};
use isorb_rt::time::{Deadline, now_ns, sleep_until};

use super::{BenchError, Context};
use crate::figure::{Figure, Row, at, times};
use echo::{Listener, STAMP, Trips, stamp};

const LINK_KBIT: u32 = 100_000;
const HIGH_PERIOD_NS: u64 = 50_000_000;
const LOW_PERIOD_NS: u64 = 100_000_000;
/// So long after the low producers is the high one released where it is to meet them: at 100 megabits a second, 25 KB of theirs are gone
/// by then.
const BEHIND_NS: u64 = 2_000_000;
/// Stamps that are under way when the last value is written are waited for.
const LAST: Duration = Duration::from_millis(300);

/// Reflective memory by datagrams, the high channel admitted.
const MEMORY: &str = "memory-udp";
/// Reflective memory by two-way calls, of which nothing is admitted.
const ORB: &str = "memory-orb";
/// Reflective memory by one-way calls.
const ONEWAY: &str = "memory-oneway";
/// The event channel, federated by datagrams.
const CHANNEL: &str = "event-channel";
/// The event channel, federated by the ORB.
const CHANNEL_ORB: &str = "event-channel-orb";
/// The control.
const BARE: &str = "bare";
const SUBJECTS: [&str; 6] = [MEMORY, ORB, ONEWAY, CHANNEL, CHANNEL_ORB, BARE];

/// Writes a value.
type Sender = Box<dyn FnMut(&[u8]) + Send>;

/// Values of a row beside the times.
type Counted = Vec<(&'static str, f64)>;

/// A subject that is ready.
struct Wired {
    /// The high producer's, then the low ones'.
    senders: Vec<Sender>,
    /// What must live while values flow.
    held: Box<dyn Any>,
    /// What the subject counted of the high producer's values, beside the times; called while it lives.
    counts: Option<Box<dyn Fn() -> Counted>>,
}

/// The two nodes.
struct Site<'a> {
    cx: &'a Context<'a>,
    lab: Lab,
}

impl<'a> Site<'a> {
    fn build(cx: &'a Context<'a>) -> Result<Site<'a>, BenchError> {
        let spec = LinkSpec { rate_kbit: LINK_KBIT, sorting: Sorting::OneQueue { packets: 1000 } };
        Ok(Site { cx, lab: Lab::build(&spec)? })
    }

    /// `above` native priorities over the usual one.
    fn class(&self, above: u8) -> SchedClass {
        let fifo = |priority: u8| SchedClass::Fifo(priority.saturating_add(above).min(98));
        self.cx.fifo.map_or(SchedClass::Other, fifo)
    }

    /// Calls `f` at the producers' node. Sockets and threads that it makes are there for ever.
    fn left<R: Send>(&self, f: impl FnOnce() -> Result<R, BenchError> + Send) -> Result<R, BenchError> {
        run_at(self.lab.left(), self.cx.machine.cpus.first(), f)
    }

    /// Calls `f` at the consumers' node.
    fn right<R: Send>(&self, f: impl FnOnce() -> Result<R, BenchError> + Send) -> Result<R, BenchError> {
        run_at(self.lab.right(), self.cx.machine.cpus.last(), f)
    }

    fn wire(
        &self,
        subject: &'static str,
        low: u32,
        size: usize,
        echo: &echo::Echo,
    ) -> Result<Wired, BenchError> {
        match subject {
            MEMORY => memory::wire(self, Path::PathUdp, low, size, echo),
            ORB => memory::wire(self, Path::PathOrb, low, size, echo),
            ONEWAY => memory::wire(self, Path::PathOneway, low, size, echo),
            CHANNEL => channel::wire(self, channel::Link::Datagrams, low, size, echo),
            CHANNEL_ORB => channel::wire(self, channel::Link::Orb, low, size, echo),
            _ => bare::wire(self, low, size, echo),
        }
    }

    /// Round trips of one high producer and `low` others, values of `size` octets each.
    fn measure(&self, subject: &'static str, point: &Point) -> Result<(Trips, Counted), BenchError> {
        let Point { low, size, ms, .. } = *point;
        let (listener, echo) = Listener::start(self.lab.left(), self.lab.right(), self.class(2))?;
        let wired = self.wire(subject, low, size, &echo)?;
        // Everybody is connected.
        let start = now_ns() + 200_000_000;
        let mut threads = Vec::new();
        for (pair, mut sender) in (0..=low).zip(wired.senders) {
            let (period, class) = match pair {
                0 => (HIGH_PERIOD_NS, self.class(0)),
                _ => (LOW_PERIOD_NS, SchedClass::Other),
            };
            let offset = if pair == 0 && point.release == Release::Behind { BEHIND_NS } else { 0 };
            let times = u64::from(ms) * 1_000_000 / period;
            let produce = move || {
                let mut value = vec![0; size.max(STAMP)];
                for k in 0..times.max(1) {
                    sleep_until(Deadline::at_ns(start + offset + k * period));
                    stamp(&mut value, pair);
                    sender(&value);
                }
                // Not given back before the last value has arrived.
                std::thread::sleep(LAST);
            };
            let spec = ThreadSpec::new(format!("producer-{pair}")).class(class);
            threads.push(self.left(|| spec.spawn(produce).map_err(BenchError::Thread))?);
        }
        threads.into_iter().for_each(|thread| drop(thread.join()));
        let counted = wired.counts.map(|counts| counts()).unwrap_or_default();
        drop(wired.held);
        Ok((listener.end(), counted))
    }
}

fn run_at<R: Send>(
    host: &Host,
    cpu: Option<&usize>,
    f: impl FnOnce() -> Result<R, BenchError> + Send,
) -> Result<R, BenchError> {
    host.run(|| {
        if let Some(&cpu) = cpu {
            // Threads inherit it. Where it is refused they run anywhere, and only noise grows.
            let _ = set_current_cpus(&Cpus::one(cpu));
        }
        f()
    })?
}

/// When the high producer is released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Release {
    /// With the low ones, as in the paper: who is more urgent goes first.
    Together,
    /// When what the low ones wrote fills the queues.
    Behind,
}

/// A point to measure.
struct Point {
    experiment: &'static str,
    /// Of the high producer's rows, and of the low ones'; empty for none.
    figures: [&'static str; 2],
    x: f64,
    low: u32,
    size: usize,
    ms: u32,
    release: Release,
    subjects: &'static [&'static str],
    /// The figure that shows the high producer's round trips one by one, where there is one.
    trace: Option<&'static str>,
}

/// Measures a point for its subjects in turn.
fn measure(cx: &mut Context<'_>, point: &Point, rows: &mut Vec<Row>) -> Result<(), BenchError> {
    for &subject in point.subjects {
        let Point { experiment, low, size, ms, .. } = *point;
        cx.step(format!("{experiment}: {subject}, {low} low producers, {size} octets"));
        let (trips, counted) = Site::build(cx)?.measure(subject, point)?;
        if let Some(figure) = point.trace {
            rows.extend(trips.trace.iter().enumerate().map(|(number, &took)| Row {
                experiment,
                figure,
                subject,
                x: number as f64,
                values: vec![("round_trip_ns", took as f64)],
            }));
        }
        let sent = |period: u64| (u64::from(ms) * 1_000_000 / period).max(1) as f64;
        let of = [(trips.high, sent(HIGH_PERIOD_NS)), (trips.low, sent(LOW_PERIOD_NS) * f64::from(low))];
        for (figure, (high, (samples, sent))) in
            point.figures.into_iter().zip([true, false].into_iter().zip(of))
        {
            if sent > 0.0 && !figure.is_empty() {
                let summary = samples.summary();
                let mut values = times(&summary);
                values.push(("returned_percent", (summary.n as f64 / sent * 1000.0).round() / 10.0));
                values.extend(counted.iter().filter(|_| high));
                rows.push(Row { experiment, figure, subject, x: point.x, values });
            }
        }
    }
    Ok(())
}

/// A figure over the number of low producers.
fn figure(id: &'static str, title: &'static str, x: &'static str, draw: &'static [&'static str]) -> Figure {
    Figure { id, title, x, y: "microseconds", draw, divide: 1000.0, log: true }
}

/// What a reader of any of the three must know.
fn notes() -> Vec<String> {
    vec![
        "One high producer every 50 ms, low ones every 100 ms in the ordinary class; a round trip ends when the consumer's datagram with the time stamp is back.".to_owned(),
        "All are released together, as in the paper; where it says that the high one meets the low ones, it is released 2 ms after them, when what they wrote fills the queues. Then every second of its values meets them.".to_owned(),
        "The high channel of 'memory-udp' is admitted with the tightest deadline that the nodes grant. Of its pushes, 'contained' cost more than declared and went on as best effort; 'cost' is the most processor time of one.".to_owned(),
        "The nodes are network namespaces of one machine with 100 Mbit/s between them; both nodes' threads are in this process.".to_owned(),
        "'bare' is a program with the hand-overs of reflective memory and no service. By 'memory-orb' (two-way calls) and 'memory-oneway' nothing is admitted, and calls are served in the ordinary class.".to_owned(),
        "The event channels of 'event-channel' are federated by datagrams, one a value; those of 'event-channel-orb' by one-way calls over one connection, as the paper's were.".to_owned(),
    ]
}

/// By how much a value of `subject` grows between two places.
fn growth(rows: &[Row], figure: &str, subject: &str, value: &str, from: f64, to: f64) -> f64 {
    at(rows, figure, subject, value, to) / at(rows, figure, subject, value, from)
}

/// The smallest share of stamps that came back in any of the rows, in percent.
fn returned(rows: &[Row], figure: &str, subject: &str) -> f64 {
    let of = crate::figure::series(rows, figure, subject, "returned_percent");
    of.iter().map(|&(_, percent)| percent).reduce(f64::min).unwrap_or(f64::NAN)
}

//! How long an event takes from its supplier to the first and to the last of its consumers.
//!
//! Without dispatching, as the paper's figures have it: consumers run on the supplier's thread. The raw control is a loop that calls
//! the same consumers.

use std::sync::{Arc, Mutex};

use isorb_event::{Channel, Config, ConsumerQos, Event, PushConsumer};
use isorb_rt::sched::{Cpus, SchedClass, ThreadSpec};
use isorb_rt::time::{Deadline, now_ns, sleep_until};

use super::super::catalogue::Experiment;
use super::super::{BenchError, Context};
use super::{age, refused, stamped, wanted};
use crate::figure::{Claim, Figure, Outcome, Row, Verdict, at, times};
use crate::stats::Samples;

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Latency of an event to the first and the last of 1 to 20 consumers, from 1 to 10 suppliers",
    source: "Harrison, O'Ryan, Levine, Schmidt (TAO's event service): table 1",
    paper: PAPER,
    seconds: (12, 60),
    run,
};

const NAME: &str = "tao-latency";
const PAPER: &str = "the latency of an event grows with the number of consumers before one, and hardly with that of suppliers";
const SUPPLIERS: [(u32, &str); 3] = [(1, "1-supplier"), (2, "2-suppliers"), (10, "10-suppliers")];
const CONSUMERS: [u32; 4] = [1, 5, 10, 20];
const RAW: &str = "raw-loop";
const PERIOD_NS: u64 = 1_000_000;

fn run(cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let ms = cx.ms(600, 4_000);
    let mut rows = Vec::new();
    for consumers in CONSUMERS {
        for (suppliers, subject) in SUPPLIERS {
            cx.step(format!("{NAME}: {subject}, {consumers} consumers"));
            row(&mut rows, subject, consumers, through_channel(cx, suppliers, consumers, ms)?);
        }
        cx.step(format!("{NAME}: {RAW}, {consumers} consumers"));
        row(&mut rows, RAW, consumers, in_a_loop(cx, consumers, ms)?);
    }
    let figure = |id, title| Figure {
        id,
        title,
        x: "consumers",
        y: "microseconds",
        draw: &["mean_ns", "max_ns"],
        divide: 1000.0,
        log: true,
    };
    let figures = vec![figure("first", "To the first consumer"), figure("last", "To the last consumer")];
    let notes = vec!["One process, without dispatching. All suppliers push at the same moments, a thousand times a second.".to_owned()];
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    Ok(Outcome { figures, rows, notes, verdict })
}

fn row(rows: &mut Vec<Row>, subject: &'static str, consumers: u32, measured: [Samples; 2]) {
    for (figure, samples) in ["first", "last"].into_iter().zip(measured) {
        let values = times(&samples.summary());
        rows.push(Row { experiment: NAME, figure, subject, x: consumers.into(), values });
    }
}

/// Keeps what it sees, where anybody is interested in it.
struct Watch(Option<Mutex<Samples>>);

impl PushConsumer for Watch {
    fn push(&self, events: &[Event<'_>]) -> Result<(), isorb_event::Failure> {
        let age = events.first().and_then(age);
        // One thread at a time pushes on one processor; a lock nobody else wants costs nothing that would show.
        if let (Some(age), Some(Ok(mut samples))) = (age, self.0.as_ref().map(Mutex::lock)) {
            samples.add(age);
        }
        Ok(())
    }
}

/// The consumers; the first and the last keep what they see.
fn watches(consumers: u32) -> Vec<Arc<Watch>> {
    let kept = |i| i == 0 || i + 1 == consumers;
    (0..consumers).map(|i| Arc::new(Watch(kept(i).then(Mutex::default)))).collect()
}

fn results(watches: &[Arc<Watch>]) -> [Samples; 2] {
    let of = |watch: Option<&Arc<Watch>>| {
        let samples = watch.and_then(|watch| watch.0.as_ref()?.lock().ok().map(|samples| samples.clone()));
        samples.unwrap_or_default()
    };
    [of(watches.first()), of(watches.last())]
}

fn through_channel(
    cx: &Context<'_>,
    suppliers: u32,
    consumers: u32,
    ms: u32,
) -> Result<[Samples; 2], BenchError> {
    let channel = Channel::new(Config::default()).map_err(refused)?;
    let watches = watches(consumers);
    let mut connected = Vec::new();
    for (i, watch) in watches.iter().enumerate() {
        let qos = ConsumerQos::of(format!("watch-{i}"), wanted());
        connected.push(channel.for_consumers().connect(watch.clone(), qos).map_err(refused)?);
    }
    let class = cx.fifo.map_or(SchedClass::Other, SchedClass::Fifo);
    let start = now_ns() + 10_000_000;
    let mut threads = Vec::new();
    for _ in 0..suppliers {
        let supplier = channel.for_suppliers().connect().map_err(refused)?;
        let spec = ThreadSpec::new("supplier").class(class).cpus(Cpus::one(cx.cpu()));
        let thread = spec.spawn(move || {
            periodically(start, ms, || {
                stamped(|event| supplier.push(event));
            })
        });
        threads.push(thread.map_err(BenchError::Thread)?);
    }
    threads.into_iter().for_each(|thread| drop(thread.join()));
    drop(connected);
    channel.destroy();
    Ok(results(&watches))
}

fn in_a_loop(cx: &Context<'_>, consumers: u32, ms: u32) -> Result<[Samples; 2], BenchError> {
    let watches = watches(consumers);
    let called = watches.clone();
    let start = now_ns() + 10_000_000;
    cx.on_thread(move || {
        periodically(start, ms, || {
            stamped(|event| {
                called.iter().filter(|watch| watch.push(std::slice::from_ref(event)).is_ok()).count()
            });
        });
    })?;
    Ok(results(&watches))
}

fn periodically(start: u64, ms: u32, mut push: impl FnMut()) {
    for k in 0..u64::from(ms) * 1_000_000 / PERIOD_NS {
        sleep_until(Deadline::at_ns(start + k * PERIOD_NS));
        push();
    }
}

fn judge(rows: &[Row]) -> Vec<Claim> {
    let mean = |figure: &str, subject: &str, consumers: f64| at(rows, figure, subject, "mean_ns", consumers);
    let one = SUPPLIERS[0].1;
    let growth = mean("last", one, 20.0) / mean("last", one, 1.0);
    let many = mean("last", SUPPLIERS[2].1, 20.0) / mean("last", one, 20.0);
    let first = mean("first", one, 20.0) / mean("first", one, 1.0);
    let least = mean("first", one, 1.0) / 1000.0;
    vec![
        Claim::paper(
            growth > 1.5,
            format!(
                "the last of 20 consumers waits {growth:.1} times as long as the only one (above 1.5; the paper: 13)"
            ),
        ),
        Claim::paper(
            many < 2.0,
            format!(
                "with ten suppliers it waits {many:.2} times as long as with one (below 2; the paper: 1.5)"
            ),
        ),
        Claim::aim(
            first < 1.5,
            format!(
                "the first of 20 waits {first:.2} times as long as the only one (below 1.5; the paper: 5)"
            ),
        ),
        Claim::aim(
            least < 58.0,
            format!("one supplier to one consumer: {least:.1} us (the paper: 58 on its machine)"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_told_apart() {
        let holds = |ns: &dyn Fn(&str, &str, f64) -> f64| {
            let mut rows = Vec::new();
            for figure in ["first", "last"] {
                for (_, subject) in SUPPLIERS {
                    for consumers in CONSUMERS {
                        let x = f64::from(consumers);
                        rows.push(Row {
                            experiment: NAME,
                            figure,
                            subject,
                            x,
                            values: vec![("mean_ns", ns(figure, subject, x))],
                        });
                    }
                }
            }
            Verdict::new(NAME, PAPER, judge(&rows)).shape_holds
        };
        assert!(holds(&|figure, _, n| if figure == "last" { 1000.0 + 200.0 * n } else { 1000.0 }));
        assert!(!holds(&|_, _, _| 1000.0));
        assert!(!holds(&|_, subject, n| if subject == "10-suppliers" { 10_000.0 * n } else { 1000.0 * n }));
    }
}

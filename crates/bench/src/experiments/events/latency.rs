//! How long an event takes from its supplier to the first and to the last of its consumers.
//!
//! Without dispatching, as the paper's figures have it: consumers run on the supplier's thread, or
//! are pushed to from it where they are in another process. Raw is a loop that calls the same
//! consumers. The negative control is a channel without filtering.
//!
//! A push takes less than what one miss of the cache costs, so how busy the caches were in between
//! weighs more than what is compared. Therefore all take turns in short blocks, and are compared by
//! the medians of the same round.

use std::sync::{Arc, Mutex};

use isorb_event::servants::{EventServiceOptions, RtecEventService};
use isorb_event::{Channel, Configuration, ConsumerQos, Event, ProxyPushSupplier, PushConsumer};
use isorb_rt::sched::{Cpus, SchedClass, ThreadSpec};
use isorb_rt::time::{Deadline, now_ns, sleep_until};

use super::super::catalogue::Experiment;
use super::super::{BenchError, Context};
use super::remote::{self, Remote};
use super::{age, bystanders, refused, stamped, wanted};
use crate::claim::{Above, AtLeast, AtMost, Below, Cells, Claim, aim, claims, control, paper, worst};
use crate::figure::{Figure, Measured, times};
use crate::stats::{Samples, median, ratio_of_medians};
use crate::tail::Tail;

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Latency of an event to the first and the last of 1 to 20 consumers, from 1 to 10 suppliers, in one process and in two",
    source: "Harrison, O'Ryan, Levine, Schmidt (TAO's event service): tables 1 and 2",
    paper: "the latency of an event grows with the number of consumers before one, and hardly with that of suppliers",
    seconds: (30, 115),
    run,
    claims,
};

const NAME: &str = "tao-latency";
const SUPPLIERS: [(u32, &str); 3] = [(1, "1-supplier"), (2, "2-suppliers"), (10, "10-suppliers")];
const CONSUMERS: [u32; 4] = [1, 5, 10, 20];
const RAW: &str = "raw-loop";
const AGAIN: &str = "raw-loop-again";
/// One supplier and the channel in this process, as many consumers here as in another process: the
/// ages at the remote ones, and at the local ones.
const REMOTE: &str = "two-processes";
const LOCAL: &str = "two-processes-local";
/// Beside so many consumers of other events, with filtering and without.
const BYSTANDERS: u32 = 500;
const FILTERED: &str = "among-500";
const CONTROL: &str = "among-500-broadcast";
const PERIOD_NS: u64 = 1_000_000;

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    let (rounds, ms) = (cx.pick(5, 12), cx.ms(100, 250));
    let mut series: Vec<Series> = CONSUMERS.into_iter().flat_map(Series::of).collect();
    for round in 1..=rounds {
        for one in &mut series {
            cx.progress(format!(
                "{NAME}: round {round} of {rounds}, {}, {} consumers",
                one.subject, one.consumers
            ));
            one.block(cx, ms)?;
        }
    }
    series.iter().for_each(|one| one.rows(out, &series));
    let figure = |id, title| Figure::new(id, title, "consumers", "microseconds", &["p50_ns", "p99_ns"]);
    out.figures = vec![figure("first", "To the first consumer"), figure("last", "To the last consumer")];
    out.notes = vec![
        "Without dispatching, on one processor. All suppliers push at the same moments, a thousand times a second. Subjects take turns in short blocks; 'to_one' is the median over rounds of the ratio to the same with one consumer in that round.".to_owned(),
        format!("'{REMOTE}' and '{LOCAL}': the supplier's thread pushes to so many consumers here, and to as many in another process with a oneway each; these run when it rests. '{CONTROL}' has a channel without filtering: {BYSTANDERS} consumers of other events, connected before, get these as well."),
    ];
    Ok(())
}

/// What is measured, again and again.
struct Series {
    subject: &'static str,
    consumers: u32,
    kind: Kind,
    /// To the first consumer, and to the last.
    samples: [Samples; 2],
    medians: [Vec<Option<u64>>; 2],
}

#[derive(Clone, Copy)]
enum Kind {
    /// So many suppliers, beside so many consumers of other events.
    Channel(u32, u32, Configuration),
    /// Which of the consumers, local and remote ones, are shown.
    TwoProcesses {
        remote: bool,
    },
    Loop,
}

impl Series {
    /// All with so many consumers.
    fn of(consumers: u32) -> Vec<Series> {
        let channels =
            SUPPLIERS.map(|(count, subject)| (subject, Kind::Channel(count, 0, Configuration::Full)));
        let others = [
            (FILTERED, Kind::Channel(1, BYSTANDERS, Configuration::Full)),
            (CONTROL, Kind::Channel(1, BYSTANDERS, Configuration::Broadcaster)),
            (REMOTE, Kind::TwoProcesses { remote: true }),
            (LOCAL, Kind::TwoProcesses { remote: false }),
            (RAW, Kind::Loop),
            (AGAIN, Kind::Loop),
        ];
        let all = channels.into_iter().chain(others);
        let new = |(subject, kind)| Series {
            subject,
            consumers,
            kind,
            samples: Default::default(),
            medians: Default::default(),
        };
        all.map(new).collect()
    }

    fn block(&mut self, cx: &Context<'_>, ms: u32) -> Result<(), BenchError> {
        let seen = match self.kind {
            Kind::Channel(suppliers, others, configuration) => {
                through_channel(cx, suppliers, self.consumers, others, configuration, ms)?
            }
            Kind::TwoProcesses { remote } => local_and_remote(cx, self.consumers, remote, ms)?,
            Kind::Loop => in_a_loop(cx, self.consumers, ms)?,
        };
        for ((samples, medians), ages) in self.samples.iter_mut().zip(&mut self.medians).zip(seen) {
            medians.push(median(&ages));
            samples.extend(ages);
        }
        Ok(())
    }

    fn rows(&self, out: &mut Measured, all: &[Series]) {
        let one = all.iter().find(|other| other.subject == self.subject && other.consumers == 1);
        for (i, figure) in ["first", "last"].into_iter().enumerate() {
            let mut values = times(&self.samples[i].summary());
            let ratio = one.and_then(|one| ratio_of_medians(&self.medians[i], &one.medians[i]));
            values.push(("to_one", ratio.map_or(f64::NAN, |ratio| (ratio * 100.0).round() / 100.0)));
            out.row(figure, self.subject, self.consumers, values);
        }
    }
}

/// Records the age of events in preallocated memory, as the paper does; `None` records nothing.
struct AgeRecorder(Option<Mutex<Vec<u64>>>);

impl PushConsumer for AgeRecorder {
    fn push(&self, events: &[Event<'_>]) -> Result<(), isorb_event::Failure> {
        let age = events.first().and_then(age);
        // One thread at a time pushes on one processor; an uncontended lock does not show.
        if let (Some(age), Some(Ok(mut ages))) = (age, self.0.as_ref().map(Mutex::lock)) {
            ages.push(age);
        }
        Ok(())
    }
}

/// The ages of events at the first consumer and at the last.
type Ages = [Vec<u64>; 2];

/// The consumers; the first and the last keep what they see of so many events.
fn recorders(consumers: u32, events: usize) -> Vec<Arc<AgeRecorder>> {
    let kept = |i| i == 0 || i + 1 == consumers;
    let room = || Mutex::new(Vec::with_capacity(events));
    (0..consumers).map(|i| Arc::new(AgeRecorder(kept(i).then(room)))).collect()
}

/// How many events a supplier pushes in so long.
fn pushed(ms: u32) -> usize {
    usize::try_from(u64::from(ms) * 1_000_000 / PERIOD_NS).unwrap_or(0)
}

fn results(recorders: &[Arc<AgeRecorder>]) -> Ages {
    let of = |recorder: Option<&Arc<AgeRecorder>>| {
        let ages = recorder.and_then(|recorder| recorder.0.as_ref()?.lock().ok().map(|ages| ages.clone()));
        ages.unwrap_or_default()
    };
    [of(recorders.first()), of(recorders.last())]
}

fn connect(channel: &Channel, recorders: &[Arc<AgeRecorder>]) -> Result<Vec<ProxyPushSupplier>, BenchError> {
    let one = |(i, recorder): (usize, &Arc<AgeRecorder>)| {
        let qos = ConsumerQos::new(format!("recorder-{i}"), wanted());
        channel.for_consumers().connect(recorder.clone(), qos).map_err(refused)
    };
    recorders.iter().enumerate().map(one).collect()
}

fn through_channel(
    cx: &Context<'_>,
    suppliers: u32,
    consumers: u32,
    others: u32,
    configuration: Configuration,
    ms: u32,
) -> Result<Ages, BenchError> {
    let channel = Channel::builder().configuration(configuration).build().map_err(refused)?;
    let recorders = recorders(consumers, pushed(ms) * suppliers as usize);
    let mut connected = bystanders(&channel, others)?;
    connected.extend(connect(&channel, &recorders)?);
    supply(cx, &channel, suppliers, ms)?;
    drop(connected);
    channel.destroy();
    Ok(results(&recorders))
}

/// So many consumers here and as many in another process; the ages at one kind of them.
fn local_and_remote(cx: &Context<'_>, consumers: u32, remote: bool, ms: u32) -> Result<Ages, BenchError> {
    let orb = remote::orb()?;
    let channel = Channel::builder().build().map_err(refused)?;
    let options = EventServiceOptions { threads: 0, ping: None, ..EventServiceOptions::default() };
    let face = RtecEventService::start(&orb, &channel, options)?;
    let count = consumers.to_string();
    let recorders = recorders(consumers, pushed(ms));
    let connected = connect(&channel, &recorders)?;
    let far = Remote::start(cx, REMOTE, 0, &["consumers", "--count", &count, &face.object().to_string()])?;
    supply(cx, &channel, 1, ms)?;
    let mut lists = far.take(2)?.into_iter();
    drop(connected);
    channel.destroy();
    orb.shutdown(true)?;
    let there = [lists.next().unwrap_or_default(), lists.next().unwrap_or_default()];
    Ok(if remote { there } else { results(&recorders) })
}

/// Suppliers push, so long.
fn supply(cx: &Context<'_>, channel: &Channel, suppliers: u32, ms: u32) -> Result<(), BenchError> {
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
        threads.push(thread?);
    }
    threads.into_iter().for_each(|thread| drop(thread.join()));
    Ok(())
}

fn in_a_loop(cx: &Context<'_>, consumers: u32, ms: u32) -> Result<Ages, BenchError> {
    let recorders = recorders(consumers, pushed(ms));
    let called = recorders.clone();
    let start = now_ns() + 10_000_000;
    cx.on_thread(move || {
        periodically(start, ms, || {
            stamped(|event| {
                called.iter().filter(|recorder| recorder.push(std::slice::from_ref(event)).is_ok()).count()
            });
        });
    })?;
    Ok(results(&recorders))
}

fn periodically(start: u64, ms: u32, mut push: impl FnMut()) {
    for k in 0..pushed(ms) as u64 {
        sleep_until(Deadline::at_ns(start + k * PERIOD_NS));
        push();
    }
}

fn p50_us(r: &dyn Cells, figure: &str, subject: &str, consumers: f64) -> f64 {
    r.at(figure, subject, "p50_ns", consumers) / 1000.0
}

/// How long 20 consumers make the wait of a subject's, to one alone.
fn to_one(r: &dyn Cells, figure: &str, subject: &str) -> f64 {
    r.at(figure, subject, "to_one", 20.0)
}

fn claims() -> Vec<Claim> {
    const ONE: &str = SUPPLIERS[0].1;
    let mut claims = claims! {
        paper Below(2.0), "with ten suppliers it waits {0:.2} times as long as with one ({limit}; the \
             paper: 1.5)", |r| [p50_us(r, "last", SUPPLIERS[2].1, 20.0) / p50_us(r, "last", ONE, 20.0)];
        paper Above(1.0), "in another process the only consumer waits {1:.1} us, {0:.1} times as long as \
             in this one ({limit}; the paper: 820 us)",
            |r| {
                let remote = p50_us(r, "last", REMOTE, 1.0);
                [remote / p50_us(r, "first", ONE, 1.0), remote]
            };
        paper AtMost(1.5), "the only local consumer waits {1:.2} us beside one in another process, {0:.2} \
             times as long as without ({limit})",
            |r| {
                let local = p50_us(r, "first", LOCAL, 1.0);
                [local / p50_us(r, "first", ONE, 1.0), local]
            };
        control AtLeast(2.0), format!("behind {BYSTANDERS} consumers of other events the last of 20 \
             waits {{1:.2}} us, without filtering {{2:.1}}: {{0:.1}} times as long ({{limit}})"),
            |r| {
                let [filtered, broadcast] =
                    [FILTERED, CONTROL].map(|subject| p50_us(r, "last", subject, 20.0));
                [broadcast / filtered, filtered, broadcast]
            };
        aim Below(1.5), "the first of 20 waits {0:.2} times as long as the only one ({limit}; the paper: \
             5)", |r| [to_one(r, "first", ONE)];
        worst Below(58.0), "one supplier to one consumer: {0:.2} us at least, {1:.1} at most ({limit}, the \
             paper's mean)", |r| ["min_ns", "max_ns"].map(|value| r.at("first", ONE, value, 1.0) / 1000.0);
        aim Below(58.0), "one supplier to one consumer: {0:.2} us ({limit}, the paper's on its machine)",
            |r| [p50_us(r, "first", ONE, 1.0)];
    };
    // Table 1 has minimum and maximum as well.
    for (subject, x) in [(ONE, 1.0), (ONE, 20.0)] {
        let tail = Tail { figure: "last", subject, bare: RAW, again: AGAIN, x };
        claims.extend(tail.of_few(&format!("to the last of {x} consumers"), [3.0, 3.0]));
    }
    claims
}

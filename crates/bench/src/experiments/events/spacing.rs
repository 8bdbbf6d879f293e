//! How close together a supplier's events may come before the channel's own work slows them down.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use isorb_event::{Channel, Configuration, ConsumerQos, Event};
use isorb_rt::time::{Deadline, NS_PER_S, now_ns, sleep_until};

use super::super::catalogue::Experiment;
use super::super::{BenchError, Context};
use super::{bystanders, refused, stamped, wanted};
use crate::claim::{AtLeast, Below, Cells, Claim, aim, claims, control, least, paper};
use crate::figure::{Figure, Measured};

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Effective over expected rate of events as the interval between them shrinks",
    source: "Harrison, O'Ryan, Levine, Schmidt (TAO's event service): figure 17",
    paper: "events arrive at the rate at which they are made until the interval reaches the channel's own work",
    seconds: (30, 95),
    run,
    claims,
};

const NAME: &str = "tao-spacing";
/// Events a second.
const RATES: [u32; 9] = [50, 200, 1_000, 5_000, 20_000, 50_000, 200_000, 1_000_000, 5_000_000];
const CONSUMERS: [(u64, &str); 2] = [(1, "1-consumer"), (20, "20-consumers")];
/// Beside so many that want other events, with filtering and, as the control, without.
const BYSTANDERS: u32 = 500;
const FILTERED: &str = "20-of-520-filtered";
const CONTROL: &str = "20-of-520-broadcast";
/// As the paper's; at high rates more, so that there is something to measure.
const EVENTS: u64 = 500;
/// At lower rates the thread sleeps between events, at higher ones it waits for the clock: a sleep
/// takes longer.
const SLEEPS_BELOW: u32 = 5_000;

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    let rounds = cx.pick(1, 3);
    let alone = CONSUMERS.map(|(consumers, subject)| (consumers, 0, Configuration::Full, subject));
    let among = [(FILTERED, Configuration::Full), (CONTROL, Configuration::Broadcaster)]
        .map(|(subject, configuration)| (20, BYSTANDERS, configuration, subject));
    for (consumers, others, configuration, subject) in alone.into_iter().chain(among) {
        for rate in RATES {
            cx.progress(format!("{NAME}: {subject}, {rate} a second"));
            // The best of several: other programs on the processor must not decide.
            let mut best = 0.0f64;
            for _ in 0..rounds {
                best = best.max(effective(cx, consumers, others, configuration, rate)?);
            }
            let ratio = best / f64::from(rate);
            let values =
                vec![("effective_per_s", best.round()), ("ratio", (ratio * 1000.0).round() / 1000.0)];
            out.row("rate", subject, rate, values);
        }
    }
    let (title, x) = ("Effective over expected rate", "expected events a second");
    out.figures = vec![Figure::new("rate", title, x, "ratio", &["ratio"]).divide(1.0).linear()];
    out.note(format!(
        "{EVENTS} events at low rates, ten times as many at high ones; one process, without dispatching. \
         The control's channel has no filtering: {BYSTANDERS} consumers of other events get these as well."
    ));
    Ok(())
}

/// Events a second that arrived at all consumers.
fn effective(
    cx: &Context<'_>,
    consumers: u64,
    others: u32,
    configuration: Configuration,
    rate: u32,
) -> Result<f64, BenchError> {
    let channel = Channel::builder().configuration(configuration).build().map_err(refused)?;
    let others = bystanders(&channel, others)?;
    let seen = Arc::new(AtomicU64::new(0));
    let mut connected = Vec::new();
    for i in 0..consumers {
        let count = seen.clone();
        let consumer = move |events: &[Event<'_>]| {
            count.fetch_add(events.len() as u64, Ordering::Relaxed);
        };
        let qos = ConsumerQos::new(format!("count-{i}"), wanted());
        connected.push(channel.for_consumers().connect(Arc::new(consumer), qos).map_err(refused)?);
    }
    let supplier = channel.for_suppliers().connect().map_err(refused)?;
    let few = if cx.is_smoke() { EVENTS / 10 } else { EVENTS };
    let events = if rate < SLEEPS_BELOW { few } else { 10 * few };
    let elapsed = cx.on_thread(move || {
        let interval = NS_PER_S / u64::from(rate);
        let start = now_ns();
        for k in 0..events {
            let at = start + k * interval;
            if rate < SLEEPS_BELOW {
                sleep_until(Deadline::at_ns(at));
            }
            while now_ns() < at {
                std::hint::spin_loop();
            }
            stamped(|event| supplier.push(event));
        }
        // The last event's interval belongs to it.
        (now_ns() - start).max(events * interval)
    })?;
    drop((connected, others));
    channel.destroy();
    let arrived = seen.load(Ordering::Relaxed) / consumers;
    Ok(arrived as f64 * NS_PER_S as f64 / elapsed as f64)
}

/// The highest rate that is kept up to a twentieth.
fn knee(r: &dyn Cells, subject: &str) -> f64 {
    let all = r.series("rate", subject, "ratio");
    if all.is_empty() {
        return f64::NAN;
    }
    all.into_iter().take_while(|&(_, ratio)| ratio >= 0.95).last().map_or(0.0, |(rate, _)| rate)
}

fn claims() -> Vec<Claim> {
    const TWENTY: &str = CONSUMERS[1].1;
    claims! {
        paper AtLeast(50.0), "rates are kept up to {1} a second with one consumer, {2} with twenty (each \
             {limit}, the paper's)",
            |r| {
                let [one, twenty] = CONSUMERS.map(|(_, subject)| knee(r, subject));
                [least([one, twenty]), one, twenty]
            };
        paper AtLeast(0.1), format!("among {BYSTANDERS} consumers of other events twenty keep up {{1}} a \
             second, {{0:.2}} of {{2}} ({{limit}})"),
            |r| {
                let [filtered, twenty] = [FILTERED, TWENTY].map(|subject| knee(r, subject));
                [filtered / twenty, filtered, twenty]
            };
        control Below(1.0), "without filtering only {1} a second, {0:.2} of that ({limit})",
            |r| {
                let [broadcast, filtered] = [CONTROL, FILTERED].map(|subject| knee(r, subject));
                [broadcast / filtered, broadcast]
            };
        aim AtLeast(20_000.0), "with twenty consumers {0} a second ({limit})", |r| [knee(r, TWENTY)];
    }
}

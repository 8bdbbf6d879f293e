//! Suppliers and consumers at 40, 20 and 10 Hz whose slowest consumer works longer than the fastest's period: who meets his deadlines
//! under which dispatching.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use isorb_event::{Channel, Config, ConsumerQos, Event, Filter, Priority, Strategy, ThreadSetup, dispatch};
use isorb_rt::priority::Linear;
use isorb_rt::sched::{Cpus, NativeRange, SchedClass, ThreadSpec};
use isorb_rt::time::{Deadline, NS_PER_S, now_ns, sleep_until};

use super::super::catalogue::Experiment;
use super::super::{BenchError, Context};
use super::{SOURCE, age, refused};
use crate::contention::calibrate_work;
use crate::figure::{Claim, Figure, Outcome, Row, Verdict, at};
use crate::load::work;

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Deadlines of consumers at 40, 20 and 10 Hz under threaded, single-threaded and yielding dispatching",
    source: "Harrison, O'Ryan, Levine, Schmidt (TAO's event service): figures 12 and 13",
    paper: PAPER,
    seconds: (15, 65),
    run,
};

const NAME: &str = "tao-timeline";
const PAPER: &str = "with a thread for each priority every deadline is met; with a single thread the fastest consumer misses its own";
/// Hertz, work of a push in milliseconds, CORBA priority. Together they want 70 % of the processor.
const PAIRS: [(u32, u32, i16); 3] = [(40, 5, 25_000), (20, 10, 15_000), (10, 30, 5_000)];
const THREADED: &str = "threads";
const UPCALLS: &str = "upcalls";
const CONTROL: &str = "single-threaded";

fn run(cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let ms = cx.ms(4_000, 20_000);
    let unit = calibrate_work(cx)?;
    let mut rows = Vec::new();
    for (subject, strategy) in [
        (THREADED, Strategy::Threads { per_level: 1 }),
        (UPCALLS, Strategy::Upcalls),
        (CONTROL, Strategy::SingleThreaded),
    ] {
        cx.step(format!("{NAME}: {subject}"));
        for ((hz, ..), met) in PAIRS.into_iter().zip(play(cx, strategy, unit, ms)?) {
            let (due, in_time, latest) = met;
            let percent = 100.0 * in_time as f64 / due.max(1) as f64;
            let values = vec![
                ("due", due as f64),
                ("in_time_percent", (percent * 10.0).round() / 10.0),
                ("latest_ms", latest as f64 / 1e6),
            ];
            rows.push(Row { experiment: NAME, figure: "deadlines", subject, x: hz.into(), values });
        }
    }
    let figures = vec![Figure {
        id: "deadlines",
        title: "Events served within their supplier's period",
        x: "events a second",
        y: "percent",
        draw: &["in_time_percent"],
        divide: 1.0,
        log: false,
    }];
    let works = PAIRS.map(|(hz, ms, _)| format!("{ms} ms at {hz} Hz")).join(", ");
    let notes = vec![format!(
        "Consumers work {works}, on one processor. With 'upcalls' they offer to give way every half millisecond."
    )];
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    Ok(Outcome { figures, rows, notes, verdict })
}

/// Of one consumer: events that came in time, and the age of the latest when it was done.
#[derive(Default)]
struct Met {
    in_time: AtomicU64,
    latest: AtomicU64,
}

/// Of each pair: events due, in time, and the age of the latest in nanoseconds.
fn play(
    cx: &Context<'_>,
    strategy: Strategy,
    unit: f64,
    ms: u32,
) -> Result<Vec<(u64, u64, u64)>, BenchError> {
    let mut levels: Vec<Priority> =
        PAIRS.iter().filter_map(|&(_, _, priority)| Priority::new(priority)).collect();
    levels.sort_unstable();
    let mut threads = ThreadSetup::default().on(Cpus::one(cx.cpu()));
    if cx.fifo.is_some() {
        threads.mapping = NativeRange::new(1, 45).map(|range| Arc::new(Linear(range)) as _);
    }
    let channel = Channel::new(Config { levels, threads, ..Config::with(strategy) }).map_err(refused)?;
    let mut connected = Vec::new();
    let mut suppliers = Vec::new();
    let met: [Arc<Met>; 3] = Default::default();
    let start = now_ns() + 20_000_000;
    for ((hz, work_ms, priority), met) in PAIRS.into_iter().zip(&met) {
        let event_type = 16 + i32::from(priority);
        let period = NS_PER_S / u64::from(hz);
        let (met, pieces, piece) = (met.clone(), work_ms * 2, (unit / 2.0).round() as i32);
        let consumer = move |events: &[Event<'_>]| {
            for _ in 0..pieces {
                work(piece);
                dispatch::yield_now();
            }
            if let Some(age) = events.first().and_then(age) {
                met.in_time.fetch_add(u64::from(age <= period), Ordering::Relaxed);
                met.latest.fetch_max(age, Ordering::Relaxed);
            }
        };
        let mut qos = ConsumerQos::of(format!("{hz} Hz"), Filter::of(event_type, SOURCE));
        if let Some(priority) = Priority::new(priority) {
            qos.quality.priority = priority;
        }
        connected.push(channel.for_consumers().connect(Arc::new(consumer), qos).map_err(refused)?);
        let supplier = channel.for_suppliers().connect().map_err(refused)?;
        // Above every consumer, and away in microseconds.
        let class = if cx.fifo.is_some() { SchedClass::Fifo(60) } else { SchedClass::Other };
        let spec = ThreadSpec::new(format!("supplier-{hz}")).class(class).cpus(Cpus::one(cx.cpu()));
        let count = u64::from(ms) * u64::from(hz) / 1000;
        let thread = spec.spawn(move || {
            for k in 0..count {
                let at = start + k * period;
                sleep_until(Deadline::at_ns(at));
                // Its age counts from when it was due.
                supplier.push(&Event::new(event_type, SOURCE).octets(&at.to_ne_bytes()));
            }
            // The last event has its period.
            sleep_until(Deadline::at_ns(start + count * period));
            count
        });
        suppliers.push(thread.map_err(BenchError::Thread)?);
    }
    let due: Vec<u64> = suppliers.into_iter().map(|thread| thread.join().unwrap_or(0)).collect();
    drop(connected);
    channel.destroy();
    let results = due.into_iter().zip(&met);
    Ok(results
        .map(|(due, met)| (due, met.in_time.load(Ordering::Relaxed), met.latest.load(Ordering::Relaxed)))
        .collect())
}

fn judge(rows: &[Row]) -> Vec<Claim> {
    let met = |subject: &str, hz: u32| at(rows, "deadlines", subject, "in_time_percent", hz.into());
    let all = |subject: &str| PAIRS.into_iter().map(|(hz, ..)| met(subject, hz)).fold(f64::NAN, f64::min);
    let fastest = PAIRS[0].0;
    let (threads, upcalls, single) = (all(THREADED), all(UPCALLS), met(CONTROL, fastest));
    vec![
        Claim::paper(
            threads >= 99.0,
            format!("with threads every consumer meets at least {threads:.1} % (99)"),
        ),
        Claim::control(
            single < 90.0,
            format!("with a single thread the consumer at {fastest} Hz meets {single:.1} % (below 90)"),
        ),
        Claim::aim(
            upcalls >= 99.0,
            format!("with one thread that gives way every consumer meets at least {upcalls:.1} % (99)"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_told_apart() {
        let verdict = |percent: &dyn Fn(&str, u32) -> f64| {
            let mut rows = Vec::new();
            for subject in [THREADED, UPCALLS, CONTROL] {
                for (hz, ..) in PAIRS {
                    let values = vec![("in_time_percent", percent(subject, hz))];
                    rows.push(Row { experiment: NAME, figure: "deadlines", subject, x: hz.into(), values });
                }
            }
            let v = Verdict::new(NAME, PAPER, judge(&rows));
            (v.shape_holds, v.control_fails)
        };
        assert_eq!(
            verdict(&|subject, hz| if subject == CONTROL && hz == 40 { 50.0 } else { 100.0 }),
            (true, Some(true))
        );
        assert_eq!(verdict(&|_, _| 100.0), (true, Some(false)));
        assert_eq!(verdict(&|_, _| 50.0), (false, Some(true)));
    }
}

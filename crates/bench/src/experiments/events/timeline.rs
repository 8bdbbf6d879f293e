//! Suppliers and consumers at 40, 20 and 10 Hz where the slowest consumer works longer than the
//! fastest's period: which deadlines are met under which dispatching.

use isorb_event::Strategy;
use isorb_rt::time::NS_PER_S;

use super::super::catalogue::Experiment;
use super::super::{BenchError, Context};
use super::pairs::{Pair, count, through_channel};
use crate::claim::{AtLeast, Below, Cells, Claim, aim, claims, control, least, paper};
use crate::figure::{Figure, Measured};
use crate::workload::calibrate_work;

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Deadlines of consumers at 40, 20 and 10 Hz under threaded, single-threaded and yielding dispatching",
    source: "Harrison, O'Ryan, Levine, Schmidt (TAO's event service): figures 12 and 13",
    paper: "with a thread for each priority every deadline is met; with a single thread the fastest consumer misses its own",
    seconds: (27, 97),
    run,
    claims,
};

const NAME: &str = "tao-timeline";
/// Hertz, work of a push in milliseconds, CORBA priority. Together they want 70 % of the processor.
const PAIRS: [(u32, u32, i16); 3] = [(40, 5, 25_000), (20, 10, 15_000), (10, 30, 5_000)];
const THREADED: &str = "threads";
const UPCALLS: &str = "upcalls";
const CONTROL: &str = "single-threaded";

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    // 300 events of the slowest. At the paper's rates a quick run has no time for them.
    let (ms, faster) = (cx.ms(7_600, 30_100), cx.pick(4, 1));
    let unit = calibrate_work(cx)?;
    for (subject, strategy) in [
        (THREADED, Strategy::Threads { per_level: 1 }),
        (UPCALLS, Strategy::Upcalls),
        (CONTROL, Strategy::SingleThreaded),
    ] {
        cx.progress(format!("{NAME}: {subject}"));
        let pairs = PAIRS.map(|(hz, work_ms, priority)| Pair {
            hz: hz * faster,
            work: (f64::from(work_ms) * unit / f64::from(faster)).round() as i32,
            priority,
        });
        for (pair, ages) in pairs.iter().zip(through_channel(cx, strategy, &pairs, ms)?) {
            let period = NS_PER_S / u64::from(pair.hz);
            let in_time = ages.iter().filter(|&&age| age <= period).count();
            let due = count(pair, ms).max(1);
            let percent = 100.0 * in_time as f64 / due as f64;
            let latest = ages.iter().copied().max().unwrap_or(0);
            let values = vec![
                ("due", due as f64),
                ("in_time_percent", (percent * 10.0).round() / 10.0),
                ("latest_ms", latest as f64 / 1e6),
            ];
            out.row("deadlines", subject, pair.hz / faster, values);
        }
    }
    let title = "Events served within their supplier's period";
    let figure = Figure::new("deadlines", title, "events a second", "percent", &["in_time_percent"]);
    out.figures = vec![figure.divide(1.0).linear()];
    let works = PAIRS.map(|(hz, ms, _)| format!("{ms} ms at {hz} Hz")).join(", ");
    if faster > 1 {
        out.note(format!("Everything runs {faster} times as fast: rates and work."));
    }
    out.note(format!(
        "Consumers work {works}, on one processor. With 'upcalls' they offer to yield after every \
         thousand units of work."
    ));
    Ok(())
}

fn met(r: &dyn Cells, subject: &str, hz: u32) -> f64 {
    r.at("deadlines", subject, "in_time_percent", hz.into())
}

fn claims() -> Vec<Claim> {
    const FASTEST: u32 = PAIRS[0].0;
    let all = |r: &dyn Cells, subject: &str| [least(PAIRS.map(|(hz, ..)| met(r, subject, hz)))];
    claims! {
        paper AtLeast(99.0), "with threads every consumer meets at least {0:.1} % ({limit})",
            move |r| {
                all(r, THREADED)
            };
        control Below(90.0), format!("with a single thread the consumer at {FASTEST} Hz meets {{0:.1}} % \
             ({{limit}})"), |r| [met(r, CONTROL, FASTEST)];
        aim AtLeast(99.0), "with one thread that yields every consumer meets at least {0:.1} % ({limit})",
            move |r| all(r, UPCALLS);
    }
}

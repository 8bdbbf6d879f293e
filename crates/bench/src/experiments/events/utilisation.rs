//! How much of the processor a channel can use before its low consumer misses deadlines: the high
//! consumer's work grows until it does.

use std::time::{Duration, Instant};

use isorb_event::Strategy;
use isorb_event::federation::Federation;
use isorb_event::servants::{FederationServant, LinkOptions};
use isorb_rt::time::now_ns;

use super::super::catalogue::Experiment;
use super::super::{BenchError, Context};
use super::pairs::{Ages, Consumers, Pair, bare, count, supply_from, through_channel};
use super::refused;
use super::remote::{self, Remote};
use crate::claim::{Above, AtLeast, Below, Cells, Claim, NOISE, claims, control, least, paper};
use crate::figure::{Figure, Measured};
use crate::workload::calibrate_work;

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Laxity of a high and a low consumer as the processor fills up: one channel, two federated processes, two bare threads",
    source: "Harrison, O'Ryan, Levine, Schmidt (TAO's event service): figures 15 and 16",
    paper: "a channel uses over 99 % of the processor before its low consumer misses a deadline, two that are federated over 96 %",
    seconds: (58, 260),
    run,
    claims,
};

const NAME: &str = "tao-utilisation";
/// As in the paper: 25 and 100 ms. The low consumer wants a fifth of the processor.
const HIGH_HZ: u32 = 40;
const LOW_HZ: u32 = 10;
const LOW_WORK_MS: f64 = 20.0;
/// Percent of the processor that both want together. Where misses begin a step is one percent, half
/// of what is asked for.
const PERCENT: [u32; 14] = [60, 80, 90, 91, 92, 93, 94, 95, 96, 97, 98, 99, 100, OVERLOAD];
const QUICK_PERCENT: [u32; 5] = [80, 92, 95, 98, OVERLOAD];
const OVERLOAD: u32 = 104;
/// From here on a point is measured several times, subjects taking turns.
const FINE: u32 = 90;
/// How often.
const RUNS: usize = 3;
/// By how much of the processor the low consumer may miss its first deadline before a bare thread
/// does.
const WITHIN: f64 = 2.0;
const FEDERATED_WITHIN: f64 = 3.0;
/// For what two processes do before they measure.
const TIMEOUT: Duration = Duration::from_secs(20);
const CHANNEL: [&str; 2] = ["channel-high", "channel-low"];
const FEDERATED: [&str; 2] = ["federated-high", "federated-low"];
const BARE: [&str; 2] = ["bare-high", "bare-low"];
/// The bare threads once more: what they and [`BARE`] differ by is noise.
const AGAIN: [&str; 2] = ["bare-again-high", "bare-again-low"];
const CONTROL: [&str; 2] = ["single-threaded-high", "single-threaded-low"];

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    let percents: &[u32] = cx.pick(&QUICK_PERCENT, &PERCENT);
    let ms = cx.ms(1_200, 1_400);
    let unit = calibrate_work(cx)?;
    let units = |ms: f64| (ms * unit).round() as i32;
    for &percent in percents {
        let high_ms = (f64::from(percent) / 100.0 - LOW_WORK_MS * f64::from(LOW_HZ) / 1000.0) * 1000.0
            / f64::from(HIGH_HZ);
        // The low consumer is an ordinary thread, so that the kernel's throttling of real-time
        // threads does not decide.
        let pairs = [
            Pair { hz: HIGH_HZ, work: units(high_ms), priority: 20_000 },
            Pair { hz: LOW_HZ, work: units(LOW_WORK_MS), priority: 100 },
        ];
        cx.progress(format!("{NAME}: {percent} %"));
        let fine = (FINE..OVERLOAD).contains(&percent);
        let mut subjects = [(BARE, vec![]), (CHANNEL, vec![]), (FEDERATED, vec![]), (AGAIN, vec![])];
        for turn in 0..if fine { RUNS } else { 1 } {
            for i in 0..subjects.len() {
                let (subject, seen) = &mut subjects[(i + turn) % subjects.len()];
                seen.push(once(cx, *subject, &pairs, ms)?);
            }
        }
        for (subject, seen) in &subjects {
            push(out, *subject, percent, &pairs, ms, seen);
        }
        if !fine {
            let single = through_channel(cx, Strategy::SingleThreaded, &pairs, ms)?;
            push(out, CONTROL, percent, &pairs, ms, &[single]);
        }
    }
    let (x, y) = ("percent of the processor", "milliseconds, mean and least");
    let figure = Figure::new("laxity", "Laxity", x, y, &["mean_ms", "min_ms"]);
    out.figures = vec![figure.divide(1.0).linear()];
    out.note(format!(
        "High: {HIGH_HZ} Hz; low: {LOW_HZ} Hz with {LOW_WORK_MS} ms of work, in the ordinary class. 'federated': the high supplier and consumer are at a channel in one process, the low ones at a channel in another, with a link over the ORB between and an idle consumer of the other's events at each. A consumer is in time at a point where most of its runs ({RUNS} from {FINE} % on, of {ms} ms each) end without a missed deadline."
    ));
    Ok(())
}

/// One run of a subject.
fn once(cx: &Context<'_>, subject: [&str; 2], pairs: &[Pair; 2], ms: u32) -> Result<Ages, BenchError> {
    match subject {
        CHANNEL => through_channel(cx, Strategy::Threads { per_level: 1 }, pairs, ms),
        FEDERATED => federated(cx, pairs, ms),
        _ => bare(cx, pairs, ms),
    }
}

/// Two federated channels, each in its process, as figure 16 has it: the high supplier and consumer
/// here, the low ones there, and at each an idle consumer of the other's events; all on one
/// processor.
fn federated(cx: &Context<'_>, pairs: &[Pair; 2], ms: u32) -> Result<Ages, BenchError> {
    let [high, low] = *pairs;
    let [here, there] = [[high, Pair { work: 0, ..low }], [Pair { work: 0, ..high }, low]];
    let (orb, real_time) = (remote::orb()?, cx.fifo.is_some());
    let strategy = Strategy::Threads { per_level: 1 };
    let consumers = Consumers::connect(1, cx.cpu(), real_time, strategy, &here, ms)?;
    let federation = Federation::builder(&consumers.channel).build().map_err(refused)?;
    let neighbourhood = FederationServant::start(&orb, &federation, LinkOptions::new(TIMEOUT))?;
    let (neighbour, cpu) = (neighbourhood.object().to_string(), cx.cpu().to_string());
    let words: Vec<String> =
        there.iter().map(|pair| format!("--pair={}:{}:{}", pair.hz, pair.work, pair.priority)).collect();
    let mut arguments = vec!["federated", &neighbour, "--cpu", &cpu];
    arguments.extend(words.iter().map(String::as_str));
    if real_time {
        arguments.push("--real-time");
    }
    // Events come in above all consumers.
    let mut far = Remote::start(cx, FEDERATED[0], 15, &arguments)?;
    let until = Instant::now() + TIMEOUT;
    while federation.known() == 0 {
        if Instant::now() > until {
            return Err(refused("the channels do not hear each other"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let start = now_ns() + 50_000_000;
    far.order(&format!("supply {start} {ms}"))?;
    supply_from(start, (cx.cpu(), real_time), &consumers.channel, &here, ms)?;
    let mut ages = consumers.take();
    ages.truncate(1);
    ages.extend(far.take(there.len())?.pop());
    consumers.end();
    orb.shutdown(true)?;
    Ok(ages)
}

/// Laxity is what is left of the period when the consumer is done. `runs` are the same once more
/// each.
fn push(
    out: &mut Measured,
    subjects: [&'static str; 2],
    percent: u32,
    pairs: &[Pair],
    ms: u32,
    runs: &[Ages],
) {
    for (i, (subject, pair)) in subjects.into_iter().zip(pairs).enumerate() {
        let period = 1000.0 / f64::from(pair.hz);
        let of = |ages: &Ages| -> Vec<f64> {
            let ages = ages.get(i).into_iter().flatten();
            ages.map(|&age| period - age as f64 / 1e6).collect()
        };
        let each: Vec<Vec<f64>> = runs.iter().map(of).collect();
        let due = count(pair, ms).max(1);
        let met = |laxities: &Vec<f64>| laxities.iter().filter(|&&laxity| laxity >= 0.0).count();
        let clean = each.iter().filter(|laxities| met(laxities) >= due).count() as f64;
        let in_time = each.iter().map(met).sum::<usize>() as f64;
        let laxities = each.concat();
        let round = |value: f64| (value * 100.0).round() / 100.0;
        let values = vec![
            ("min_ms", round(laxities.iter().copied().fold(f64::NAN, f64::min))),
            ("mean_ms", round(laxities.iter().sum::<f64>() / laxities.len() as f64)),
            ("max_ms", round(laxities.iter().copied().fold(f64::NAN, f64::max))),
            ("in_time_percent", round(100.0 * in_time / (due * runs.len().max(1)) as f64)),
            (CLEAN, round(100.0 * clean / runs.len().max(1) as f64)),
        ];
        // What was never done has no laxity, and is not in time.
        let values = values.into_iter().filter(|(_, value)| value.is_finite()).collect();
        out.row("laxity", subject, percent, values);
    }
}

/// Percent of the runs in which every event was in time.
const CLEAN: &str = "clean_runs_percent";

/// The load up to which most runs have no miss.
fn bound(r: &dyn Cells, subject: &str) -> f64 {
    let runs = r.series("laxity", subject, CLEAN);
    if runs.is_empty() {
        return f64::NAN;
    }
    runs.into_iter().take_while(|&(_, clean)| clean > 50.0).last().map_or(0.0, |(percent, _)| percent)
}

/// How much later a low consumer misses its first deadline than a bare thread; not a number if it
/// always does.
fn margin(r: &dyn Cells, subject: &str) -> [f64; 3] {
    let [bound, bare] = [subject, BARE[1]].map(|subject| bound(r, subject));
    [if bound > 0.0 { bound - bare } else { f64::NAN }, bound, bare]
}

/// By how many of [`WITHIN`] the two series of bare threads differ: beyond them the machine decides
/// where misses begin. Without end where bare threads miss deadlines at any load.
fn noise(r: &dyn Cells) -> f64 {
    let [bare, again] = [BARE, AGAIN].map(|[_, low]| bound(r, low));
    if bare == 0.0 { f64::INFINITY } else { 1.0 + (NOISE - 1.0) * (bare - again).abs() / WITHIN }
}

fn claims() -> Vec<Claim> {
    let late = |within: f64, subject: &'static str, sentence: &str| {
        paper(AtLeast(-within), sentence, move |r| {
            let [margin, channel, bare] = margin(r, subject);
            [margin, channel, bare, bound(r, AGAIN[1])]
        })
        .unless_noisy(noise)
    };
    let mut claims = claims! {
        paper Below(96.0), format!("at {OVERLOAD} % only {{0:.0}} % of the low consumer's events are in \
             time ({{limit}})"), |r| [r.at("laxity", CHANNEL[1], "in_time_percent", OVERLOAD.into())];
        paper Above(0.0), "the high consumer misses nothing up to {1} %, {0} beyond where the low one does \
             ({limit})",
            |r| {
                let [high, low] = CHANNEL.map(|subject| bound(r, subject));
                [high - low, high]
            };
        control Below(90.0), "with a single thread the high consumer meets as few as {0:.0} % ({limit})",
            |r| [least(r.values("laxity", CONTROL[0], "in_time_percent"))];
    };
    let sentence = "the low consumer misses nothing up to {1} %, a bare thread up to {2} %, and {3} in a second \
                series (a difference of {0}, {limit}; the paper: 99)";
    claims.push(late(WITHIN, CHANNEL[1], sentence));
    let sentence = "in two federated processes up to {1} %, a bare thread up to {2} % and {3} (a difference of {0}, \
                {limit}; the paper: 96)";
    claims.push(late(FEDERATED_WITHIN, FEDERATED[1], sentence));
    claims
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_clean_where_nothing_is_late() {
        let pairs = [Pair { hz: 40, work: 1, priority: 1 }, Pair { hz: 10, work: 1, priority: 1 }];
        // In 100 ms 4 events and one; of the first, one is late in the second run, and one is
        // missing in the third.
        let run = |high: &[u64]| vec![high.iter().map(|ms| ms * 1_000_000).collect(), vec![5_000_000]];
        let runs = [run(&[1, 1, 1, 1]), run(&[1, 30, 1, 1]), run(&[1, 1, 1])];
        let mut out = Measured::default();
        push(&mut out, CHANNEL, 90, &pairs, 100, &runs);
        assert_eq!(out.rows.at("laxity", CHANNEL[0], CLEAN, 90.0), 33.33);
        assert_eq!(out.rows.at("laxity", CHANNEL[0], "in_time_percent", 90.0), 83.33);
        assert_eq!(out.rows.at("laxity", CHANNEL[0], "min_ms", 90.0), -5.0);
        assert_eq!(out.rows.at("laxity", CHANNEL[1], CLEAN, 90.0), 100.0);
    }
}

//! How much of the processor a channel can use before its low consumer misses deadlines: the high consumer's work grows until it does.

use std::time::{Duration, Instant};

use isorb_event::face::Neighbourhood;
use isorb_event::federation::Federation;
use isorb_event::{Channel, Config, Quality, Strategy};

use super::super::catalogue::Experiment;
use super::super::{BenchError, Context};
use super::pairs::{Ages, Pair, bare, count, supply, through_channel};
use super::refused;
use super::remote::{self, Remote};
use crate::contention::calibrate_work;
use crate::figure::{Claim, Figure, Outcome, Row, Verdict, at, series};

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Laxity of a high and a low consumer as the processor fills up: one channel, two federated processes, two bare threads",
    source: "Harrison, O'Ryan, Levine, Schmidt (TAO's event service): figures 15 and 16",
    paper: PAPER,
    seconds: (58, 350),
    run,
};

const NAME: &str = "tao-utilisation";
const PAPER: &str = "a channel uses over 99 % of the processor before its low consumer misses a deadline, two that are federated over 96 %";
/// As in the paper: 25 and 100 ms. The low consumer wants a fifth of the processor.
const HIGH_HZ: u32 = 40;
const LOW_HZ: u32 = 10;
const LOW_WORK_MS: f64 = 20.0;
/// Percent of the processor that both want together.
const PERCENT: [u32; 13] = [50, 70, 80, 86, 90, 92, 94, 95, 96, 97, 98, 100, 104];
const QUICK_PERCENT: [u32; 6] = [70, 92, 94, 96, 98, 104];
/// By how much of the processor the low consumer may miss its first deadline before a bare thread does.
const WITHIN: f64 = 2.0;
const FEDERATED_WITHIN: f64 = 3.0;
/// For what two processes do before they measure.
const PATIENCE: Duration = Duration::from_secs(20);
const CHANNEL: [&str; 2] = ["channel-high", "channel-low"];
const FEDERATED: [&str; 2] = ["federated-high", "federated-low"];
const BARE: [&str; 2] = ["bare-high", "bare-low"];
const CONTROL: [&str; 2] = ["single-threaded-high", "single-threaded-low"];

fn run(cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let percents: &[u32] = cx.pick(&QUICK_PERCENT, &PERCENT);
    let ms = cx.ms(2_200, 5_000);
    let unit = calibrate_work(cx)?;
    let units = |ms: f64| (ms * unit).round() as i32;
    let mut rows = Vec::new();
    for (i, &percent) in percents.iter().enumerate() {
        let high_ms = (f64::from(percent) / 100.0 - LOW_WORK_MS * f64::from(LOW_HZ) / 1000.0) * 1000.0
            / f64::from(HIGH_HZ);
        // The low consumer is an ordinary thread, so that the kernel's throttling of real-time threads does not decide.
        let pairs = [
            Pair { hz: HIGH_HZ, work: units(high_ms), priority: 20_000 },
            Pair { hz: LOW_HZ, work: units(LOW_WORK_MS), priority: 100 },
        ];
        cx.step(format!("{NAME}: {percent} %"));
        push(&mut rows, BARE, percent, &pairs, ms, &bare(cx, &pairs, ms)?);
        let threads = through_channel(cx, Strategy::Threads { per_level: 1 }, &pairs, ms)?;
        push(&mut rows, CHANNEL, percent, &pairs, ms, &threads);
        if i % 2 == 0 {
            let single = through_channel(cx, Strategy::SingleThreaded, &pairs, ms)?;
            push(&mut rows, CONTROL, percent, &pairs, ms, &single);
        }
        push(&mut rows, FEDERATED, percent, &pairs, ms, &federated(cx, &pairs, ms)?);
    }
    let figures = vec![Figure {
        id: "laxity",
        title: "Laxity",
        x: "percent of the processor",
        y: "milliseconds, mean and least",
        draw: &["mean_ms", "min_ms"],
        divide: 1.0,
        log: false,
    }];
    let notes = vec![format!(
        "High: {HIGH_HZ} Hz; low: {LOW_HZ} Hz with {LOW_WORK_MS} ms of work, in the ordinary class. 'federated': the suppliers' channel is in one process, the consumers' in another, with a link over the ORB between."
    )];
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    Ok(Outcome { figures, rows, notes, verdict })
}

/// From a channel in this process to one in another, where the consumers are; all on one processor.
fn federated(cx: &Context<'_>, pairs: &[Pair], ms: u32) -> Result<Ages, BenchError> {
    let orb = remote::orb()?;
    let channel = Channel::new(Config { id: 1, ..Config::default() }).map_err(refused)?;
    let federation = Federation::new(&channel, Quality::default()).map_err(refused)?;
    let neighbourhood = Neighbourhood::start(&orb, &federation, PATIENCE)?;
    let (neighbour, cpu) = (neighbourhood.object().to_string(), cx.cpu().to_string());
    let words: Vec<String> =
        pairs.iter().map(|pair| format!("--pair={}:{}:{}", pair.hz, pair.work, pair.priority)).collect();
    let mut arguments = vec!["member", &neighbour, "--cpu", &cpu];
    arguments.extend(words.iter().map(String::as_str));
    if cx.fifo.is_some() {
        arguments.push("--real-time");
    }
    // Events come in above all consumers.
    let far = Remote::start(cx, FEDERATED[0], 15, &arguments)?;
    let until = Instant::now() + PATIENCE;
    while federation.known() == 0 {
        if Instant::now() > until {
            return Err(refused("the channels do not hear each other"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    supply(cx, &channel, pairs, ms)?;
    let ages = far.take(pairs.len())?;
    channel.destroy();
    orb.shutdown(true)?;
    Ok(ages)
}

/// Laxity is what is left of the period when the consumer is done.
fn push(
    rows: &mut Vec<Row>,
    subjects: [&'static str; 2],
    percent: u32,
    pairs: &[Pair],
    ms: u32,
    ages: &Ages,
) {
    for ((subject, pair), ages) in subjects.into_iter().zip(pairs).zip(ages) {
        let period = 1000.0 / f64::from(pair.hz);
        let laxities: Vec<f64> = ages.iter().map(|&age| period - age as f64 / 1e6).collect();
        let due = count(pair, ms).max(1) as f64;
        let met = laxities.iter().filter(|&&laxity| laxity >= 0.0).count() as f64;
        let round = |value: f64| (value * 100.0).round() / 100.0;
        let values = vec![
            ("min_ms", round(laxities.iter().copied().fold(f64::NAN, f64::min))),
            ("mean_ms", round(laxities.iter().sum::<f64>() / laxities.len() as f64)),
            ("max_ms", round(laxities.iter().copied().fold(f64::NAN, f64::max))),
            ("in_time_percent", round(100.0 * met / due)),
        ];
        // What was never done has no laxity, and is not in time.
        let values = values.into_iter().filter(|(_, value)| value.is_finite()).collect();
        rows.push(Row { experiment: NAME, figure: "laxity", subject, x: percent.into(), values });
    }
}

fn judge(rows: &[Row]) -> Vec<Claim> {
    let met = |subject: &str| series(rows, "laxity", subject, "in_time_percent");
    // As far as everything is in time, but for one in twenty-five: the machine has other things to do as well.
    let bound = |subject: &str| {
        let kept = met(subject).into_iter().take_while(|&(_, percent)| percent >= 96.0);
        kept.last().map_or(0.0, |(percent, _)| percent)
    };
    let (channel, federated, bare) = (bound(CHANNEL[1]), bound(FEDERATED[1]), bound(BARE[1]));
    let high = bound(CHANNEL[0]);
    let single = met(CONTROL[0]).into_iter().map(|(_, percent)| percent).fold(f64::NAN, f64::min);
    let overload = at(rows, "laxity", CHANNEL[1], "in_time_percent", 104.0);
    vec![
        Claim::paper(
            channel > 0.0 && channel >= bare - WITHIN,
            format!(
                "the low consumer is in time up to {channel} %, a bare thread up to {bare} % (at most {WITHIN} less; the paper: 99)"
            ),
        ),
        Claim::paper(
            federated > 0.0 && federated >= bare - FEDERATED_WITHIN,
            format!(
                "behind a second channel up to {federated} % (at most {FEDERATED_WITHIN} less; the paper: 96)"
            ),
        ),
        Claim::paper(
            overload < 96.0,
            format!("at 104 % only {overload:.0} % of the low consumer's events are in time (below 96)"),
        ),
        Claim::paper(
            high >= 100.0,
            format!("the high consumer is in time up to {high} % (beyond where the low one is not)"),
        ),
        Claim::control(
            single < 90.0,
            format!("with a single thread the high consumer meets as few as {single:.0} % (below 90)"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(percent: impl Fn(&str, f64) -> f64) -> (bool, Option<bool>) {
        let mut rows = Vec::new();
        for subject in CHANNEL.into_iter().chain(FEDERATED).chain(BARE).chain(CONTROL) {
            for x in PERCENT {
                let values = vec![("in_time_percent", percent(subject, x.into()))];
                rows.push(Row { experiment: NAME, figure: "laxity", subject, x: x.into(), values });
            }
        }
        let v = Verdict::new(NAME, PAPER, judge(&rows));
        (v.shape_holds, v.control_fails)
    }

    #[test]
    fn shapes_are_told_apart() {
        let as_seen = |subject: &str, x: f64| match subject {
            "single-threaded-high" if x > 70.0 => 40.0,
            "channel-low" | "bare-low" | "federated-low" if x > 97.0 => 0.0,
            _ => 100.0,
        };
        assert_eq!(verdict(as_seen), (true, Some(true)));
        assert_eq!(verdict(|_, _| 100.0), (false, Some(false)), "nobody misses anything");
        let early = |late: &'static str, from: f64| {
            verdict(move |subject, x| if subject == late && x > from { 0.0 } else { as_seen(subject, x) }).0
        };
        assert!(early("channel-low", 95.0) && !early("channel-low", 94.0));
        assert!(early("federated-low", 94.0) && !early("federated-low", 92.0));
    }
}

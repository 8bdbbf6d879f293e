//! How much of the processor a channel can use before its low consumer misses deadlines: the high consumer's work grows until it does.

use isorb_event::Strategy;

use super::super::catalogue::Experiment;
use super::super::{BenchError, Context};
use super::pairs::{Ages, Pair, bare, count, through_channel};
use crate::contention::calibrate_work;
use crate::figure::{Claim, Figure, Outcome, Row, Verdict, at, series};

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Laxity of a high and a low consumer as the processor fills up, one channel, beside two bare threads",
    source: "Harrison, O'Ryan, Levine, Schmidt (TAO's event service): figure 15",
    paper: PAPER,
    seconds: (45, 170),
    run,
};

const NAME: &str = "tao-utilisation";
const PAPER: &str = "a channel uses over 99 % of the processor before its low consumer misses a deadline";
/// As in the paper: 25 and 100 ms. The low consumer wants a fifth of the processor.
const HIGH_HZ: u32 = 40;
const LOW_HZ: u32 = 10;
const LOW_WORK_MS: f64 = 20.0;
/// Percent of the processor that both want together.
const PERCENT: [u32; 9] = [50, 70, 80, 86, 90, 94, 97, 100, 104];
const QUICK_PERCENT: [u32; 5] = [50, 80, 90, 97, 104];
const CHANNEL: [&str; 2] = ["channel-high", "channel-low"];
const BARE: [&str; 2] = ["bare-high", "bare-low"];
const CONTROL: [&str; 2] = ["single-threaded-high", "single-threaded-low"];

fn run(cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let percents: &[u32] = cx.pick(&QUICK_PERCENT, &PERCENT);
    let ms = cx.ms(2_500, 5_000);
    let unit = calibrate_work(cx)?;
    let units = |ms: f64| (ms * unit).round() as i32;
    let mut rows = Vec::new();
    for &percent in percents {
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
        let single = through_channel(cx, Strategy::SingleThreaded, &pairs, ms)?;
        push(&mut rows, CONTROL, percent, &pairs, ms, &single);
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
        "High: {HIGH_HZ} Hz; low: {LOW_HZ} Hz with {LOW_WORK_MS} ms of work, in the ordinary class. One process; the paper's federated half is not here."
    )];
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    Ok(Outcome { figures, rows, notes, verdict })
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
    let (channel, bare) = (bound(CHANNEL[1]), bound(BARE[1]));
    let high = bound(CHANNEL[0]);
    let single = met(CONTROL[0]).into_iter().map(|(_, percent)| percent).fold(f64::NAN, f64::min);
    let overload = at(rows, "laxity", CHANNEL[1], "in_time_percent", 104.0);
    vec![
        Claim::paper(
            channel > 0.0 && channel >= bare,
            format!(
                "the low consumer is in time up to {channel} %, a bare thread up to {bare} % (not less; the paper: 99)"
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
        for subject in CHANNEL.into_iter().chain(BARE).chain(CONTROL) {
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
            "channel-low" | "bare-low" if x > 97.0 => 0.0,
            _ => 100.0,
        };
        assert_eq!(verdict(as_seen), (true, Some(true)));
        assert_eq!(verdict(|_, _| 100.0), (false, Some(false)), "nobody misses anything");
        assert!(!verdict(|subject, x| if subject == "channel-low" && x > 60.0 { 0.0 } else { 100.0 }).0);
    }
}

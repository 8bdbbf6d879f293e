//! The mean round trip of the high producer while low ones are added.

use super::points::{Point, measure};
use super::site::{self, Release};
use super::{
    AGAIN, BARE, CHANNEL, CHANNEL_ORB, MEMORY, OMNIORB, ORB, deviation_of_others, figure, growth, notes,
    returned, subjects,
};
use crate::experiments::catalogue::Experiment;
use crate::experiments::{BenchError, Context};
use crate::figure::{Claim, Outcome, Row, Verdict, at};

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Round trip from node to node of a high producer among 0 to 50 low ones: reflective memory and the event channel",
    source: "Chung, González, Ramamritham, Shen (CReMeS): figures 2, 3, 5 and 6",
    paper: PAPER,
    seconds: (50, 215),
    run,
};

const NAME: &str = "cremes-latency";
const PAPER: &str = "through reflective memory the high producer's latency stays nearly as it is while low producers are added; through the event service it is longer, and grows more";
/// How many low producers: the ends, which the claims are about, and between.
const ENDS: [u32; 2] = [0, 50];
const BETWEEN: [u32; 2] = [10, 30];
/// Who is measured between the ends.
const FEW: [&str; 5] = [MEMORY, BARE, CHANNEL, ORB, OMNIORB];
/// Octets of a value, and the figures: all released together, and the high one where it meets the low ones.
type Size = (usize, [(Release, [&'static str; 2]); 2]);
const SIZES: [Size; 2] = [
    (1 << 10, [(Release::Together, ["high-1k", "low-1k"]), (Release::Behind, ["met-1k", ""])]),
    (8 << 10, [(Release::Together, ["high-8k", "low-8k"]), (Release::Behind, ["met-8k", ""])]),
];
const MOST: f64 = 50.0;

fn run(cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let lab = site::lab()?;
    let (subjects, missing) = subjects(cx);
    let few: Vec<&str> = FEW.into_iter().filter(|subject| subjects.contains(subject)).collect();
    let mut rows = Vec::new();
    for (size, passes) in &SIZES {
        let point = Point {
            experiment: NAME,
            passes,
            x: 0.0,
            low: 0,
            size: *size,
            ms: cx.ms(700, 1_100),
            turns: cx.pick(1, 2),
            subjects: &subjects,
            trace: None,
        };
        for low in ENDS {
            measure(cx, &lab, &Point { x: low.into(), low, ..point }, &mut rows)?;
        }
        for &low in cx.pick(&[][..], &BETWEEN) {
            let between = Point { subjects: &few, turns: 1, ms: 800, ..point };
            measure(cx, &lab, &Point { x: low.into(), low, ..between }, &mut rows)?;
        }
    }
    rows.sort_by(|a, b| a.x.total_cmp(&b.x));
    let x = "low producers";
    let draw = &["mean_ns"];
    let figures = vec![
        figure("high-1k", "The high producer, 1 KiB", x, draw),
        figure("low-1k", "The low producers, 1 KiB", x, draw),
        figure("high-8k", "The high producer, 8 KiB", x, draw),
        figure("low-8k", "The low producers, 8 KiB", x, draw),
        figure("met-1k", "The high producer where it meets the low ones, 1 KiB", x, draw),
        figure("met-8k", "The high producer where it meets the low ones, 8 KiB", x, draw),
    ];
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    Ok(Outcome { figures, rows, notes: notes(missing), verdict })
}

fn judge(rows: &[Row]) -> Vec<Claim> {
    let grows = |subject: &str, figure: &str| growth(rows, figure, subject, "mean_ns", 0.0, MOST);
    let mean = |subject: &str, figure: &str| at(rows, figure, subject, "mean_ns", MOST);
    let deviation = |subject: &str, figure: &str| at(rows, figure, subject, "stddev_ns", MOST) / 1000.0;
    let mut claims = Vec::new();
    for (figure, words, limit, paper) in
        [("high-1k", "1 KiB", 1.15, "1.13"), ("high-8k", "8 KiB", 1.45, "1.44")]
    {
        let memory = grows(MEMORY, figure);
        claims.push(Claim::paper(
            memory <= limit,
            format!("at {words}, 50 low producers make it {memory:.2} times as long through reflective memory (at most {limit}; the paper: {paper})"),
        ));
    }
    let met = |subject: &str, figure: &str, alone: &str| {
        mean(subject, figure) / at(rows, alone, subject, "mean_ns", 0.0)
    };
    let (channel, memory) = (met(CHANNEL, "met-8k", "high-8k"), met(MEMORY, "met-8k", "high-8k"));
    claims.push(Claim::paper(
        channel > memory,
        format!("at 8 KiB, where it meets them, {channel:.2} times through the event channel (more than reflective memory's {memory:.2}; the paper: 1.97)"),
    ));
    for subject in [CHANNEL, CHANNEL_ORB] {
        let beside = mean(subject, "met-8k") / mean(MEMORY, "met-8k");
        claims.push(Claim::paper(
            beside > 1.0,
            format!("there, among 50, {subject} takes {beside:.2} times as long as reflective memory (above 1; the paper: 2.3)"),
        ));
    }
    let bare = met(BARE, "met-8k", "high-8k");
    claims.push(Claim::control(
        bare > memory.max(2.0),
        format!("there, over one queue without priorities ('bare') it takes {bare:.2} times as long (more, and above 2)"),
    ));
    for (figure, alone, limit) in [("met-1k", "high-1k", 1.15), ("met-8k", "high-8k", 1.45)] {
        let memory = met(MEMORY, figure, alone);
        claims.push(Claim::paper(
            memory <= limit,
            format!("{figure}: even where it meets them, {memory:.2} times through reflective memory (at most {limit})"),
        ));
        let (memory, channel) = (deviation(MEMORY, figure), deviation(CHANNEL, figure));
        claims.push(Claim::paper(
            memory < channel,
            format!("{figure}: among 50, it deviates by {memory:.0} us through reflective memory (less than the event channel's {channel:.0})"),
        ));
    }
    for figure in ["high-1k", "high-8k"] {
        let of =
            [MEMORY, CHANNEL, BARE, AGAIN].map(|subject| deviation_of_others(rows, figure, subject, MOST));
        let [memory, channel, bare, again] = of;
        let worst = at(rows, figure, MEMORY, "max_ns", MOST) / 1000.0;
        claims.push(Claim::paper(
            memory <= channel.max(bare).max(again),
            format!("{figure}: released together with 50, when nothing is in its way yet, it deviates by {memory:.0} us but for the worst value, {worst:.0} us (the event channel by {channel:.0}, the bare hand-overs by {bare:.0} and {again:.0}: at most the largest of these)"),
        ));
    }
    let bare = mean(MEMORY, "high-1k") / mean(BARE, "high-1k");
    claims.push(Claim::aim(
        bare <= 1.5,
        format!(
            "at 1 KiB and 50, reflective memory takes {bare:.2} times as long as a bare program (at most 1.5)"
        ),
    ));
    let orb = mean(ORB, "high-8k") / mean(MEMORY, "high-8k");
    claims.push(Claim::aim(
        orb > 1.0,
        format!("at 8 KiB and 50, through the ORB it takes {orb:.2} times as long as by datagrams (above 1)"),
    ));
    let omniorb = mean(OMNIORB, "met-8k") / mean(MEMORY, "met-8k");
    if !omniorb.is_nan() {
        claims.push(Claim::aim(
            omniorb > 1.0,
            format!("at 8 KiB, where it meets 50, by two-way calls of omniORB it takes {omniorb:.2} times as long (above 1)"),
        ));
    }
    let all = ["high-1k", "high-8k", "met-1k", "met-8k"];
    // A subject of which nothing arrives would look slow, and its deviation small: what it is compared with would say nothing.
    let alone = |subject: &&str| {
        let back = |figure: &str| at(rows, figure, subject, "returned_percent", 0.0);
        ["high-1k", "high-8k"].into_iter().all(|figure| back(figure) >= 99.0)
    };
    let broken: Vec<&str> = [MEMORY, CHANNEL, CHANNEL_ORB, ORB, BARE, AGAIN]
        .into_iter()
        .filter(|subject| !alone(subject))
        .collect();
    claims.push(Claim::paper(
        broken.is_empty(),
        match broken.is_empty() {
            true => "alone, at least 99 % of the high producer's values arrive by every way".to_owned(),
            false => {
                format!("alone, less than 99 % of the high producer's values arrive by {}", broken.join(", "))
            }
        },
    ));
    let least = all.map(|figure| returned(rows, figure, MEMORY)).into_iter().reduce(f64::min);
    let least = least.unwrap_or(f64::NAN);
    claims.push(Claim::aim(
        least >= 99.0,
        format!(
            "{least:.1} % of the high producer's stamps came back through reflective memory (at least 99)"
        ),
    ));
    claims
}

#[cfg(test)]
mod tests {
    use super::super::SUBJECTS;
    use super::*;

    fn verdict(us: impl Fn(&str, f64) -> f64) -> (bool, Option<bool>) {
        verdict_without("", us)
    }

    /// Of values of which none arrives by one of the ways.
    fn verdict_without(lost: &str, us: impl Fn(&str, f64) -> f64) -> (bool, Option<bool>) {
        let mut rows = Vec::new();
        for figure in ["high-1k", "high-8k", "met-1k", "met-8k"] {
            for subject in SUBJECTS {
                for x in [0.0, 50.0] {
                    let values = vec![
                        ("mean_ns", us(subject, x) * 1000.0),
                        ("stddev_ns", us(subject, x) * if figure.starts_with("met") { 10.0 } else { 1.0 }),
                        ("n", 44.0),
                        ("max_ns", us(subject, x) * 1000.0),
                        ("returned_percent", if subject == lost { 0.0 } else { 100.0 }),
                    ];
                    rows.push(Row { experiment: NAME, figure, subject, x, values });
                }
            }
        }
        let verdict = Verdict::new(NAME, PAPER, judge(&rows));
        (verdict.shape_holds, verdict.control_fails)
    }

    #[test]
    fn shapes_are_told_apart() {
        let paper =
            |subject: &str, n: f64| if subject == MEMORY { 880.0 + 2.0 * n } else { 1900.0 + 40.0 * n };
        assert_eq!(verdict(paper), (true, Some(true)));
        for lost in [MEMORY, CHANNEL, CHANNEL_ORB, ORB, BARE, AGAIN] {
            assert!(!verdict_without(lost, paper).0, "nothing arrives by {lost}");
        }
        assert_eq!(verdict(|_, n| 880.0 + 2.0 * n), (false, Some(false)), "nobody else grows more");
        assert!(!verdict(|subject, n| paper(subject, n) + if subject == MEMORY { 3.0 * n } else { 0.0 }).0);
        assert!(
            !verdict(|subject, n| if subject == MEMORY { 880.0 } else { 100.0 + n * 10.0 }).0,
            "it is shorter"
        );
        assert_eq!(verdict(|_, _| f64::NAN), (false, Some(false)));
    }
}

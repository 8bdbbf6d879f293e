//! Points of a figure: subjects take turns, and each point has the round trips of the high producer
//! and of the low ones.

use isorb_netlab::Lab;

use super::echo::Trips;
use super::site::{Counted, LAST, LOW_PERIOD_NS, Pass, Release, Site};
use crate::experiments::{BenchError, Context};
use crate::figure::{Measured, times};

/// A point to measure.
pub struct Point<'a> {
    /// The passes, which use the same connections one after the other, and their figures: the high
    /// producer's, and the low ones'; empty for none. Without low producers there is only the first
    /// pass.
    pub passes: &'a [(Release, [&'static str; 2])],
    pub x: f64,
    pub low: u32,
    pub size: usize,
    /// How long a pass lasts each time, in milliseconds, and the high producer's period.
    pub lengths: (u32, u64),
    /// The least and the most turns of each subject.
    pub turns: [u32; 2],
    /// The subjects of which the mean is to be known.
    pub judged: &'a [&'static str],
    pub subjects: &'a [&'static str],
    /// The figure that shows the high producer's round trips of the first pass one by one, where
    /// there is one.
    pub trace: Option<&'static str>,
}

/// Measures a point for its subjects in turn.
pub fn measure(
    cx: &mut Context<'_>,
    lab: &Lab,
    point: &Point<'_>,
    out: &mut Measured,
) -> Result<(), BenchError> {
    let Point { low, size, lengths: (ms, high_ns), .. } = *point;
    let passes = if low == 0 { &point.passes[..1] } else { point.passes };
    let planned: Vec<(Release, u32)> = passes.iter().map(|&(release, _)| (release, ms)).collect();
    let mut all: Vec<(Vec<Trips>, Counted)> =
        point.subjects.iter().map(|_| (Trips::of(passes.len()), Counted::new())).collect();
    let [least, most] = point.turns;
    let mut turns = 0;
    while turns < least || turns < most && !is_known(point, &all) {
        turns += 1;
        for (&subject, (trips, counted)) in point.subjects.iter().zip(&mut all) {
            cx.progress(format!("{subject}, {low} low producers, {size} octets, turn {turns}"));
            let (more, counts) = Site { cx, lab, high_ns }.measure(subject, low, size, &planned)?;
            trips.iter_mut().zip(more).for_each(|(trips, more)| trips.join(&more));
            add_up(counted, counts);
        }
    }
    for (&subject, (trips, counted)) in point.subjects.iter().zip(&mut all) {
        for (&(release, figures), trips) in passes.iter().zip(&mut *trips) {
            let pass = Pass { start_ns: 0, ms, release };
            let sent = [high_ns, LOW_PERIOD_NS].map(|period| pass.values(period) * u64::from(turns));
            show(point, subject, figures, trips, [sent[0], sent[1] * u64::from(low)], counted, out);
        }
        if let Some(figure) = point.trace {
            for (number, &took) in trips[0].trace.iter().enumerate() {
                out.row(figure, subject, number as f64, vec![("round_trip_ns", took as f64)]);
            }
        }
    }
    Ok(())
}

/// Half of the interval in which the mean lies with a confidence of 95 %, of the mean.
const KNOWN: f64 = 0.1;

/// Whether the mean of the high producer's round trips is known, in every pass.
fn is_known(point: &Point<'_>, all: &[(Vec<Trips>, Counted)]) -> bool {
    let judged = point.subjects.iter().zip(all).filter(|(subject, _)| point.judged.contains(subject));
    judged.flat_map(|(_, (passes, _))| passes).all(|trips| {
        let s = trips.high.summary();
        s.n > 1 && 1.96 * s.stddev_ns / (s.n as f64).sqrt() <= KNOWN * s.mean_ns
    })
}

/// The rows of a pass.
fn show(
    point: &Point<'_>,
    subject: &'static str,
    [high, low]: [&'static str; 2],
    trips: &mut Trips,
    sent: [u64; 2],
    counted: &Counted,
    out: &mut Measured,
) {
    let returned = |n: u64, sent: u64| (n as f64 / sent as f64 * 1000.0).round() / 10.0;
    let back = trips.high.summary().n;
    // A subject must not gain by losing slow values.
    (back..sent[0]).for_each(|_| trips.high.add(LAST.as_nanos() as u64));
    if !high.is_empty() {
        let mut values = times(&trips.high.summary());
        values.push(("returned_percent", returned(back, sent[0])));
        values.extend(counted);
        out.row(high, subject, point.x, values);
    }
    if sent[1] > 0 && !low.is_empty() {
        let summary = trips.low.summary();
        let mut values = times(&summary);
        values.push(("returned_percent", returned(summary.n, sent[1])));
        out.row(low, subject, point.x, values);
    }
}

/// Combines the numbers of several turns: counts are added, of durations the longest is kept.
fn add_up(sum: &mut Counted, more: Counted) {
    if sum.is_empty() {
        *sum = more;
        return;
    }
    for ((name, sum), (_, more)) in sum.iter_mut().zip(more) {
        *sum = if name.ends_with("_ns") { sum.max(more) } else { *sum + more };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point<'a>(subjects: &'a [&'static str]) -> Point<'a> {
        Point {
            passes: &[],
            x: 1.0,
            low: 2,
            size: 1,
            lengths: (1, 1),
            turns: [1, 1],
            judged: &["known"],
            subjects,
            trace: None,
        }
    }

    #[test]
    fn what_did_not_come_back_counts_as_long() {
        let point = point(&[]);
        let mut trips = Trips::default();
        (0..3).for_each(|_| trips.high.add(1_000));
        trips.low.add(1_000);
        let mut out = Measured::default();
        show(&point, "s", ["high", "low"], &mut trips, [4, 2], &vec![("contained", 1.0)], &mut out);
        let [high, low] = &out.rows[..] else { panic!("two rows: {out:?}") };
        assert_eq!(high.value("n"), Some(4.0));
        assert_eq!(high.value("max_ns"), Some(300e6));
        assert_eq!((high.value("returned_percent"), high.value("contained")), (Some(75.0), Some(1.0)));
        assert_eq!((low.value("n"), low.value("returned_percent")), (Some(1.0), Some(50.0)));
    }

    #[test]
    fn a_mean_is_known_when_its_interval_is_narrow() {
        let of = |values: &[u64]| {
            let mut trips = Trips::of(1);
            trips[0].high.extend(values.iter().copied());
            is_known(&point(&["known", "other"]), &[(trips, vec![]), (Trips::of(1), vec![])])
        };
        assert!(of(&[1000, 1010, 990, 1000]));
        assert!(!of(&[1000, 3000]) && !of(&[1000]), "few, or far apart");
    }

    #[test]
    fn turns_add_up() {
        let mut sum = Counted::new();
        add_up(&mut sum, vec![("contained", 1.0), ("cost_ns", 30.0)]);
        add_up(&mut sum, vec![("contained", 2.0), ("cost_ns", 20.0)]);
        assert_eq!(sum, [("contained", 3.0), ("cost_ns", 30.0)]);
    }
}

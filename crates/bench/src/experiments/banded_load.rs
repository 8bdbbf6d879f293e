//! As `banded`, with the low clients' requests growing as well.

use super::banded::{ALONE, BESIDE, OF_CONTROL, TRANSPORTS, figures, measure, ratio, ratios};
use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::figure::{Claim, Outcome, Row, Verdict, series};

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Jitter of a high client beside six low ones whose requests grow with its own, over three transports",
    source: "Lankes, Pfeiffer, Bemmerl (ROFES): figures 11 to 14",
    paper: PAPER,
    seconds: (55, 600),
    run,
};

const NAME: &str = "banded-load";
const PAPER: &str = "under load of all clients, banded connections over TCP still get worse, over mapped segments they do not";

fn run(cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let rows = measure(cx, NAME, |size| size)?;
    let notes = vec![
        "All clients' requests have the size on the horizontal axis; both processes share one processor and its loopback.".to_owned(),
        OF_CONTROL.to_owned(),
    ];
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    Ok(Outcome { figures: figures(), rows, notes, verdict })
}

fn judge(rows: &[Row]) -> Vec<Claim> {
    // From the smallest requests to the largest.
    let growth = |subject: &str| {
        let all = series(rows, BESIDE, subject, "jitter_ns");
        match (all.first(), all.last()) {
            (Some(first), Some(last)) => last.1 / first.1.max(1.0),
            _ => f64::NAN,
        }
    };
    let (segment, tcp) = (growth("segment-banded"), growth("tcp-banded"));
    let jitter = ratio(rows, "tcp-banded", "segment-banded", "jitter_ns");
    let mut claims = vec![
        Claim::paper(
            segment <= tcp.max(1.5),
            format!(
                "from empty to 32 KiB requests the jitter in bands grows {segment:.1} times over segments, {tcp:.1} times over TCP"
            ),
        ),
        Claim::paper(
            jitter >= 1.0,
            format!("in bands, TCP's jitter is {jitter:.2} times that of segments (at least 1)"),
        ),
    ];
    for (transport, banded, shared) in TRANSPORTS {
        let control = ratio(rows, shared, banded, "jitter_ns");
        claims.push(Claim::control(
            control >= 2.0,
            format!(
                "by {transport} the jitter on one connection is {control:.1} times that in bands (at least 2)"
            ),
        ));
    }
    for (transport, banded, _) in TRANSPORTS {
        // At the worst of the sizes; of no size at all, none holds.
        let spreads = ratios(rows, (BESIDE, banded), (ALONE, banded), "spread_ns");
        let worst = spreads.into_iter().fold(f64::NAN, f64::max);
        claims.push(Claim::aim(
            worst <= 2.0,
            format!("by {transport} in bands, longest less shortest is at most {worst:.2} times that without low clients (at most 2)"),
        ));
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::super::banded::{SIZES, SUBJECTS};
    use super::*;

    #[test]
    fn shapes_are_told_apart() {
        let verdict = |stddev: &dyn Fn(&str, f64) -> f64| {
            let mut rows = Vec::new();
            for (subject, ..) in SUBJECTS {
                for size in SIZES {
                    let x = f64::from(size);
                    let jitter = stddev(subject, x);
                    for (figure, spread) in [(BESIDE, 10.0 * jitter), (ALONE, 30.0)] {
                        let values = vec![("jitter_ns", jitter), ("spread_ns", spread)];
                        rows.push(Row { experiment: NAME, figure, subject, x, values });
                    }
                }
            }
            let v = Verdict::new(NAME, PAPER, judge(&rows));
            let aims: Vec<bool> = v.claims.iter().rev().take(3).map(|claim| claim.holds).collect();
            (v.shape_holds, v.control_fails, aims)
        };
        let as_seen = |subject: &str, size: f64| match subject {
            "segment-banded" | "unix-banded" => 3.0,
            "tcp-banded" => 3.0 + size / 4096.0,
            _ => 30.0 + size / 1024.0,
        };
        // Of segments, unix sockets and TCP, in this order.
        assert_eq!(verdict(&as_seen), (true, Some(true), vec![true, true, false]));
        assert_eq!(verdict(&|_, _| 3.0), (true, Some(false), vec![true; 3]));
        assert_eq!(
            verdict(&|subject, size| if subject.starts_with("segment") { 3.0 + size } else { 3.0 }),
            (false, Some(false), vec![false, true, true])
        );
        let nothing = Verdict::new(NAME, PAPER, judge(&[]));
        assert!(!nothing.shape_holds && nothing.claims.iter().all(|claim| !claim.holds));
    }
}

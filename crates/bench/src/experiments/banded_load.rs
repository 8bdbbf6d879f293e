//! As `banded`, with the low clients' requests growing as well.

use super::banded::{OF_SEGMENTS, SUBJECTS, figures, measure, ratio};
use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::figure::{Claim, Outcome, Row, Verdict, series};

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Jitter of a high client beside six low ones whose requests grow with its own, TCP and segments",
    source: "Lankes, Pfeiffer, Bemmerl (ROFES): figures 11 to 14",
    paper: PAPER,
    seconds: (45, 450),
    run,
};

const NAME: &str = "banded-load";
const PAPER: &str = "under load of all clients, banded connections over TCP still get worse, over mapped segments they do not";
const SIZES: [u32; 6] = [0, 1 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10];
const QUICK_SIZES: [u32; 3] = [0, 4 << 10, 32 << 10];

fn run(cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let sizes: &[u32] = cx.pick(&QUICK_SIZES, &SIZES);
    let rows = measure(cx, NAME, sizes, cx.ms(3_000, 18_000), |size| size)?;
    let notes = vec![
        "All clients' requests have the size on the horizontal axis; both processes share one processor and its loopback.".to_owned(),
        OF_SEGMENTS.to_owned(),
    ];
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    Ok(Outcome { figures: figures(), rows, notes, verdict })
}

fn judge(rows: &[Row]) -> Vec<Claim> {
    // From the smallest requests to the largest.
    let growth = |subject: &str| {
        let all = series(rows, "high", subject, "stddev_ns");
        match (all.first(), all.last()) {
            (Some(first), Some(last)) => last.1 / first.1.max(1.0),
            _ => f64::NAN,
        }
    };
    let [tcp, tcp_shared, segment, segment_shared] = SUBJECTS.map(|(subject, ..)| growth(subject));
    let jitter = ratio(rows, "tcp-banded", "segment-banded", "stddev_ns");
    let control = ratio(rows, "segment-shared", "segment-banded", "stddev_ns");
    vec![
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
        Claim::control(
            control >= 2.0,
            format!(
                "over segments the jitter on one connection is {control:.1} times that in bands (at least 2); it grows {segment_shared:.1} times, over TCP {tcp_shared:.1}"
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_told_apart() {
        let verdict = |stddev: &dyn Fn(&str, f64) -> f64| {
            let mut rows = Vec::new();
            for (subject, ..) in SUBJECTS {
                for size in SIZES {
                    let x = f64::from(size);
                    let values = vec![("stddev_ns", stddev(subject, x))];
                    rows.push(Row { experiment: NAME, figure: "high", subject, x, values });
                }
            }
            let v = Verdict::new(NAME, PAPER, judge(&rows));
            (v.shape_holds, v.control_fails)
        };
        let as_seen = |subject: &str, size: f64| match subject {
            "segment-banded" => 3.0,
            "tcp-banded" => 3.0 + size / 4096.0,
            _ => 30.0 + size / 1024.0,
        };
        assert_eq!(verdict(&as_seen), (true, Some(true)));
        assert_eq!(verdict(&|_, _| 3.0), (true, Some(false)));
        assert_eq!(
            verdict(&|subject, size| if subject.starts_with("segment") { 3.0 + size } else { 3.0 }),
            (false, Some(false))
        );
    }
}

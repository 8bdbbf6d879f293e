//! As `banded`, with the low clients' requests growing as well.

use super::banded::{
    ALONE, BARE, BESIDE, LINK_BANDED, LINK_SORTED, SUBJECTS, TIMES, figures, measure, networks, over_link,
    ratio, ratios,
};
use super::banded_rounds::over_sizes;
use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::figure::{Claim, Outcome, Row, Verdict};

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Jitter of a high client beside six low ones whose requests grow with its own, over a link and three transports of a host",
    source: "Lankes, Pfeiffer, Bemmerl (ROFES): figures 11 to 14",
    paper: PAPER,
    seconds: (55, 600),
    run,
};

const NAME: &str = "banded-load";
const PAPER: &str = "under load of all clients, banded connections over Ethernet still get worse, over mapped segments they do not";
const SEGMENT_BANDED: &str = "segment-banded";

fn run(cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let subjects = [&SUBJECTS[..], &[BARE]].concat();
    let (rows, mut notes) = measure(cx, NAME, &subjects, |size| size)?;
    notes.insert(
        0,
        "All clients' requests have the size on the horizontal axis; both processes share one processor."
            .to_owned(),
    );
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    Ok(Outcome { figures: figures(), rows, notes, verdict })
}

fn judge(rows: &[Row]) -> Vec<Claim> {
    // What the low clients make of it, at each size.
    let loaded = |subject| ratios(rows, (BESIDE, subject), (ALONE, subject), "spread_ns");
    let largest = |ratios: Vec<f64>| ratios.last().copied().unwrap_or(f64::NAN);
    let segment = largest(loaded(SEGMENT_BANDED));
    let mut claims = vec![Claim::paper(
        segment <= 2.0,
        format!(
            "over segments in bands, six low clients with the largest requests spread the high one's calls {segment:.2} times as far (at most 2)"
        ),
    )];
    if over_link(rows) {
        let link = largest(loaded(LINK_BANDED));
        claims.push(Claim::paper(
            link >= 2.0,
            format!("over the link in bands they do it {link:.1} times as far (at least 2)"),
        ));
        let jitter = largest(ratios(rows, (BESIDE, LINK_BANDED), (BESIDE, SEGMENT_BANDED), "jitter_ns"));
        claims.push(Claim::paper(
            jitter >= 10.0,
            format!("the link's jitter is {jitter:.0} times that of segments then (at least 10)"),
        ));
    }
    for (network, banded, shared) in within_host(rows) {
        let control = ratio(rows, shared, banded, "jitter_ns");
        claims.push(Claim::control(
            control >= 2.0,
            format!(
                "by {network} the jitter on one connection is {control:.1} times that in bands (at least 2)"
            ),
        ));
    }
    if over_link(rows) {
        // A full queue of the link is before all connections alike: what helps is another queue.
        let queue = largest(ratios(rows, (BESIDE, LINK_BANDED), (BESIDE, LINK_SORTED), "jitter_ns"));
        claims.push(Claim::control(
            queue >= 2.0,
            format!(
                "over the link the largest requests' jitter in bands is {queue:.1} times that where the link sends the high client's \
                 packets first (at least 2)"
            ),
        ));
    }
    // Whatever moves octets within a host can do that; the paper has no such network beside its segments.
    let local = ratio(rows, "tcp-banded", SEGMENT_BANDED, "jitter_ns");
    claims.push(Claim::aim(
        local >= 1.0,
        format!(
            "in bands, the jitter of TCP within the host is {local:.2} times that of segments (at least 1)"
        ),
    ));
    claims.extend(within_host(rows).map(|(network, banded, _)| within_twice(rows, network, banded)));
    claims.extend(as_bare(rows));
    claims
}

/// Calls spread at most twice as far beside the low clients: over all sizes, and at none of them surely farther.
fn within_twice(rows: &[Row], network: &str, banded: &str) -> Claim {
    let Some(spread) = over_sizes(rows, TIMES, banded) else {
        return Claim::aim(false, format!("{network} in bands were not measured"));
    };
    Claim::aim(
        spread.mean.value <= 2.0 && spread.surely <= 2.0,
        format!(
            "by {network} in bands, longest less shortest is {} times that without low clients over all sizes (at most 2); {} at the worst \
             size (surely above 2 at none)",
            spread.mean, spread.worst
        ),
    )
}

/// What the machine makes of threads that do nothing else, beside what isorb makes of segments: cold caches, the kernel's scheduler, and the
/// other process's memory are before either.
fn as_bare(rows: &[Row]) -> Option<Claim> {
    let (bare, segment) = (over_sizes(rows, TIMES, BARE.name)?, over_sizes(rows, TIMES, SEGMENT_BANDED)?);
    Some(Claim::aim(
        segment.mean.low <= bare.mean.high,
        format!(
            "bare threads with mapped memory spread {} times as far then, {} at the worst size; segments surely no more than that",
            bare.mean, bare.worst
        ),
    ))
}

fn within_host(rows: &[Row]) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    networks(rows).filter(|&(_, banded, _)| banded != LINK_BANDED)
}

#[cfg(test)]
mod tests {
    use super::super::banded::SIZES;
    use super::super::banded_rounds::Times;
    use super::*;

    /// With a figure's jitter as said, ten times that as spread.
    fn verdict(jitter: &dyn Fn(&str, &str, f64) -> f64, link: bool) -> (bool, Option<bool>, Vec<bool>) {
        let mut rows = Vec::new();
        for subject in SUBJECTS.iter().chain([&BARE]).map(|subject| subject.name) {
            for (size, figure) in SIZES.iter().flat_map(|&size| [(size, BESIDE), (size, ALONE)]) {
                let x = f64::from(size);
                let jitter = jitter(subject, figure, x);
                let values = vec![("jitter_ns", jitter), ("spread_ns", 10.0 * jitter)];
                rows.push(Row { experiment: NAME, figure, subject, x, values });
            }
            for size in SIZES {
                let x = f64::from(size);
                let value = jitter(subject, BESIDE, x) / jitter(subject, ALONE, x);
                let times = Times { value, low: 0.8 * value, high: 1.25 * value };
                rows.push(Row { experiment: NAME, figure: TIMES, subject, x, values: times.values() });
            }
        }
        rows.retain(|row| link || !row.subject.starts_with("link"));
        let v = Verdict::new(NAME, PAPER, judge(&rows));
        let aims = v.claims.iter().rev().take(5).map(|claim| claim.holds).collect();
        (v.shape_holds, v.control_fails, aims)
    }

    /// The link in bands gets worse by its load, TCP within the host as well; without bands everything does.
    fn as_seen(subject: &str, figure: &str, size: f64) -> f64 {
        let load = if figure == BESIDE { size } else { 0.0 };
        match subject {
            "segment-banded" | "unix-banded" | "bare" => 3.0,
            "tcp-banded" => 3.0 + load / 4096.0,
            "link-banded" => 50.0 + load / 100.0,
            "link-sorted" => 60.0,
            _ => 300.0 + load / 10.0,
        }
    }

    #[test]
    fn shapes_are_told_apart() {
        // Beside bare threads, of segments, unix sockets and TCP, in this order, and TCP beside segments.
        let aims = vec![true, true, true, false, true];
        assert_eq!(verdict(&as_seen, true), (true, Some(true), aims.clone()));
        assert_eq!(verdict(&as_seen, false), (true, Some(true), aims), "without a lab nothing is said of it");
        assert_eq!(verdict(&|_, _, _| 3.0, true), (false, Some(false), vec![true; 5]));
        let calm_link = |subject: &str, figure: &str, size: f64| match subject {
            "link-banded" => 50.0,
            _ => as_seen(subject, figure, size),
        };
        assert!(!verdict(&calm_link, true).0, "the link does not get worse");
        let same_sorted = |subject: &str, figure: &str, size: f64| match subject {
            "link-sorted" => as_seen("link-banded", figure, size),
            _ => as_seen(subject, figure, size),
        };
        assert_eq!(verdict(&same_sorted, true).1, Some(false), "it is not the link's queue");
        let worse_segments = |subject: &str, figure: &str, size: f64| match subject {
            "segment-banded" => as_seen("tcp-banded", figure, size),
            _ => as_seen(subject, figure, size),
        };
        assert!(!verdict(&worse_segments, true).0 && !verdict(&worse_segments, false).0);
        let one_size = |subject: &str, figure: &str, size: f64| match (subject, figure) {
            ("segment-banded", BESIDE) if size == 4096.0 => 8.0,
            _ => as_seen(subject, figure, size),
        };
        assert_eq!(
            verdict(&one_size, true).2[..3],
            [true, false, true],
            "at one size they surely spread farther, though not over all sizes"
        );
        let unlike_bare = |subject: &str, figure: &str, size: f64| match (subject, figure) {
            ("segment-banded", BESIDE) => 5.7,
            ("bare", BESIDE) => 3.0,
            _ => as_seen(subject, figure, size),
        };
        assert_eq!(
            verdict(&unlike_bare, true).2[..3],
            [false, true, true],
            "within 2, and the machine does not do it"
        );
        let nothing = Verdict::new(NAME, PAPER, judge(&[]));
        assert!(!nothing.shape_holds && nothing.claims.iter().all(|claim| !claim.holds));
    }
}

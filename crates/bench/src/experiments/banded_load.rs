//! As `banded`, with the low clients' requests growing as well.

use super::banded::{
    ALONE, BARE, BESIDE, LINK_BANDED, LINK_SORTED, NETWORKS, SEGMENT_BANDED, SUBJECTS, at_largest, measure,
    over_link, ratio, tails,
};
use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::claim::{AtLeast, AtMost, Cells, Claim, aim, claims, control, paper};
use crate::figure::Measured;

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Jitter of a high client beside six low ones that send requests as long as its own, over a link and three transports of a host",
    source: "Lankes, Pfeiffer, Bemmerl (ROFES): figures 11 to 14",
    paper: "under load of all clients, banded connections over Ethernet still get worse, over mapped segments they do not",
    seconds: (55, 600),
    run,
    claims,
};

const NAME: &str = "banded-load";

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    let subjects = [&SUBJECTS[..], &BARE].concat();
    out.note(
        "All clients' requests have the size on the horizontal axis; both processes share one processor.",
    );
    measure(cx, out, NAME, &subjects, |size| size)
}

/// The factor by which the low clients spread the high client's calls, with the largest requests.
fn loaded(r: &dyn Cells, subject: &str) -> f64 {
    at_largest(r, (BESIDE, subject), (ALONE, subject), "spread_ns")
}

fn claims() -> Vec<Claim> {
    let mut claims = claims! {
        paper AtMost(2.0), "over segments in bands, six low clients with the largest requests spread the high \
             client's calls {0:.2} times as far ({limit})", |r| [loaded(r, SEGMENT_BANDED)];
        paper AtLeast(2.0), "over the link in bands they do it {0:.1} times as far ({limit})",
            |r| [loaded(r, LINK_BANDED)], when over_link;
        paper AtLeast(10.0), "the link's jitter is {0:.0} times that of segments then ({limit})",
            |r| [at_largest(r, (BESIDE, LINK_BANDED), (BESIDE, SEGMENT_BANDED), "jitter_ns")], when over_link;
        // A full queue of the link delays all connections alike: only another queue helps.
        control AtLeast(2.0), "over the link the largest requests' jitter in bands is {0:.1} times that where \
             the link sends the high client's packets first ({limit})",
            |r| [at_largest(r, (BESIDE, LINK_BANDED), (BESIDE, LINK_SORTED), "jitter_ns")], when over_link;
        // Any local transport can do that; the paper has no such network beside its segments.
        aim AtLeast(1.0), "in bands, the jitter of TCP within the host is {0:.2} times that of segments \
             ({limit})", |r| [ratio(r, "tcp-banded", SEGMENT_BANDED, "jitter_ns")];
    };
    for (network, banded, shared) in NETWORKS.into_iter().filter(|&(_, banded, _)| banded != LINK_BANDED) {
        claims.extend(claims! {
            control AtLeast(2.0), format!("by {network} the jitter on one connection is {{0:.1}} times that in \
                 bands ({{limit}})"), move |r| [ratio(r, shared, banded, "jitter_ns")];
        });
    }
    claims.extend(tails("beside six low clients with as much"));
    claims
}

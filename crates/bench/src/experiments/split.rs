//! Where the time of an urgent client's calls goes, layer by layer: a short pass of its own, so that the stamps cost the figures nothing.

use super::BenchError;
use crate::contention::layers::{ORB, RAW, distributions};
use crate::contention::{Call, Contest, Order, Role, Setup};
use crate::figure::{Figure, Row, times};
use crate::stats::Samples;

/// What is drawn of it, a line for each part.
const DRAW: &[&str] = &["mean_ns", "p99_ns"];

/// How to read it.
pub const NOTE: &str = "Layers, from a pass of their own: client-send and client-receive are the client's ORB, server-before and server-after \
     the server's, to-server and to-client all between the two: system calls, kernel, network, and waiting for the thread that reads. \
     raw-to-server and raw-to-client are the same of the raw socket, which waits for nobody.";

/// A pair of processes set up as `setup`, with stamps.
pub fn stamped(setup: &Setup) -> Setup {
    Setup { probe: true, layers: true, ..setup.clone() }
}

/// The figure `id` of the parts.
pub fn figure(id: &'static str, title: &'static str, x: &'static str) -> Figure {
    Figure { id, title, x, y: "microseconds", draw: DRAW, divide: 1000.0, log: true }
}

/// Where a split's rows belong.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Name of the experiment.
    pub experiment: &'static str,
    /// The figure.
    pub figure: &'static str,
    /// Where on its horizontal axis.
    pub x: f64,
}

/// Plays `high` beside the `others`, and a raw socket half a period later; a row for each part.
///
/// # Errors
/// [`BenchError::Peer`].
pub fn rows(
    contest: &mut Contest,
    place: Place,
    ms: u32,
    high: Role,
    others: &[Role],
) -> Result<Vec<Row>, BenchError> {
    let urgent = Role { call: Call::Layers, ..high };
    let raw = Role { delay_us: 500_000 / high.hz.max(1), work: 0, call: Call::Raw, ..high };
    let mut roles = vec![urgent, raw];
    roles.extend(others);
    let played = contest.run(&Order { ms, roles })?;
    let parts = [&ORB[..], &RAW[..]].into_iter().zip(&played);
    let parts = parts.flat_map(|(names, played)| distributions(names, &played.parts));
    let Place { experiment, figure, x } = place;
    let row = |(subject, samples): (&'static str, Samples)| {
        let values = times(&samples.summary());
        Row { experiment, figure, subject, x, values }
    };
    Ok(parts.map(row).collect())
}

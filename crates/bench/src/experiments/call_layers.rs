//! Where the time of an urgent client's calls goes, layer by layer: a short pass of its own, so
//! that the stamps cost the figures nothing.

use super::BenchError;
use crate::figure::{Figure, Measured, times};
use crate::workload::layers::{ORB, RAW, distributions};
use crate::workload::{Call, Plan, Role, Setup, Workload};

/// How to read it.
pub const NOTE: &str = "Layers, from a pass of their own: client-send and client-receive are the client's ORB, server-before and server-after \
     the server's, to-server and to-client all between the two: system calls, kernel, network, and waiting for the thread that reads. \
     raw-to-server and raw-to-client are the same of the raw socket, which waits for no other thread.";

/// A pair of processes set up as `setup`, with stamps.
pub fn stamped(setup: &Setup) -> Setup {
    Setup { probe: true, layers: true, ..setup.clone() }
}

/// The figure `id` of the parts.
pub fn figure(id: &'static str, title: &'static str, x: &'static str) -> Figure {
    Figure::new(id, title, x, "microseconds", &["mean_ns", "p99_ns"])
}

/// Runs `high` beside the `others`, and a raw socket half a period later; a row for each part.
pub fn rows(
    workload: &mut Workload,
    out: &mut Measured,
    (figure, x): (&'static str, u32),
    ms: u32,
    high: Role,
    others: &[Role],
) -> Result<(), BenchError> {
    let urgent = Role { call: Call::Layers, ..high };
    let mut roles = vec![urgent, high.raw_between()];
    roles.extend(others);
    let results = workload.run(&Plan { ms, roles })?;
    for (names, results) in [&ORB[..], &RAW[..]].into_iter().zip(&results) {
        for (subject, samples) in distributions(names, &results.parts) {
            out.row(figure, subject, x, times(&samples.summary()));
        }
    }
    Ok(())
}

//! The benchmark: isorb beside raw sockets and other ORBs, in one run, under equal conditions.
//!
//! It is not a test: nothing here passes or fails by a time. What it promises is that two figures of one table may be
//! compared. Each subject is a client and a server process of its own, pinned and at the same priority as the others;
//! they take turns in short blocks ([`harness`]), and whoever waits is stopped. A control of plain sockets with the same
//! bytes runs twice in every table, so that a reader sees what noise alone does.
//!
//! ```text
//!   experiments     what is asked for: two_way, instructions, syscalls, and the catalogue of the papers' experiments
//!      |      \
//!   harness   report, stats, machine      blocks in rounds; figures; what they were measured on
//!      |
//!   subjects        raw, isorb, omniorb: a client and a server each
//!      |
//!   process         children that cannot outlive the run
//!   protocol        what they are told:  block octets 1024 20 300  ->  300 samples
//! ```
//!
//! The command-line tool mounts [`BenchArgs`] and, hidden under the name [`PEER`], [`PeerArgs`]: the harness starts the
//! binary that it is in again as client and server.
#![forbid(unsafe_code)]

pub mod cases;
mod cli;
pub mod contention;
mod distant;
pub mod experiments;
pub mod figure;
pub mod harness;
pub mod load;
pub mod machine;
pub mod page;
pub mod process;
pub mod protocol;
pub mod report;
pub mod stats;
pub mod subjects;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

pub use cli::{BenchArgs, PeerArgs};
pub use process::PEER;

#[derive(Parser)]
#[command(name = "isorb-bench")]
struct Bench {
    #[command(flatten)]
    args: BenchArgs,
}

#[derive(Parser)]
#[command(name = PEER)]
struct BenchPeer {
    #[command(flatten)]
    args: PeerArgs,
}

/// Does what `args` say, which begin with the word after `bench`.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    match Bench::try_parse_from([OsString::from("isorb-bench")].into_iter().chain(args)) {
        Ok(bench) => bench.args.run(),
        Err(e) => explain(&e),
    }
}

/// Is a client or server of a run, as `args` say, which begin with the word after [`PEER`].
pub fn peer(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    match BenchPeer::try_parse_from([OsString::from(PEER)].into_iter().chain(args)) {
        Ok(peer) => peer.args.run(),
        Err(e) => explain(&e),
    }
}

fn explain(error: &clap::Error) -> ExitCode {
    // Nothing can be said of a closed terminal.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1))
}

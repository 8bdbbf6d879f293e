//! The benchmark: isorb beside raw sockets and other ORBs, in one run, under equal conditions.
//!
//! It is not a test: nothing here passes or fails by a time. It promises that two figures of one
//! table may be compared. Each subject is a client and a server process of its own, pinned and at
//! the same priority as the others. Subjects take turns in short [`blocks`], and all others
//! are stopped meanwhile. A control of plain sockets with the same bytes runs twice in every table,
//! which shows the noise.
//!
//! ```text
//!   cli             commands, and the peer programs that the harness starts
//!   experiments     what is measured: two_way, instructions, syscalls, and the papers' experiments
//!   faults          faults at services: the campaign, and the soak
//!   claim           tables of claims on the rows, and their verdict
//!   figure, page    rows, tables and figures; the report
//!   blocks, stats   subjects interleaved in blocks; distributions and ratios
//!   tail            the worst case beside that of a bare program
//!   workload        a server and a client with threads that play roles
//!   subjects        raw, isorb, omniORB and others: a client and a server each
//!   event_peers     the other processes of event channels
//!   wake_trace      the kernel's wake-up latency, by its trace points
//!   process         child processes that cannot outlive the run
//!   protocol        their orders: block octets 1024 20 300  ->  300 samples
//! ```
//!
//! The harness starts the binary that it is in again as client and server, by the hidden command
//! [`PEER`].
#![forbid(unsafe_code)]

mod blocks;
mod cases;
mod claim;
mod cli;
mod descriptors;
mod event_peers;
mod experiments;
mod faults;
mod figure;
mod load;
mod machine;
mod page;
mod process;
mod progress;
mod protocol;
mod report;
mod stats;
mod subjects;
mod tail;
mod wake_trace;
mod workload;

use std::env::args_os;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use cli::{BenchArgs, PeerArgs};
use process::PEER;

#[derive(Parser)]
#[command(name = "isorb-bench", version)]
struct Bench {
    #[command(flatten)]
    args: BenchArgs,
}

#[derive(Parser)]
#[command(name = PEER)]
struct Peer {
    #[command(flatten)]
    args: PeerArgs,
}

fn main() -> ExitCode {
    let mut args = args_os().peekable();
    let program = args.next().unwrap_or_else(|| OsString::from("isorb-bench"));
    // Peers are parsed apart, so that the help does not show them.
    if args.peek().is_some_and(|first| first == PEER) {
        Peer::parse_from(args).args.run()
    } else {
        Bench::parse_from([program].into_iter().chain(args)).args.run()
    }
}

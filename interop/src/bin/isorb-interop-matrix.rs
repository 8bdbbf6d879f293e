//! Runs isorb's peer against the other ORBs: `isorb-interop-matrix [--peer NAME]... [--mode
//! NAME]... [--only CASE,...] [--verbose]`.
//!
//! Prints a line for each peer, direction and mode, and finally `N passed, N failed, N skipped`;
//! the exit code is 1 after a failure. A missing peer is a failure unless
//! `ISORB_INTEROP_ALLOW_MISSING=1`.

use isorb_interop::matrix::{self, MODES, Selection, Tally};
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(selection) = parse(std::env::args().skip(1)) else {
        eprintln!(
            "usage: isorb-interop-matrix [--peer omniorb|omniorbpy|jacorb|none]... [--mode MODE]... [--only CASE,...] [--verbose]"
        );
        eprintln!("modes: {}, events, values, omninames, isorb-naming, jacorb-naming", MODES.join(", "));
        return ExitCode::from(2);
    };
    let Tally { passed, failed, skipped } = matrix::run(&selection);
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    ExitCode::from(u8::from(failed != 0))
}

fn parse(mut args: impl Iterator<Item = String>) -> Option<Selection> {
    let allow_missing = std::env::var("ISORB_INTEROP_ALLOW_MISSING").is_ok_and(|value| value == "1");
    let mut selection = Selection { allow_missing, ..Selection::default() };
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--peer" => selection.peers.push(args.next()?),
            "--mode" => selection.modes.push(args.next()?),
            "--only" => selection.only = Some(args.next()?),
            "--verbose" => selection.verbose = true,
            _ => return None,
        }
    }
    Some(selection)
}

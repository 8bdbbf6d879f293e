//! The runner: isorb's peer against the others, each as client and as server, in every mode, with
//! every naming service.
//!
//! It starts processes with the contract of `interop/README.md`, reads their lines, ends them by
//! their ids, and counts. `matrix.py` runs the pairs without isorb.

mod certificates;
mod events;
mod naming;
mod pair;
mod peers;
mod plan;
mod process;
mod values;

pub use plan::MODES;

use certificates::Certificates;
use naming::Service;
use pair::Pairing;
use peers::{Installed, Peer};
use std::io::Write;
use std::path::PathBuf;

/// The selection of pairs.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only these peers beside isorb; all when empty.
    pub peers: Vec<String>,
    /// Only these modes; all when empty.
    pub modes: Vec<String>,
    /// Only these cases.
    pub only: Option<String>,
    /// Whether missing peers are skipped instead of failed.
    pub allow_missing: bool,
    /// Whether the processes' standard error is shown.
    pub verbose: bool,
}

impl Selection {
    fn wants(list: &[String], name: &str) -> bool {
        list.is_empty() || list.iter().any(|wanted| wanted == name)
    }
}

/// The results of all cases, or of some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Cases that passed.
    pub passed: usize,
    /// Failed cases, and processes that misbehaved.
    pub failed: usize,
    /// Cases that were skipped, and peers where that is allowed.
    pub skipped: usize,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// Runs the selection and prints a line for each pair and direction, after its failed cases.
pub fn run(selection: &Selection) -> Tally {
    let installed = Installed::find();
    let mut all = Tally::default();
    let (present, missing): (Vec<Peer>, Vec<Peer>) = Peer::OTHERS
        .into_iter()
        .filter(|peer| Selection::wants(&selection.peers, peer.name()))
        .partition(|peer| installed.has(*peer));
    for peer in missing {
        all += missed(selection, &format!("{} (interop/setup.sh {})", peer.name(), peer.name()));
    }
    let certificates = Certificates::new();
    for pairing in plan::pairings(&present, selection, certificates.folder()) {
        all += report(&pairing, selection, &installed);
    }
    for peer in events::PEERS.into_iter().filter(|peer| present.contains(peer)) {
        if !Selection::wants(&selection.modes, events::MODE) || selection.only.is_some() {
            continue;
        }
        for dispatching in ["none", "threads"] {
            let outcome = events::run(peer, dispatching, selection, &installed);
            let title = format!("{} client -> isorb event-channel ({dispatching}), events", peer.name());
            all += print(&title, outcome.tally, outcome.failures);
        }
    }
    for peer in values::PEERS.into_iter().filter(|peer| present.contains(peer)) {
        if !Selection::wants(&selection.modes, values::MODE) || selection.only.is_some() {
            continue;
        }
        let name = peer.name();
        let outcome = values::peer_calls(peer, selection, &installed);
        all += print(&format!("{name} client -> isorb server, values"), outcome.tally, outcome.failures);
        let outcome = values::isorb_calls(peer, selection, &installed);
        all += print(&format!("isorb client -> {name} server, values"), outcome.tally, outcome.failures);
    }
    for service in Service::ALL {
        if !Selection::wants(&selection.modes, service.name()) {
            continue;
        }
        if !service.is_there(&installed) {
            all += missed(selection, service.how_to_get());
            continue;
        }
        match service.start(&installed, selection.verbose) {
            Ok(running) => {
                for pairing in plan::through_naming(service, running.url(), &present) {
                    all += report(&pairing, selection, &installed);
                }
            }
            Err(error) => {
                println!("FAIL {} does not start: {error}", service.name());
                all += Tally { failed: 1, ..Tally::default() };
            }
        }
    }
    all
}

fn missed(selection: &Selection, what: &str) -> Tally {
    println!("missing: {what}");
    match selection.allow_missing {
        true => Tally { skipped: 1, ..Tally::default() },
        false => Tally { failed: 1, ..Tally::default() },
    }
}

fn report(pairing: &Pairing, selection: &Selection, installed: &Installed) -> Tally {
    let (tally, failures) = pair::run(pairing, selection, installed);
    print(pairing, tally, failures)
}

fn print(title: &dyn std::fmt::Display, tally: Tally, failures: Vec<String>) -> Tally {
    for failure in failures {
        println!("  FAIL {failure}");
    }
    let Tally { passed, failed, skipped } = tally;
    println!("{title}: {passed} ok, {failed} failed, {skipped} skipped");
    // The output is visible even if the next pair hangs and a person ends this process.
    let _ = std::io::stdout().flush();
    tally
}

/// A file in the folder for temporary files that no other process uses.
fn temporary(suffix: &str) -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("isorb-interop-{}-{n}{suffix}", std::process::id()))
}

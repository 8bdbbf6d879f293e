//! isorb's event channel with the peers that have a client of the standard Event Service.

use super::Selection;
use super::pair::{Outcome, START};
use super::peers::{Installed, Peer};
use super::process::{Line, Process};
use std::process::Command;
use std::time::Instant;

/// The mode's name.
pub(super) const MODE: &str = "events";

/// The peers with a program `events`.
pub(super) const PEERS: [Peer; 2] = [Peer::OmniOrb, Peer::JacOrb];

/// Runs a channel as a process for each way to dispatch, and the peer as its suppliers and
/// consumers.
pub(super) fn run(peer: Peer, dispatching: &str, selection: &Selection, installed: &Installed) -> Outcome {
    let mut outcome = Outcome::default();
    let mut command = Command::new(installed.isorb("isorb"));
    command.args(["event-channel", "--real-time", "off", "--dispatching", dispatching]);
    let channel = match Process::start(command, selection.verbose) {
        Ok(channel) => channel,
        Err(error) => {
            outcome.fail(format!("the channel does not start (cargo build -p isorb-cli): {error}"));
            return outcome;
        }
    };
    match channel.line(Instant::now() + START) {
        Line::Text(line) if line.starts_with("READY corbaloc:") => {
            let reference = line["READY ".len()..].replace("/EventService", "/CosEventChannel");
            let mut client = Command::new(installed.built(peer, "events"));
            client.arg("--ior").arg(reference);
            outcome.read(client, selection);
        }
        other => outcome.fail(format!("the channel said {other:?} instead of READY and a corbaloc URL")),
    }
    outcome
}

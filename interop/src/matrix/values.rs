//! Values of isorb with the peers that have a program `values`, in both directions.

use super::Selection;
use super::pair::{Outcome, START};
use super::peers::{Installed, Peer};
use super::process::{Line, Process};
use crate::check::Stop;
use crate::values::{Cases, orb, run, serve};
use std::error::Error;
use std::process::Command;
use std::time::{Duration, Instant};

/// The mode's name.
pub(super) const MODE: &str = "values";

/// The peers with a program `values`.
pub(super) const PEERS: [Peer; 2] = [Peer::OmniOrb, Peer::JacOrb];

/// How long a server may take to end with its input.
const END: Duration = Duration::from_secs(20);

/// The peer's client calls isorb's servants, which live in this process.
pub(super) fn peer_calls(peer: Peer, selection: &Selection, installed: &Installed) -> Outcome {
    let mut outcome = Outcome::default();
    let serving = orb().and_then(|orb| serve(&orb).map(|objects| (orb, objects)));
    match serving {
        Ok((orb, (boxes, values))) => {
            let mut client = Command::new(installed.built(peer, "values"));
            client.args(["client", &boxes.to_string(), &values.to_string()]);
            outcome.read(client, selection);
            if let Err(error) = orb.shutdown(true) {
                outcome.fail(format!("isorb's server does not end: {error}"));
            }
        }
        Err(error) => outcome.fail(format!("isorb does not serve: {error}")),
    }
    outcome
}

/// isorb calls the peer's server.
pub(super) fn isorb_calls(peer: Peer, selection: &Selection, installed: &Installed) -> Outcome {
    let mut outcome = Outcome::default();
    let mut command = Command::new(installed.built(peer, "values"));
    command.arg("server");
    if peer == Peer::OmniOrb {
        command.args(["-ORBendPoint", "giop:tcp:127.0.0.1:"]);
    }
    let server = match Process::start(command, selection.verbose) {
        Ok(server) => server,
        Err(error) => {
            outcome.fail(format!("the server does not start: {error}"));
            return outcome;
        }
    };
    match server.line(Instant::now() + START) {
        Line::Text(line) if line.starts_with("READY ") => {
            if let Err(error) = call(&line, peer, &mut outcome) {
                outcome.fail(error.to_string());
            }
        }
        other => outcome.fail(format!("the server said {other:?} instead of READY and two references")),
    }
    if server.stop(END).is_none() {
        outcome.fail("the server did not end when its input did".into());
    }
    outcome
}

fn call(ready: &str, peer: Peer, outcome: &mut Outcome) -> Result<(), Box<dyn Error>> {
    let mut references = ready.split(' ').skip(1);
    let mut reference = || references.next().ok_or("READY comes without two references");
    let orb = orb()?;
    let (boxes, values) = (orb.resolve(reference()?)?, orb.resolve(reference()?)?);
    for (name, result) in run(&Cases { boxes, values, is_jacorb: peer == Peer::JacOrb }) {
        match result {
            Ok(()) => outcome.tally.passed += 1,
            Err(Stop::Skip(_)) => outcome.tally.skipped += 1,
            Err(Stop::Fail(reason)) => outcome.fail(format!("{name} {reason}")),
        }
    }
    Ok(orb.shutdown(true)?)
}

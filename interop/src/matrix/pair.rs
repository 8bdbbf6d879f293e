//! One server, one client.

use super::peers::{Installed, Peer};
use super::process::{Line, Process};
use super::{Selection, Tally, temporary};
use std::fmt;
use std::process::Command;
use std::time::{Duration, Instant};

/// Time limits for a server to start, for a client to run all cases, and for either to end.
pub(super) const START: Duration = Duration::from_secs(60);
const CLIENT: Duration = Duration::from_secs(300);
const END: Duration = Duration::from_secs(20);

/// The two peers and their settings.
#[derive(Clone, Debug)]
pub(super) struct Pairing {
    server: Peer,
    client: Peer,
    mode: String,
    server_args: Vec<String>,
    client_args: Vec<String>,
    only: Option<String>,
    /// The client's substitute for the server's reference.
    pub reference: Option<String>,
}

impl Pairing {
    pub fn new(server: Peer, client: Peer, mode: &str) -> Pairing {
        Pairing {
            server,
            client,
            mode: mode.to_owned(),
            server_args: Vec::new(),
            client_args: Vec::new(),
            only: None,
            reference: None,
        }
    }

    /// Arguments for the server, if the condition holds.
    pub fn server(&mut self, condition: bool, words: &str) -> &mut Pairing {
        let words = words.split_whitespace().filter(|_| condition);
        self.server_args.extend(words.map(str::to_owned));
        self
    }

    /// Arguments for the client, if the condition holds.
    pub fn client(&mut self, condition: bool, words: &str) -> &mut Pairing {
        let words = words.split_whitespace().filter(|_| condition);
        self.client_args.extend(words.map(str::to_owned));
        self
    }

    /// Arguments for both.
    pub fn both(&mut self, words: &str) -> &mut Pairing {
        self.server(true, words).client(true, words)
    }

    /// Only these cases.
    pub fn only(&mut self, cases: &str) -> &mut Pairing {
        self.only = Some(cases.to_owned());
        self
    }
}

impl fmt::Display for Pairing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pairing { server, client, mode, .. } = self;
        write!(f, "{} client -> {} server, {mode}", client.name(), server.name())
    }
}

/// Runs a pair; returns the counts and a line for each failure.
pub(super) fn run(pairing: &Pairing, selection: &Selection, installed: &Installed) -> (Tally, Vec<String>) {
    let mut outcome = Outcome::default();
    let file = temporary(".ior");
    let mut command = installed.command(pairing.server, "server");
    command.arg("--ior-file").arg(&file).args(&pairing.server_args);
    match Process::start(command, selection.verbose) {
        Err(error) => outcome.fail(format!("the server does not start: {error}")),
        Ok(server) => {
            match server.line(Instant::now() + START) {
                Line::Text(line) if line == "READY" => {
                    let reference =
                        pairing.reference.clone().map_or_else(|| std::fs::read_to_string(&file), Ok);
                    match reference {
                        Ok(reference) => {
                            client(pairing, reference.trim(), selection, installed, &mut outcome)
                        }
                        Err(error) => outcome.fail(format!("the server wrote no reference: {error}")),
                    }
                }
                other => outcome.fail(format!("the server said {other:?} instead of READY")),
            }
            match server.stop(END) {
                Some(status) if status.success() => {}
                Some(status) => outcome.fail(format!("the server ended with {status}")),
                None => outcome.fail("the server did not end when its input did".into()),
            }
        }
    }
    let _ = std::fs::remove_file(&file);
    (outcome.tally, outcome.failures)
}

/// The results of a client's cases.
#[derive(Default)]
pub(super) struct Outcome {
    pub tally: Tally,
    pub failures: Vec<String>,
}

impl Outcome {
    pub fn fail(&mut self, line: String) {
        self.tally.failed += 1;
        self.failures.push(line);
    }

    /// Runs a client that prints a line for each case.
    pub fn read(&mut self, command: Command, selection: &Selection) {
        let client = match Process::start(command, selection.verbose) {
            Ok(client) => client,
            Err(error) => return self.fail(format!("the client does not start: {error}")),
        };
        let end = Instant::now() + CLIENT;
        let mut done = None;
        loop {
            let line = match client.line(end) {
                Line::Text(line) => line,
                Line::End => break,
                Line::Late => return self.fail(format!("the client took more than {CLIENT:?}")),
            };
            match line.split_once(' ') {
                Some(("ok", _)) => self.tally.passed += 1,
                Some(("skip", _)) => self.tally.skipped += 1,
                Some(("FAIL", what)) => self.fail(what.to_owned()),
                Some(("done", counts)) => done = Some(counts.to_owned()),
                _ => {}
            }
        }
        let status = client.stop(END);
        match (done, status) {
            (Some(_), Some(status)) if status.code() == Some(i32::from(self.tally.failed != 0)) => {}
            (_, status) => self.fail(format!("the client ended early or strangely: {status:?}")),
        }
    }
}

fn client(p: &Pairing, reference: &str, selection: &Selection, installed: &Installed, outcome: &mut Outcome) {
    let mut command = installed.command(p.client, "client");
    command.arg("--ior").arg(reference).args(&p.client_args);
    if let Some(only) = selection.only.as_ref().or(p.only.as_ref()) {
        command.arg("--only").arg(only);
    }
    outcome.read(command, selection);
}

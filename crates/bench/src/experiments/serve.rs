//! `isorb-bench serve`: the servers of `worst` for clients on another host.

use std::collections::BTreeMap;
use std::io::{Read, Write, stdin, stdout};
use std::time::Duration;

use clap::Args;

use super::{BenchError, Context, Urgency};
use crate::process::{Launcher, Peer, Side};

const TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Args, Debug)]
pub struct Options {
    /// The address of this host that the clients reach
    #[arg(long)]
    host: String,
    #[command(flatten)]
    urgency: Urgency,
}

/// Starts a server for each subject that crosses hosts, prints their addresses as one object of
/// JSON, and ends them when standard input ends. A raw server has one client only.
pub fn run(launcher: &Launcher, Options { host, urgency }: &Options) -> Result<(), BenchError> {
    let (cx, missing) = Context::new(launcher, *urgency, false, 0)?;
    missing.iter().for_each(|text| eprintln!("{text}"));
    let endpoint = format!("giop:tcp:{host}:0");
    let raw: &[&str] = &["raw-server", "--host", host];
    let servers: [(&'static str, &[&str]); 4] = [
        ("raw-tcp", raw),
        ("raw-tcp-again", raw),
        ("tcp-lane", &["isorb-server", "--", "-ORBConcurrency", "lane", "-ORBEndPoint", &endpoint]),
        ("banded", &["isorb-band-server", "--host", host]),
    ];
    let mut addresses = BTreeMap::new();
    let mut running = Vec::new();
    for (name, words) in servers {
        let program = launcher.peer(words);
        let (peer, address) =
            Peer::start_ready(launcher, name, Side::Server, cx.scheduling(0), &program, TIMEOUT)?;
        addresses.insert(name, address);
        running.push(peer);
    }
    let text = serde_json::to_string(&addresses).map_err(std::io::Error::from)?;
    writeln!(stdout(), "{text}")?;
    stdin().read_to_end(&mut Vec::new())?;
    for peer in running {
        // A server that has to be killed is no error any more.
        let _ = peer.end(TIMEOUT);
    }
    Ok(())
}

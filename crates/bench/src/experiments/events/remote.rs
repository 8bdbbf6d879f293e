//! The other process of an experiment on event channels.

use std::time::Duration;

use isorb::{Config, Orb};

use super::super::{BenchError, Context};
use super::refused;
use crate::process::{Peer, Role};

const START: Duration = Duration::from_secs(30);
const ANSWER: Duration = Duration::from_secs(60);

/// An ORB that serves, for the channel of this process.
pub fn orb() -> Result<Orb, BenchError> {
    let (config, _) = Config::from_args(["-ORBConcurrency", "connection"].map(String::from))?;
    let orb = Orb::with_config(config);
    orb.root_poa()?.manager().activate().map_err(refused)?;
    Ok(orb)
}

/// Consumers in another process, on the processor that contenders share.
pub struct Remote(Peer);

impl Remote {
    /// Starts the program, its receiving threads `above` native priorities over the usual one; it is connected when this returns.
    pub fn start(
        cx: &Context<'_>,
        subject: &'static str,
        above: u8,
        arguments: &[&str],
    ) -> Result<Remote, BenchError> {
        let program = cx.launcher.peer(&[&["distant"], arguments].concat());
        let mut peer = Peer::start(cx.launcher, subject, Role::Server, cx.place(above), &program)?;
        peer.expect("ready", START)?;
        Ok(Remote(peer))
    }

    /// What so many consumers saw: the ages of their events, in nanoseconds. Ends the program.
    pub fn take(mut self, consumers: usize) -> Result<Vec<Vec<u64>>, BenchError> {
        self.0.tell("take")?;
        let mut lists = Vec::new();
        for _ in 0..consumers {
            let count = self.0.expect("samples", ANSWER)?.parse().unwrap_or(0);
            lists.push(self.0.numbers(count, ANSWER)?);
        }
        self.0.end(ANSWER)?;
        Ok(lists)
    }
}

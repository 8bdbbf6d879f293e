//! The other process of an experiment on event channels.

use std::time::Duration;

use isorb::{Config, Orb};

use super::super::{BenchError, Context};
use super::refused;
use crate::process::{Peer, Side};

const TIMEOUT: Duration = Duration::from_secs(60);

/// An ORB that serves, for the channel of this process.
pub fn orb() -> Result<Orb, BenchError> {
    let (config, _) = Config::from_args(["-ORBConcurrency", "connection"].map(String::from))?;
    let orb = Orb::with_config(config)?;
    orb.root_poa()?.manager().activate().map_err(refused)?;
    Ok(orb)
}

/// Consumers in another process, on the processor that contenders share.
pub struct Remote(Peer);

impl Remote {
    /// Starts the program, its receiving threads `above` native priorities over the usual one; it
    /// is connected when this returns.
    pub fn start(
        cx: &Context<'_>,
        subject: &'static str,
        above: u8,
        arguments: &[&str],
    ) -> Result<Remote, BenchError> {
        let program = cx.launcher.peer(&[&["event"], arguments].concat());
        let scheduling = cx.scheduling(above);
        let start = Peer::start_ready(cx.launcher, subject, Side::Server, scheduling, &program, TIMEOUT)?;
        Ok(Remote(start.0))
    }

    /// Gives it an order.
    pub fn order(&mut self, line: &str) -> Result<(), BenchError> {
        Ok(self.0.send(line)?)
    }

    /// What so many consumers saw: the ages of their events, in nanoseconds. Ends the program.
    pub fn take(mut self, consumers: usize) -> Result<Vec<Vec<u64>>, BenchError> {
        self.0.send("take")?;
        let lists: Result<_, _> = (0..consumers).map(|_| self.0.samples(usize::MAX / 8, TIMEOUT)).collect();
        self.0.end(TIMEOUT)?;
        Ok(lists?)
    }
}

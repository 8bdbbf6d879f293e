//! A client and a server process.

use std::time::Duration;

use super::{Programs, Subject};
use crate::machine::Machine;
use crate::process::{Launcher, Peer, PeerError, Scheduling, Side};
use crate::protocol::Block;
use crate::report::Placement;

/// How long a process may take to start, and a block to finish.
pub const TIMEOUT: Duration = Duration::from_secs(20);
/// Between the moment a subject is resumed and its first call.
const SETTLE: Duration = Duration::from_millis(1);

/// A client and its server, connected.
#[derive(Debug)]
pub struct Pair {
    /// `None` where it runs on another host.
    server: Option<Peer>,
    client: Peer,
    /// What the server said when it was ready: its address or reference.
    pub address: String,
    scheduling: PairScheduling,
}

/// How the two of a pair are scheduled.
#[derive(Clone, Copy, Debug)]
pub struct PairScheduling {
    pub client: Scheduling,
    pub server: Scheduling,
}

impl PairScheduling {
    /// Ordinary processes on any processor.
    pub const ANY: PairScheduling = PairScheduling { client: Scheduling::ANY, server: Scheduling::ANY };

    /// At the usual priority, on one processor or two.
    pub fn of(placement: Placement, machine: &Machine) -> PairScheduling {
        let on = |n: usize| Scheduling { cpu: machine.cpus.get(n).copied(), fifo: machine.fifo };
        let server = if placement == Placement::OneCore { 0 } else { 1 };
        PairScheduling { client: on(0), server: on(server) }
    }
}

impl Pair {
    /// Starts the two and waits until a call can be made, for at most `within` each.
    pub fn start(
        launcher: &Launcher,
        subject: Subject,
        programs: &Programs,
        scheduling: PairScheduling,
        within: Duration,
    ) -> Result<Pair, PeerError> {
        let (name, place) = (subject.name(), scheduling.server);
        let (server, address) =
            Peer::start_ready(launcher, name, Side::Server, place, &programs.server, within)?;
        let pair = Pair::to(launcher, subject, programs, &address, scheduling, within)?;
        Ok(Pair { server: Some(server), ..pair })
    }

    /// Starts the client of a server that runs already.
    pub fn to(
        launcher: &Launcher,
        subject: Subject,
        programs: &Programs,
        address: &str,
        scheduling: PairScheduling,
        within: Duration,
    ) -> Result<Pair, PeerError> {
        let client = [&programs.client[..], &[address.into()]].concat();
        let (name, place) = (subject.name(), scheduling.client);
        let (client, _) = Peer::start_ready(launcher, name, Side::Client, place, &client, within)?;
        Ok(Pair { server: None, client, address: address.to_owned(), scheduling })
    }

    /// Makes a block of calls; the samples in nanoseconds.
    pub fn run(&mut self, block: Block, within: Duration) -> Result<Vec<u64>, PeerError> {
        self.client.send(&block.line())?;
        self.client.samples(block.calls, within)
    }

    /// How many threads of both are not scheduled as they should be, of how many.
    pub fn misplaced_threads(&self) -> (usize, usize) {
        let client = self.client.misplaced_threads(self.scheduling.client);
        let of = |server: &Peer| server.misplaced_threads(self.scheduling.server);
        let server = self.server.as_ref().map_or((0, 0), of);
        (client.0 + server.0, client.1 + server.1)
    }

    /// Its process ids.
    pub fn ids(&self) -> Vec<u32> {
        self.server.iter().chain([&self.client]).map(Peer::id).collect()
    }

    pub fn pause(&self) {
        self.client.pause();
        self.server.iter().for_each(Peer::pause);
    }

    pub fn resume(&self) {
        self.server.iter().for_each(Peer::resume);
        self.client.resume();
    }

    /// Resident memory of the server in KiB, as the kernel counts it.
    pub fn server_resident_kib(&self) -> Option<u64> {
        self.server.as_ref()?.resident_kib()
    }

    /// Ends both in an orderly way, the client first: a tool that counts instructions reports at
    /// their end.
    pub fn end(self, within: Duration) -> Result<(), PeerError> {
        self.client.end(within)?;
        self.server.map_or(Ok(()), |server| server.end(within))
    }
}

/// A pair that is stopped except during its blocks.
pub struct StoppedPair {
    pub subject: Subject,
    pub pair: Pair,
    /// Blocks made so far.
    blocks: u32,
}

impl StoppedPair {
    pub fn start(
        launcher: &Launcher,
        subject: Subject,
        programs: &Programs,
        scheduling: PairScheduling,
    ) -> Result<StoppedPair, PeerError> {
        Ok(StoppedPair::of(subject, Pair::start(launcher, subject, programs, scheduling, TIMEOUT)?))
    }

    /// Only the client; its server runs already.
    pub fn to(
        launcher: &Launcher,
        subject: Subject,
        programs: &Programs,
        address: &str,
        scheduling: PairScheduling,
    ) -> Result<StoppedPair, PeerError> {
        let pair = Pair::to(launcher, subject, programs, address, scheduling, TIMEOUT)?;
        Ok(StoppedPair::of(subject, pair))
    }

    fn of(subject: Subject, pair: Pair) -> StoppedPair {
        pair.pause();
        StoppedPair { subject, pair, blocks: 0 }
    }

    pub fn block(&mut self, block: Block) -> Result<Vec<u64>, PeerError> {
        self.pair.resume();
        std::thread::sleep(self.settle());
        self.blocks = self.blocks.wrapping_add(1);
        let samples = self.pair.run(block, TIMEOUT);
        self.pair.pause();
        samples
    }

    /// A stopped server does its housekeeping when it is resumed. Blocks begin at another point of
    /// its period each time, so that calls meet it as often as in a server that was never stopped.
    fn settle(&self) -> Duration {
        let period = self.subject.housekeeping().unwrap_or_default();
        // The golden ratio's fraction spreads any number of blocks evenly.
        SETTLE + period.mul_f64((f64::from(self.blocks) * 0.618_033_988_75).fract())
    }

    /// Ends both; a process that has to be killed is no error any more.
    pub fn end(self) {
        let _ = self.pair.end(TIMEOUT);
    }
}

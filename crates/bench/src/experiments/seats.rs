//! Subjects that take turns.

use std::time::Duration;

use crate::harness::Contender;
use crate::machine::Machine;
use crate::process::{Launcher, PeerError, Place};
use crate::protocol::Block;
use crate::report::Placement;
use crate::subjects::{Pair, Places, Programs, Subject};

/// How long a process may take to start, and a block to finish.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Between the moment a subject goes on and its first call.
const SETTLE: Duration = Duration::from_millis(1);

/// A subject's processes, stopped while it is not their turn.
pub struct Seat {
    /// Who it is.
    pub subject: Subject,
    /// The processes.
    pub pair: Pair,
    // Blocks made so far.
    turns: u32,
}

impl Seat {
    /// A stopped server does its housekeeping when it goes on. So that the calls meet it as often as they would in a
    /// server that was never stopped, they begin at another point of its period in each turn.
    fn settle(&self) -> Duration {
        let period = self.subject.housekeeping().unwrap_or_default();
        // The golden ratio's fraction spreads any number of turns evenly.
        SETTLE + period.mul_f64((f64::from(self.turns) * 0.618_033_988_75).fract())
    }

    /// Starts the processes, and stops them until it is their turn.
    pub fn take(
        launcher: &Launcher,
        subject: Subject,
        programs: &Programs,
        places: Places,
    ) -> Result<Seat, PeerError> {
        let pair = Pair::start(launcher, subject, programs, places, PATIENCE)?;
        pair.pause();
        Ok(Seat { subject, pair, turns: 0 })
    }
}

impl Contender for Seat {
    fn block(&mut self, block: Block) -> Result<Vec<u64>, PeerError> {
        self.pair.resume();
        std::thread::sleep(self.settle());
        self.turns = self.turns.wrapping_add(1);
        let samples = self.pair.run(block, PATIENCE);
        self.pair.pause();
        samples
    }
}

/// Where client and server run.
pub fn places(placement: Placement, machine: &Machine) -> Places {
    let first = machine.cpus.first().copied();
    let server = match placement {
        Placement::OneCore => first,
        Placement::TwoCore => machine.cpus.get(1).copied(),
    };
    let at = |cpu| Place { cpu, fifo: machine.fifo };
    Places { client: at(first), server: at(server) }
}

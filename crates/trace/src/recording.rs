//! The records of one program part with the names of its participants.

use crate::record::Track;
use isorb_rt::clock_sync::DRIFT_PPM;

/// The side of an event channel on which a participant stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Role {
    /// It pushes events.
    Supplier = 0,
    /// It receives events.
    Consumer = 1,
}

/// A supplier or consumer and its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Participant {
    /// Supplier or consumer.
    pub role: Role,
    /// Its number in the records, unique within its role.
    pub id: u32,
    /// Its name. A supplier and a consumer of the same name share a row of the timeline.
    pub name: String,
    /// The deadline that it declared, in nanoseconds from the release of its event.
    pub deadline: Option<u64>,
}

/// An interval of the recording with a caption, such as "GPS silent".
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Phase {
    /// When it begins, on the recorder's clock.
    pub from: u64,
    /// When it ends.
    pub to: u64,
    /// What is special about it.
    pub caption: String,
}

/// A consumer that the channel did not admit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Its name.
    pub name: String,
    /// Why it was refused.
    pub why: String,
}

/// The clock of a neighbour in a federation, as its member knew it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NeighbourClock {
    /// The neighbour's number in the federation.
    pub member: u64,
    /// When this was known, on the recorder's clock.
    pub at: u64,
    /// The neighbour's clock minus the recorder's, nanoseconds (modulo 2^64).
    pub offset: i64,
    /// The largest error of `offset` at that time, nanoseconds.
    pub bound: u64,
}

impl NeighbourClock {
    /// The largest error of the offset at another time of the recorder's clock, nanoseconds: the
    /// clocks may have drifted since, or before.
    pub fn bound_at(&self, time: u64) -> u64 {
        let drift = u128::from(time.abs_diff(self.at)) * u128::from(DRIFT_PPM);
        self.bound.saturating_add(u64::try_from(drift.div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }
}

/// The trace of one event channel (or of one set of agents).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recording {
    /// The channel's name.
    pub name: String,
    /// Records that were lost because no ring was free.
    pub lost: u64,
    /// The names.
    pub participants: Vec<Participant>,
    /// The records, by thread.
    pub tracks: Vec<Track>,
    /// What the program says about intervals.
    pub phases: Vec<Phase>,
    /// Consumers that were not admitted.
    pub refused: Vec<Refusal>,
    /// The channel's number in its federation; 0 without one.
    pub member: u64,
    /// The clocks of its neighbours in the federation.
    pub clocks: Vec<NeighbourClock>,
}

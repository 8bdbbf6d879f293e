//! The records of one program part with the names of its participants.

use crate::record::Track;

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
}

//! Records of the agents of a scheduler, in the form of an event channel's, so that `isorb
//! timeline` draws them.
//!
//! An agent has a row for its releases and one for each band. A run in a band's row is a datagram
//! that was sent in that band. After a promotion, an agent's runs continue in the row of the upper
//! band; a mark shows the time.

use super::push::Push;
use super::{AgentScheduler, Band, PushKey};
use isorb_trace::{Record, RecordBuffer, RecordKind, Track};

/// The records of agents, for `isorb timeline`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recorded {
    /// The records.
    pub track: Track,
    /// The agents and their names.
    pub agents: Vec<(u32, String)>,
}

impl Recorded {
    /// The number in the records of an agent's row for a band. Its releases have the agent's own
    /// number, as those of a supplier.
    pub fn row(agent: u32, band: Band) -> u32 {
        agent.wrapping_mul(3).wrapping_add(band as u32)
    }

    /// The agents that have records.
    pub(crate) fn seen(&self) -> std::collections::HashSet<u32> {
        let agent = |record: &Record| match record.kind {
            RecordKind::Push => record.id,
            _ => record.id / 3,
        };
        self.track.records.iter().map(agent).collect()
    }

    /// The rows that have records: whether it is a row of releases, its number, its name.
    pub fn rows(&self) -> Vec<(bool, u32, String)> {
        let mut rows = Vec::new();
        for (agent, name) in &self.agents {
            rows.push((true, *agent, name.clone()));
            for (band, words) in [(Band::Upper, "upper"), (Band::Middle, "middle"), (Band::Lower, "lower")] {
                let row = Recorded::row(*agent, band);
                let used = |record: &Record| record.kind != RecordKind::Push && record.id == row;
                if self.track.records.iter().any(used) {
                    rows.push((false, row, format!("{name}: {words}")));
                }
            }
        }
        rows
    }
}

impl AgentScheduler {
    /// Begins to keep the last `records` records of push agents; 0 for none. Allocates.
    pub fn record(&mut self, records: usize) {
        self.trace = RecordBuffer::new(records);
    }

    /// Whether records are kept.
    pub fn is_recording(&self) -> bool {
        self.trace.is_on()
    }

    /// The records, as those of a thread with this name. Allocates.
    pub fn recorded(&self, thread: &str) -> Track {
        self.trace.track(thread)
    }

    /// Records the time in which the driver made and sent a datagram.
    pub fn sent(&mut self, key: PushKey, band: Band, begun_ns: u64, ended_ns: u64) {
        let released_ns = self.push(key).map_or(begun_ns, Push::released_ns);
        let waited_ns = begun_ns.saturating_sub(released_ns);
        self.note(begun_ns, RecordKind::Begin, band, key.number, waited_ns);
        self.note(ended_ns, RecordKind::End, band, key.number, ended_ns.saturating_sub(begun_ns));
    }

    /// A record in an agent's row for a band.
    pub(super) fn note(&mut self, at: u64, kind: RecordKind, band: Band, agent: u32, a: u64) {
        self.trace.add(Record { at, kind, level: band as u8, id: Recorded::row(agent, band), a, b: 0 });
    }
}

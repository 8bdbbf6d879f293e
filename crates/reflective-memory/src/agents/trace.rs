//! What the agents of a scheduler did, in time, recorded as event channels record it, so that
//! `isorb timeline` draws it.
//!
//! An agent has a row for its releases and one for each band: a run there is a datagram that was
//! sent in it. So a promotion is seen as the place where an agent's runs go on in the row of the
//! upper band; a mark says when it was.

use super::push::Push;
use super::{AgentScheduler, Band, PushKey};
use isorb_trace::{Record, RecordBuffer, RecordKind, Track};

/// What agents did, for `isorb timeline`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recorded {
    /// The records.
    pub track: Track,
    /// Agents and what people call them.
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

    /// The rows that have records: is it one of releases, its number, its name.
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
    /// From now on keeps the last so many records of what push agents do; 0 for none. Allocates.
    pub fn record(&mut self, records: usize) {
        self.trace = RecordBuffer::new(records);
    }

    /// Are records kept?
    pub fn is_recording(&self) -> bool {
        self.trace.is_on()
    }

    /// What was recorded, as of a thread of this name. Allocates.
    pub fn recorded(&self, thread: &str) -> Track {
        self.trace.track(thread)
    }

    /// The driver made and sent a datagram in this time; for the record only.
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

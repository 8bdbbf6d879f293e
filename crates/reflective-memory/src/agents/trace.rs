//! What the agents of a scheduler did, in time, recorded as event channels record it, so that `isorb timeline` draws it.
//!
//! An agent has a row for its releases and one for each band: a run there is a datagram that was sent in it. So a promotion is seen as the
//! place where an agent's runs go on in the row of the upper band; a mark says when it was.

use super::push::Push;
use super::{AgentScheduler, Band, PushKey};
use isorb_event::trace::{Record, Track, What};

/// A ring of records; the newest overwrite the oldest.
#[derive(Debug, Default)]
pub(super) struct Trace {
    records: Vec<Record>,
    size: usize,
    count: u64,
}

impl Trace {
    /// Takes the memory.
    pub fn new(size: usize) -> Trace {
        Trace { records: Vec::with_capacity(size), size, count: 0 }
    }

    pub fn is_on(&self) -> bool {
        self.size > 0
    }

    /// Neither allocates nor blocks.
    pub fn add(&mut self, record: Record) {
        if self.records.len() < self.size {
            self.records.push(record);
        } else if let Some(place) = self.records.get_mut((self.count % self.size.max(1) as u64) as usize) {
            *place = record;
        }
        self.count += u64::from(self.is_on());
    }

    /// The time of the last record.
    pub fn latest(&self) -> u64 {
        let last = (self.count.max(1) - 1) % self.size.max(1) as u64;
        self.records.get(last as usize).map_or(0, |record| record.at)
    }

    /// A copy, the oldest first.
    pub fn track(&self, thread: &str) -> Track {
        let overwritten = self.count - self.records.len() as u64;
        let oldest = if overwritten > 0 { (self.count % self.size as u64) as usize } else { 0 };
        let mut records = self.records.clone();
        records.rotate_left(oldest);
        Track { thread: thread.to_owned(), overwritten, records }
    }
}

/// What agents did, for `isorb timeline`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recorded {
    /// The records.
    pub track: Track,
    /// Agents and what people call them.
    pub agents: Vec<(u32, String)>,
}

impl Recorded {
    /// The number in the records of an agent's row for a band. Its releases have the agent's own number, as those of a supplier.
    pub fn row(agent: u32, band: Band) -> u32 {
        agent.wrapping_mul(3).wrapping_add(band as u32)
    }

    /// The agents that have records.
    pub(crate) fn seen(&self) -> std::collections::HashSet<u32> {
        let agent = |record: &Record| match record.what {
            What::Push => record.who,
            _ => record.who / 3,
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
                let used =
                    |record: &Record| record.what != isorb_event::trace::What::Push && record.who == row;
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
        self.trace = Trace::new(records);
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
        self.note(begun_ns, What::Begin, band, key.number, waited_ns);
        self.note(ended_ns, What::End, band, key.number, ended_ns.saturating_sub(begun_ns));
    }

    /// A record in an agent's row for a band.
    pub(super) fn note(&mut self, at: u64, what: What, band: Band, agent: u32, a: u64) {
        self.trace.add(Record { at, what, level: band as u8, who: Recorded::row(agent, band), a, b: 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isorb_event::trace::What;

    #[test]
    fn the_newest_stay() {
        let mut trace = Trace::new(3);
        for at in 0..5 {
            trace.add(Record { at, what: What::Push, level: 0, who: 0, a: 0, b: 0 });
        }
        let track = trace.track("memory-disp-0");
        let times: Vec<u64> = track.records.iter().map(|record| record.at).collect();
        assert_eq!((times, track.overwritten), (vec![2, 3, 4], 2));
        let mut none = Trace::default();
        none.add(track.records[0]);
        assert!(!none.is_on() && none.track("x").records.is_empty());
    }
}

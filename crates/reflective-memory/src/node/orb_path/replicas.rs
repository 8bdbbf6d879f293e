//! The reading end of channels on the ORB's paths.

use crate::agents::{Health, ReceiveStats, VisibleValue, earliest};
use crate::fail_points::{FailPoint, fail_point};
use crate::memory::{Source, State, Writer};
use crate::node::timers::{Timer, Timers};
use crate::wire::Counters;
use isorb_rt::clock_sync::{Offset, OffsetEstimator, RoundTrips};
use isorb_rt::sync::PiMutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The least silence after which a node counts as dead: heartbeats come each half second, by a call
/// that may have to wait.
const SILENCE: Duration = Duration::from_secs(2);

/// Replicas with values that arrive by calls.
#[derive(Default)]
pub(crate) struct Replicas {
    table: PiMutex<Table>,
    /// The timer that checks for stale and silent replicas; none in tests, which call the check.
    timers: Option<Arc<Timers>>,
}

#[derive(Debug, Default)]
struct Table {
    replicas: HashMap<u32, Arc<PiMutex<Replica>>>,
    last: u32,
}

/// The parameters of a new replica.
#[derive(Debug)]
pub(crate) struct Target {
    pub token: u64,
    pub writer: Writer,
    /// Older values are stale.
    pub fresh_ns: Option<u64>,
    pub silence: Duration,
    /// Whether each of the writer's values is expected, so that a gap is a loss.
    pub each: bool,
    /// The last push of an earlier channel that it has.
    pub shown: Option<VisibleValue>,
    /// The estimated offset of the clock of the writer's node.
    pub clock: RoundTrips,
}

/// The time stamps of a heartbeat: four of them make a round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BeatTimes {
    /// When it was sent, on the clock of the writer's node.
    pub sent_ns: u64,
    /// When the reader's node answered the one before, on the reader's node's clock; 0 for none.
    pub answered_ns: u64,
    /// When that answer arrived, on the clock of the writer's node.
    pub answer_arrived_ns: u64,
}

/// A value that arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival<'a> {
    pub channel: u32,
    pub token: u64,
    /// The number of the push.
    pub number: u64,
    pub source: u64,
    pub epoch: u64,
    /// When it was written and sent, on the clock of the writer's node.
    pub written_ns: u64,
    pub sent_ns: u64,
    pub data: &'a [u8],
}

#[derive(Debug)]
struct Replica {
    token: u64,
    writer: Writer,
    each: bool,
    shown: Option<(u64, u64)>,
    /// The last push that was accepted.
    taken: u64,
    health: Health,
    counters: Counters,
    values: u64,
    worst_age_ns: u64,
    clock: RoundTrips,
    offset: Option<Offset>,
}

impl Replicas {
    pub fn new(timers: Arc<Timers>) -> Replicas {
        Replicas { table: PiMutex::default(), timers: Some(timers) }
    }

    /// Gives the number of the channel.
    pub fn add(&self, target: Target, now_ns: u64) -> u32 {
        let mut table = self.table.lock();
        table.last = table.last.wrapping_add(1);
        let number = table.last;
        let silence_ns = target.silence.max(SILENCE).as_nanos() as u64;
        let mut health = Health::new(target.fresh_ns, silence_ns, now_ns);
        if let Some(shown) = target.shown {
            health.shown(earliest(shown.written_ns, shown.bound_ns));
        }
        let replica = Replica {
            token: target.token,
            writer: target.writer,
            each: target.each,
            shown: target.shown.map(|shown| (shown.sequence, shown.epoch)),
            taken: 0,
            health,
            counters: Counters::default(),
            values: 0,
            worst_age_ns: 0,
            clock: target.clock,
            offset: None,
        };
        self.check_at(replica.health.next_check());
        table.replicas.insert(number, Arc::new(PiMutex::new(replica)));
        number
    }

    /// Returns whether the value was accepted.
    pub fn remove(&self, number: u32) -> Option<ReceiveStats> {
        let replica = self.table.lock().replicas.remove(&number)?;
        let stats = replica.lock().stats();
        Some(stats)
    }

    /// The outcome of a value that arrived.
    pub fn stats(&self, number: u32) -> Option<ReceiveStats> {
        let replica = self.find(number)?;
        let stats = replica.lock().stats();
        Some(stats)
    }

    /// Makes a value visible. False if it is for another channel or not new.
    pub fn push(&self, arrival: &Arrival<'_>, now_ns: u64) -> bool {
        fail_point(FailPoint::CallCame);
        let Some(replica) = self.find(arrival.channel) else { return false };
        let mut replica = replica.lock();
        let before = replica.health.next_check();
        let shown = replica.take(arrival, now_ns);
        self.check_sooner(before, replica.health.next_check());
        fail_point(FailPoint::CallShown);
        shown
    }

    /// Handles a heartbeat of the writer's node. Returns the number of the last push that was
    /// accepted; `None` if there is no such channel.
    pub fn beat(&self, number: u32, token: u64, far: State, times: BeatTimes, now_ns: u64) -> Option<u64> {
        fail_point(FailPoint::BeatCame);
        let replica = self.find(number)?;
        let mut replica = replica.lock();
        if replica.token != token {
            replica.counters.forged += 1;
            return None;
        }
        let before = replica.health.next_check();
        replica.clock.arrived(times.sent_ns, now_ns);
        if (1..=now_ns).contains(&times.answered_ns) {
            replica.clock.answered(times.answered_ns, times.answer_arrived_ns, now_ns);
        }
        replica.health.received(far, now_ns);
        replica.check(now_ns);
        self.check_sooner(before, replica.health.next_check());
        Some(replica.taken)
    }

    /// Notifies the readers of replicas that have become stale or silent. Gives the time of the
    /// next check.
    pub fn check(&self, now_ns: u64) -> Option<u64> {
        let replicas: Vec<_> = self.table.lock().replicas.values().cloned().collect();
        let check = |replica: &Arc<PiMutex<Replica>>| {
            let mut replica = replica.lock();
            replica.check(now_ns);
            replica.health.next_check()
        };
        replicas.iter().filter_map(check).min()
    }

    /// Sets the timer if a replica must be checked earlier than it is set for.
    fn check_sooner(&self, before: Option<u64>, next: Option<u64>) {
        if next.is_some_and(|next| before.is_none_or(|before| next < before)) {
            self.check_at(next);
        }
    }

    fn check_at(&self, next_ns: Option<u64>) {
        if let (Some(timers), Some(next_ns)) = (&self.timers, next_ns) {
            timers.set(Timer::CheckReplicas, next_ns);
        }
    }

    fn find(&self, number: u32) -> Option<Arc<PiMutex<Replica>>> {
        self.table.lock().replicas.get(&number).cloned()
    }
}

impl Replica {
    fn stats(&self) -> ReceiveStats {
        ReceiveStats {
            counters: self.counters,
            shown: self.values,
            stale: self.health.stale,
            silent: self.health.silent,
            worst_age_ns: self.worst_age_ns,
            age_bound_ns: self.offset.and_then(|offset| offset.bound_ns),
            clock_steps: self.clock.steps(),
            clock_refuted: self.clock.refuted(),
            state: self.health.state(),
            is_silent: self.health.is_silent,
            switches: 0,
            newest: None,
        }
    }

    fn take(&mut self, arrival: &Arrival<'_>, now: u64) -> bool {
        if arrival.token != self.token {
            self.counters.forged += 1;
            return false;
        }
        // A duplicate, because the answer was lost or the value was delayed; or one out of order,
        // which will be sent again.
        if arrival.number != self.taken + 1 {
            let early = arrival.number > self.taken;
            let counter = if early { &mut self.counters.late } else { &mut self.counters.repeated };
            *counter += 1;
            return false;
        }
        self.taken = arrival.number;
        self.health.received(State::Open, now);
        let about = (arrival.source, arrival.epoch);
        // An earlier channel has made it visible.
        if self.shown == Some(about) {
            self.counters.repeated += 1;
            self.check(now);
            return false;
        }
        if self.writer.draft().put(0, arrival.data).is_err() {
            self.counters.malformed += 1;
            return false;
        }
        self.clock.arrived(arrival.sent_ns, now);
        self.offset = self.clock.offset(now);
        let offset = self.offset.unwrap_or(Offset { ns: 0, bound_ns: None });
        let written_ns = offset.to_here(arrival.written_ns).min(now);
        let bound_ns = offset.bound_ns.map_or(u64::MAX, |bound_ns| bound_ns.max(1));
        let source = Source { sequence: arrival.source, epoch: arrival.epoch, bound_ns };
        if self.writer.publish_as(arrival.data.len(), written_ns, source).is_err() {
            self.counters.malformed += 1;
            return false;
        }
        if self.each {
            self.counters.lost = self.counters.lost.saturating_add(gap(self.shown, about));
        }
        self.shown = Some(about);
        self.counters.complete += 1;
        self.values += 1;
        let earliest_ns = earliest(written_ns, bound_ns);
        self.worst_age_ns = self.worst_age_ns.max(now.saturating_sub(earliest_ns));
        self.health.shown(earliest_ns);
        self.check(now);
        true
    }

    fn check(&mut self, now_ns: u64) {
        if let Some(state) = self.health.check(now_ns) {
            self.writer.set_state(state);
        }
    }
}

/// Counts values that the writer's area overwrote before they were sent. Numbers continue from
/// writer to writer; a process that may write the area can write any number.
fn gap(before: Option<(u64, u64)>, now: (u64, u64)) -> u64 {
    before.map_or(0, |before| now.0.saturating_sub(before.0.saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Geometry, Segment};

    fn target(segment: &Segment, fresh_ns: Option<u64>, silence: Duration) -> Target {
        let writer = segment.writer().unwrap();
        Target { token: 7, writer, fresh_ns, silence, each: true, shown: None, clock: RoundTrips::default() }
    }

    fn arrival(channel: u32, number: u64, source: u64, data: &[u8]) -> Arrival<'_> {
        Arrival { channel, token: 7, number, source, epoch: 1, written_ns: 0, sent_ns: 5, data }
    }

    #[test]
    fn oneway_pushes_are_taken_in_order_and_once() {
        let segment = Segment::create("replica", Geometry::new(16, 3).unwrap()).unwrap();
        let replicas = Replicas::default();
        let channel = replicas.add(target(&segment, None, Duration::from_secs(60)), 0);
        assert!(replicas.push(&arrival(channel, 1, 10, b"one"), 0));
        assert!(!replicas.push(&arrival(channel, 3, 12, b"three"), 0), "before its turn");
        assert!(!replicas.push(&arrival(channel, 1, 10, b"one"), 0), "again");
        assert!(!replicas.push(&Arrival { token: 8, ..arrival(channel, 2, 11, b"lie") }, 0));
        assert!(!replicas.push(&arrival(channel + 1, 2, 11, b"elsewhere"), 0));
        assert_eq!(replicas.beat(channel, 7, State::Open, BeatTimes::default(), 0), Some(1));
        assert_eq!(replicas.beat(channel, 8, State::Open, BeatTimes::default(), 0), None);
        assert!(replicas.push(&arrival(channel, 2, 11, b"two"), 0));
        // Three values were never sent.
        assert!(replicas.push(&arrival(channel, 3, 15, b"six"), 0));
        let counters = replicas.stats(channel).unwrap().counters;
        assert_eq!((counters.complete, counters.lost, counters.repeated), (3, 3, 1));
        assert_eq!((counters.late, counters.forged, counters.malformed), (1, 2, 0));
        assert!(!replicas.push(&arrival(channel, 4, 16, &[0; 17]), 0), "larger than the area");
        let mut out = [0; 16];
        let sample = segment.reader().unwrap().latest(&mut out).unwrap();
        assert_eq!((sample.source, &out[..sample.len]), (15, &b"six"[..]));
        assert_eq!(replicas.beat(channel, 7, State::WriterGone, BeatTimes::default(), 0), Some(4));
        assert_eq!(segment.state(), Some(State::WriterGone));
    }

    #[test]
    fn numbers_that_make_no_sense_are_survived() {
        let segment = Segment::create("replica", Geometry::new(16, 3).unwrap()).unwrap();
        let replicas = Replicas::default();
        let channel = replicas.add(target(&segment, Some(u64::MAX), Duration::from_secs(60)), 0);
        for (number, source) in (1..).zip([u64::MAX, 3, u64::MAX, 0, u64::MAX, 1]) {
            let arrival = Arrival {
                written_ns: source,
                sent_ns: u64::MAX - number,
                ..arrival(channel, number, source, b"lie")
            };
            assert!(replicas.push(&arrival, 0), "{source}");
        }
        assert_eq!(replicas.stats(channel).unwrap().counters.lost, u64::MAX);
    }

    /// A machine that shuts down ends the writer before its node. The silence of the node has the
    /// channel opened again when it is back.
    #[test]
    fn the_silence_of_a_node_is_noticed_after_the_death_of_its_writer() {
        const MS: u64 = 1_000_000;
        let segment = Segment::create("replica", Geometry::new(16, 3).unwrap()).unwrap();
        let replicas = Replicas::default();
        let channel = replicas.add(target(&segment, None, Duration::from_secs(2)), 0);
        for last in [0, 100 * MS] {
            let answer = replicas.beat(channel, 7, State::WriterGone, BeatTimes::default(), last);
            assert_eq!((answer, segment.state()), (Some(0), Some(State::WriterGone)));
            assert_eq!(replicas.check(last), Some(last + 2_000 * MS), "when silence would be noticed");
        }
        let is_silent = |channel| replicas.stats(channel).unwrap().is_silent;
        assert!(!is_silent(channel));
        assert_eq!(replicas.check(2_100 * MS), None, "nothing more to notice");
        assert!(is_silent(channel));
        assert!(replicas.beat(channel, 7, State::WriterGone, BeatTimes::default(), 3_000 * MS).is_some());
        assert!(!is_silent(channel));
    }

    /// The death of a writer's node is reported within the bound, on each path, with pushes and
    /// with heartbeats only.
    #[test]
    fn silence_is_told_within_its_bound_and_no_sooner() {
        const MS: u64 = 1_000_000;
        // The configured silence, and the silence in effect: a heartbeat may have to wait.
        for (configured, bound) in [(350 * MS, 2000 * MS), (5000 * MS, 5000 * MS)] {
            let segment = Segment::create("replica", Geometry::new(16, 3).unwrap()).unwrap();
            let mut reader = segment.reader().unwrap();
            let replicas = Replicas::default();
            let target = target(&segment, Some(20_000 * MS), Duration::from_nanos(configured));
            let channel = replicas.add(target, 0);
            let mut last = 0;
            let mut now = 0;
            // As the watch looks.
            let mut run = |until: u64| {
                while now < until {
                    now += 50 * MS;
                    let _ = replicas.check(now);
                }
                segment.state()
            };
            for round in 1..=20 {
                last = round * (bound - 50 * MS);
                assert_eq!(run(last), Some(State::Open), "{last}");
                match round % 2 {
                    0 => {
                        let value = arrival(channel, round / 2, round, b"value");
                        assert!(replicas.push(&Arrival { written_ns: last, sent_ns: last, ..value }, last));
                    }
                    _ => {
                        assert!(replicas.beat(channel, 7, State::Open, BeatTimes::default(), last).is_some())
                    }
                }
            }
            // A forged or repeated message is no sign of life.
            assert!(!replicas.push(&Arrival { token: 8, ..arrival(channel, 11, 21, b"lie") }, last + MS));
            assert!(!replicas.push(&arrival(channel, 10, 20, b"value"), last + MS));
            assert_eq!(replicas.beat(channel, 8, State::Open, BeatTimes::default(), last + MS), None);
            assert_eq!(run(last + bound - 1), Some(State::WriterGone), "at the look after the bound");
            let stats = replicas.stats(channel).unwrap();
            assert!(stats.is_silent && stats.silent == 1, "{stats:?}");
            assert_eq!(reader.latest(&mut [0; 16]).unwrap().source, 20, "the last one stays");
            replicas.beat(channel, 7, State::Open, BeatTimes::default(), last + 2 * bound);
            assert_eq!(segment.state(), Some(State::Open));
        }
    }
}

//! A receive agent: it represents one remote writer at the reader's node.

use super::ReportKind;
use super::config::{ReceiveSpec, Via};
use super::credit::{CreditSource, on_wire};
use super::health::Health;
use super::paths::Paths;
use crate::fail_points::{FailPoint, fail_point};
use crate::memory::{Source, State, Writer};
use crate::wire::{ChannelError, Counters, Datagram, HEADER, Ignored, Kind, Outcome, Receiver, Sink};
use isorb_rt::clock_sync::{DRIFT_PPM, Offset, OffsetEstimator, RoundTrips};
use isorb_rt::timers::TimerHandle;
use std::net::SocketAddr;

/// The interval of probes of the sender's clock.
const PROBE_NS: u64 = 500_000_000;

/// The statistics of a receive agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiveStats {
    /// The counts of all pushes and datagrams.
    pub counters: Counters,
    /// Values that are in the replica.
    pub shown: u64,
    /// How often the value was too old for its reader.
    pub stale: u64,
    /// How often the writer's node fell silent.
    pub silent: u64,
    /// The largest age of a value when it arrived; its bound is included.
    pub worst_age_ns: u64,
    /// The error bound of the ages; none before the sender's first answer.
    pub age_bound_ns: Option<u64>,
    /// How often a clock was found to have stepped.
    pub clock_steps: u64,
    /// How often messages refuted what the common clock said.
    pub clock_refuted: u64,
    /// The state that readers see.
    pub state: State,
    /// The writer's node is silent.
    pub is_silent: bool,
    /// How often the channel changed its path.
    pub switches: u64,
    /// The push up to which all are counted; none on the ORB's paths, and before the first datagram
    /// of a group.
    pub newest: Option<u64>,
}

/// The value that is visible in a replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VisibleValue {
    /// Its number at the writer's node.
    pub sequence: u64,
    /// Which writer wrote it.
    pub epoch: u64,
    /// The time of writing in nanoseconds on this node's monotonic clock, and its error bound.
    pub written_ns: u64,
    /// See [`Source::bound_ns`].
    pub bound_ns: u64,
}

impl ReceiveStats {
    /// The sum of the statistics of this agent and of the agent that it replaced.
    #[must_use]
    pub fn after(self, earlier: &ReceiveStats) -> ReceiveStats {
        ReceiveStats {
            counters: self.counters.plus(&earlier.counters),
            shown: self.shown + earlier.shown,
            stale: self.stale + earlier.stale,
            silent: self.silent + earlier.silent,
            worst_age_ns: self.worst_age_ns.max(earlier.worst_age_ns),
            switches: self.switches + earlier.switches,
            clock_steps: self.clock_steps + earlier.clock_steps,
            clock_refuted: self.clock_refuted + earlier.clock_refuted,
            ..self
        }
    }
}

#[derive(Debug)]
pub(super) struct Receive {
    /// The urgency of its datagrams; none for best effort.
    pub deadline_ns: Option<u64>,
    pub watch: Option<TimerHandle>,
    /// When that is.
    pub watch_at: u64,
    /// The credit of its sender; none without a limit.
    pub credit: Option<CreditSource>,
    receiver: Receiver,
    target: Area,
    health: Health,
    paths: Option<Paths>,
    /// Its reader is stopped; others of its group are not.
    paused: bool,
    /// The last heartbeat of each path (while paused, the last datagram): its push and its time of
    /// sending. Both only grow, so a heartbeat that is not larger is a repetition.
    beats: [Option<(u64, u64)>; 2],
    /// The offset of the sender's clock.
    clock: RoundTrips,
    probe_at_ns: u64,
    /// When the last probe that was answered was sent.
    answered_ns: u64,
}

#[derive(Debug)]
struct Area {
    writer: Writer,
    /// When the value was written at the earliest.
    earliest_ns: Option<u64>,
    worst_age_ns: u64,
    shown: u64,
    now_ns: u64,
    offset: Option<Offset>,
}

impl Receive {
    pub fn new(spec: ReceiveSpec, now_ns: u64) -> Result<Receive, ChannelError> {
        let size = spec.target.geometry().size();
        if spec.channel.size > size {
            return Err(ChannelError {
                what: "the replica's size",
                requested: spec.channel.size,
                limit: size,
            });
        }
        Ok(Receive {
            deadline_ns: spec.deadline_ns,
            watch: None,
            watch_at: 0,
            credit: None,
            receiver: Receiver::new(spec.channel, spec.peer)?,
            target: Area {
                writer: spec.target,
                earliest_ns: None,
                worst_age_ns: 0,
                shown: 0,
                now_ns,
                offset: None,
            },
            health: Health::new(spec.fresh_ns, spec.silence_ns, now_ns),
            paths: spec.second.map(|second| Paths::new(spec.peer, second, now_ns)),
            paused: false,
            beats: [None; 2],
            clock: spec.clock,
            probe_at_ns: now_ns,
            answered_ns: 0,
        })
    }

    pub fn channel(&self) -> &crate::wire::Channel {
        self.receiver.channel()
    }

    pub fn goes_on_from(&mut self, shown: VisibleValue) {
        self.receiver.goes_on_from(shown.sequence, shown.epoch as u32);
        self.target.earliest_ns = Some(earliest(shown.written_ns, shown.bound_ns));
    }

    /// The agent is removed.
    pub fn end(&mut self) {
        self.receiver.end();
    }

    /// Silence counts from here.
    pub fn begin(&mut self, now_ns: u64) {
        self.health.begin(now_ns);
        self.probe_at_ns = now_ns;
        if let Some(paths) = &mut self.paths {
            paths.begin(now_ns);
        }
    }

    pub fn peer(&self) -> SocketAddr {
        self.receiver.peer()
    }

    /// Pushes before the next datagram are not for this agent.
    pub fn rejoin(&mut self) {
        self.receiver.rejoin();
    }

    pub fn set_paused(&mut self, paused: bool, now_ns: u64) {
        if std::mem::replace(&mut self.paused, paused) != paused {
            self.receiver.rejoin();
            self.health.received(if paused { State::Stopped } else { State::Open }, now_ns);
            self.look(now_ns);
        }
    }

    /// The choice of a path to send now, if any.
    pub fn wanted_path(&mut self, now_ns: u64) -> Option<Via> {
        self.paths.as_mut()?.look(now_ns)
    }

    /// The path that datagrams to the sender take.
    pub fn path(&self) -> Via {
        self.paths.as_ref().map_or(Via::First, Paths::wanted)
    }

    /// Whether to probe the sender's clock now. Sets the time of the next probe.
    pub fn is_probe_due(&mut self, now_ns: u64) -> bool {
        let is_due = now_ns >= self.probe_at_ns;
        if is_due {
            self.probe_at_ns = now_ns.saturating_add(PROBE_NS);
        }
        is_due
    }

    /// Writes a datagram to the sender and returns the address.
    pub fn report(
        &self,
        kind: ReportKind,
        via: Via,
        now_ns: u64,
        out: &mut [u8; HEADER],
    ) -> Option<SocketAddr> {
        let channel = self.receiver.channel();
        let (id, epoch, token) = (channel.id, channel.epoch, channel.token);
        let (kind, push, index) = match kind {
            ReportKind::Path(wanted) => (Kind::Choice, self.paths.as_ref()?.choices(), wanted as u32),
            ReportKind::Probe => (Kind::Probe, 0, 0),
            ReportKind::Credit => (Kind::Credit, self.credit?.credit().0, 0),
        };
        let report = Datagram { kind, channel: id, epoch, token, push, index, ..Datagram::default() };
        let limit = self.credit.filter(|_| kind == Kind::Credit).map_or(0, |credit| credit.credit().1);
        let report = Datagram { sequence: limit, ..report };
        Datagram { sent_ns: now_ns, ..report }.write_head(out);
        Some(self.paths.as_ref().map_or(self.receiver.peer(), |paths| paths.peer(via)))
    }

    pub fn accept(&mut self, from: SocketAddr, datagram: &Datagram<'_>, now_ns: u64) -> Outcome {
        self.target.now_ns = now_ns;
        let wanted = self.path();
        let via = self.paths.as_ref().and_then(|paths| paths.of(from));
        // Both paths are the peer's.
        let from = if via.is_some() { self.receiver.peer() } else { from };
        if self.is_ours(from, datagram) {
            self.clock.arrived(datagram.sent_ns, now_ns);
            if datagram.kind == Kind::Answer {
                return self.answered(datagram, now_ns);
            }
        }
        self.target.offset = self.clock.offset(now_ns);
        if self.paused {
            return self.count_only(from, datagram, via, now_ns);
        }
        let lost = self.receiver.counters().not_complete();
        let outcome = self.receiver.accept(from, datagram, now_ns, &mut self.target);
        self.account(datagram, outcome);
        // Earlier datagrams are no sign of life.
        if matches!(outcome, Outcome::Ignored(_)) {
            return outcome;
        }
        if datagram.kind == Kind::Heartbeat {
            if !self.is_news(datagram, via) {
                return self.receiver.repeated();
            }
            // The heartbeats of the other path overtake what is on its way.
            if let Some(credit) = self.credit.as_mut().filter(|_| via.is_none_or(|via| via == wanted)) {
                credit.heartbeat(datagram.sequence, datagram.written_ns);
            }
        }
        let far = match datagram.kind {
            Kind::Heartbeat => State::from_code(datagram.index).unwrap_or(self.health.far()),
            _ => State::Open,
        };
        if let (Some(paths), Some(via)) = (&mut self.paths, via) {
            paths.received(via, now_ns);
            let astray = datagram.kind != Kind::Heartbeat && via != paths.wanted();
            if astray || self.receiver.counters().not_complete() > lost {
                paths.announce_again(now_ns);
            }
        }
        self.health.received(far, now_ns);
        self.look(now_ns);
        outcome
    }

    /// Counts the octets of a datagram that the sender sent for this channel, once.
    fn account(&mut self, datagram: &Datagram<'_>, outcome: Outcome) {
        let is_data = matches!(datagram.kind, Kind::Fragment | Kind::Parity);
        let is_sent = matches!(
            outcome,
            Outcome::Part | Outcome::Complete | Outcome::Alive | Outcome::Ignored(Ignored::Late)
        );
        if let Some(credit) = self.credit.as_mut().filter(|_| is_data && is_sent) {
            credit.arrived(on_wire(HEADER + datagram.payload.len()));
        }
    }

    /// The sender answered a probe. A replayed answer is none to a later probe.
    fn answered(&mut self, answer: &Datagram<'_>, now_ns: u64) -> Outcome {
        let (sent_ns, arrived_far_ns) = (answer.push, answer.sequence);
        if sent_ns <= self.answered_ns || sent_ns > now_ns {
            return self.receiver.repeated();
        }
        self.answered_ns = sent_ns;
        self.clock.answered(sent_ns, arrived_far_ns, now_ns);
        Outcome::Alive
    }

    /// Both nodes have read a common clock, the sender since this node's probe at `probed_ns`.
    pub fn agreed(&mut self, (offset_ns, bound_ns): (i64, u64), probed_ns: u64, now_ns: u64) {
        let drift_ns = now_ns.saturating_sub(probed_ns) / 1_000 * DRIFT_PPM / 1_000 + 1;
        self.clock.agreed(offset_ns, bound_ns.saturating_add(drift_ns), now_ns);
    }

    fn is_ours(&self, from: SocketAddr, datagram: &Datagram<'_>) -> bool {
        let channel = self.receiver.channel();
        let agreement = (channel.id, channel.epoch, channel.token);
        from == self.receiver.peer() && (datagram.channel, datagram.epoch, datagram.token) == agreement
    }

    /// A replayed datagram must not keep a dead node alive.
    fn is_news(&mut self, datagram: &Datagram<'_>, via: Option<Via>) -> bool {
        let beat = Some((datagram.push, datagram.sent_ns));
        let last = &mut self.beats[via.map_or(0, |via| via as usize)];
        let is_news = beat > *last;
        if is_news {
            *last = beat;
        }
        is_news
    }

    /// While the agent is paused, a datagram shows only that the writer's node is alive.
    fn count_only(
        &mut self,
        from: SocketAddr,
        datagram: &Datagram<'_>,
        via: Option<Via>,
        now_ns: u64,
    ) -> Outcome {
        if !self.is_ours(from, datagram) {
            return Outcome::Ignored(Ignored::Forged);
        }
        if !self.is_news(datagram, via) {
            return self.receiver.repeated();
        }
        // What the other members of a group read comes by this node's port as well.
        match (&mut self.credit, datagram.kind) {
            (Some(credit), Kind::Heartbeat) => credit.heartbeat(datagram.sequence, datagram.written_ns),
            (Some(credit), Kind::Fragment | Kind::Parity) => {
                credit.arrived(on_wire(HEADER + datagram.payload.len()));
            }
            _ => {}
        }
        self.health.received(State::Stopped, now_ns);
        Outcome::Alive
    }

    /// Publishes a change of the state.
    pub fn look(&mut self, now_ns: u64) {
        if let Some(earliest_ns) = self.target.earliest_ns {
            self.health.shown(earliest_ns);
        }
        if let Some(state) = self.health.check(now_ns) {
            self.target.writer.set_state(state);
        }
    }

    /// When to look again if nothing comes.
    pub fn next_check(&self) -> Option<u64> {
        let path = self.paths.as_ref().map(Paths::next_check).filter(|at| *at < u64::MAX);
        self.health.next_check().into_iter().chain(path).chain([self.probe_at_ns]).min()
    }

    pub fn stats(&self) -> ReceiveStats {
        ReceiveStats {
            counters: *self.receiver.counters(),
            shown: self.target.shown,
            stale: self.health.stale,
            silent: self.health.silent,
            worst_age_ns: self.target.worst_age_ns,
            age_bound_ns: self.target.offset.and_then(|offset| offset.bound_ns),
            clock_steps: self.clock.steps(),
            clock_refuted: self.clock.refuted(),
            state: self.health.state(),
            is_silent: self.health.is_silent,
            switches: self.paths.as_ref().map_or(0, |paths| paths.switches),
            newest: self.receiver.counted(),
        }
    }
}

impl Sink for Area {
    fn put(&mut self, offset: usize, piece: &[u8]) {
        // Fits: the channel is no larger than the replica.
        let _ = self.writer.draft().put(offset, piece);
        fail_point(FailPoint::PieceTaken);
    }

    fn publish(&mut self, len: usize, written_ns: u64, sequence: u64, writer: u32) {
        // The datagram bounds the offset so that its value was not written after it arrived.
        let offset = self.offset.unwrap_or(Offset { ns: 0, bound_ns: None });
        let written_ns = offset.to_here(written_ns).min(self.now_ns);
        let bound_ns = offset.bound_ns.map_or(u64::MAX, |bound_ns| bound_ns.max(1));
        let source = Source { sequence, epoch: u64::from(writer), bound_ns };
        fail_point(FailPoint::ValueAboutToShow);
        if self.writer.publish_as(len, written_ns, source).is_ok() {
            fail_point(FailPoint::ValueShown);
            let earliest_ns = earliest(written_ns, bound_ns);
            self.earliest_ns = Some(earliest_ns);
            self.worst_age_ns = self.worst_age_ns.max(self.now_ns.saturating_sub(earliest_ns));
            self.shown += 1;
        }
    }
}

/// The earliest time at which a value can have been written, by which its age is judged.
pub(crate) fn earliest(written_ns: u64, bound_ns: u64) -> u64 {
    match bound_ns {
        u64::MAX => written_ns,
        bound_ns => written_ns.saturating_sub(bound_ns),
    }
}

//! A receive agent: what stands for one writer elsewhere at the reader's node.

use super::config::{ReceiveSpec, Via};
use super::health::Health;
use super::paths::Paths;
use crate::fail_points::{FailPoint, fail_point};
use crate::memory::{Source, State, Writer};
use crate::wire::{ChannelError, Counters, Datagram, HEADER, Ignored, Kind, Outcome, Receiver, Sink};
use isorb_rt::timers::TimerHandle;
use std::net::SocketAddr;

/// What a receive agent has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiveStats {
    /// What became of all pushes and datagrams.
    pub counters: Counters,
    /// Values that are in the replica.
    pub shown: u64,
    /// How often the value was too old for its reader.
    pub stale: u64,
    /// How often the writer's node fell silent.
    pub silent: u64,
    /// The age of the value when it arrived: the longest there was, without the time on the wire.
    pub worst_age_ns: u64,
    /// What readers are told.
    pub state: State,
    /// Nothing comes from the writer's node.
    pub is_silent: bool,
    /// How often the channel went over to its other path.
    pub switches: u64,
    /// Up to which push of the channel all are counted; none on the ORB's paths, and before
    /// anything of a group has come.
    pub newest: Option<u64>,
}

/// The value that a replica has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shown {
    /// Its number at the writer's node.
    pub sequence: u64,
    /// Which writer wrote it.
    pub epoch: u64,
    /// When, nanoseconds on this node's monotonic clock.
    pub written_ns: u64,
}

impl ReceiveStats {
    /// What an agent has counted for the same readers, which this one replaced, and this one.
    #[must_use]
    pub fn after(self, earlier: &ReceiveStats) -> ReceiveStats {
        ReceiveStats {
            counters: self.counters.plus(&earlier.counters),
            shown: self.shown + earlier.shown,
            stale: self.stale + earlier.stale,
            silent: self.silent + earlier.silent,
            worst_age_ns: self.worst_age_ns.max(earlier.worst_age_ns),
            switches: self.switches + earlier.switches,
            ..self
        }
    }
}

#[derive(Debug)]
pub(super) struct Receive {
    /// What its datagrams are served by; none for best effort.
    pub deadline_ns: Option<u64>,
    pub watch: Option<TimerHandle>,
    /// When that is.
    pub watch_at: u64,
    receiver: Receiver,
    target: Area,
    health: Health,
    paths: Option<Paths>,
    /// Its reader wants nothing, others of its group do.
    paused: bool,
    /// The last heartbeat of each path (while paused, the last datagram): its push, and how old the
    /// value was then. Both only grow, so one that is not larger was sent before.
    beats: [Option<(u64, u64)>; 2],
}

#[derive(Debug)]
struct Area {
    writer: Writer,
    written_ns: Option<u64>,
    worst_age_ns: u64,
    shown: u64,
    now_ns: u64,
}

impl Receive {
    pub fn new(spec: ReceiveSpec, now_ns: u64) -> Result<Receive, ChannelError> {
        let size = spec.target.geometry().size();
        if spec.channel.size > size {
            return Err(ChannelError { what: "the replica's size", asked: spec.channel.size, limit: size });
        }
        Ok(Receive {
            deadline_ns: spec.deadline_ns,
            watch: None,
            watch_at: 0,
            receiver: Receiver::new(spec.channel, spec.peer)?,
            target: Area { writer: spec.target, written_ns: None, worst_age_ns: 0, shown: 0, now_ns },
            health: Health::new(spec.fresh_ns, spec.silence_ns, now_ns),
            paths: spec.second.map(|second| Paths::new(spec.peer, second, now_ns)),
            paused: false,
            beats: [None; 2],
        })
    }

    pub fn channel(&self) -> &crate::wire::Channel {
        self.receiver.channel()
    }

    pub fn goes_on_from(&mut self, shown: Shown) {
        self.receiver.goes_on_from(shown.sequence, shown.epoch as u32);
        self.target.written_ns = Some(shown.written_ns);
    }

    /// It is taken out.
    pub fn end(&mut self) {
        self.receiver.end();
    }

    /// Silence counts from here.
    pub fn begin(&mut self, now_ns: u64) {
        self.health.begin(now_ns);
        if let Some(paths) = &mut self.paths {
            paths.begin(now_ns);
        }
    }

    pub fn peer(&self) -> SocketAddr {
        self.receiver.peer()
    }

    /// What goes before the next datagram is not for this one.
    pub fn rejoin(&mut self) {
        self.receiver.rejoin();
    }

    pub fn set_paused(&mut self, paused: bool, now_ns: u64) {
        if std::mem::replace(&mut self.paused, paused) != paused {
            self.receiver.rejoin();
            self.health.heard(if paused { State::Stopped } else { State::Open }, now_ns);
            self.look(now_ns);
        }
    }

    /// What to tell the sender about the path, now.
    pub fn wanted_path(&mut self, now_ns: u64) -> Option<Via> {
        self.paths.as_mut()?.look(now_ns)
    }

    /// Writes a datagram that says so; gives where it goes.
    pub fn choice(&self, wanted: Via, via: Via, out: &mut [u8; HEADER]) -> Option<SocketAddr> {
        let channel = self.receiver.channel();
        let (kind, index) = (Kind::Choice, wanted as u32);
        let (id, epoch, token) = (channel.id, channel.epoch, channel.token);
        let paths = self.paths.as_ref()?;
        let about =
            Datagram { kind, channel: id, epoch, token, push: paths.said(), index, ..Datagram::default() };
        about.write_head(out);
        Some(paths.peer(via))
    }

    pub fn accept(&mut self, from: SocketAddr, datagram: &Datagram<'_>, now_ns: u64) -> Outcome {
        self.target.now_ns = now_ns;
        let via = self.paths.as_ref().and_then(|paths| paths.of(from));
        // Both paths are the peer's.
        let from = if via.is_some() { self.receiver.peer() } else { from };
        if self.paused {
            return self.hear_only(from, datagram, via, now_ns);
        }
        let lost = self.receiver.counters().not_complete();
        let outcome = self.receiver.accept(from, datagram, now_ns, &mut self.target);
        // What came before says nothing about now.
        if matches!(outcome, Outcome::Ignored(_)) {
            return outcome;
        }
        if datagram.kind == Kind::Heartbeat && !self.is_news(datagram, via) {
            return self.receiver.repeated();
        }
        let far = match datagram.kind {
            Kind::Heartbeat => State::from_code(datagram.index).unwrap_or(self.health.far()),
            _ => State::Open,
        };
        if let (Some(paths), Some(via)) = (&mut self.paths, via) {
            paths.heard(via, now_ns);
            let astray = datagram.kind != Kind::Heartbeat && via != paths.wanted();
            if astray || self.receiver.counters().not_complete() > lost {
                paths.say_again(now_ns);
            }
        }
        self.health.heard(far, now_ns);
        self.look(now_ns);
        outcome
    }

    /// A replayed datagram must not keep a dead node alive.
    fn is_news(&mut self, datagram: &Datagram<'_>, via: Option<Via>) -> bool {
        let beat = Some((datagram.push, datagram.age_ns));
        let last = &mut self.beats[via.map_or(0, |via| via as usize)];
        let is_news = beat > *last;
        if is_news {
            *last = beat;
        }
        is_news
    }

    /// The writer's node lives; nothing else matters while this one is paused.
    fn hear_only(
        &mut self,
        from: SocketAddr,
        datagram: &Datagram<'_>,
        via: Option<Via>,
        now_ns: u64,
    ) -> Outcome {
        let channel = self.receiver.channel();
        let ours = from == self.receiver.peer()
            && (datagram.channel, datagram.epoch, datagram.token)
                == (channel.id, channel.epoch, channel.token);
        if !ours {
            return Outcome::Ignored(Ignored::Forged);
        }
        if !self.is_news(datagram, via) {
            return self.receiver.repeated();
        }
        self.health.heard(State::Stopped, now_ns);
        Outcome::Alive
    }

    /// Tells readers what has changed.
    pub fn look(&mut self, now_ns: u64) {
        if let Some(written_ns) = self.target.written_ns {
            self.health.shown(written_ns);
        }
        if let Some(state) = self.health.check(now_ns) {
            self.target.writer.set_state(state);
        }
    }

    /// When to look again if nothing comes.
    pub fn next_check(&self) -> Option<u64> {
        let path = self.paths.as_ref().map(Paths::next_check).filter(|at| *at < u64::MAX);
        match (self.health.next_check(), path) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    pub fn stats(&self) -> ReceiveStats {
        ReceiveStats {
            counters: *self.receiver.counters(),
            shown: self.target.shown,
            stale: self.health.stale,
            silent: self.health.silent,
            worst_age_ns: self.target.worst_age_ns,
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
        let source = Source { sequence, epoch: u64::from(writer) };
        fail_point(FailPoint::ValueAboutToShow);
        if self.writer.publish_as(len, written_ns, source).is_ok() {
            fail_point(FailPoint::ValueShown);
            self.written_ns = Some(written_ns);
            self.worst_age_ns = self.worst_age_ns.max(self.now_ns.saturating_sub(written_ns));
            self.shown += 1;
        }
    }
}

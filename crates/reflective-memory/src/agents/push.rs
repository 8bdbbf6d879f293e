//! A push agent: it represents one remote reader at the writer's node.

use super::config::{Mode, PushSpec, Via};
use super::credit::Credit;
use super::member_credit::MemberCredits;
use super::queue::Band;
use crate::memory::{ReadError, State};
use crate::wire::{ChannelError, Loaded, Pacer, Sender};
use isorb_rt::timers::TimerHandle;
use std::net::SocketAddr;

/// The statistics of a push agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PushStats {
    /// Pushes that were sent completely. A oneway that is sent again, because it was not accepted,
    /// counts once.
    pub pushes: u64,
    /// Pushes that were begun, as a receiver counts them: also those that a newer value ended, and
    /// repeated values.
    pub begun: u64,
    /// Values that were sent again because they had not changed for long.
    pub refreshed: u64,
    /// Datagrams, heartbeats too.
    pub datagrams: u64,
    /// Octets of them.
    pub octets: u64,
    /// Values that a later one overtook before they could be sent.
    pub skipped: u64,
    /// Releases before the writer's period had passed: once in a period such a value is sent as
    /// best effort, others wait.
    pub early: u64,
    /// Guaranteed pushes that ended after their deadline.
    pub missed: u64,
    /// Pushes that cost more than was admitted and continued as best effort.
    pub contained: u64,
    /// The most processor time of one guaranteed push, as far as it was not contained.
    pub worst_cost_ns: u64,
    /// Pushes that were promoted to the upper band.
    pub promoted: u64,
    /// The longest time from release to the last datagram; on the ORB's paths, that of a call with
    /// its repetitions, and of a oneway until it is sent.
    pub worst_response_ns: u64,
    /// Datagrams that the system refused; on the ORB's paths, calls that failed, those of oneways
    /// that were sent again and of heartbeats that ask for them included.
    pub refused: u64,
    /// How often a push waited for credit of the reader's node.
    pub waited: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Job {
    Idle,
    /// Released, not loaded.
    Released,
    /// Loaded, and datagrams are left.
    Sending,
}

/// The result of a release.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Released {
    pub begins: bool,
    pub promote_at: Option<u64>,
    pub again_at: Option<u64>,
}

/// The result of an agent's turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Advance {
    Datagram {
        len: usize,
        last: bool,
    },
    WaitUntil(u64),
    /// A credit of the reader's node ends the wait.
    WaitForCredit,
    Nothing,
}

/// What limits the octets of a push agent.
#[derive(Debug)]
pub(super) enum SendCredit {
    Unlimited,
    OfReceiver(Credit),
    OfMembers(MemberCredits),
}

#[derive(Debug)]
pub(super) struct Push {
    /// Its number in records.
    pub number: u32,
    pub spec: PushSpec,
    pub stats: PushStats,
    pub running: bool,
    pub release: Option<TimerHandle>,
    pub promote: Option<TimerHandle>,
    pub pace: Option<TimerHandle>,
    pub heartbeat: Option<TimerHandle>,
    pub heartbeat_due: bool,
    /// The octets that it may send.
    pub credit: SendCredit,
    waits_for_credit: bool,
    via: Via,
    /// The number of the receiver's last choice.
    pub chosen: u64,
    sender: Sender,
    pacer: Pacer,
    job: Job,
    released_ns: u64,
    ever_released: bool,
    /// The time from which the guarantee holds for another push.
    next_ns: u64,
    /// The push under way was released before that time, and is best effort until then.
    ahead: bool,
    /// An early push has been sent in this period; the next value waits.
    was_ahead: bool,
    /// A value was written while a push was under way.
    pending: bool,
    refreshing: bool,
    /// Values before the next one were not for the reader, because the agent is new or was stopped.
    begins: bool,
    promoted: bool,
    contained: bool,
    spent_ns: u64,
    sent_ns: u64,
    pushed_ns: u64,
}

impl Push {
    pub fn new(spec: PushSpec) -> Result<Push, ChannelError> {
        Ok(Push {
            number: 0,
            sender: Sender::new(spec.channel)?,
            pacer: Pacer::new(spec.rate, spec.burst),
            spec,
            stats: PushStats::default(),
            running: true,
            release: None,
            promote: None,
            pace: None,
            heartbeat: None,
            heartbeat_due: false,
            credit: SendCredit::Unlimited,
            waits_for_credit: false,
            via: Via::First,
            chosen: 0,
            job: Job::Idle,
            released_ns: 0,
            ever_released: false,
            next_ns: 0,
            ahead: false,
            was_ahead: false,
            pending: false,
            refreshing: false,
            begins: true,
            promoted: false,
            contained: false,
            spent_ns: 0,
            sent_ns: 0,
            pushed_ns: 0,
        })
    }

    #[cfg(test)]
    pub fn hold_to_rate(&mut self, bytes_per_s: u64) {
        self.pacer = Pacer::new(bytes_per_s, 0);
    }

    pub fn timers(&self) -> [Option<TimerHandle>; 4] {
        [self.release, self.promote, self.pace, self.heartbeat]
    }

    pub fn waits_for_write(&self) -> bool {
        self.spec.mode == Mode::OnWrite
    }

    pub fn has_new(&self) -> bool {
        self.spec.source.has_new()
    }

    /// In the queue, as opposed to idle or waiting for the pacer or for credit.
    pub fn is_ready(&self) -> bool {
        self.job != Job::Idle && self.pace.is_none() && !self.waits_for_credit
    }

    /// The band that it queues in: the middle one for best effort, and for an agent that costs more
    /// than it declared.
    pub fn band(&self) -> Band {
        match self.spec.guarantee {
            Some(_) if self.contained || self.refreshing || self.ahead => Band::Middle,
            Some(_) if self.promoted => Band::Upper,
            Some(_) => Band::Lower,
            None => Band::Middle,
        }
    }

    /// As [`DualPriorityQueue::push`](super::queue::DualPriorityQueue::push) takes it.
    pub fn level(&self) -> u64 {
        match (self.band(), self.spec.guarantee) {
            (Band::Upper | Band::Lower, Some(guarantee)) => guarantee.deadline_ns,
            _ => self.spec.channel.size as u64,
        }
    }

    /// Stops or starts it.
    pub fn set_running(&mut self, running: bool) {
        self.begins |= !running;
        self.running = running;
    }

    pub fn promoted(&mut self) {
        self.promoted = true;
        self.stats.promoted += 1;
    }

    /// The unchanged value is pushed again, as best effort; the next push that is due ends it.
    pub fn refreshed(&mut self) -> bool {
        if !self.running || self.job != Job::Idle {
            return false;
        }
        self.job = Job::Released;
        self.refreshing = true;
        true
    }

    /// A push is due.
    ///
    /// A guaranteed push is released at most once a period. If an early value waited for the
    /// period, one late check would make all later pushes late by as much. So an early value is
    /// sent at once as best effort, once in a period.
    pub fn released(&mut self, at_ns: u64) -> Released {
        let mut next = Released::default();
        if !self.running {
            return next;
        }
        if std::mem::take(&mut self.refreshing) {
            self.job = Job::Idle;
        }
        if let Mode::Periodic { period_ns } = self.spec.mode {
            next.again_at = Some(at_ns.saturating_add(period_ns));
        }
        let too_early = self.ever_released && self.waits_for_write() && at_ns < self.next_ns;
        if self.job != Job::Idle {
            if !self.ahead || too_early {
                self.pending = true;
                return next;
            }
            // The early push has not been sent yet, and its period begins now.
        } else if too_early && self.spec.guarantee.is_some() {
            self.stats.early += 1;
            next.again_at = Some(self.next_ns);
            if std::mem::replace(&mut self.was_ahead, true) {
                return next;
            }
            self.ahead = true;
            self.job = Job::Released;
            next.begins = true;
            return next;
        } else {
            self.job = Job::Released;
        }
        if let Some(guarantee) = self.spec.guarantee {
            self.promoted = guarantee.promotion_ns == 0;
            next.promote_at = (!self.promoted).then_some(at_ns.saturating_add(guarantee.promotion_ns));
            self.next_ns = at_ns.saturating_add(guarantee.period_ns);
        }
        self.released_ns = at_ns;
        self.ever_released = true;
        self.ahead = false;
        self.was_ahead = false;
        self.contained = false;
        self.spent_ns = 0;
        next.begins = true;
        next
    }

    /// The agent's turn.
    pub fn advance(&mut self, now_ns: u64, out: &mut [u8]) -> Advance {
        if self.job == Job::Idle || !self.running {
            return Advance::Nothing;
        }
        if !self.has_credit(now_ns) {
            // A push that has not begun sends the value that is the latest when it begins.
            self.waits_for_credit = true;
            self.stats.waited += 1;
            return Advance::WaitForCredit;
        }
        if self.job == Job::Released {
            if !(self.has_new() || self.refreshing) || self.load().is_err() {
                return Advance::Nothing;
            }
            self.job = Job::Sending;
            self.pushed_ns = now_ns;
        }
        let ready_at = self.pacer.ready_at(now_ns);
        if ready_at > now_ns {
            return Advance::WaitUntil(ready_at);
        }
        match self.sender.next(now_ns, out) {
            Some(len) => {
                self.sent(now_ns, len);
                Advance::Datagram { len, last: !self.sender.is_busy() }
            }
            None => Advance::Nothing,
        }
    }

    fn has_credit(&mut self, now_ns: u64) -> bool {
        let next = self.sender.max_datagram();
        match &mut self.credit {
            SendCredit::Unlimited => true,
            SendCredit::OfReceiver(credit) => credit.allows(next),
            SendCredit::OfMembers(credits) => credits.allows(next, now_ns),
        }
    }

    /// A receiver allows more octets. Returns true if the agent is ready again.
    pub fn credited(&mut self, from: SocketAddr, number: u64, limit: u64, now_ns: u64) -> bool {
        let is_newer = match &mut self.credit {
            SendCredit::Unlimited => false,
            SendCredit::OfReceiver(credit) => credit.renew(number, limit),
            SendCredit::OfMembers(credits) => credits.renew(from, number, limit, now_ns),
        };
        is_newer && self.goes_on(now_ns)
    }

    /// Members of its group that allow nothing more are left behind. Returns true if the agent is
    /// ready again.
    pub fn forget_silent(&mut self, now_ns: u64) -> bool {
        let next = self.sender.max_datagram();
        let SendCredit::OfMembers(credits) = &mut self.credit else { return false };
        credits.forget_silent(next, now_ns);
        self.goes_on(now_ns)
    }

    /// Ends the wait for credit where there is some.
    fn goes_on(&mut self, now_ns: u64) -> bool {
        let goes_on = self.waits_for_credit && self.has_credit(now_ns);
        self.waits_for_credit &= !goes_on;
        goes_on && self.is_ready()
    }

    /// The push is complete. Returns true if another follows at once.
    pub fn finished(&mut self, now_ns: u64) -> bool {
        if self.job == Job::Released {
            // There was no value, so the next release may follow at any distance.
            self.ever_released &= self.refreshing || self.ahead;
        } else if self.job == Job::Sending && self.refreshing {
            self.stats.refreshed += 1;
        } else if self.job == Job::Sending && self.ahead {
            self.stats.pushes += 1;
        } else if self.job == Job::Sending {
            self.stats.pushes += 1;
            let response = now_ns.saturating_sub(self.released_ns);
            self.stats.worst_response_ns = self.stats.worst_response_ns.max(response);
            if self.spec.guarantee.is_some_and(|guarantee| response > guarantee.deadline_ns) {
                self.stats.missed += 1;
            }
        }
        self.job = Job::Idle;
        self.refreshing = false;
        self.ahead = false;
        std::mem::take(&mut self.pending) && self.waits_for_write() && self.has_new()
    }

    /// When the push under way was released.
    pub fn released_ns(&self) -> u64 {
        self.released_ns
    }

    /// Processor time used and declared.
    pub fn account(&self) -> (u64, u64) {
        (self.spent_ns, self.spec.guarantee.map_or(0, |guarantee| guarantee.cost_ns))
    }

    /// Accounts processor time. Returns true if that moved the agent out of its band.
    pub fn charge(&mut self, cpu_ns: u64) -> bool {
        if self.ahead || self.refreshing {
            return false;
        }
        self.spent_ns += cpu_ns;
        self.stats.worst_cost_ns = self.stats.worst_cost_ns.max(self.spent_ns);
        let over = self.spec.guarantee.is_some_and(|guarantee| self.spent_ns > guarantee.cost_ns);
        if over && self.job != Job::Idle && !self.contained {
            self.contained = true;
            self.stats.contained += 1;
            return true;
        }
        false
    }

    /// Whether an unchanged value is due to be pushed again.
    pub fn wants_refresh(&self, now_ns: u64, refresh_ns: u64) -> bool {
        refresh_ns > 0 && self.sender.pushes() > 0 && now_ns.saturating_sub(self.pushed_ns) >= refresh_ns
    }

    /// The path on which its receiver has this address.
    pub fn path_to(&self, receiver: SocketAddr) -> Option<Via> {
        match () {
            () if receiver == self.spec.to => Some(Via::First),
            () if self.spec.second == Some(receiver) => Some(Via::Second),
            () => None,
        }
    }

    /// The destination of the next datagram.
    pub fn to(&self) -> (SocketAddr, Via) {
        match (self.via, self.spec.second) {
            (Via::Second, Some(second)) => (second, Via::Second),
            _ => (self.spec.to, Via::First),
        }
    }

    /// The path that is not in use, if there is one.
    pub fn other_path(&self) -> Option<(SocketAddr, Via)> {
        let second = self.spec.second?;
        Some(if self.via == Via::First { (second, Via::Second) } else { (self.spec.to, Via::First) })
    }

    /// Sets the path that the receiver chose. Returns true if it is another one.
    pub fn choose(&mut self, via: Via) -> bool {
        std::mem::replace(&mut self.via, via) != via
    }

    /// Makes a heartbeat, whatever else was sent.
    pub fn plain_heartbeat(&mut self, now_ns: u64, out: &mut [u8]) -> Option<usize> {
        let flow = match &self.credit {
            SendCredit::Unlimited => (0, 0),
            SendCredit::OfReceiver(credit) => credit.report(),
            SendCredit::OfMembers(credits) => (credits.octets(), 0),
        };
        let len = self.sender.heartbeat(self.state() as u32, flow, now_ns, out)?;
        self.stats.datagrams += 1;
        self.stats.octets += len as u64;
        Some(len)
    }

    /// Makes a heartbeat, unless another datagram was sent less than `interval_ns` ago, or will be
    /// within a quarter of that: each datagram is a sign of life.
    pub fn heartbeat_datagram(&mut self, now_ns: u64, interval_ns: u64, out: &mut [u8]) -> Option<usize> {
        if !self.always_beats() && now_ns < self.silent_until(interval_ns) {
            return None;
        }
        let len = self.plain_heartbeat(now_ns, out)?;
        // Heartbeats do not count against the channel's rate. Otherwise slow channels could send
        // none.
        self.sent_ns = now_ns;
        Some(len)
    }

    /// The time of the next check for a heartbeat: as late as possible, so that a writer with a
    /// shorter period needs none.
    pub fn heartbeat_at(&self, now_ns: u64, interval_ns: u64) -> u64 {
        match self.silent_until(interval_ns) {
            until if until > now_ns && !self.always_beats() => until,
            _ => now_ns + interval_ns,
        }
    }

    /// The members of a group give credits when they know what was sent.
    fn always_beats(&self) -> bool {
        matches!(self.credit, SendCredit::OfMembers(_))
    }

    fn silent_until(&self, interval_ns: u64) -> u64 {
        match (self.sent_ns, self.job) {
            (0, _) => 0,
            (sent, Job::Idle) => sent + interval_ns,
            (sent, _) => sent + interval_ns + interval_ns / 4,
        }
    }

    /// The state of the area for the other node.
    fn state(&self) -> State {
        match self.spec.source.state() {
            Some(State::Open) if !self.running => State::Stopped,
            Some(state) => state,
            None => State::WriterGone,
        }
    }

    fn load(&mut self) -> Result<(), ReadError> {
        let source = &mut self.spec.source;
        let mut skipped = 0;
        self.sender.begin(|memory| {
            let sample = source.latest(memory)?;
            skipped = sample.missed;
            Ok(Loaded {
                len: sample.len,
                sequence: sample.source,
                writer: sample.epoch as u32,
                written_ns: sample.written_ns,
            })
        })?;
        self.stats.begun = self.sender.pushes();
        if std::mem::take(&mut self.begins) {
            return Ok(());
        }
        // A process that may write an area can write any number.
        self.stats.skipped = self.stats.skipped.saturating_add(skipped);
        // A periodic reader asked for the latest value only.
        if self.waits_for_write() {
            self.sender.skip(skipped);
        }
        Ok(())
    }

    fn sent(&mut self, now_ns: u64, len: usize) {
        // The link's rate includes the headers of UDP, IP and the frame, for each datagram.
        self.pacer.sent(now_ns, len + WIRE_OVERHEAD);
        match &mut self.credit {
            SendCredit::Unlimited => {}
            SendCredit::OfReceiver(credit) => credit.sent(len),
            SendCredit::OfMembers(credits) => credits.sent(len),
        }
        self.sent_ns = now_ns;
        self.stats.datagrams += 1;
        self.stats.octets += len as u64;
    }
}

/// UDP 8, IPv4 20, Ethernet 38.
pub(crate) const WIRE_OVERHEAD: usize = 66;

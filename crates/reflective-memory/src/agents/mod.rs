//! The agents of a node and the order in which they run, without sockets, threads or a clock.
//!
//! One **push agent** stands for each reader on another node: it reads the writer's area and sends
//! the value as that reader requires. One **receive agent** stands for each area of another node
//! that is read here: it writes the values into the replica. Agents are records, not threads. One
//! thread drives an [`AgentScheduler`] ([`crate::node`]; another one may receive best effort), and
//! a node may have several.
//!
//! Dual-priority scheduling (Davis and Wellings, RTSS 1995) selects the agent that sends the next
//! datagram:
//!
//! ```text
//!  upper band    guaranteed pushes after promotion, at release + (D - R)
//!  middle band   best effort, fair by octets
//!  lower band    guaranteed pushes that can still wait
//! ```
//!
//! Best effort gets all the time that guaranteed pushes can spare, and gets it early. Guaranteed
//! pushes end in time. A push is pre-empted between two datagrams.
//!
//! An agent is held to its declaration. If its writer writes more often than declared, the
//! guarantee holds at the declared period, and the newest value is sent once between as best
//! effort. If an agent costs more than admitted, it continues in the middle band.
//!
//! A node that receives guaranteed channels gives best effort towards it credits, so that a bounded
//! number of octets is on its way ([`LEAST_CREDIT`]). Groups have none.

mod arrivals;
mod config;
mod credit;
mod error;
mod groups;
mod health;
mod member_credit;
mod next_action;
mod paths;
mod push;
mod queue;
mod receive;
#[cfg(test)]
mod tests;
mod trace;

pub use arrivals::Due;
pub use config::{
    Guarantee, Mark, Marks, Mode, PushSpec, ReceiveSpec, SchedulerConfig, SecondPath, TrafficClass, Via,
};
pub use credit::LEAST_CREDIT;
pub use error::SchedulerError;
pub use groups::GROUP;
pub(crate) use health::Health;
pub use push::PushStats;
pub use queue::Band;
pub(crate) use receive::earliest;
pub use receive::{ReceiveStats, VisibleValue};
pub use trace::Recorded;

use crate::wire::{ChannelError, Datagram, Kind, Outcome, Pacer};
use arrivals::Arrivals;
use credit::{Credit, CreditSource};
use isorb_rt::common_clock::{CommonClock, CommonTime};
use isorb_rt::timers::TimerHeap;
use isorb_trace::{Record, RecordBuffer, RecordKind};
use member_credit::MemberCredits;
pub(crate) use push::WIRE_OVERHEAD;
use push::{Push, SendCredit};
use queue::DualPriorityQueue;
use receive::Receive;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

/// The number of datagrams that a driver sends before it checks for writes and arrivals. Admission
/// relies on it.
pub const AT_ONCE: usize = 4;

/// The number of datagrams that a driver receives in one check, if nothing is urgent. Admission
/// relies on it.
pub const INTAKE: usize = 4;

/// Identifies a push agent. A stale key finds no agent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PushKey {
    index: u32,
    generation: u32,
    /// Never reused, unlike the index.
    number: u32,
}

/// A push agent with its memory, before it is added. It is made separately, so that nothing is
/// allocated while a scheduler is locked.
#[derive(Debug)]
pub struct PushAgent(Push);

/// A receive agent with its memory, before it is added.
#[derive(Debug)]
pub struct ReceiveAgent(Receive);

impl PushKey {
    /// The agent's number in records, of all that its scheduler had.
    pub fn number(self) -> u32 {
        self.number
    }
}

impl PushAgent {
    /// Allocates the memory.
    ///
    /// # Errors
    /// When the channel is invalid.
    pub fn new(spec: PushSpec) -> Result<PushAgent, ChannelError> {
        Push::new(spec).map(PushAgent)
    }

    /// The octets that it may send before its receiver allows more. Without this there is no limit.
    pub fn credit(mut self, octets: u64) -> PushAgent {
        self.0.credit = SendCredit::OfReceiver(Credit::new(octets));
        self
    }

    /// Of a group: each member may limit the octets that are on their way to it. One that allows
    /// nothing more for `silence_ns` is left behind.
    pub fn credit_of_members(mut self, silence_ns: u64) -> PushAgent {
        self.0.credit = SendCredit::OfMembers(MemberCredits::new(silence_ns));
        self
    }

    /// Whether it was admitted.
    pub fn is_guaranteed(&self) -> bool {
        self.0.spec.guarantee.is_some()
    }
}

impl ReceiveAgent {
    /// Allocates the memory.
    ///
    /// # Errors
    /// When the channel is invalid.
    pub fn new(spec: ReceiveSpec) -> Result<ReceiveAgent, ChannelError> {
        Receive::new(spec, 0).map(ReceiveAgent)
    }

    /// The octets that its sender was allowed at first. Without this the sender has no limit.
    pub fn credit(mut self, octets: u64) -> ReceiveAgent {
        self.0.credit = Some(CreditSource::new(octets));
        self
    }

    /// Of a group: its sender knows no limit before this node gives a credit. Without this it never
    /// does.
    pub fn credit_of_group(mut self) -> ReceiveAgent {
        self.0.credit = Some(CreditSource::of_group());
        self
    }

    /// The value that an earlier agent has made visible in the replica; it is not made visible
    /// again.
    pub fn goes_on_from(mut self, shown: VisibleValue) -> ReceiveAgent {
        self.0.goes_on_from(shown);
        self
    }
}

/// All agents of one dispatching thread.
#[derive(Debug)]
pub struct AgentScheduler {
    config: SchedulerConfig,
    pushes: Vec<Slot<Push>>,
    receives: Vec<Slot<Receive>>,
    /// Reserved numbers of channels that are being opened.
    reserved: Vec<u32>,
    queue: DualPriorityQueue,
    timers: TimerHeap<Timer>,
    link: Pacer,
    strays: u64,
    /// Octets of best effort that may be on their way to this node; none for no limit.
    window: Option<u64>,
    /// The number of push agents so far.
    numbers: u32,
    trace: RecordBuffer,
    /// Guaranteed receive agents with waiting datagrams.
    arrivals: Arrivals,
    /// Receive agents of groups, by the sender and the number that it gave the channel.
    groups: HashMap<(SocketAddr, u32), u32>,
    /// Push agents by channel and epoch, for datagrams of their receivers.
    channels: HashMap<(u32, u32), u32>,
    /// Datagrams of receive agents to their senders.
    reports: VecDeque<Report>,
    /// Probes that wait for their answers.
    answers: VecDeque<Answer>,
    /// A clock that other nodes read, too.
    common: Option<Box<dyn CommonClock>>,
}

/// A datagram from a receive agent to its sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Report {
    receive: u32,
    via: Via,
    kind: ReportKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ReportKind {
    /// The path that the receiver chose.
    Path(Via),
    /// A probe of the sender's clock.
    Probe,
    /// Octets that the sender may send.
    Credit,
}

/// A probe that arrived for a push agent.
#[derive(Clone, Copy, Debug)]
struct Answer {
    push: PushKey,
    to: SocketAddr,
    via: Via,
    /// When the probe was sent, on the receiver's clock, and when it arrived, on this node's.
    sent_ns: u64,
    arrived_ns: u64,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    agent: Option<T>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Timer {
    /// A periodic push is due, or an early one may be sent.
    Release(u32),
    Promote(u32),
    /// The pacer admits the next datagram.
    Pace(u32),
    Heartbeat(u32),
    /// A replica may have become stale or lost its writer's node.
    Watch(u32),
}

/// The driver's next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Send the first `len` octets of the buffer.
    Send {
        /// The destination.
        to: SocketAddr,
        /// The path, and so the socket.
        via: Via,
        /// The number of octets.
        len: usize,
        /// The agent that is charged for it.
        push: PushKey,
        /// The band in which it was selected.
        band: Band,
        /// Its class on the network.
        class: TrafficClass,
    },
    /// Send the first `len` octets of the buffer from a receive agent to its writer's node.
    Report {
        /// The receive agent.
        receive: u32,
        /// The destination.
        to: SocketAddr,
        /// The path, and so the socket.
        via: Via,
        /// The number of octets.
        len: usize,
    },
    /// No work until this time, unless a value is written or a datagram arrives.
    Idle {
        /// None: there is no timer.
        until_ns: Option<u64>,
    },
}

impl AgentScheduler {
    /// A scheduler without agents. Its tables are allocated here; an agent's buffers when it is
    /// added.
    pub fn new(config: SchedulerConfig) -> AgentScheduler {
        AgentScheduler {
            config,
            pushes: Vec::with_capacity(config.pushes),
            receives: Vec::with_capacity(config.receives),
            reserved: Vec::new(),
            queue: DualPriorityQueue::new(config.pushes),
            timers: TimerHeap::with_capacity(4 * config.pushes + config.receives),
            link: Pacer::new(config.link_bytes_per_s, link_burst(config.link_bytes_per_s)),
            strays: 0,
            window: None,
            numbers: 0,
            trace: RecordBuffer::default(),
            arrivals: Arrivals::new(config.receives),
            groups: HashMap::with_capacity(config.receives),
            channels: HashMap::with_capacity(config.pushes),
            reports: VecDeque::with_capacity(4 * config.receives),
            answers: VecDeque::with_capacity(config.pushes),
            common: None,
        }
    }

    /// Adds a push agent, which pushes the present value at once.
    ///
    /// # Errors
    /// [`SchedulerError`].
    pub fn add_push(&mut self, agent: PushAgent, now_ns: u64) -> Result<PushKey, SchedulerError> {
        let channel = (agent.0.spec.channel.id, agent.0.spec.channel.epoch);
        let mut push = agent.0;
        self.numbers = self.numbers.wrapping_add(1);
        push.number = self.numbers;
        let (index, generation) = place(&mut self.pushes, self.config.pushes, push)?;
        self.channels.insert(channel, index);
        self.queue.reset(index as usize);
        self.set(Timer::Heartbeat(index), now_ns + self.config.heartbeat_ns);
        self.release(index, now_ns);
        Ok(PushKey { index, generation, number: self.numbers })
    }

    /// Removes a push agent and returns its statistics.
    pub fn remove_push(&mut self, key: PushKey) -> Option<PushStats> {
        let push = take(&mut self.pushes, key.index, key.generation)?;
        for timer in push.timers().into_iter().flatten() {
            self.timers.remove(timer);
        }
        self.queue.remove(key.index as usize);
        let channel = (push.spec.channel.id, push.spec.channel.epoch);
        if self.channels.get(&channel) == Some(&key.index) {
            self.channels.remove(&channel);
        }
        self.answers.retain(|answer| answer.push != key);
        Some(push.stats)
    }

    /// Reserves the number of a receive agent's channel until [`add_receive`](Self::add_receive) or
    /// [`unreserve`](Self::unreserve).
    ///
    /// # Errors
    /// When the limit is reached.
    pub fn reserve(&mut self) -> Result<u32, SchedulerError> {
        let number = self.free_receive()?;
        self.reserved.push(number);
        Ok(number)
    }

    /// Releases the number of an agent that is not added.
    pub fn unreserve(&mut self, channel: u32) {
        self.reserved.retain(|other| *other != channel);
    }

    /// Adds a receive agent for a channel with a [reserved](Self::reserve) number.
    ///
    /// # Errors
    /// [`SchedulerError`]; also where the channel's number was not.
    pub fn add_receive(&mut self, agent: ReceiveAgent, now_ns: u64) -> Result<u32, SchedulerError> {
        let id = agent.0.channel().id;
        if !self.reserved.contains(&id) {
            let (what, requested) = ("the channel's number", id as usize);
            return Err(SchedulerError::Channel(ChannelError {
                what,
                requested,
                limit: self.receives.len(),
            }));
        }
        self.unreserve(id);
        let mut receive = agent.0;
        receive.begin(now_ns);
        self.enter_receive(id, receive);
        self.share_window();
        Ok(id)
    }

    fn free_receive(&self) -> Result<u32, SchedulerError> {
        let is_free = |index: &u32| {
            let slot = self.receives.get(*index as usize);
            slot.is_none_or(|slot| slot.agent.is_none()) && !self.reserved.contains(index)
        };
        let capacity = self.config.receives;
        (0..capacity as u32).find(is_free).ok_or(SchedulerError::Full { capacity })
    }

    /// The number is within the capacity, so that nothing is allocated.
    fn enter_receive(&mut self, index: u32, receive: Receive) {
        while self.receives.len() <= index as usize {
            self.receives.push(Slot { generation: 0, agent: None });
        }
        self.receives[index as usize].agent = Some(receive);
        self.watch(index);
    }

    /// Removes a receive agent and returns its statistics.
    pub fn remove_receive(&mut self, channel: u32) -> Option<ReceiveStats> {
        let slot = self.receives.get_mut(channel as usize)?;
        slot.generation = slot.generation.wrapping_add(1);
        let mut receive = slot.agent.take()?;
        for via in [Via::First, Via::Second] {
            self.arrivals.remove(channel, via);
        }
        self.groups.retain(|_, index| *index != channel);
        self.reports.retain(|report| report.receive != channel);
        if let Some(timer) = receive.watch {
            self.timers.remove(timer);
        }
        receive.end();
        Some(receive.stats())
    }

    /// Checks the agents that `which` names for new values.
    ///
    /// # Real-time
    /// One load an agent that is asked for.
    pub fn written(&mut self, now_ns: u64, mut which: impl FnMut(PushKey) -> bool) {
        for index in 0..self.pushes.len() {
            let Slot { generation, agent: Some(push) } = &self.pushes[index] else { continue };
            let key = PushKey { index: index as u32, generation: *generation, number: push.number };
            if push.waits_for_write() && which(key) && push.has_new() {
                self.release(index as u32, now_ns);
            }
        }
    }

    /// Checks one agent's area for a new value. Returns true if the agent has a push now.
    pub fn written_to(&mut self, key: PushKey, now_ns: u64) -> bool {
        let written = self.push(key).is_some_and(|push| push.waits_for_write() && push.has_new());
        if written {
            self.release(key.index, now_ns);
        }
        written
    }

    /// Handles a datagram.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; a system call to wake readers when a value is complete.
    pub fn received(&mut self, from: SocketAddr, octets: &[u8], now_ns: u64) -> Option<Outcome> {
        self.received_for(None, from, octets, now_ns)
    }

    /// Handles a datagram from the socket of receive agent `own`. It is a stray if it is for
    /// another agent.
    ///
    /// # Real-time
    /// As [`received`](Self::received).
    pub fn received_for(
        &mut self,
        own: Option<u32>,
        from: SocketAddr,
        octets: &[u8],
        now_ns: u64,
    ) -> Option<Outcome> {
        let found = Datagram::read(octets).ok().and_then(|datagram| {
            let is_for_a_push = match datagram.kind {
                Kind::Choice => Some(self.path_chosen(from, &datagram)),
                Kind::Probe => Some(self.probed(from, &datagram, now_ns)),
                Kind::Credit => Some(self.credited(from, &datagram, now_ns)),
                _ => None,
            };
            if let Some(is_ours) = is_for_a_push {
                return is_ours.then_some((Outcome::Alive, None));
            }
            let index = match datagram.channel & GROUP {
                0 => datagram.channel,
                _ => *self.groups.get(&(from, datagram.channel))?,
            };
            if own.is_some_and(|own| own != index) {
                return None;
            }
            let receive = self.receives.get_mut(index as usize)?.agent.as_mut()?;
            let outcome = receive.accept(from, &datagram, now_ns);
            if datagram.kind == Kind::Answer && outcome == Outcome::Alive && datagram.index > 0 {
                let far = CommonTime { ahead_ns: datagram.written_ns, bound_ns: datagram.index };
                if let Some(here) = self.common.as_mut().and_then(|clock| clock.read()) {
                    receive.agreed(here.offset_to(far), datagram.push, now_ns);
                }
            }
            Some((outcome, Some(index)))
        });
        let Some((outcome, channel)) = found else {
            self.strays += 1;
            return None;
        };
        if let Some(channel) = channel {
            self.report(channel, now_ns);
            self.watch(channel);
        }
        Some(outcome)
    }

    /// Uses a clock that other nodes read, too: what it shows goes to receivers with the answers to
    /// their probes.
    pub fn set_common_clock(&mut self, clock: Box<dyn CommonClock>) {
        self.common = Some(clock);
    }

    /// Sets how long a push stays in the lower band, from the next release on. It changes when
    /// another channel is admitted.
    pub fn set_promotion(&mut self, key: PushKey, promotion_ns: u64) {
        if let Some(guarantee) = self.push_mut(key).and_then(|push| push.spec.guarantee.as_mut()) {
            guarantee.promotion_ns = promotion_ns;
        }
    }

    /// Whether urgent work is waiting. If so, the driver receives only
    /// [arrivals](Self::next_arrival), else up to [`INTAKE`] datagrams in one check.
    pub fn is_urgent(&self, now_ns: u64) -> bool {
        self.queue.holds(Band::Upper) || self.timers.next_at().is_some_and(|at| at <= now_ns)
    }

    /// Accounts the processor time that the driver measured for the last datagram of an agent.
    pub fn charge(&mut self, key: PushKey, cpu_ns: u64) {
        let Some(push) = self.push_mut(key) else { return };
        let (band, contained) = (push.band(), push.charge(cpu_ns));
        let (a, b) = push.account();
        let ready = push.is_ready();
        if contained {
            let id = Recorded::row(key.number, band);
            // The time at which the datagram over the budget had been sent.
            let (at, kind) = (self.trace.latest(), RecordKind::Overrun);
            self.trace.add(Record { at, kind, level: band as u8, id, a, b });
        }
        if contained && ready {
            self.queue.remove(key.index as usize);
            self.requeue(key.index);
        }
    }

    /// The system refused a datagram.
    pub fn refused(&mut self, key: PushKey) {
        if let Some(push) = self.push_mut(key) {
            push.stats.refused += 1;
        }
    }

    /// Whether this push was admitted.
    pub fn is_guaranteed(&self, key: PushKey) -> bool {
        self.push(key).is_some_and(|push| push.spec.guarantee.is_some())
    }

    /// Stops or starts a channel. A stopped one sends heartbeats with that state.
    pub fn set_running(&mut self, key: PushKey, running: bool, now_ns: u64) -> bool {
        let Some(push) = self.push_mut(key) else { return false };
        push.set_running(running);
        if running {
            self.release(key.index, now_ns);
        }
        true
    }

    /// The statistics of a push agent.
    pub fn push_stats(&self, key: PushKey) -> Option<PushStats> {
        self.push(key).map(|push| push.stats)
    }

    /// The statistics of a receive agent.
    pub fn receive_stats(&self, channel: u32) -> Option<ReceiveStats> {
        Some(self.receives.get(channel as usize)?.agent.as_ref()?.stats())
    }

    /// Paces all datagrams by this rate from now on; 0 for no limit.
    pub fn set_link_rate(&mut self, bytes_per_s: u64) {
        if bytes_per_s != self.config.link_bytes_per_s {
            self.config.link_bytes_per_s = bytes_per_s;
            self.link = Pacer::new(bytes_per_s, link_burst(bytes_per_s));
        }
    }

    /// Datagrams that belong to no channel.
    pub fn strays(&self) -> u64 {
        self.strays
    }

    fn push(&self, key: PushKey) -> Option<&Push> {
        let slot = self.pushes.get(key.index as usize)?;
        slot.agent.as_ref().filter(|_| slot.generation == key.generation)
    }

    fn push_mut(&mut self, key: PushKey) -> Option<&mut Push> {
        let slot = self.pushes.get_mut(key.index as usize)?;
        slot.agent.as_mut().filter(|_| slot.generation == key.generation)
    }

    fn agent(&mut self, index: u32) -> Option<&mut Push> {
        self.pushes.get_mut(index as usize)?.agent.as_mut()
    }
}

/// How many bytes a link may be ahead of its rate when the next datagram is sent: the oversleep of
/// an ordinary thread (50 us). Urgent datagrams wait behind them, so admission counts them.
pub(crate) fn link_burst(bytes_per_s: u64) -> usize {
    usize::try_from(bytes_per_s / 20_000).unwrap_or(usize::MAX)
}

fn place<T>(slots: &mut Vec<Slot<T>>, capacity: usize, agent: T) -> Result<(u32, u32), SchedulerError> {
    if let Some(index) = slots.iter().position(|slot| slot.agent.is_none()) {
        slots[index].agent = Some(agent);
        return Ok((index as u32, slots[index].generation));
    }
    if slots.len() >= capacity {
        return Err(SchedulerError::Full { capacity });
    }
    slots.push(Slot { generation: 0, agent: Some(agent) });
    Ok((slots.len() as u32 - 1, 0))
}

fn take<T>(slots: &mut [Slot<T>], index: u32, generation: u32) -> Option<T> {
    let slot = slots.get_mut(index as usize).filter(|slot| slot.generation == generation)?;
    slot.generation = slot.generation.wrapping_add(1);
    slot.agent.take()
}

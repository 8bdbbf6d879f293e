//! Admission of channels at one node, by its processor, link and port.
//!
//! A reader's deadline holds from the write to the moment at which the value can be read in its own
//! memory: R(push agent) + R(writer's link) + R(reader's port) + R(receive agent) <= D. The
//! writer's node answers for the first two, the reader's node for the others, and neither may
//! change its answer later. So each stage gets a fixed part of the deadline: one, four, two and one
//! eighth, because a value takes a link of 100 Mbit/s several times as long as a processor. A stage
//! begins when the one before may have ended at the latest; that is its release jitter.
//!
//! Several nodes may send into the reader's port at the same time. Its queue is bounded by the
//! sums of their rates and bursts (`port`). Best effort adds its credits to the queue, which the
//! node gives ([`crate::agents`]).
//!
//! The push agent may spend the slack of its part in the lower band ([`NodeAdmission::promotion`]);
//! the slack shrinks as others are admitted. On the link, datagrams are paced at [`link_rate`] and
//! leave the most urgent first. One datagram, and the bytes that the pacer admits ahead of the
//! rate, block all others.
//!
//! At both ends the dispatching thread serves guaranteed channels in the same order, a datagram at
//! a time: pushes of the upper band, and datagrams at the sockets of receive agents. A stage that
//! becomes ready is blocked by a less urgent datagram under way, and by those that the thread
//! handles before its next check.
//!
//! The cost of a push is computed from its size ([`Costs`]). An agent that costs more at run time
//! is contained ([`crate::agents`]), so a wrong number harms only its own channel.
//!
//! Channels on the ORB's path are admitted beside datagrams (`calls`), and best effort there is
//! counted where it stands before both (`best_effort`).

mod best_effort;
mod calls;
mod costs;
mod link_part;
mod port;
pub use calls::CallChannel;
pub(crate) use calls::{BUCKET, call_octets, value_octets};
pub use costs::{Costs, CostsError, MAX_COST};

use crate::agents::{AT_ONCE, Guarantee, INTAKE, WIRE_OVERHEAD, link_burst};
use crate::wire::{Channel, HEADER};
use calls::CallTasks;
use core::fmt;
use isorb_sched::{
    Admission, AdmissionConfig, Assignment, Link, Nanos, Preemption, Task, TaskId, Utilisation,
};
use link_part::LinkPart;
use port::{Excess, Flow, Port};
use std::collections::{BTreeMap, HashMap};

/// The resources of a node for guaranteed channels.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NodeConfig {
    /// The costs of agents.
    pub costs: Costs,
    /// Whether the costs were measured on this machine. Without that, only readers that accept a
    /// soft guarantee are admitted.
    pub measured: bool,
    /// Bits a second of the link.
    pub link_bits_per_s: u64,
    /// The part of the dispatching processor for guaranteed channels, 0 to 1.
    pub cpu_share: f64,
    /// The part of the link for guaranteed channels, 0 to 1.
    pub link_share: f64,
    /// The switch before this node.
    pub switch: Switch,
    /// The most guaranteed channels in each direction.
    pub capacity: usize,
}

/// The switch before a node, which has one port for the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switch {
    /// Octets that it keeps for this port; 0 where it is not known, and does not limit admission.
    pub buffer: u64,
    /// It serves datagrams by their marks, as do all queues before it. Without that, guaranteed
    /// values also wait for best effort: for all credits of the reader's node, and for one value by
    /// a call of the writer's node.
    pub sorts: bool,
}

impl Default for Switch {
    /// Sorts, with a buffer of unknown size.
    fn default() -> Switch {
        Switch { buffer: 0, sorts: true }
    }
}

impl Default for NodeConfig {
    /// 100 Mbit/s; seven tenths of the processor and eight of the link; 4,096 channels.
    fn default() -> NodeConfig {
        NodeConfig {
            costs: Costs::default(),
            measured: false,
            link_bits_per_s: 100_000_000,
            cpu_share: 0.7,
            link_share: 0.8,
            switch: Switch::default(),
            capacity: 4096,
        }
    }
}

/// The request of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChannelRequest {
    /// The shortest period of values.
    pub period_ns: u64,
    /// The deadline from write to visible.
    pub deadline_ns: u64,
}

/// A channel that was admitted at one end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The declared cost of the push agent; at the reader's end, of the receive agent.
    pub guarantee: Guarantee,
    /// Bytes of the largest value that it was admitted with.
    pub size: usize,
    part: usize,
    cpu: Option<TaskId>,
    link: Option<u64>,
    port: Option<u64>,
    /// Of a channel on the ORB's path.
    calls: Option<u64>,
}

/// The node that sends a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sender<'a> {
    /// Its name.
    pub node: &'a str,
    /// Bits a second of its link.
    pub link_bits_per_s: u64,
}

/// Why a channel was refused, and what would be admitted instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// Which resource is short.
    pub resource: Resource,
    /// The numbers, as a sentence.
    pub reason: String,
    /// The shortest period that would be admitted at this end, all else as asked.
    pub nearest_period_ns: Option<u64>,
    /// The shortest deadline that would be admitted at this end, all else as asked.
    pub nearest_deadline_ns: Option<u64>,
}

/// The resources that may be short.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Resource {
    /// The dispatching processor.
    Cpu,
    /// The link.
    Link,
    /// The port of the reader's node, which all senders share.
    Port,
}

/// The end of a channel that a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End<'a> {
    Push,
    Receive(Sender<'a>),
}

impl Part {
    fn new(config: &NodeConfig) -> Part {
        let of = |share| AdmissionConfig {
            // Pre-emption is between datagrams. Each task is blocked by one at most, and declares
            // it; so the analysis of full pre-emption bounds its response (the work of a busy
            // period is the same), and an admission costs far less.
            preemption: Preemption::Full,
            // The shortest deadline first, and calls before all ([`rank`]).
            assignment: Assignment::Declared,
            capacity: config.capacity * 2,
            share: Utilisation::from_fraction(share),
            ..AdmissionConfig::default()
        };
        Part { cpu: Admission::new(of(config.cpu_share)), link: LinkPart::new(of(config.link_share)) }
    }
}

/// Admission at one node.
///
/// # Real-time
/// A control path: allocates and computes, bounded by the effort of [`AdmissionConfig`].
#[derive(Debug)]
pub struct NodeAdmission {
    /// By the dispatching thread, as far as there is a processor for each.
    parts: Vec<Part>,
    config: NodeConfig,
    port: Port,
    model: Model,
    /// Channels on the ORB's path.
    calls: HashMap<u64, CallTasks>,
    last_calls: u64,
    /// Best-effort channels on the ORB's path: how many there are with values of each size.
    best_effort: BTreeMap<usize, usize>,
    /// How long one of their values may occupy the link before guaranteed ones.
    ahead: Nanos,
}

/// A processor, and the part of the link that its dispatching threads send to.
#[derive(Debug)]
struct Part {
    cpu: Admission,
    link: LinkPart,
}

/// The requests of the admitted channels.
#[derive(Clone, Copy, Debug)]
struct Model {
    costs: Costs,
    wire: Link,
    /// Bytes that the pacer admits ahead of the rate.
    burst: u64,
}

/// Eighths of the deadline at which the stages must have ended.
const PUSHED: u64 = 1;
const SENT: u64 = 5;
const CARRIED: u64 = 7;
const WHOLE: u64 = 8;

/// Octets of best effort that may be on their way to a node while it receives guaranteed channels:
/// 5 ms of its port. Nodes with more channels allow each of them [`LEAST_CREDIT`] all the same.
///
/// [`LEAST_CREDIT`]: crate::agents::LEAST_CREDIT
pub fn best_effort_window(bits_per_s: u64) -> u64 {
    bits_per_s / 8 / 200
}

/// The rate in bytes a second at which a node sends to a link: a little less than the link carries,
/// so that its queue stays short.
pub fn link_rate(bits_per_s: u64) -> u64 {
    bits_per_s / 8 / 100 * 95
}

impl NodeAdmission {
    /// A node without guaranteed channels.
    pub fn new(config: &NodeConfig) -> NodeAdmission {
        let rate = link_rate(config.link_bits_per_s);
        // The lengths of messages include the headers on the wire.
        let wire = Link { bits_per_second: rate.saturating_mul(8), packet_octets: 1538, overhead_octets: 0 };
        NodeAdmission {
            parts: vec![Part::new(config)],
            config: *config,
            port: Port::new(config.link_bits_per_s, config.link_share, config.switch),
            model: Model { costs: config.costs, wire, burst: link_burst(rate) as u64 },
            calls: HashMap::new(),
            last_calls: 0,
            best_effort: BTreeMap::new(),
            ahead: Nanos::ZERO,
        }
    }

    /// Receives at this rate, where it differs from the rate at which one thread sends.
    pub fn port(mut self, bits_per_s: u64, share: f64, switch: Switch) -> NodeAdmission {
        self.port = Port::new(bits_per_s, share, switch);
        self
    }

    /// Admits by this many processors, with a part of the link each. A channel takes the one of its
    /// dispatching thread; further threads share them. The rate of the configuration is that of a
    /// part.
    pub fn processors(mut self, count: usize) -> NodeAdmission {
        self.parts.resize_with(count.max(1), || Part::new(&self.config));
        self
    }

    /// Guaranteed channels that this node receives.
    pub fn received(&self) -> usize {
        self.port.len()
    }

    /// Admits the writer's end of a channel: its push agent, and its datagrams on the link.
    ///
    /// # Errors
    /// [`Refused`] with the resource that is short, the numbers, and what would be admitted.
    pub fn admit_push(
        &mut self,
        name: &str,
        channel: &Channel,
        request: ChannelRequest,
    ) -> Result<Grant, Refused> {
        self.admit((End::Push, 0), name, channel, request)
    }

    /// [`admit_push`](Self::admit_push) by the processor of a dispatching thread.
    ///
    /// # Errors
    /// As [`admit_push`](Self::admit_push).
    pub fn admit_push_on(
        &mut self,
        thread: usize,
        name: &str,
        channel: &Channel,
        request: ChannelRequest,
    ) -> Result<Grant, Refused> {
        self.admit((End::Push, thread), name, channel, request)
    }

    /// Admits the reader's end of a channel: its receive agent, and its datagrams at the port.
    ///
    /// # Errors
    /// As [`admit_push`](Self::admit_push).
    pub fn admit_receive(
        &mut self,
        name: &str,
        channel: &Channel,
        request: ChannelRequest,
        from: Sender<'_>,
    ) -> Result<Grant, Refused> {
        self.admit((End::Receive(from), 0), name, channel, request)
    }

    /// [`admit_receive`](Self::admit_receive) by the processor of a dispatching thread.
    ///
    /// # Errors
    /// As [`admit_push`](Self::admit_push).
    pub fn admit_receive_on(
        &mut self,
        thread: usize,
        name: &str,
        channel: &Channel,
        request: ChannelRequest,
        from: Sender<'_>,
    ) -> Result<Grant, Refused> {
        self.admit((End::Receive(from), thread), name, channel, request)
    }

    /// Releases the resources of a channel.
    pub fn release(&mut self, grant: &Grant) {
        if let Some(number) = grant.calls {
            self.release_calls(number);
        }
        let part = &mut self.parts[grant.part];
        if let Some(cpu) = grant.cpu {
            part.cpu.remove(cpu);
        }
        if let Some(link) = grant.link {
            part.link.remove(link);
        }
        if let Some(port) = grant.port {
            self.port.remove(port);
        }
    }

    /// How long a push of an admitted channel may stay in the lower band, beside all channels that
    /// are admitted now. Zero if the channel was released.
    pub fn promotion(&self, grant: &Grant) -> u64 {
        grant.cpu.and_then(|cpu| self.parts[grant.part].cpu.promotion(cpu)).map_or(0, Nanos::ns)
    }

    /// Guaranteed channels.
    pub fn len(&self) -> usize {
        // Calls are entered in each part.
        let tasks: usize = self.parts.iter().map(|part| part.cpu.len()).sum();
        tasks - self.calls.len() * (self.parts.len() - 1)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The admitted shares of the busiest processor, and of the busiest part of the link.
    pub fn utilisation(&self) -> (Utilisation, Utilisation) {
        let most = |of: fn(&Part) -> Utilisation| self.parts.iter().map(of).max().unwrap_or_default();
        (most(|part| part.cpu.utilisation()), most(|part| part.link.utilisation()))
    }

    fn admit(
        &mut self,
        (end, thread): (End<'_>, usize),
        name: &str,
        channel: &Channel,
        request: ChannelRequest,
    ) -> Result<Grant, Refused> {
        let (resource, reason) = match self.try_admit((end, thread), name, channel, request) {
            Ok(grant) => return Ok(grant),
            Err(refused) => refused,
        };
        let nearest_deadline_ns =
            self.nearest((end, thread), name, channel, request.deadline_ns, |deadline_ns| ChannelRequest {
                deadline_ns,
                ..request
            });
        let nearest_period_ns = self.nearest((end, thread), name, channel, request.period_ns, |period_ns| {
            ChannelRequest { period_ns, ..request }
        });
        Err(Refused { resource, reason, nearest_period_ns, nearest_deadline_ns })
    }

    fn try_admit(
        &mut self,
        (end, thread): (End<'_>, usize),
        name: &str,
        channel: &Channel,
        request: ChannelRequest,
    ) -> Result<Grant, (Resource, String)> {
        let agent = self.model.agent(end, name, channel, request);
        let cost_ns = self.model.costs.of(channel);
        let part = thread % self.parts.len();
        let Part { cpu: processor, link } = &mut self.parts[part];
        let cpu = processor.try_admit(agent).map_err(|refusal| (Resource::Cpu, refusal.to_string()))?;
        let mut grant = Grant {
            guarantee: Guarantee {
                period_ns: request.period_ns,
                deadline_ns: eighths_of(request.deadline_ns, SENT).ns(),
                promotion_ns: cpu.promotion.ns(),
                cost_ns,
            },
            size: channel.size,
            part,
            cpu: Some(cpu.id),
            link: None,
            port: None,
            calls: None,
        };
        let carried = match end {
            End::Push => {
                let link = link.try_admit(self.model.message(name, channel, request));
                let link = link.map_err(|refusal| (Resource::Link, refusal.to_string()));
                link.map(|link| grant.link = Some(link))
            }
            End::Receive(from) => {
                let port = self.port.admit(from.node, flow(channel, request, from));
                let reason = |excess| (Resource::Port, format!("{name} cannot be admitted: {excess}"));
                port.map(|number| grant.port = Some(number)).map_err(reason)
            }
        };
        if carried.is_err() {
            processor.remove(cpu.id);
        }
        carried.map(|()| grant)
    }

    /// The smallest admitted value from `asked` on, to within a hundredth, as far as the search
    /// goes. The search has tested it.
    fn nearest(
        &mut self,
        (end, thread): (End<'_>, usize),
        name: &str,
        channel: &Channel,
        requested: u64,
        request: impl Fn(u64) -> ChannelRequest,
    ) -> Option<u64> {
        let (requested, model) = (Nanos::new(requested), self.model);
        let agent = |value: Nanos| model.agent(end, name, channel, request(value.ns()));
        let message = |value: Nanos| model.message(name, channel, request(value.ns()));
        // Each resource is searched separately, with an effort of its own, so that a refusal takes
        // a bounded time.
        let index = thread % self.parts.len();
        let Part { cpu, link } = &mut self.parts[index];
        let by_cpu = cpu.nearest(requested, agent)?;
        let (nearest, fits) = match end {
            End::Push => {
                let nearest = by_cpu.max(link.nearest(requested, message)?);
                (nearest, link.fits(&message(nearest)))
            }
            End::Receive(from) => {
                let fits =
                    |value: &u64| self.port.check(from.node, flow(channel, request(*value), from)).is_ok();
                let longer = |value: &u64| Some(value.saturating_add(value / 100 + 1));
                let by_port = std::iter::successors(Some(by_cpu.ns()), longer).take(STEPS).find(fits)?;
                (Nanos::new(by_port), true)
            }
        };
        (fits && cpu.fits(&agent(nearest))).then_some(nearest.ns())
    }
}

impl Model {
    /// The request to the processor at this end.
    fn agent(&self, end: End<'_>, name: &str, channel: &Channel, request: ChannelRequest) -> Task {
        let part = |eighths| eighths_of(request.deadline_ns, eighths);
        let kib = (datagram(channel) as u64).div_ceil(1024);
        let one = self.costs.datagram_ns.saturating_add(kib.saturating_mul(self.costs.kib_ns));
        let cost = self.costs.of(channel);
        // The datagrams that the thread sends before its next check, and those that it then
        // receives.
        let blocking = Nanos::new(one * (AT_ONCE + INTAKE) as u64);
        let task = |cost| Task::new(name, Nanos::new(cost), Nanos::new(request.period_ns)).blocking(blocking);
        match end {
            // Between two of its datagrams, one is received.
            End::Push => {
                let between = one.saturating_mul(channel.datagrams(channel.size) as u64);
                ranked(task(cost.saturating_add(between)).deadline(part(PUSHED)))
            }
            // Of a push and a receive agent with the same deadline, the latter goes first.
            End::Receive(_) => {
                ranked(task(cost).deadline(part(WHOLE).minus(Nanos::new(1))).jitter(part(CARRIED)))
            }
        }
    }

    /// The request to the link.
    fn message(&self, name: &str, channel: &Channel, request: ChannelRequest) -> Task {
        let part = |eighths| eighths_of(request.deadline_ns, eighths);
        let octets = channel.wire_bytes(channel.size) as u64;
        let ahead = (datagram(channel) + HEADER + WIRE_OVERHEAD) as u64 + self.burst;
        let message = self.wire.message(name, octets, Nanos::new(request.period_ns));
        ranked(message.deadline(part(SENT)).jitter(part(PUSHED)).blocking(self.wire.time_of(ahead)))
    }
}

/// With the rank of its deadline: the shorter the time from readiness to deadline, the more urgent.
fn ranked(task: Task) -> Task {
    let rank = rank(task.deadline.minus(task.jitter).ns());
    task.priority(rank)
}

/// Ranks to the nanosecond up to two seconds, and to the millisecond beyond. The highest and the
/// lowest rank are free for calls.
fn rank(time_ns: u64) -> u32 {
    const EXACT: u64 = 1 << 31;
    let later = time_ns.min(EXACT) + (time_ns.saturating_sub(EXACT) >> 20);
    u32::MAX - 1 - u32::try_from(later).unwrap_or(u32::MAX).min(u32::MAX - 2)
}

/// Steps of a hundredth in which the search at the port looks for a longer period or deadline: a
/// thousand times as long.
const STEPS: usize = 700;

/// The request to the port of the reader's node.
fn flow(channel: &Channel, request: ChannelRequest, from: Sender<'_>) -> Flow {
    let seconds = |nanos: Nanos| nanos.ns() as f64 / 1e9;
    let octets = channel.wire_bytes(channel.size) as f64;
    let rate = octets / (request.period_ns.max(1) as f64 / 1e9);
    // Values that waited on the sender's link come closer together than they were written.
    let burst = octets + rate * seconds(eighths_of(request.deadline_ns, SENT));
    let within_s = seconds(eighths_of(request.deadline_ns, CARRIED - SENT));
    Flow { rate, link: link_rate(from.link_bits_per_s) as f64, burst, within_s }
}

/// Octets of the largest piece of any datagram: all channels of a node have fragments of one size,
/// or smaller ones.
fn datagram(channel: &Channel) -> usize {
    channel.fragment.max(crate::wire::ETHERNET_FRAGMENT)
}

/// `eighths` eighths of a deadline.
fn eighths_of(deadline_ns: u64, eighths: u64) -> Nanos {
    Nanos::new((u128::from(deadline_ns) * u128::from(eighths) / u128::from(WHOLE)) as u64)
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Resource::Cpu => "processor",
            Resource::Link => "link",
            Resource::Port => "port",
        })
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.resource, self.reason)?;
        let text = |ns: Option<u64>| ns.map_or("none".into(), |ns| Nanos::new(ns).to_string());
        write!(
            f,
            "; end to end, this node would admit a period of {} or a deadline of {}",
            text(self.nearest_period_ns),
            text(self.nearest_deadline_ns)
        )
    }
}

impl core::error::Error for Refused {}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mbit = |bytes: f64| bytes * 8.0 / 1e6;
        match *self {
            Excess::Rate(rate, share) => write!(
                f,
                "the guaranteed channels into this node would have {:.3} Mbit/s, and may have {:.3}",
                mbit(rate),
                mbit(share)
            ),
            Excess::Delay(delay_s, within_s) => write!(
                f,
                "a value would wait up to {:.3} ms before this node's port, and the most urgent may wait {:.3}",
                delay_s * 1e3,
                within_s * 1e3
            ),
            Excess::Buffer { queue, best_effort, buffer } => write!(
                f,
                "the switch before this node would have to keep {queue:.0} octets, {best_effort:.0} of them of best effort, and keeps {buffer:.0} (--switch-buffer)"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn channel(size: usize) -> Channel {
        Channel { id: 0, epoch: 1, token: 1, size, fragment: 1384, parity: 0 }
    }

    #[test]
    fn channels_are_admitted_until_the_link_is_full_and_not_beyond() {
        let mut node = NodeAdmission::new(&NodeConfig::default());
        let request = ChannelRequest { period_ns: 10 * MS, deadline_ns: 10 * MS };
        let mut grants = Vec::new();
        let refused = loop {
            match node.admit_push("radar", &channel(8192), request) {
                Ok(grant) => grants.push(grant),
                Err(refused) => break refused,
            }
            assert!(grants.len() < 100, "there is an end");
        };
        // 8 KiB take about 0.76 ms of this link, and a push must have left after 6.25.
        assert!((4..=11).contains(&grants.len()), "{}", grants.len());
        let text = refused.to_string();
        assert!(
            text.contains("radar cannot be admitted") && text.contains("would admit a period of"),
            "{text}"
        );
        let deadline_ns = refused.nearest_deadline_ns.unwrap();
        let again = node.admit_push("radar", &channel(8192), ChannelRequest { deadline_ns, ..request });
        node.release(&again.expect("what is called admissible is"));
        // All of them at once take longer than the deadline, even if that is rare.
        assert_eq!(refused.nearest_period_ns, None);
        // A release makes room.
        for grant in grants.drain(..) {
            node.release(&grant);
        }
        assert!(node.admit_push("radar", &channel(8192), request).is_ok());
    }

    #[test]
    fn the_readers_end_counts_its_processor_and_all_senders_into_its_port() {
        let mut node = NodeAdmission::new(&NodeConfig::default());
        let from = |node| Sender { node, link_bits_per_s: 100_000_000 };
        // 8 KiB every 4 ms are 18 Mbit/s. The values of three senders would wait for each other
        // longer than two eighths of the deadline.
        let request = ChannelRequest { period_ns: 4 * MS, deadline_ns: 20 * MS };
        let receive = |node: &mut NodeAdmission, name| {
            node.admit_receive("display", &channel(8192), request, from(name))
        };
        let grants = ["a", "b"].map(|name| receive(&mut node, name).unwrap());
        let refused = receive(&mut node, "c").unwrap_err();
        assert_eq!((refused.resource, node.len()), (Resource::Port, 2), "a refusal leaves nothing behind");
        let text = refused.to_string();
        assert!(
            text.contains("display cannot be admitted") && text.contains("before this node's port"),
            "{text}"
        );
        let period_ns = refused.nearest_period_ns.unwrap();
        let again = ChannelRequest { period_ns, ..request };
        let grant =
            node.admit_receive("display", &channel(8192), again, from("c")).expect("it is admissible");
        node.release(&grant);
        node.release(&grants[0]);
        assert!(receive(&mut node, "c").is_ok(), "giving back makes room");
        let hopeless = ChannelRequest { period_ns: MS, deadline_ns: 1000 };
        let refused = node.admit_receive("display", &channel(1 << 20), hopeless, from("a")).unwrap_err();
        assert_eq!(refused.resource, Resource::Cpu);
    }

    #[test]
    fn the_period_that_is_called_admissible_is_and_a_shorter_one_is_not() {
        // Two of three 8 KiB values every 2 ms are more than the link carries; its processor could.
        // More than a link of 100 Mbit/s carries; more than a slow processor can send, on a link
        // that carries everything.
        let costs = Costs { datagram_ns: 60_000, ..Costs::default() };
        let slow = NodeConfig { costs, link_bits_per_s: 100_000_000_000, ..NodeConfig::default() };
        let cases = [
            (
                NodeConfig::default(),
                Resource::Link,
                20_000,
                ChannelRequest { period_ns: 2 * MS, deadline_ns: 40 * MS },
            ),
            (slow, Resource::Cpu, 2_500, ChannelRequest { period_ns: MS / 4, deadline_ns: 40 * MS }),
        ];
        for (config, resource, size, request) in cases {
            let mut node = NodeAdmission::new(&config);
            let seldom = ChannelRequest { period_ns: 100 * MS, deadline_ns: 100 * MS };
            node.admit_push("first", &channel(1000), seldom).unwrap();
            let refused = node.admit_push("radar", &channel(size), request).unwrap_err();
            assert_eq!(refused.resource, resource, "{refused}");
            let period_ns = refused.nearest_period_ns.unwrap_or_else(|| panic!("{refused}"));
            assert!(period_ns > request.period_ns, "{refused}");
            let shorter = ChannelRequest { period_ns: period_ns / 10 * 9, ..request };
            assert!(node.admit_push("radar", &channel(size), shorter).is_err(), "{refused}");
            assert!(
                node.admit_push("radar", &channel(size), ChannelRequest { period_ns, ..request }).is_ok(),
                "{refused}"
            );
        }
    }

    #[test]
    fn each_thread_with_a_processor_of_its_own_admits_as_much_as_one() {
        let costs = Costs { datagram_ns: 200_000, ..Costs::default() };
        let config = NodeConfig { costs, link_bits_per_s: 10_000_000_000, ..NodeConfig::default() };
        let request = ChannelRequest { period_ns: 20 * MS, deadline_ns: 80 * MS };
        let fill = |node: &mut NodeAdmission, threads: usize| -> Vec<Grant> {
            let more = |number: usize, node: &mut NodeAdmission| {
                node.admit_push_on(number % threads, "radar", &channel(8192), request).ok()
            };
            let mut grants = Vec::new();
            while let Some(grant) = more(grants.len(), node) {
                grants.push(grant);
            }
            grants
        };
        let one = fill(&mut NodeAdmission::new(&config), 1).len();
        assert!(one > 1, "{one}");
        let mut node = NodeAdmission::new(&config).processors(2);
        let grants = fill(&mut node, 2);
        assert_eq!((grants.len(), node.len()), (2 * one, 2 * one));
        // A third thread shares a processor, and a release makes room on its own.
        assert!(node.admit_push_on(2, "radar", &channel(8192), request).is_err());
        node.release(&grants[1]);
        assert!(node.admit_push_on(2, "radar", &channel(8192), request).is_err());
        assert!(node.admit_push_on(1, "radar", &channel(8192), request).is_ok());
    }

    #[test]
    fn a_shorter_time_has_a_higher_rank() {
        let times = [0, 1, 2, 1_000, MS, 1 << 31, (1 << 31) + (1 << 20), 1 << 40, 1 << 50];
        let ranks = times.map(rank);
        assert!(ranks.is_sorted_by(|first, second| first > second), "{ranks:?}");
        assert_eq!((rank(0), rank(u64::MAX)), (u32::MAX - 1, 1), "below and above those of calls");
    }

    #[test]
    fn the_guarantee_leaves_time_to_wait() {
        let mut node = NodeAdmission::new(&NodeConfig::default());
        let request = ChannelRequest { period_ns: 100 * MS, deadline_ns: 80 * MS };
        let grant = node.admit_push("slow", &channel(1000), request).unwrap();
        let Guarantee { period_ns, deadline_ns, promotion_ns, cost_ns } = grant.guarantee;
        assert_eq!((period_ns, deadline_ns), (100 * MS, 50 * MS));
        assert!(promotion_ns > 9 * MS && promotion_ns < 10 * MS, "an eighth of 80 ms less the response");
        // A more urgent channel reduces it.
        let urgent = ChannelRequest { period_ns: 100 * MS, deadline_ns: 40 * MS };
        let other = node.admit_push("urgent", &channel(100_000), urgent).unwrap();
        assert!(node.promotion(&grant) <= promotion_ns - other.guarantee.cost_ns);
        node.release(&other);
        assert_eq!((node.promotion(&grant), node.promotion(&other)), (promotion_ns, 0));
        assert_eq!(cost_ns, Costs::default().of(&channel(1000)));
        // A deadline that is too short by itself: the proposed one is admitted.
        let request = ChannelRequest { deadline_ns: MS / 10, ..request };
        let refused = node.admit_push("fast", &channel(8192), request).unwrap_err();
        let deadline_ns = refused.nearest_deadline_ns.unwrap();
        assert!(node.admit_push("fast", &channel(8192), ChannelRequest { deadline_ns, ..request }).is_ok());
    }
}

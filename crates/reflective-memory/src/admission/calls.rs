//! Admission of guaranteed channels on the ORB's path.
//!
//! The threads that push by calls, and the lane that serves them, have one priority, above that of
//! the dispatching threads. So a value waits for the calls of other guaranteed channels only, in
//! order of arrival: at each processor, the sum of their costs must fit into each one's part of its
//! time. Datagrams wait for all of them.
//!
//! The packets of calls are marked as those of guaranteed datagrams, and no pacer holds them back.
//! On the link they are therefore counted twice: ahead of all datagrams, as those wait for them,
//! and behind all datagrams, as they wait for those. A window of values may leave at once.
//!
//! A value and its answer share the path, so a value has half of its period at most: its time is
//! the lesser of its deadline and half of its period. It has the same parts as with datagrams.

use super::link_part::LinkPart;
use super::port::Flow;
use super::{
    CARRIED, ChannelRequest, End, Excess, Grant, NodeAdmission, PUSHED, Refused, Resource, SENT, Sender,
    WHOLE, eighths_of, link_rate,
};
use crate::agents::Guarantee;
use isorb_sched::{Nanos, Task, TaskId};

/// A channel on the ORB's path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallChannel {
    /// Octets of the largest value.
    pub size: usize,
    /// The most values under way at a time.
    pub window: usize,
}

/// The rank of calls at a processor and on the link, above all datagrams.
const CALLS: u32 = u32::MAX;
/// The rank of the calls on the link that wait for all datagrams.
const LAST: u32 = 0;
/// Values that a thread may push at once after it was late. It pushes no faster than the period
/// otherwise.
pub(crate) const BUCKET: u64 = 2;

/// Octets of a call beside its value: the headers of GIOP, the object key, the arguments.
const CALL: u64 = 320;
/// Octets of a value in a TCP segment, at the least that full segments carry, and what surrounds a
/// segment on the wire (IPv6 and time stamps).
const SEGMENT: u64 = 1400;
const SEGMENT_OVERHEAD: u64 = 110;
/// Bytes of a full frame on the wire.
const FRAME: u64 = 1538;
/// Steps of a tenth in which the search looks for a longer period or deadline.
const STEPS: usize = 100;

/// What a channel takes of a node.
#[derive(Debug, Default)]
pub(super) struct CallTasks {
    /// One for the processor of each dispatching thread, and two for each part of the link.
    cpus: Vec<TaskId>,
    links: Vec<[u64; 2]>,
    port: Option<u64>,
}

impl NodeAdmission {
    /// Admits the writer's end of a channel on the ORB's path: the thread that pushes, and its
    /// calls on the link.
    ///
    /// # Errors
    /// [`Refused`] with the resource that is short, the numbers, and what would be admitted.
    ///
    /// # Real-time
    /// As [`admit_push`](Self::admit_push).
    pub fn admit_push_calls(
        &mut self,
        name: &str,
        channel: CallChannel,
        request: ChannelRequest,
    ) -> Result<Grant, Refused> {
        self.admit_calls(End::Push, name, channel, request)
    }

    /// Admits the reader's end of a channel on the ORB's path: the lane, and the calls at the port.
    ///
    /// # Errors
    /// As [`admit_push_calls`](Self::admit_push_calls).
    ///
    /// # Real-time
    /// As [`admit_push`](Self::admit_push).
    pub fn admit_receive_calls(
        &mut self,
        name: &str,
        channel: CallChannel,
        request: ChannelRequest,
        from: Sender<'_>,
    ) -> Result<Grant, Refused> {
        self.admit_calls(End::Receive(from), name, channel, request)
    }

    /// Guaranteed channels on the ORB's path that this node receives.
    pub fn received_calls(&self) -> usize {
        self.calls.values().filter(|tasks| tasks.port.is_some()).count()
    }

    fn admit_calls(
        &mut self,
        end: End<'_>,
        name: &str,
        channel: CallChannel,
        request: ChannelRequest,
    ) -> Result<Grant, Refused> {
        let (resource, reason) = match self.try_calls(end, name, channel, request, true) {
            Ok(grant) => return Ok(grant),
            Err(refused) => refused,
        };
        let mut nearest = |from: u64, make: &dyn Fn(u64) -> ChannelRequest| {
            let longer = |value: &u64| Some(value.saturating_add(value / 10 + 1));
            std::iter::successors(Some(from), longer).take(STEPS).find(|value| {
                let grant = self.try_calls(end, name, channel, make(*value), false);
                grant.inspect(|grant| self.release(grant)).is_ok()
            })
        };
        let nearest_deadline_ns =
            nearest(request.deadline_ns, &|deadline_ns| ChannelRequest { deadline_ns, ..request });
        let nearest_period_ns =
            nearest(request.period_ns, &|period_ns| ChannelRequest { period_ns, ..request });
        Err(Refused { resource, reason, nearest_period_ns, nearest_deadline_ns })
    }

    fn try_calls(
        &mut self,
        end: End<'_>,
        name: &str,
        channel: CallChannel,
        request: ChannelRequest,
        explained: bool,
    ) -> Result<Grant, (Resource, String)> {
        let deadline_ns = request.deadline_ns.min(request.period_ns / 2);
        let request = ChannelRequest { deadline_ns, ..request };
        let mut tasks = CallTasks::default();
        let entered = self.enter_calls(&mut tasks, end, name, channel, request, explained);
        if let Err(refused) = entered {
            self.leave(&tasks);
            return Err(refused);
        }
        self.last_calls += 1;
        self.calls.insert(self.last_calls, tasks);
        let guarantee = Guarantee {
            period_ns: request.period_ns,
            deadline_ns: eighths_of(deadline_ns, SENT).ns(),
            promotion_ns: 0,
            cost_ns: self.model.costs.of_calls(channel.size),
        };
        Ok(Grant {
            guarantee,
            size: channel.size,
            part: 0,
            cpu: None,
            link: None,
            port: None,
            calls: Some(self.last_calls),
        })
    }

    /// Enters the channel in `tasks` and in all resources, until one is short.
    fn enter_calls(
        &mut self,
        tasks: &mut CallTasks,
        end: End<'_>,
        name: &str,
        channel: CallChannel,
        request: ChannelRequest,
        explained: bool,
    ) -> Result<(), (Resource, String)> {
        let agent = self.call_agent(end, name, channel, request);
        let messages = [CALLS, LAST].map(|rank| self.call_message(name, channel, request, rank));
        for part in &mut self.parts {
            // A refusal computes alternatives, which a search does not need.
            if !explained && !part.cpu.fits(&agent) {
                return Err((Resource::Cpu, String::new()));
            }
            let admitted = part.cpu.try_admit(agent.clone());
            tasks.cpus.push(admitted.map_err(|refusal| (Resource::Cpu, refusal.to_string()))?.id);
            if let End::Push = end {
                let enter = |link: &mut LinkPart, message: &Task| {
                    if !explained && !link.fits(message) {
                        return Err((Resource::Link, String::new()));
                    }
                    link.try_admit(message.clone()).map_err(|refusal| (Resource::Link, refusal.to_string()))
                };
                let first = enter(&mut part.link, &messages[0])?;
                let last = enter(&mut part.link, &messages[1]);
                let last = last.inspect_err(|_| part.link.remove(first))?;
                tasks.links.push([first, last]);
            }
        }
        if let End::Receive(from) = end {
            let admitted = self.port.admit(from.node, call_flow(channel, request, from));
            let reason = |excess: Excess| (Resource::Port, format!("{name} cannot be admitted: {excess}"));
            tasks.port = Some(admitted.map_err(reason)?);
        }
        Ok(())
    }

    fn leave(&mut self, tasks: &CallTasks) {
        for (part, cpu) in self.parts.iter_mut().zip(&tasks.cpus) {
            part.cpu.remove(*cpu);
        }
        for (part, links) in self.parts.iter_mut().zip(&tasks.links) {
            links.iter().for_each(|link| part.link.remove(*link));
        }
        if let Some(port) = tasks.port {
            self.port.remove(port);
        }
    }

    pub(super) fn release_calls(&mut self, number: u64) {
        if let Some(tasks) = self.calls.remove(&number) {
            self.leave(&tasks);
        }
    }

    /// The request to the processor at this end.
    fn call_agent(&self, end: End<'_>, name: &str, channel: CallChannel, request: ChannelRequest) -> Task {
        let part = |eighths| eighths_of(request.deadline_ns, eighths);
        let of_bucket = |ns: u64| Nanos::new(ns.saturating_mul(BUCKET));
        let cost = of_bucket(self.model.costs.of_calls(channel.size));
        let task = Task::new(name, cost, of_bucket(request.period_ns)).priority(CALLS);
        match end {
            End::Push => task.deadline(part(PUSHED)),
            End::Receive(_) => task.deadline(part(WHOLE)).jitter(part(CARRIED)),
        }
    }

    /// The request to the link, which all parts share.
    fn call_message(&self, name: &str, channel: CallChannel, request: ChannelRequest, rank: u32) -> Task {
        let part = |eighths| eighths_of(request.deadline_ns, eighths);
        let parts = self.parts.len() as u64;
        let wire = self.whole_link();
        let period = request.period_ns.saturating_mul(channel.window as u64);
        let ahead = if rank == CALLS { FRAME } else { FRAME + self.model.burst.saturating_mul(parts) };
        wire.message(name, burst(channel), Nanos::new(period))
            .priority(rank)
            .deadline(part(SENT))
            .jitter(part(PUSHED))
            .blocking(wire.time_of(ahead))
    }
}

/// Octets on the wire of a call with a value of this size, and of the heartbeat that may precede
/// it.
pub(crate) fn call_octets(size: usize) -> u64 {
    value_octets(size).saturating_add(value_octets(0))
}

/// Octets on the wire of a call with a value of this size.
pub(crate) fn value_octets(size: usize) -> u64 {
    let octets = (size as u64).saturating_add(CALL);
    octets.saturating_add(octets.div_ceil(SEGMENT).saturating_mul(SEGMENT_OVERHEAD))
}

/// Octets of a window of values, which may be sent, or sent again, at once.
fn burst(channel: CallChannel) -> u64 {
    call_octets(channel.size).saturating_mul(channel.window.max(1) as u64)
}

/// The request to the port of the reader's node.
fn call_flow(channel: CallChannel, request: ChannelRequest, from: Sender<'_>) -> Flow {
    let seconds = |nanos: Nanos| nanos.ns() as f64 / 1e9;
    let rate = call_octets(channel.size) as f64 / (request.period_ns.max(1) as f64 / 1e9);
    let burst = burst(channel) as f64 + rate * seconds(eighths_of(request.deadline_ns, SENT));
    let within_s = seconds(eighths_of(request.deadline_ns, CARRIED - SENT));
    Flow { rate, link: link_rate(from.link_bits_per_s) as f64, burst, within_s }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{Costs, NodeConfig};
    use crate::wire::Channel;

    const MS: u64 = 1_000_000;

    fn node() -> NodeAdmission {
        let costs = Costs { call_ns: Some(100_000), ..Costs::default() };
        NodeAdmission::new(&NodeConfig { costs, ..NodeConfig::default() })
    }

    fn request(period_ms: u64, deadline_ms: u64) -> ChannelRequest {
        ChannelRequest { period_ns: period_ms * MS, deadline_ns: deadline_ms * MS }
    }

    const CHANNEL: CallChannel = CallChannel { size: 100, window: 1 };
    const FROM: Sender<'static> = Sender { node: "near", link_bits_per_s: 100_000_000 };

    /// The sum of all costs fits into each channel's part of its time; the channel with which it
    /// does not is refused, with numbers that are admitted.
    #[test]
    fn calls_are_admitted_while_the_sum_of_their_costs_fits() {
        for end in [End::Push, End::Receive(FROM)] {
            let mut node = node();
            let request = request(200, 40);
            let mut grants = Vec::new();
            let refused = loop {
                match node.admit_calls(end, "radar", CHANNEL, request) {
                    Ok(grant) => grants.push(grant),
                    Err(refused) => break refused,
                }
                assert!(grants.len() < 100, "there is an end");
            };
            // A channel costs twice 221 us at most, and an eighth of 40 ms is 5 ms.
            let each = BUCKET * Costs { call_ns: Some(100_000), ..Costs::default() }.of_calls(100);
            assert_eq!(grants.len() as u64, 5 * MS / each, "{refused}");
            assert_eq!((refused.resource, node.len()), (Resource::Cpu, grants.len()));
            assert!(refused.to_string().contains("radar cannot be admitted"), "{refused}");
            // Those that were admitted have no time left, whatever a further one asks for.
            assert_eq!((refused.nearest_deadline_ns, refused.nearest_period_ns), (None, None));
            node.release(&grants.pop().unwrap());
            grants.push(node.admit_calls(end, "radar", CHANNEL, request).expect("a release makes room"));
            grants.iter().for_each(|grant| node.release(grant));
            // What is proposed is admitted.
            let hopeless = ChannelRequest { deadline_ns: MS, ..request };
            let refused = node.admit_calls(end, "radar", CHANNEL, hopeless).unwrap_err();
            let deadline_ns = refused.nearest_deadline_ns.expect("a longer deadline");
            node.admit_calls(end, "radar", CHANNEL, ChannelRequest { deadline_ns, ..request }).unwrap();
        }
    }

    #[test]
    fn half_of_the_period_is_the_longest_time() {
        // An eighth of 4 ms is 500 us, for two values of about 221.
        assert!(node().admit_push_calls("slow", CHANNEL, request(8, 100)).is_ok());
        let refused = node().admit_push_calls("fast", CHANNEL, request(6, 100)).unwrap_err();
        assert_eq!((refused.resource, refused.nearest_deadline_ns), (Resource::Cpu, None));
        assert!(refused.nearest_period_ns.is_some_and(|period_ns| period_ns > 6 * MS), "{refused}");
    }

    #[test]
    fn the_window_is_a_burst_on_the_link_and_at_the_port() {
        let config = NodeConfig { link_bits_per_s: 1_000_000, ..NodeConfig::default() };
        let wide = CallChannel { size: 1000, window: 16 };
        let narrow = CallChannel { window: 1, ..wide };
        let request = request(600, 300);
        let push = |channel| NodeAdmission::new(&config).admit_push_calls("x", channel, request);
        assert!(push(narrow).is_ok());
        assert_eq!(push(wide).unwrap_err().resource, Resource::Link);
        let receive = |channel| {
            let mut node = NodeAdmission::new(&config);
            let _other = node.admit_receive_calls("y", channel, request, Sender { node: "other", ..FROM })?;
            node.admit_receive_calls("x", channel, request, FROM)
        };
        assert!(receive(narrow).is_ok());
        assert_eq!(receive(wide).unwrap_err().resource, Resource::Port);
    }

    /// Calls run before datagrams: an admitted datagram channel keeps its time, and its promotion
    /// comes sooner.
    #[test]
    fn datagrams_wait_for_calls_and_keep_their_deadlines() {
        let mut node = node();
        let datagrams = Channel { id: 0, epoch: 1, token: 1, size: 1000, fragment: 1384, parity: 0 };
        let grant = node.admit_push("datagrams", &datagrams, request(20, 8)).unwrap();
        let before = node.promotion(&grant);
        let calls = node.admit_push_calls("calls", CHANNEL, request(100, 50)).unwrap();
        let each = BUCKET * node.model.costs.of_calls(100);
        assert_eq!(node.promotion(&grant), before - each);
        assert_eq!((node.len(), node.received_calls()), (2, 0));
        // One more would take the datagrams' time.
        let refused = node.admit_push_calls("more", CHANNEL, request(100, 50)).unwrap_err();
        assert!(refused.to_string().contains("datagrams would take"), "{refused}");
        node.release(&calls);
        assert_eq!((node.promotion(&grant), node.len()), (before, 1));
    }

    #[test]
    fn several_dispatching_threads_all_make_room_for_calls() {
        let mut node = node().processors(2);
        let grants = [0, 1].map(|_| node.admit_push_calls("calls", CHANNEL, request(100, 50)).unwrap());
        assert_eq!(node.len(), 2);
        assert!(node.parts.iter().all(|part| part.cpu.len() == 2 && part.link.len() == 4));
        grants.iter().for_each(|grant| node.release(grant));
        assert!(node.is_empty() && node.parts.iter().all(|part| part.link.len() == 0));
    }
}

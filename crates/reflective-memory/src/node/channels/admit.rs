//! Admission of guaranteed channels.

use super::Channels;
use crate::Error;
use crate::admission::{
    CallChannel, ChannelRequest, Grant, NodeAdmission, Refused, Sender, best_effort_window,
};
use crate::agents::Mode;
use crate::idl::{Mode as IdlMode, NotAdmitted, Path, ReaderQoS, WriterQoS};
use crate::node::areas::largest;
use crate::node::orb_path::{LANE_CHANNELS, LARGEST_VALUE, window};
use crate::wire::Channel;
use isorb_rt::sched::SchedClass;

impl Channels {
    /// Admits one end of a guaranteed channel: the reader's for a channel `from` another node.
    /// Takes the processor of a dispatching thread.
    pub(super) fn admit(
        &self,
        name: &str,
        channel: &Channel,
        qos: &ReaderQoS,
        promised: WriterQoS,
        from: Option<Sender<'_>>,
        thread: usize,
    ) -> Result<Option<Grant>, Error> {
        if !qos.guaranteed {
            return Ok(None);
        }
        let refuse = |resource: &str, reason: String, period: Option<u64>, deadline: Option<u64>| {
            Error::NotAdmitted(NotAdmitted {
                resource: resource.into(),
                reason,
                nearest_period: period.unwrap_or(0),
                nearest_deadline: deadline.unwrap_or(0),
            })
        };
        if !qos.soft
            && let Some(missing) = self.unassured()
        {
            let reason = format!(
                "node {} does not assure any timing: {missing}; a reader that accepts that asks for a soft guarantee (--soft)",
                self.config.name
            );
            return Err(refuse("assurance", reason, None, None));
        }
        let largest = largest(&promised, channel.size);
        let by_calls = matches!(qos.through, Path::PathOrb | Path::PathOneway);
        if by_calls && let Some(reason) = self.no_calls(name, largest, from.is_some()) {
            return Err(refuse("path", reason, None, None));
        }
        if self.config.admission.link_bits_per_s == 0 {
            let (node, ip) = (&self.config.name, self.config.dispatcher.udp.ip());
            let reason =
                format!("node {node}: the rate of the link at {ip} is not known; name it with --link");
            return Err(refuse("link", reason, None, None));
        }
        if from.is_some() && self.config.publish_port.is_some() {
            let reason = "a guaranteed channel has a port of its own, which other nodes do not see: publish_port is set";
            return Err(refuse("port", reason.into(), None, None));
        }
        let period_ns = interval(qos, promised.period);
        if period_ns == 0 || qos.deadline == 0 {
            let reason = format!(
                "{name} cannot be guaranteed: its writer's period is {} ns, the deadline {} ns",
                promised.period, qos.deadline
            );
            return Err(refuse("declaration", reason, None, None));
        }
        // The deadline includes the wait for the next periodic push.
        let waits_ns = push_wait(qos);
        if qos.deadline <= waits_ns {
            let reason = format!(
                "{name} cannot be guaranteed: a value may wait {waits_ns} ns for the next periodic push, the deadline is {} ns",
                qos.deadline
            );
            return Err(refuse("declaration", reason, None, None));
        }
        let request = ChannelRequest { period_ns, deadline_ns: qos.deadline - waits_ns };
        let channel = &Channel { size: largest, ..*channel };
        let window = window(channel.size, qos.through == Path::PathOneway);
        let calls = CallChannel { size: largest, window };
        let mut admission = self.admission.lock();
        let attempt = |admission: &mut NodeAdmission, request| match from {
            None if by_calls => admission.admit_push_calls(name, calls, request),
            Some(from) if by_calls => admission.admit_receive_calls(name, calls, request, from),
            None => admission.admit_push_on(thread, name, channel, request),
            Some(from) => admission.admit_receive_on(thread, name, channel, request, from),
        };
        attempt(&mut admission, request).map(Some).map_err(|refused: Refused| {
            let deadline = refused.nearest_deadline_ns.map(|deadline| deadline.saturating_add(waits_ns));
            let mut period = refused.nearest_period_ns;
            if waits_ns > 0 {
                // A reader with a longer period also waits longer.
                period = period.filter(|&period_ns| {
                    let left = qos.deadline.checked_sub(period_ns).filter(|&left| left > 0);
                    let grant = left.and_then(|deadline_ns| {
                        attempt(&mut admission, ChannelRequest { period_ns, deadline_ns }).ok()
                    });
                    grant.inspect(|grant| admission.release(grant)).is_some()
                });
            }
            refuse(
                &refused.resource.to_string(),
                format!("node {}: {refused}", self.config.name),
                period,
                deadline,
            )
        })
    }

    /// Why this node guarantees no channel on the ORB's path with values of this size.
    fn no_calls(&self, name: &str, largest: usize, receives: bool) -> Option<String> {
        let node = &self.config.name;
        if let Some(missing) = self.lane.missing() {
            return Some(format!("node {node} guarantees no channel on the ORB's path: {missing}"));
        }
        if receives && self.lane.is_unprotected() {
            return Some(format!(
                "node {node} guarantees no channel on the ORB's path: it listens over TLS only, and a lane has no TLS; \
                 use best effort there, or datagrams"
            ));
        }
        if self.config.admission.costs.call_ns.is_none() {
            return Some(format!(
                "node {node} does not know the cost of a call; name it with --costs …,call=NS"
            ));
        }
        if largest > LARGEST_VALUE {
            return Some(format!(
                "a guaranteed value on the ORB's path has {LARGEST_VALUE} octets at most, {name} has {largest}; \
                 datagrams take larger ones, or the writer promises less (size)"
            ));
        }
        if receives && self.admission.lock().received_calls() >= LANE_CHANNELS {
            return Some(format!(
                "node {node} reads {LANE_CHANNELS} guaranteed channels on the ORB's path, which is the limit"
            ));
        }
        None
    }

    /// What this node lacks to assure the timing that admission computes; none if nothing.
    pub fn unassured(&self) -> Option<&'static str> {
        let is_real_time = self.config.dispatcher.class != SchedClass::Other;
        match (is_real_time, self.config.admission.measured) {
            (true, true) => None,
            (true, false) => Some("the costs of its agents are guessed (--costs)"),
            (false, true) => Some("its dispatching threads have no real-time class (--priority)"),
            (false, false) => Some(
                "its dispatching threads have no real-time class (--priority), and the costs of its agents are guessed (--costs)",
            ),
        }
    }

    /// Counts a best-effort channel on the ORB's path: its values may stand before guaranteed ones.
    pub(super) fn enter_best_effort(&self, name: &str, size: usize) -> Result<(), Error> {
        self.admission.lock().enter_best_effort(name, size).map_err(|refused| {
            Error::NotAdmitted(NotAdmitted {
                resource: refused.resource.to_string(),
                reason: format!("node {}: {}", self.config.name, refused.reason),
                nearest_period: 0,
                nearest_deadline: 0,
            })
        })
    }

    /// Best effort from other nodes runs on credits while this node receives guaranteed channels.
    pub(super) fn limit_best_effort(&self) {
        // Held, so that a later change is not overwritten by an earlier one.
        let admission = self.admission.lock();
        let window = match admission.received() {
            0 => None,
            _ => Some(best_effort_window(self.link_bits_per_s()) / self.dispatchers.len() as u64),
        };
        self.dispatchers.iter().for_each(|dispatcher| dispatcher.limit_best_effort(window));
    }

    /// Channels that were admitted before take longer now and have to be promoted sooner.
    pub(super) fn refresh_promotions(&self) {
        self.pace();
        let table = self.lock();
        let admission = self.admission.lock();
        for (number, dispatcher) in self.dispatchers.iter().enumerate() {
            let own = table.pushes().filter_map(|channel| Some((channel.push()?, channel.grant.as_ref()?)));
            let own = own.filter(|((thread, _), _)| *thread == number);
            dispatcher.set_promotions(own.map(|((_, key), grant)| (key, admission.promotion(grant))));
        }
    }

    /// A guaranteed channel to this node ended, or was not opened after all.
    pub(super) fn release_receive(&self, grant: Option<&Grant>) {
        self.give_back(grant);
        if grant.is_some() {
            self.limit_best_effort();
        }
    }

    pub(super) fn give_back(&self, grant: Option<&Grant>) {
        if let Some(grant) = grant {
            self.admission.lock().release(grant);
        }
    }
}

/// The shortest period of a push.
const MIN_PERIOD_NS: u64 = 50_000;

pub(super) fn mode(qos: &ReaderQoS) -> Mode {
    match qos.how {
        IdlMode::PushOnWrite => Mode::OnWrite,
        IdlMode::PeriodicPush => Mode::Periodic { period_ns: qos.period.max(MIN_PERIOD_NS) },
    }
}

/// The longest time that a value waits for its push.
fn push_wait(qos: &ReaderQoS) -> u64 {
    match mode(qos) {
        Mode::OnWrite => 0,
        Mode::Periodic { period_ns } => period_ns,
    }
}

/// The least interval between two values at a reader.
pub(crate) fn interval(qos: &ReaderQoS, writer_period: u64) -> u64 {
    match qos.how {
        IdlMode::PushOnWrite => writer_period,
        IdlMode::PeriodicPush => qos.period.max(writer_period),
    }
}

//! Admission of guaranteed channels.

use super::Channels;
use crate::Error;
use crate::admission::{ChannelRequest, Grant, NodeAdmission, Refused, Sender};
use crate::agents::Mode;
use crate::idl::{Mode as IdlMode, NotAdmitted, Path, ReaderQoS, WriterQoS};
use crate::node::areas::largest;
use crate::wire::Channel;

impl Channels {
    /// Admits one end of a guaranteed channel: the reader's for a channel `from` another node.
    pub(super) fn admit(
        &self,
        name: &str,
        channel: &Channel,
        qos: &ReaderQoS,
        promised: WriterQoS,
        from: Option<Sender<'_>>,
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
        if matches!(qos.through, Path::PathOrb | Path::PathOneway) {
            return Err(refuse("path", "the ORB's path guarantees no time".into(), None, None));
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
        let channel = &Channel { size: largest(&promised, channel.size), ..*channel };
        let mut admission = self.admission.lock();
        let attempt = |admission: &mut NodeAdmission, request| match from {
            None => admission.admit_push(name, channel, request),
            Some(from) => admission.admit_receive(name, channel, request, from),
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

//! The writer's end of channels between nodes: agents that push.

use super::Shared;
use super::failover::FailoverRef;
use super::orb_path::{OrbPush, Place};
use super::replicas::address;
use super::setup::largest;
use super::tables::{Agent, Channel as Outgoing, Destination};
use crate::Error;
use crate::admission::{Grant, NodeAdmission, Refused, Wish};
use crate::agents::{Mode, PushAgent, PushSpec};
use crate::fail_points::{FailPoint, fail_point};
use crate::idl::{CRM_CommRef, Mode as IdlMode, NotAdmitted, OfferView, Path, ReaderQoS, WriterQoS};
use crate::memory::Segment;
use crate::wire::Channel;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

impl Shared {
    /// The writer's end: an agent that pushes.
    pub(super) fn open_channel(
        &self,
        name: &str,
        qos: ReaderQoS,
        offer: &OfferView<'_>,
        reader: Option<&CRM_CommRef>,
    ) -> Result<u64, Error> {
        fail_point(FailPoint::ChannelAsked);
        let (segment, promised) = self.source(name)?;
        let datagrams = qos.through == Path::PathUdp;
        let to = Destination { node: offer.node.into(), port: offer.port, datagrams, channel: offer.channel };
        // What the same channel was before, and whatever an earlier server of that node had.
        self.end_channels(|channel| {
            channel.to == to || (channel.to.node == to.node && channel.incarnation != offer.incarnation)
        });
        fail_point(FailPoint::ChannelReplaced);
        let channel = Channel {
            id: offer.channel,
            epoch: offer.epoch,
            token: offer.token,
            size: segment.geometry().size(),
            fragment: offer.fragment as usize,
            parity: usize::from(qos.parity),
        };
        channel.check().map_err(|error| Error::wrong_size(error.what, error.asked, error.limit))?;
        let grant = self.admit(name, &channel, &qos, promised, true)?;
        if grant.is_some() {
            // Before its first push.
            self.refresh_promotions();
        }
        let agent = match qos.through {
            Path::PathUdp => {
                let dispatcher = channel.id as usize % self.dispatchers.len();
                let second = (self.dispatchers[dispatcher].second_address().is_some()
                    && offer.second_port > 0)
                    .then(|| address(offer.second_host, own(offer.second_own_port, offer.second_port)));
                let to = address(offer.host, own(offer.own_port, offer.port))
                    .and_then(|to| Ok((to, second.transpose()?)));
                to.and_then(|(to, second)| {
                    let way = Way { dispatcher, to, second };
                    self.start_datagrams(&segment, channel, &qos, way, grant.as_ref())
                })
            }
            Path::PathOrb | Path::PathOneway => {
                let reader = reader.map(|reader| self.ways(offer.node, reader));
                self.start_orb(&segment, channel, &qos, reader, offer.after)
            }
            Path::PathMulticast => Err(Error::unavailable("a group is joined, not opened")),
        };
        let agent = match agent {
            Ok(agent) => agent,
            Err(error) => {
                self.give_back(grant.as_ref());
                return Err(error);
            }
        };
        let (area, incarnation) = (name.into(), offer.incarnation);
        let reader = reader.map(|reader| self.ways(offer.node, reader));
        let handle = self.enter(Outgoing { area, to, reader, incarnation, grant, agent })?;
        fail_point(FailPoint::ChannelStarted);
        if grant.is_some() {
            // Another may have been admitted before this one was in the table.
            self.refresh_promotions();
        }
        Ok(handle)
    }

    /// An area's segment, and what its writer promised.
    pub(super) fn source(&self, name: &str) -> Result<(Segment, WriterQoS), Error> {
        let tables = self.tables.lock();
        let entry = tables.areas.get(name).ok_or_else(|| Error::unknown_area(name))?;
        Ok((entry.segment.clone(), entry.promised))
    }

    /// The channel has an agent, which hears from now on when something is written; gives its handle.
    pub(super) fn enter(&self, channel: Outgoing) -> Result<u64, Error> {
        let mut tables = self.tables.lock();
        // Under the lock: who becomes the writer after this finds the channel in the table.
        let heard = match (&channel.agent, tables.areas.get(&channel.area)) {
            (Agent::Datagrams { dispatcher, key }, Some(entry)) => {
                let wanted = entry.segment.set_doorbell(true).map_err(Error::from);
                let dispatcher = &self.dispatchers[*dispatcher];
                // It looks when it begins to hear: a value for which nobody rang is not left lying.
                wanted.and_then(|()| match tables.doorbell_of(&channel.area) {
                    Some(doorbell) => Ok(dispatcher.hear(*key, doorbell)?),
                    None => {
                        dispatcher.look(*key);
                        Ok(())
                    }
                })
            }
            _ => Ok(()),
        };
        if let Err(error) = heard {
            drop(tables);
            self.end(channel);
            return Err(error);
        }
        let handle = tables.handle();
        tables.channels.insert(handle, channel);
        Ok(handle)
    }

    pub(super) fn start_datagrams(
        &self,
        segment: &Segment,
        channel: Channel,
        qos: &ReaderQoS,
        way: Way,
        grant: Option<&Grant>,
    ) -> Result<Agent, Error> {
        let Way { dispatcher, to, second } = way;
        let guarantee = grant.map(|grant| grant.guarantee);
        let spec = PushSpec {
            channel,
            to,
            second,
            source: segment.reader()?,
            mode: mode(qos),
            guarantee,
            rate: self.rate(&channel, grant),
            burst: 4 * channel.fragment,
        };
        let agent =
            PushAgent::new(spec).map_err(|error| Error::wrong_size(error.what, error.asked, error.limit))?;
        let key = self.dispatchers[dispatcher].add_push(agent).map_err(Error::unavailable)?;
        Ok(Agent::Datagrams { dispatcher, key })
    }

    pub(super) fn start_orb(
        &self,
        segment: &Segment,
        channel: Channel,
        qos: &ReaderQoS,
        reader: Option<FailoverRef<CRM_CommRef>>,
        after: u64,
    ) -> Result<Agent, Error> {
        let reader = reader.ok_or_else(|| Error::unavailable("the reader's node gave no reference"))?;
        let limit = self.config.limits.orb_channels;
        // Of a channel that was closed, too, until its thread has come back from its last call.
        let place = Place::take(&self.orb_channels);
        if place.number() > limit {
            return Err(Error::wrong_size("the number of channels on the ORB's path", limit + 1, limit));
        }
        let (stop, running) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
        let patience = match reader.are_several() {
            // Then the next way is tried, so a call that is only slow must not be given up.
            true => self.config.answer * 2 + Duration::from_micros(channel.size as u64),
            false => ONLY_WAY,
        };
        let reader = reader.within(patience);
        let mut source = segment.reader()?;
        source.skip_to(after);
        let push = OrbPush {
            source,
            channel,
            reader,
            mode: mode(qos),
            oneway: qos.through == Path::PathOneway,
            stop: stop.clone(),
            running: running.clone(),
            _place: place,
        };
        push.start()?;
        Ok(Agent::Orb { stop, running })
    }

    /// Bytes a second: a guaranteed push leaves within a quarter of its time, others may have the link.
    fn rate(&self, channel: &Channel, grant: Option<&Grant>) -> u64 {
        let link = self.config.admission.link_bits_per_s / 8;
        match grant {
            Some(grant) => {
                let bytes = channel.wire_bytes(grant.size) as u128;
                let rate = bytes * 4_000_000_000 / u128::from(grant.guarantee.deadline_ns.max(1));
                u64::try_from(rate).unwrap_or(u64::MAX).min(link)
            }
            None => link,
        }
    }

    /// Gives how many pushes there were by datagrams.
    pub(super) fn close_channel(&self, handle: u64) -> Result<u64, Error> {
        let channel =
            self.tables.lock().channels.remove(&handle).ok_or_else(|| Error::unknown_handle(handle))?;
        let begun = self.end(channel);
        fail_point(FailPoint::ChannelClosed);
        Ok(begun)
    }

    pub(super) fn run_channel(&self, handle: u64, run: bool) -> Result<(), Error> {
        let tables = self.tables.lock();
        match &tables.channels.get(&handle).ok_or_else(|| Error::unknown_handle(handle))?.agent {
            Agent::Datagrams { dispatcher, key } => {
                self.dispatchers[*dispatcher].set_running(*key, run);
            }
            Agent::Orb { running, .. } => running.store(run, Ordering::Release),
            // One of a group cannot stop it; when it starts, it gets the latest value.
            Agent::Member { group } => {
                if let Some(Agent::Datagrams { dispatcher, key }) =
                    tables.channels.get(group).map(|channel| &channel.agent)
                    && run
                {
                    self.dispatchers[*dispatcher].repeat(*key);
                }
            }
        }
        Ok(())
    }

    /// Ends all channels of which this is so.
    pub(super) fn end_channels(&self, so: impl Fn(&Outgoing) -> bool) {
        let ended: Vec<Outgoing> = {
            let mut tables = self.tables.lock();
            tables.channels.extract_if(|_, channel| so(channel)).map(|(_, channel)| channel).collect()
        };
        for channel in ended {
            self.end(channel);
        }
    }

    /// Gives how many pushes there were by datagrams.
    pub(super) fn end(&self, channel: Outgoing) -> u64 {
        let mut tables = self.tables.lock();
        tables.keep_name(&channel);
        tables.ring_no_more(&channel.area);
        drop(tables);
        let begun = match channel.agent {
            Agent::Member { group } => {
                let begun = self.begun_of_group(group);
                self.left_group(group);
                begun
            }
            Agent::Datagrams { dispatcher, key } => {
                self.dispatchers[dispatcher].remove_push(key).map_or(0, |stats| stats.begun)
            }
            Agent::Orb { stop, .. } => {
                stop.store(true, Ordering::Release);
                0
            }
        };
        self.give_back(channel.grant.as_ref());
        begun
    }

    /// Admits one end of a guaranteed channel.
    pub(super) fn admit(
        &self,
        name: &str,
        channel: &Channel,
        qos: &ReaderQoS,
        promised: WriterQoS,
        pushes: bool,
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
        if !pushes && self.config.publish_port.is_some() {
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
        // A value may have to wait for the next push, and that counts, too.
        let waits_ns = push_wait(qos);
        if qos.deadline <= waits_ns {
            let reason = format!(
                "{name} cannot be guaranteed: a value may wait {waits_ns} ns for the next periodic push, the deadline is {} ns",
                qos.deadline
            );
            return Err(refuse("declaration", reason, None, None));
        }
        let wish = Wish { period_ns, deadline_ns: qos.deadline - waits_ns };
        let channel = &Channel { size: largest(&promised, channel.size), ..*channel };
        let mut admission = self.admission.lock();
        let ask = |admission: &mut NodeAdmission, wish| match pushes {
            true => admission.admit_push(name, channel, wish),
            false => admission.admit_receive(name, channel, wish),
        };
        ask(&mut admission, wish).map(Some).map_err(|refused: Refused| {
            let deadline = refused.nearest_deadline_ns.map(|deadline| deadline.saturating_add(waits_ns));
            let mut period = refused.nearest_period_ns;
            if waits_ns > 0 {
                // Who is pushed to less often waits longer, too.
                period = period.filter(|&period_ns| {
                    let left = qos.deadline.checked_sub(period_ns).filter(|&left| left > 0);
                    let grant = left
                        .and_then(|deadline_ns| ask(&mut admission, Wish { period_ns, deadline_ns }).ok());
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

    /// Those who were admitted before take longer now, and have to be promoted sooner.
    pub(super) fn refresh_promotions(&self) {
        let tables = self.tables.lock();
        let admission = self.admission.lock();
        for (number, dispatcher) in self.dispatchers.iter().enumerate() {
            let pushes =
                tables.channels.values().filter_map(|channel| match (&channel.agent, &channel.grant) {
                    (Agent::Datagrams { dispatcher, key }, Some(grant)) if *dispatcher == number => {
                        Some((*key, admission.promotion(grant)))
                    }
                    _ => None,
                });
            dispatcher.set_promotions(pushes);
        }
    }

    pub(super) fn give_back(&self, grant: Option<&Grant>) {
        if let Some(grant) = grant {
            self.admission.lock().release(grant);
        }
    }
}

/// Where a push agent sends, and whose agent it is.
#[derive(Clone, Copy)]
pub(super) struct Way {
    pub dispatcher: usize,
    pub to: SocketAddr,
    pub second: Option<SocketAddr>,
}

/// A channel's own port, where it has one.
fn own(own: u16, common: u16) -> u16 {
    if own > 0 { own } else { common }
}

/// How long a push by a call may take where there is one way.
const ONLY_WAY: Duration = Duration::from_secs(60);

/// No push comes more often than this.
const MIN_PERIOD_NS: u64 = 50_000;

fn mode(qos: &ReaderQoS) -> Mode {
    match qos.how {
        IdlMode::PushOnWrite => Mode::OnWrite,
        IdlMode::PeriodicPush => Mode::Periodic { period_ns: qos.period.max(MIN_PERIOD_NS) },
    }
}

/// How long a value may wait until it is pushed.
fn push_wait(qos: &ReaderQoS) -> u64 {
    match mode(qos) {
        Mode::OnWrite => 0,
        Mode::Periodic { period_ns } => period_ns,
    }
}

/// How far apart values are that a reader can expect.
pub(crate) fn interval(qos: &ReaderQoS, writer_period: u64) -> u64 {
    match qos.how {
        IdlMode::PushOnWrite => writer_period,
        IdlMode::PeriodicPush => qos.period.max(writer_period),
    }
}

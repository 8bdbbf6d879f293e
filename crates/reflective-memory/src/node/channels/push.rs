//! Opening the writer's end of a channel.

use super::admit::mode;
use super::table::{Agent, Destination, PushChannel};
use super::{Channels, address};
use crate::Error;
use crate::admission::Grant;
use crate::agents::{GROUP, Guarantee, PushAgent, PushSpec};
use crate::error::CallerError;
use crate::fail_points::{FailPoint, fail_point};
use crate::idl::{CRM_CommRef, OfferView, Path, ReaderQoS};
use crate::memory::Segment;
use crate::node::areas::Source;
use crate::node::failover::FailoverRef;
use crate::node::orb_path::{OrbPush, PushControl, ThreadPermit, Urgency};
use crate::wire::{Channel, ChannelError};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The time that a push by a call has where the reader's node has one address.
const SINGLE_ADDRESS: Duration = Duration::from_secs(60);

/// The addresses that a push agent sends to, and its dispatching thread.
#[derive(Clone, Copy)]
pub(super) struct Route {
    pub dispatcher: usize,
    pub to: SocketAddr,
    pub second: Option<SocketAddr>,
}

impl Channels {
    /// Opens the writer's end: starts an agent that pushes.
    pub fn open(
        &self,
        name: &str,
        qos: ReaderQoS,
        offer: &OfferView<'_>,
        reader: Option<&CRM_CommRef>,
    ) -> Result<u64, Error> {
        fail_point(FailPoint::ChannelAsked);
        let Source { segment, promised, what } = self.areas.source(name)?;
        what.check_type(qos.type_hash)?;
        let datagrams = qos.through == Path::PathUdp;
        let to = Destination { node: offer.node.into(), port: offer.port, datagrams, channel: offer.channel };
        // A former channel to this destination, and all channels of an earlier server of that node.
        self.end_if(|channel| {
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
        channel.check().map_err(wrong_channel)?;
        let thread = self.dispatcher_of(channel.id);
        let grant = self.admit(name, &channel, &qos, promised, None, thread)?;
        if grant.is_some() {
            // Before its first push.
            self.refresh_promotions();
        }
        let reader = reader.map(|reader| self.server(offer.node, reader));
        let agent = match qos.through {
            Path::PathUdp => self.route(&channel, offer).and_then(|route| {
                self.start_datagrams(&segment, channel, &qos, (route, offer.credit), grant.as_ref())
            }),
            Path::PathOrb | Path::PathOneway => {
                let from = (reader.clone(), offer.after);
                self.start_orb((name, offer.node), &segment, channel, &qos, from, grant.as_ref())
            }
            Path::PathMulticast => Err(CallerError::GroupOpened.into()),
        };
        let agent = agent.inspect_err(|_| self.give_back(grant.as_ref()))?;
        let (area, incarnation) = (name.into(), offer.incarnation);
        let handle = self.enter(PushChannel { area, to, reader, incarnation, grant, agent })?;
        fail_point(FailPoint::ChannelStarted);
        if grant.is_some() {
            // Another channel may have been admitted before this one was in the table.
            self.refresh_promotions();
        }
        Ok(handle)
    }

    fn route(&self, channel: &Channel, offer: &OfferView<'_>) -> Result<Route, Error> {
        // A guaranteed channel has ports of its own.
        let port = |own, common| if own > 0 { own } else { common };
        let dispatcher = self.dispatcher_of(channel.id);
        let to = address(offer.host, port(offer.own_port, offer.port))?;
        let second = match self.dispatchers[dispatcher].second_address() {
            Some(_) if offer.second_port > 0 => {
                Some(address(offer.second_host, port(offer.second_own_port, offer.second_port))?)
            }
            _ => None,
        };
        Ok(Route { dispatcher, to, second })
    }

    /// Enters a channel that has an agent; from now on the agent runs after each write.
    pub(super) fn enter(&self, channel: PushChannel) -> Result<u64, Error> {
        let areas = self.areas.lock();
        // Under both locks: a process that becomes the writer afterwards finds the channel in the
        // table.
        let mut table = self.lock();
        let subscribed = match &channel.agent {
            Agent::Datagrams { dispatcher, key, source } => {
                let dispatcher = &self.dispatchers[*dispatcher];
                let rings = source.set_doorbell(true).map_err(Error::from);
                rings.and_then(|()| match areas.doorbell_of(&channel.area) {
                    Some(doorbell) => Ok(dispatcher.subscribe(*key, doorbell)?),
                    None => {
                        // A value may have been written without a ring.
                        dispatcher.check(*key);
                        Ok(())
                    }
                })
            }
            _ => Ok(()),
        };
        match subscribed {
            Ok(()) => Ok(table.insert(channel)),
            Err(error) => {
                drop(table);
                drop(areas);
                self.end(channel);
                Err(error)
            }
        }
    }

    pub(super) fn start_datagrams(
        &self,
        segment: &Segment,
        channel: Channel,
        qos: &ReaderQoS,
        (route, credit): (Route, u64),
        grant: Option<&Grant>,
    ) -> Result<Agent, Error> {
        let Route { dispatcher, to, second } = route;
        let spec = PushSpec {
            channel,
            to,
            second,
            source: segment.reader()?,
            mode: mode(qos),
            guarantee: grant.map(|grant| grant.guarantee),
            rate: self.rate(&channel, grant),
            burst: 4 * channel.fragment,
        };
        let agent = PushAgent::new(spec).map_err(wrong_channel)?;
        // Guaranteed channels are admitted instead.
        let agent = match grant {
            None if channel.id & GROUP == 0 => agent.credit(credit),
            None => agent.credit_of_members(self.config.silence.as_nanos() as u64),
            Some(_) => agent,
        };
        let key = self.dispatchers[dispatcher].add_push(agent)?;
        Ok(Agent::Datagrams { dispatcher, key, source: segment.clone() })
    }

    fn start_orb(
        &self,
        (area, node): (&str, &str),
        segment: &Segment,
        channel: Channel,
        qos: &ReaderQoS,
        (reader, after): (Option<FailoverRef<CRM_CommRef>>, u64),
        grant: Option<&Grant>,
    ) -> Result<Agent, Error> {
        let reader = reader.ok_or(CallerError::NilReference("the reference of the reader's node"))?;
        let limit = self.config.limits.orb_channels;
        // A closed channel counts until its thread has returned from its last call.
        let permit = ThreadPermit::take(&self.orb_threads);
        if permit.number() > limit {
            return Err(Error::wrong_size("the number of channels on the ORB's path", limit + 1, limit));
        }
        let control = Arc::new(PushControl::default());
        let within = match reader.has_alternatives() {
            // The next address is tried after this, so a slow call must not time out.
            true => self.config.answer * 2 + Duration::from_micros(channel.size as u64),
            false => SINGLE_ADDRESS,
        };
        let mut reader = reader.within(within);
        if grant.is_some() {
            reader = reader.overriding(&self.lane.overrides()?);
        }
        let class = self.lane.class();
        let mut source = segment.reader()?;
        source.skip_to(after);
        let push = OrbPush {
            name: format!("{area} to {node}"),
            source,
            channel,
            reader,
            mode: mode(qos),
            oneway: qos.through == Path::PathOneway,
            control: control.clone(),
            pacing: self.call_pacing.clone(),
            urgency: grant.map(|Grant { guarantee, .. }| Urgency {
                class,
                period_ns: guarantee.period_ns,
                deadline_ns: guarantee.deadline_ns,
            }),
            _permit: permit,
        };
        let best_effort = grant.is_none().then_some(channel.size);
        if let Some(size) = best_effort {
            self.enter_best_effort(area, size)?;
        }
        let leave = |_: &Error| best_effort.iter().for_each(|size| self.admission().leave_best_effort(*size));
        push.start().inspect_err(leave)?;
        Ok(Agent::Orb { control, best_effort })
    }

    /// Bytes a second that a channel may take of the link.
    fn rate(&self, channel: &Channel, grant: Option<&Grant>) -> u64 {
        let link = self.config.admission.link_bits_per_s / 8;
        let others = if self.is_paced { link } else { 0 };
        grant.map_or(others, |grant| pace(channel.wire_bytes(grant.size), &grant.guarantee).min(link))
    }
}

/// Bytes a second of a guaranteed channel: a push leaves within a quarter of its deadline, and
/// within half of its period where that is shorter.
fn pace(bytes: usize, guarantee: &Guarantee) -> u64 {
    let within_ns = (guarantee.deadline_ns / 4).min(guarantee.period_ns / 2).max(1);
    u64::try_from(bytes as u128 * 1_000_000_000 / u128::from(within_ns)).unwrap_or(u64::MAX)
}

pub(super) fn wrong_channel(error: ChannelError) -> Error {
    Error::wrong_size(error.what, error.requested, error.limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_channel_is_paced_no_slower_than_its_writer_writes() {
        for (period, deadline) in [(20, 1000), (1000, 20), (20, 20), (1, 60_000)] {
            let (period_ns, deadline_ns) = (period * MS, deadline * MS);
            let rate = pace(200, &Guarantee { period_ns, deadline_ns, promotion_ns: 0, cost_ns: 0 });
            let takes_ns = 200 * 1_000 * MS / rate;
            assert!(takes_ns <= period_ns / 2 + 1_000 && takes_ns <= deadline_ns / 4 + 1_000, "{takes_ns}");
        }
        assert_eq!(
            pace(usize::MAX, &Guarantee { period_ns: 0, deadline_ns: 0, promotion_ns: 0, cost_ns: 0 }),
            u64::MAX
        );
    }
}

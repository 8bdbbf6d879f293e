//! Areas that several nodes read by multicast: one push agent sends to a group. Each node that asks
//! for the same area and requirements becomes a member.

use super::Channels;
use super::push::{Route, wrong_channel};
use super::table::{Agent, Destination, Group, PushChannel};
use crate::Error;
use crate::agents::GROUP;
use crate::error::CallerError;
use crate::fail_points::{FailPoint, fail_point};
use crate::idl::{CRM_CommRef, Group as Joined, ReaderQoS};
use crate::node::areas::Source;
use crate::node::secret;
use crate::wire::Channel;

impl Channels {
    /// Makes a node a member of the group, which is created if there is none.
    pub fn join_group(
        &self,
        name: &str,
        qos: ReaderQoS,
        node: &str,
        incarnation: u64,
        reader: Option<&CRM_CommRef>,
    ) -> Result<Joined, Error> {
        fail_point(FailPoint::GroupAsked);
        // All channels of an earlier server of that node.
        self.end_if(|channel| channel.to.node == node && channel.incarnation != incarnation);
        let _one_at_a_time = self.group_setup.lock();
        let known = self.lock().group(name, &qos);
        let group = match known {
            Some(group) => group,
            None => self.create_group(name, qos)?,
        };
        let Group { handle, to, channel, .. } = group;
        let from = self.published(self.dispatcher_of(channel.id));
        let reader = reader.map(|reader| self.server(node, reader));
        let mut table = self.lock();
        table.remove_member(handle, node);
        let which = table.insert(PushChannel {
            area: name.into(),
            to: Destination { node: node.into(), port: to.port(), datagrams: true, channel: channel.id },
            reader,
            incarnation,
            grant: None,
            agent: Agent::Member { group: handle },
        });
        fail_point(FailPoint::GroupEntered);
        Ok(Joined {
            which,
            host: from.ip().to_string(),
            port: from.port(),
            group_host: to.ip().to_string(),
            group_port: to.port(),
            channel: channel.id,
            epoch: channel.epoch,
            token: channel.token,
            fragment: channel.fragment as u32,
        })
    }

    /// Admits a group once for all members and starts its agent.
    fn create_group(&self, name: &str, qos: ReaderQoS) -> Result<Group, Error> {
        let Source { segment, promised, what } = self.areas.source(name)?;
        what.check_type(qos.type_hash)?;
        let number = self.lock().number();
        let channel = Channel {
            id: GROUP | (number as u32 & !GROUP),
            epoch: secret() as u32,
            token: secret(),
            size: segment.geometry().size(),
            fragment: self.config.fragment,
            parity: usize::from(qos.parity),
        };
        channel.check().map_err(wrong_channel)?;
        let dispatcher = self.dispatcher_of(channel.id);
        let groups = self.dispatchers[dispatcher].groups().ok_or(CallerError::NoMulticast)?;
        let to = if qos.guaranteed { groups.guaranteed_group(name, channel.id) } else { groups.of(name) };
        let grant = self.admit(name, &channel, &qos, promised, None, dispatcher)?;
        let route = Route { dispatcher, to, second: None };
        let agent = self
            .start_datagrams(&segment, channel, &qos, (route, u64::MAX), grant.as_ref())
            .inspect_err(|_| self.give_back(grant.as_ref()))?;
        let destination = Destination {
            node: format!("group {to}"),
            port: to.port(),
            datagrams: true,
            channel: channel.id,
        };
        let (area, incarnation) = (name.to_owned(), self.link.incarnation());
        let handle = self.enter(PushChannel {
            area: area.clone(),
            to: destination,
            reader: None,
            incarnation,
            grant,
            agent,
        })?;
        let group = Group { area, qos, handle, to, channel };
        self.lock().add_group(group.clone());
        fail_point(FailPoint::GroupMade);
        if grant.is_some() {
            self.refresh_promotions();
        }
        Ok(group)
    }

    /// Pushes to all members.
    pub(super) fn pushes_of_group(&self, group: u64) -> u64 {
        let agent = self.lock().push(group).and_then(PushChannel::push);
        let stats = agent.and_then(|(dispatcher, key)| self.dispatchers[dispatcher].push_stats(key));
        stats.map_or(0, |stats| stats.begun)
    }

    /// A member left. The last one ends the group.
    pub(super) fn leave_group(&self, group: u64) {
        let _one_at_a_time = self.group_setup.lock();
        fail_point(FailPoint::GroupLeft);
        let unused = self.lock().remove_unused_group(group);
        if let Some(channel) = unused {
            self.end(channel);
            fail_point(FailPoint::GroupEnded);
        }
    }
}

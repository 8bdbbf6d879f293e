//! Areas that several nodes read: one push agent sends to a group, and each node that asks for the same has a part in it.

use super::channels::Way;
use super::replicas::no_multicast;
use super::tables::{Agent, Channel as Outgoing, Destination, Group};
use super::{Shared, secret};
use crate::Error;
use crate::agents::GROUP;
use crate::fail_points::{FailPoint, fail_point};
use crate::idl::{CRM_CommRef, Group as Joined, ReaderQoS};
use crate::wire::Channel;
use std::net::SocketAddr;

impl Shared {
    /// Gives a node its part in the group, which is made if there is none.
    pub(super) fn join_group(
        &self,
        name: &str,
        qos: ReaderQoS,
        node: &str,
        incarnation: u64,
        reader: Option<&CRM_CommRef>,
    ) -> Result<Joined, Error> {
        fail_point(FailPoint::GroupAsked);
        // Whatever an earlier server of that node had.
        self.end_channels(|channel| channel.to.node == node && channel.incarnation != incarnation);
        let _one_at_a_time = self.grouping.lock();
        let known = {
            let tables = self.tables.lock();
            let found = tables.groups.iter().find(|group| group.area == name && group.qos == qos);
            found.map(|group| (group.handle, group.to, group.channel))
        };
        let (group, to, channel) = match known {
            Some(known) => known,
            None => self.make_group(name, qos)?,
        };
        let from = self.published(dispatcher_of(&channel, self.dispatchers.len()));
        let mut tables = self.tables.lock();
        // What it had of this group before: the answer may have been lost.
        tables.channels.retain(|_, channel| {
            channel.to.node != node
                || !matches!(channel.agent, Agent::Member { group: other } if other == group)
        });
        let which = tables.handle();
        let member = Outgoing {
            area: name.into(),
            to: Destination { node: node.into(), port: to.port(), datagrams: true, channel: channel.id },
            reader: reader.map(|reader| self.ways(node, reader)),
            incarnation,
            grant: None,
            agent: Agent::Member { group },
        };
        tables.channels.insert(which, member);
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

    /// Admits it, once for all that will join, and starts its agent.
    fn make_group(&self, name: &str, qos: ReaderQoS) -> Result<(u64, SocketAddr, Channel), Error> {
        let (segment, promised) = self.source(name)?;
        let number = self.tables.lock().number();
        let channel = Channel {
            id: GROUP | (number as u32 & !GROUP),
            epoch: secret() as u32,
            token: secret(),
            size: segment.geometry().size(),
            fragment: self.config.fragment,
            parity: usize::from(qos.parity),
        };
        channel.check().map_err(|error| Error::wrong_size(error.what, error.asked, error.limit))?;
        let dispatcher = dispatcher_of(&channel, self.dispatchers.len());
        let groups = self.dispatchers[dispatcher].groups().ok_or_else(no_multicast)?;
        let to = if qos.guaranteed { groups.own_of(name, channel.id) } else { groups.of(name) };
        let grant = self.admit(name, &channel, &qos, promised, true)?;
        let way = Way { dispatcher, to, second: None };
        let agent = self
            .start_datagrams(&segment, channel, &qos, way, grant.as_ref())
            .inspect_err(|_| self.give_back(grant.as_ref()))?;
        let node = format!("group {to}");
        let to_all = Destination { node, port: to.port(), datagrams: true, channel: channel.id };
        let (area, incarnation) = (name.to_owned(), self.incarnation);
        let handle =
            self.enter(Outgoing { area: area.clone(), to: to_all, reader: None, incarnation, grant, agent })?;
        self.tables.lock().groups.push(Group { area, qos, handle, to, channel });
        fail_point(FailPoint::GroupMade);
        if grant.is_some() {
            self.refresh_promotions();
        }
        Ok((handle, to, channel))
    }

    /// Pushes to all of them.
    pub(super) fn begun_of_group(&self, group: u64) -> u64 {
        let agent = match self.tables.lock().channels.get(&group).map(|channel| &channel.agent) {
            Some(Agent::Datagrams { dispatcher, key }) => (*dispatcher, *key),
            _ => return 0,
        };
        self.dispatchers[agent.0].push_stats(agent.1).map_or(0, |stats| stats.begun)
    }

    /// A node left; the last one ends the group.
    pub(super) fn left_group(&self, group: u64) {
        let _one_at_a_time = self.grouping.lock();
        fail_point(FailPoint::GroupLeft);
        let ended = {
            let mut tables = self.tables.lock();
            let is_used = tables
                .channels
                .values()
                .any(|channel| matches!(channel.agent, Agent::Member { group: other } if other == group));
            if is_used {
                return;
            }
            tables.groups.retain(|other| other.handle != group);
            tables.channels.remove(&group)
        };
        if let Some(channel) = ended {
            self.end(channel);
            fail_point(FailPoint::GroupEnded);
        }
    }
}

fn dispatcher_of(channel: &Channel, dispatchers: usize) -> usize {
    (channel.id & !GROUP) as usize % dispatchers
}

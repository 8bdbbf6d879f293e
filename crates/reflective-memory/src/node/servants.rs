//! Lib_Comm and CRM_Comm as CORBA objects.

use super::Node;
use super::orb_path::{Arrival, BeatTimes};
use crate::idl::{
    Area, AreaView, AreasView, CRM_Comm, CRM_CommRef, DataType, DataTypeView, Description, DescriptionView,
    Group, GroupView, HandlesView, Lib_Comm, NodeReportView, OctetsView, OfferView, Placement, PlacementView,
    PlacementsView, ReaderQoS, State, Statistics, Times, UnknownHandle, WriterQoS, crm_comm, lib_comm,
};
use isorb::{Result, Upcall};
use isorb_access::{Permission, Subject, authorize};
use isorb_rt::time::now_ns;
use std::sync::Arc;

/// Both interfaces of a server.
pub(super) struct Servant {
    pub node: Arc<Node>,
}

impl Lib_Comm for Servant {
    fn create_area(
        &self,
        cx: Upcall<'_>,
        session: u64,
        what: AreaView<'_>,
    ) -> Result<(), lib_comm::CreateAreaError> {
        authorize(cx, Permission::Write, Subject::Name(what.name))?;
        Ok(self.node.create_area(session, owned(&what))?)
    }

    fn destroy_area(
        &self,
        cx: Upcall<'_>,
        session: u64,
        name: &str,
    ) -> Result<(), lib_comm::DestroyAreaError> {
        authorize(cx, Permission::Write, Subject::Name(name))?;
        Ok(self.node.destroy_area(session, name)?)
    }

    fn map_writer(
        &self,
        cx: Upcall<'_>,
        session: u64,
        name: &str,
        qos: WriterQoS,
    ) -> Result<u64, lib_comm::MapWriterError> {
        authorize(cx, Permission::Write, Subject::Name(name))?;
        Ok(self.node.map_writer(session, name, qos)?)
    }

    fn attach_reader(
        &self,
        _: Upcall<'_>,
        session: u64,
        name: &str,
        qos: ReaderQoS,
    ) -> Result<u64, lib_comm::AttachReaderError> {
        Ok(self.node.attach_reader(session, name, qos)?)
    }

    fn detach(&self, _: Upcall<'_>, session: u64, ticket: u64) -> Result<(), lib_comm::DetachError> {
        Ok(self.node.detach(session, ticket)?)
    }

    fn set_running(
        &self,
        _: Upcall<'_>,
        session: u64,
        ticket: u64,
        running: bool,
    ) -> Result<(), lib_comm::SetRunningError> {
        Ok(self.node.set_running(session, ticket, running)?)
    }

    fn get_statistics(
        &self,
        _: Upcall<'_>,
        session: u64,
        ticket: u64,
    ) -> Result<Statistics, lib_comm::GetStatisticsError> {
        Ok(self.node.statistics(session, ticket)?)
    }

    fn list_areas<'u>(&'u self, cx: Upcall<'u>) -> Result<AreasView<'u>> {
        let areas =
            cx.keep(self.node.areas.lock().areas().map(|entry| entry.what.clone()).collect::<Vec<Area>>())?;
        let views: Vec<AreaView<'u>> = areas.iter().map(view).collect();
        cx.slice(&views)
    }

    fn find_areas<'u>(
        &'u self,
        cx: Upcall<'u>,
        pattern: &'u str,
        limit: u32,
    ) -> Result<PlacementsView<'u>, lib_comm::FindAreasError> {
        let found = cx.keep(self.node.find_areas(pattern, limit)?)?;
        let place = |place: &'u Placement| PlacementView { what: view(&place.what), node: &place.node };
        Ok(cx.slice(&found.iter().map(place).collect::<Vec<_>>())?)
    }

    fn report<'u>(&'u self, cx: Upcall<'u>, limit: u32) -> Result<NodeReportView<'u>> {
        super::report::view(cx, self.node.report(limit))
    }
}

impl CRM_Comm for Servant {
    fn node<'u>(&'u self, _: Upcall<'u>) -> Result<&'u str> {
        Ok(&self.node.config.name)
    }

    fn describe<'u>(
        &'u self,
        cx: Upcall<'u>,
        name: &'u str,
        channel: u32,
    ) -> Result<DescriptionView<'u>, crm_comm::DescribeError> {
        let description: &'u Description = cx.keep(self.node.describe(name, channel)?)?;
        let Description { what, identity, writer, clock, node, link, host, port, .. } = description;
        let Description { assured, second_host, second_port, .. } = description;
        let (what, identity, writer, clock, link) = (view(what), *identity, *writer, *clock, *link);
        let assured = *assured;
        let (port, second_port) = (*port, *second_port);
        Ok(DescriptionView {
            what,
            identity,
            writer,
            clock,
            node,
            link,
            assured,
            host,
            port,
            second_host,
            second_port,
        })
    }

    fn open_channel(
        &self,
        _: Upcall<'_>,
        name: &str,
        qos: ReaderQoS,
        to: OfferView<'_>,
        reader: Option<&CRM_CommRef>,
    ) -> Result<u64, crm_comm::OpenChannelError> {
        Ok(self.node.channels.open(name, qos, &to, reader)?)
    }

    fn join_group<'u>(
        &'u self,
        cx: Upcall<'u>,
        name: &'u str,
        qos: ReaderQoS,
        node: &'u str,
        incarnation: u64,
        reader: Option<&'u CRM_CommRef>,
    ) -> Result<GroupView<'u>, crm_comm::JoinGroupError> {
        let group: &'u Group =
            cx.keep(self.node.channels.join_group(name, qos, node, incarnation, reader)?)?;
        let Group { which, port, group_port, channel, epoch, token, fragment, .. } = *group;
        let (host, group_host) = (&*group.host, &*group.group_host);
        Ok(GroupView { which, host, port, group_host, group_port, channel, epoch, token, fragment })
    }

    fn close_channel(&self, _: Upcall<'_>, which: u64) -> Result<u64, crm_comm::CloseChannelError> {
        Ok(self.node.channels.close(which)?)
    }

    fn set_running(&self, _: Upcall<'_>, which: u64, running: bool) -> Result<(), crm_comm::SetRunningError> {
        Ok(self.node.channels.set_running(which, running)?)
    }

    fn push(
        &self,
        _: Upcall<'_>,
        channel: u32,
        token: u64,
        number: u64,
        source: u64,
        writer: u64,
        written_ns: u64,
        sent_ns: u64,
        data: OctetsView<'_>,
    ) -> Result<bool> {
        let arrival = Arrival { channel, token, number, source, epoch: writer, written_ns, sent_ns, data };
        Ok(self.node.channels.orb_replicas.push(&arrival, now_ns()))
    }

    fn push_oneway(
        &self,
        _: Upcall<'_>,
        channel: u32,
        token: u64,
        number: u64,
        source: u64,
        writer: u64,
        written_ns: u64,
        sent_ns: u64,
        data: OctetsView<'_>,
    ) -> Result<()> {
        let arrival = Arrival { channel, token, number, source, epoch: writer, written_ns, sent_ns, data };
        self.node.channels.orb_replicas.push(&arrival, now_ns());
        Ok(())
    }

    fn beat(
        &self,
        _: Upcall<'_>,
        channel: u32,
        token: u64,
        now: State,
        times: Times,
    ) -> Result<(u64, u64), crm_comm::BeatError> {
        let Times { sent, answered, answer_arrived } = times;
        let times = BeatTimes { sent_ns: sent, answered_ns: answered, answer_arrived_ns: answer_arrived };
        let arrived = self.node.channels.beat(channel, token, now, times);
        Ok((arrived.ok_or(UnknownHandle { which: channel.into() })?, now_ns()))
    }

    fn ping(&self, _: Upcall<'_>) -> Result<()> {
        Ok(())
    }

    fn unread_channels<'u>(&'u self, cx: Upcall<'u>, which: HandlesView<'u>) -> Result<HandlesView<'u>> {
        cx.slice(&self.node.channels.unread(which))
    }

    fn report<'u>(&'u self, cx: Upcall<'u>, limit: u32) -> Result<NodeReportView<'u>> {
        super::report::view(cx, self.node.report(limit))
    }
}

pub(crate) fn owned(area: &AreaView<'_>) -> Area {
    let DataTypeView { id, hash, little_endian, definition } = area.data;
    let data = DataType { id: id.into(), hash, little_endian, definition: definition.into() };
    Area { name: area.name.into(), size: area.size, histories: area.histories, data }
}

pub(crate) fn view(area: &Area) -> AreaView<'_> {
    let DataType { id, hash, little_endian, definition } = &area.data;
    let data = DataTypeView { id, hash: *hash, little_endian: *little_endian, definition };
    AreaView { name: &area.name, size: area.size, histories: area.histories, data }
}

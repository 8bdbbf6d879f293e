//! The wire form of the messages between members of a federation.

use super::isorb_link::isorb_event as idl;
use crate::event::{Data, Event, Header, Stamp};
use crate::federation::{ControlMessage, ForwardedEvent, Interest, StreamPosition, StreamRequest};
use crate::filter::{Dependency, Filter, encode, parse};
use isorb::{Kind, Result, SystemException};

/// Converts an event to its wire form.
pub(super) fn write_event<'a>(passed: &ForwardedEvent<'a>) -> idl::EventView<'a> {
    let e = &passed.event;
    idl::EventView {
        channel: e.stamp.channel,
        number: e.stamp.sequence,
        sender: passed.sender,
        epoch: passed.epoch,
        previous: passed.previous,
        creation_time: e.header.creation_time,
        type_: e.header.event_type,
        source: e.header.source,
        ttl: e.header.ttl,
        pad1: e.data.pad1,
        payload: e.data.octets,
        any_value: e.data.any,
    }
}

/// Converts an event from its wire form.
pub(super) fn read_event<'a>(e: &idl::EventView<'a>, level: u8) -> ForwardedEvent<'a> {
    let event = Event {
        header: Header { event_type: e.type_, source: e.source, ttl: e.ttl, creation_time: e.creation_time },
        data: Data { pad1: e.pad1, octets: e.payload, any: e.any_value },
        stamp: Stamp { channel: e.channel, sequence: e.number, link: 0 },
        ..Event::default()
    };
    ForwardedEvent { level, sender: e.sender, epoch: e.epoch, previous: e.previous, event }
}

pub(super) fn write_notice(message: &ControlMessage) -> idl::ControlMessage {
    idl::ControlMessage {
        sender: message.sender,
        level: message.level,
        wanted: message.interests.iter().map(write_interest).collect(),
        requested: message.requests.iter().map(write_request).collect(),
        reached: message.positions.iter().map(write_position).collect(),
    }
}

pub(super) fn read_notice(message: &idl::ControlMessageView<'_>) -> Result<ControlMessage> {
    Ok(ControlMessage {
        sender: message.sender,
        level: message.level,
        interests: message.wanted.iter().map(read_interest).collect::<Result<_>>()?,
        requests: message.requested.iter().map(read_request).collect(),
        positions: message.reached.iter().map(read_position).collect(),
    })
}

pub(super) fn write_request(pull: &StreamRequest) -> idl::StreamRequest {
    idl::StreamRequest {
        source: pull.source,
        parent: pull.parent,
        number: pull.number,
        after: pull.after.into_iter().collect(),
        consumers: pull.consumers.clone(),
    }
}

pub(super) fn read_request(pull: &idl::StreamRequestView<'_>) -> StreamRequest {
    StreamRequest {
        source: pull.source,
        parent: pull.parent,
        number: pull.number,
        after: pull.after.first().copied(),
        consumers: pull.consumers.to_vec(),
    }
}

pub(super) fn write_position(head: &StreamPosition) -> idl::StreamPosition {
    let granted = head.granted.iter().map(|&(channel, number)| idl::Grant { channel, number });
    idl::StreamPosition {
        source: head.source,
        epoch: head.epoch,
        position: head.position,
        granted: granted.collect(),
    }
}

pub(super) fn read_position(head: &idl::StreamPositionView<'_>) -> StreamPosition {
    let granted = head.granted.iter().map(|grant| (grant.channel, grant.number));
    StreamPosition {
        source: head.source,
        epoch: head.epoch,
        position: head.position,
        granted: granted.collect(),
    }
}

pub(super) fn read_interest(interest: &idl::InterestView<'_>) -> Result<Interest> {
    let list: Vec<Dependency> = interest
        .filters
        .iter()
        .map(|entry| Dependency {
            header: Header {
                event_type: entry.type_,
                source: entry.source,
                ttl: 0,
                creation_time: entry.time,
            },
            rt_info: 0,
        })
        .collect();
    let registrations =
        parse(&list).map_err(|error| SystemException::from(Kind::BadParam).detail(error.to_string()))?;
    // Each is sent as one disjunction.
    let filters = registrations.into_iter().flat_map(|registration| match registration {
        Filter::Disjunction(filters) => filters,
        filter => vec![filter],
    });
    Ok(Interest {
        origin: interest.origin,
        incarnation: interest.incarnation,
        version: interest.version,
        hops: interest.hops,
        filters: filters.collect(),
    })
}

pub(super) fn write_interest(interest: &Interest) -> idl::Interest {
    let groups: Vec<Filter> =
        interest.filters.chunks(crate::MAX_TERMS).map(|some| Filter::Disjunction(some.to_vec())).collect();
    let entry = |d: Dependency| idl::Entry {
        type_: d.header.event_type,
        source: d.header.source,
        time: d.header.creation_time,
    };
    idl::Interest {
        origin: interest.origin,
        incarnation: interest.incarnation,
        version: interest.version,
        hops: interest.hops,
        filters: encode(&groups, 0).into_iter().map(entry).collect(),
    }
}

//! Links of a federation over the ORB.

use super::isorb_link::isorb_event as idl;
use crate::event::{Data, Event, Header, Stamp};
use crate::federation::{
    Federation, Head, Interest, Link, LinkDown, LinkId, NotForwarded, Notice, Passed, Pull,
};
use crate::filter::{Dependency, Filter, encode, parse};
use idl::{LinkRef, NeighbourRef};
use isorb::poa::PoaPolicies;
use isorb::{Kind, Object, Orb, Poa, Policies, Reference, Result, SyncScope, SystemException, Upcall};
use isorb_rt::sync::PiMutex;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The most links of a channel that others may join.
const MAX_LINKS: usize = 1024;

/// A channel's place in a federation as an object that neighbours join.
pub struct Neighbourhood {
    shared: Arc<Shared>,
    object: Object,
}

struct Shared {
    federation: Federation,
    poa: Poa,
    timeout: Duration,
}

/// A neighbour was not joined.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkError {
    /// The other end is nil, or refused.
    Refused,
    /// The call to it failed.
    System(SystemException),
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkError::Refused => f.write_str("the neighbour gave no link"),
            LinkError::System(exception) => exception.fmt(f),
        }
    }
}

impl std::error::Error for LinkError {}

impl From<SystemException> for LinkError {
    fn from(exception: SystemException) -> Self {
        LinkError::System(exception)
    }
}

impl Neighbourhood {
    /// Makes the federation's member an object of the ORB, under the key `EventFederation` of a `corbaloc` URL. `timeout` is how long
    /// a call to a neighbour may take.
    ///
    /// # Errors
    /// BAD_INV_ORDER when the ORB has one already, and what making a POA ends in.
    pub fn start(orb: &Orb, federation: &Federation, timeout: Duration) -> Result<Neighbourhood> {
        let root = orb.root_poa()?;
        let poa =
            root.create_poa("event-links", Some(&root.manager()), PoaPolicies::new()).map_err(|_| {
                SystemException::from(Kind::BadInvOrder)
                    .detail("the ORB has a member of a federation already")
            })?;
        let shared = Arc::new(Shared { federation: federation.clone(), poa, timeout });
        let neighbour: NeighbourRef = shared.poa.activate(Arc::new(Door(shared.clone())))?;
        let object = neighbour.object().clone();
        orb.register_corbaloc_key("EventFederation", &object);
        Ok(Neighbourhood { shared, object })
    }

    /// The reference that neighbours join by.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Joins a neighbour. The link is there until one of both leaves.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn join(&self, neighbour: &Object) -> Result<LinkId, LinkError> {
        let shared = &self.shared;
        let federation = &shared.federation;
        let end = Arc::new(End { federation: federation.clone(), link: PiMutex::new(None) });
        let own: LinkRef = shared.poa.activate(end.clone()).map_err(SystemException::from)?;
        // This end first: the neighbour tells what it knows while it joins.
        let far = Arc::new(Far { there: OnceLock::new(), _here: shared.here(&own) });
        let link = federation.join(far.clone());
        *end.link.lock() = Some(link);
        let neighbour = NeighbourRef::from_object(timed(neighbour, shared.timeout));
        let refused = match neighbour.join(federation.id(), &own) {
            Ok(Some(reference)) => {
                let _ = far.there.set(LinkRef::from_object(timed(reference.object(), shared.timeout)));
                federation.tell(link);
                return Ok(link);
            }
            Ok(None) => LinkError::Refused,
            Err(exception) => LinkError::System(exception),
        };
        drop(far);
        federation.leave(link);
        Err(refused)
    }
}

impl fmt::Debug for Neighbourhood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Neighbourhood").field("federation", &self.shared.federation).finish()
    }
}

impl Shared {
    fn here(&self, own: &LinkRef) -> Servant {
        Servant { poa: self.poa.clone(), reference: own.clone() }
    }
}

/// This channel's end of a link as an object, as long as there is the link.
struct Servant {
    poa: Poa,
    reference: LinkRef,
}

impl Drop for Servant {
    fn drop(&mut self) {
        if let Ok(id) = self.poa.reference_to_id(self.reference.object()) {
            // Gone already, if the neighbour left.
            let _ = self.poa.deactivate_object(id);
        }
    }
}

fn timed(object: &Object, timeout: Duration) -> Object {
    object.with_policies(Policies {
        sync_scope: Some(SyncScope::WithTransport),
        round_trip_timeout: Some(timeout),
        ..Policies::default()
    })
}

/// Where neighbours join.
struct Door(Arc<Shared>);

impl idl::Neighbour for Door {
    fn join<'u>(
        &'u self,
        cx: Upcall<'u>,
        channel: u64,
        back: Option<&LinkRef>,
    ) -> Result<Option<&'u LinkRef>> {
        let back = back.ok_or(Kind::BadParam)?;
        let shared = &self.0;
        if channel == shared.federation.id() {
            let why = format!("a channel with the number {channel} is here already");
            return Err(SystemException::from(Kind::BadParam).detail(why));
        }
        if shared.federation.links() >= MAX_LINKS {
            let why = format!("{MAX_LINKS} neighbours are joined already");
            return Err(SystemException::from(Kind::ImpLimit).detail(why));
        }
        let end = Arc::new(End { federation: shared.federation.clone(), link: PiMutex::new(None) });
        let own: LinkRef = shared.poa.activate(end.clone())?;
        let there = OnceLock::from(LinkRef::from_object(timed(back.object(), shared.timeout)));
        let far = Far { there, _here: shared.here(&own) };
        *end.link.lock() = Some(shared.federation.join(Arc::new(far)));
        cx.keep(own).map(Some)
    }
}

/// This channel's end of a link.
struct End {
    federation: Federation,
    link: PiMutex<Option<LinkId>>,
}

impl End {
    fn link(&self) -> Option<LinkId> {
        *self.link.lock()
    }
}

impl idl::Link for End {
    fn forward(&self, _: Upcall<'_>, events: &[idl::EventView<'_>]) -> Result<()> {
        if let Some(link) = self.link() {
            for e in events {
                self.federation.received(link, &read_event(e));
            }
        }
        Ok(())
    }

    fn announce(&self, _: Upcall<'_>, told: idl::NoticeView<'_>) -> Result<()> {
        let Some(link) = self.link() else {
            return Err(Kind::Transient.into());
        };
        match self.federation.heard(link, &read_notice(&told)?) {
            true => Ok(()),
            // This end has given the link up.
            false => Err(Kind::ObjectNotExist.into()),
        }
    }

    fn leave(&self, cx: Upcall<'_>) -> Result<()> {
        let link = self.link.lock().take();
        if let Some(link) = link {
            self.federation.leave(link);
        }
        if let Some(poa) = cx.poa() {
            let _ = poa.deactivate_object(cx.object_id());
        }
        Ok(())
    }
}

/// The neighbour's end of a link, once it is known, and with it this one's.
struct Far {
    there: OnceLock<LinkRef>,
    _here: Servant,
}

impl Link for Far {
    fn announce(&self, notice: &Notice) -> Result<(), LinkDown> {
        self.there.get().ok_or(LinkDown)?.announce(&write_notice(notice)).map_err(|_| LinkDown)
    }

    fn forward(&self, event: &Passed<'_>) -> Result<(), NotForwarded> {
        let there = self.there.get().ok_or(NotForwarded::Down)?;
        there.forward(&[write_event(event)][..]).map_err(|exception| match exception.kind {
            // No matter how often it is sent.
            Kind::ImpLimit | Kind::Marshal | Kind::BadParam => NotForwarded::TooLarge,
            _ => NotForwarded::Down,
        })
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        // If it is gone it knows; else its gateway need not send any more.
        if let Some(far) = self.there.get() {
            let _ = far.leave();
        }
    }
}

/// An event as it is on the wire.
pub(super) fn write_event<'a>(passed: &Passed<'a>) -> idl::EventView<'a> {
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

/// The event that came over the wire.
pub(super) fn read_event<'a>(e: &idl::EventView<'a>) -> Passed<'a> {
    let event = Event {
        header: Header { event_type: e.type_, source: e.source, ttl: e.ttl, creation_time: e.creation_time },
        data: Data { pad1: e.pad1, octets: e.payload, any: e.any_value },
        stamp: Stamp { channel: e.channel, sequence: e.number, link: 0 },
    };
    Passed { sender: e.sender, epoch: e.epoch, previous: e.previous, event }
}

pub(super) fn write_notice(notice: &Notice) -> idl::Notice {
    idl::Notice {
        sender: notice.sender,
        wanted: notice.interests.iter().map(write_interest).collect(),
        asked: notice.pulls.iter().map(write_pull).collect(),
        sent: notice.heads.iter().map(write_head).collect(),
    }
}

fn read_notice(notice: &idl::NoticeView<'_>) -> Result<Notice> {
    Ok(Notice {
        sender: notice.sender,
        interests: notice.wanted.iter().map(read_interest).collect::<Result<_>>()?,
        pulls: notice.asked.iter().map(read_pull).collect(),
        heads: notice.sent.iter().map(read_head).collect(),
    })
}

pub(super) fn write_pull(pull: &Pull) -> idl::Pull {
    idl::Pull {
        source: pull.source,
        parent: pull.parent,
        number: pull.number,
        after: pull.after.into_iter().collect(),
        consumers: pull.consumers.clone(),
    }
}

pub(super) fn read_pull(pull: &idl::PullView<'_>) -> Pull {
    Pull {
        source: pull.source,
        parent: pull.parent,
        number: pull.number,
        after: pull.after.first().copied(),
        consumers: pull.consumers.to_vec(),
    }
}

pub(super) fn write_head(head: &Head) -> idl::Head {
    let granted = head.granted.iter().map(|&(channel, number)| idl::Grant { channel, number });
    idl::Head { source: head.source, epoch: head.epoch, position: head.position, granted: granted.collect() }
}

pub(super) fn read_head(head: &idl::HeadView<'_>) -> Head {
    let granted = head.granted.iter().map(|grant| (grant.channel, grant.number));
    Head { source: head.source, epoch: head.epoch, position: head.position, granted: granted.collect() }
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
    // Sent as one disjunction each.
    let filters = registrations.into_iter().flat_map(|registration| match registration {
        Filter::Disjunction(filters) => filters,
        filter => vec![filter],
    });
    Ok(Interest {
        origin: interest.origin,
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
        version: interest.version,
        hops: interest.hops,
        filters: encode(&groups, 0).into_iter().map(entry).collect(),
    }
}

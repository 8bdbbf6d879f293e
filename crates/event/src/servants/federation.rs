//! Links of a federation over the ORB.

use super::codec::{read_event, read_notice, write_event, write_notice};
use super::isorb_link::isorb_event as idl;
use crate::federation::{
    ControlMessage, Federation, ForwardError, ForwardedEvent, LinkDown, LinkId, Transport,
};
use idl::{LaneRef, LinkRef, NeighbourRef};
use isorb::poa::PoaPolicies;
use isorb::rt::policy::{PriorityModel, RtPolicy};
use isorb::rt::{Overrides, ThreadpoolLane, ThreadpoolOptions};
use isorb::{Kind, Object, Orb, Poa, Policies, Reference, Result, SyncScope, SystemException, Upcall};
use isorb_rt::sync::PiMutex;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The most links of a channel.
const MAX_LINKS: usize = 1024;

/// How a member's links are served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkOptions {
    timeout: Duration,
    lanes: bool,
}

impl LinkOptions {
    /// Links with this time-out for calls. Events of all levels arrive over one connection, in the
    /// order of sending.
    pub fn new(timeout: Duration) -> LinkOptions {
        LinkOptions { timeout, lanes: false }
    }

    /// Gives the events of each level an endpoint and a thread of their own, with the priority at
    /// which the level begins (a thread pool with lanes). Control messages always have a connection
    /// of their own.
    #[must_use]
    pub fn lanes(mut self, lanes: bool) -> LinkOptions {
        self.lanes = lanes;
        self
    }
}

/// A federation member as an object that neighbours join.
pub struct FederationServant {
    shared: Arc<Shared>,
    object: Object,
}

struct Shared {
    federation: Federation,
    poa: Poa,
    /// The POA that receives events; it has a lane for each level if the options say so.
    entry: Poa,
    options: LinkOptions,
}

/// Why a neighbour was not joined.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkError {
    /// The neighbour returned a nil reference or another number of levels.
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

impl FederationServant {
    /// Makes the member an object of the ORB, under the key `EventFederation` of a `corbaloc` URL.
    ///
    /// # Errors
    /// BAD_INV_ORDER if the ORB has a member already, and the errors of creating a POA or a thread
    /// pool.
    pub fn start(orb: &Orb, federation: &Federation, options: LinkOptions) -> Result<FederationServant> {
        let root = orb.root_poa()?;
        let make = |name, policies| {
            root.create_poa(name, Some(&root.manager()), policies).map_err(|_| {
                SystemException::from(Kind::BadInvOrder)
                    .detail("the ORB has a member of a federation already")
            })
        };
        let poa = make("event-links", PoaPolicies::new())?;
        let entry = if options.lanes {
            let begins = federation.levels().begins();
            // Events of a lane stay in order only with one thread.
            let lanes: Vec<_> = begins.iter().map(|begin| ThreadpoolLane::new(begin.get(), 1)).collect();
            let pool = orb.rt().create_threadpool_with_lanes(&lanes, &ThreadpoolOptions::default())?;
            let policies = PoaPolicies::new().threadpool(pool);
            make("event-lanes", policies.priority_model(PriorityModel::ServerDeclared, begins[0].get()))?
        } else {
            poa.clone()
        };
        let shared = Arc::new(Shared { federation: federation.clone(), poa, entry, options });
        let neighbour: NeighbourRef = shared.poa.activate(Arc::new(JoinServant(shared.clone())))?;
        let object = neighbour.object().clone();
        orb.register_corbaloc_key("EventFederation", &object);
        Ok(FederationServant { shared, object })
    }

    /// The reference that neighbours join.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Joins a neighbour. The link lasts until one of both leaves.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn join(&self, neighbour: &Object) -> Result<LinkId, LinkError> {
        let shared = &self.shared;
        let federation = &shared.federation;
        let here = shared.here().map_err(LinkError::System)?;
        let (end, link_end) = (here.end.clone(), here.link_end.clone());
        // This end first: the neighbour sends its state while it joins.
        let transport = Arc::new(OrbTransport { there: OnceLock::new(), _here: here });
        let link = federation.join(transport.clone());
        *end.link.lock() = Some(link);
        let neighbour = NeighbourRef::from_object(timed(neighbour, shared.options.timeout));
        let refused = match neighbour.join(federation.id(), &link_end) {
            Ok(there) => match shared.there(there.here.as_ref(), &refs(&there.levels)) {
                Some(there) => {
                    let _ = transport.there.set(there);
                    federation.resend(link);
                    return Ok(link);
                }
                None => LinkError::Refused,
            },
            Err(exception) => LinkError::System(exception),
        };
        drop(transport);
        federation.leave(link);
        Err(refused)
    }
}

impl fmt::Debug for FederationServant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FederationServant").field("federation", &self.shared.federation).finish()
    }
}

impl Shared {
    /// Makes this member's end of a link.
    fn here(&self) -> Result<LocalEnd> {
        let end = Arc::new(LinkServant { federation: self.federation.clone(), link: PiMutex::new(None) });
        let own: LinkRef = self.poa.activate(end.clone())?;
        let mut servants = vec![ActiveServant { poa: self.poa.clone(), object: own.object().clone() }];
        let mut levels = Vec::new();
        for (level, begin) in self.federation.levels().begins().iter().enumerate() {
            let entry = Arc::new(LaneServant { end: end.clone(), level: level as u8 });
            let lane: LaneRef = match self.options.lanes {
                true => {
                    self.entry.activate_with_priority(entry, begin.get()).map_err(SystemException::from)?
                }
                false => self.entry.activate(entry)?,
            };
            servants.push(ActiveServant { poa: self.entry.clone(), object: lane.object().clone() });
            levels.push(Some(lane));
        }
        Ok(LocalEnd { end, link_end: idl::LinkEnd { here: Some(own), levels }, _servants: servants })
    }

    /// The neighbour's end, if it is valid.
    fn there(&self, link: Option<&LinkRef>, lanes: &[Option<&LaneRef>]) -> Option<RemoteEnd> {
        let timed = |object: &Object| timed(object, self.options.timeout);
        let same = lanes.len() == self.federation.levels().begins().len();
        let lane = |lane: &Option<&LaneRef>| lane.map(|lane| LaneRef::from_object(timed(lane.object())));
        let lanes = lanes.iter().map(lane).collect::<Option<Box<[LaneRef]>>>()?;
        // On a shared connection a control message would wait behind an event while its receiver
        // waits for a control message of this member.
        let private = Overrides::new(&[RtPolicy::PrivateConnection]).ok()?;
        let link = timed(link?.object()).with_rt_overrides(&private);
        same.then_some(RemoteEnd { link: LinkRef::from_object(link), lanes })
    }
}

fn refs(lanes: &[Option<LaneRef>]) -> Vec<Option<&LaneRef>> {
    lanes.iter().map(Option::as_ref).collect()
}

/// The objects of this member's end of a link; they are deactivated with it.
struct LocalEnd {
    end: Arc<LinkServant>,
    link_end: idl::LinkEnd,
    _servants: Vec<ActiveServant>,
}

/// The neighbour's end of a link.
struct RemoteEnd {
    link: LinkRef,
    /// By level.
    lanes: Box<[LaneRef]>,
}

/// An object that is deactivated with its link.
struct ActiveServant {
    poa: Poa,
    object: Object,
}

impl Drop for ActiveServant {
    fn drop(&mut self) {
        if let Ok(id) = self.poa.reference_to_id(&self.object) {
            // The object is gone if the neighbour left.
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

/// The servant that neighbours join.
struct JoinServant(Arc<Shared>);

impl idl::Neighbour for JoinServant {
    fn join<'u>(
        &'u self,
        cx: Upcall<'u>,
        channel: u64,
        back: idl::LinkEndView<'u>,
    ) -> Result<idl::LinkEndView<'u>> {
        let shared = &self.0;
        let bad = |why: String| SystemException::from(Kind::BadParam).detail(why);
        if channel == 0 {
            return Err(bad("a channel of a federation has a number of its own, from 1 on".into()));
        }
        if channel == shared.federation.id() {
            return Err(bad(format!("a channel with the number {channel} is here already")));
        }
        let (levels, theirs) = (shared.federation.levels().begins().len(), back.levels.len());
        if levels != theirs {
            return Err(bad(format!(
                "{levels} priority levels here, {theirs} there: configure the same number"
            )));
        }
        let there = shared.there(back.here, back.levels).ok_or(Kind::BadParam)?;
        if shared.federation.links() >= MAX_LINKS {
            let why = format!("{MAX_LINKS} neighbours are joined already");
            return Err(SystemException::from(Kind::ImpLimit).detail(why));
        }
        let here = shared.here()?;
        let (end, link_end) = (here.end.clone(), cx.keep(here.link_end.clone())?);
        let transport = OrbTransport { there: OnceLock::from(there), _here: here };
        *end.link.lock() = Some(shared.federation.join(Arc::new(transport)));
        let levels = cx.slice(&refs(&link_end.levels))?;
        Ok(idl::LinkEndView { here: link_end.here.as_ref(), levels })
    }
}

/// This channel's end of a link.
struct LinkServant {
    federation: Federation,
    link: PiMutex<Option<LinkId>>,
}

impl LinkServant {
    fn link(&self) -> Option<LinkId> {
        *self.link.lock()
    }
}

impl idl::Link for LinkServant {
    fn announce(&self, _: Upcall<'_>, told: idl::ControlMessagesView<'_>) -> Result<()> {
        let Some(link) = self.link() else {
            return Err(Kind::Transient.into());
        };
        let messages = told.iter().map(read_notice).collect::<Result<Vec<ControlMessage>>>()?;
        match messages.iter().all(|message| self.federation.receive_message(link, message)) {
            true => Ok(()),
            // This end has abandoned the link.
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

/// The servant that receives the events of one level.
struct LaneServant {
    end: Arc<LinkServant>,
    level: u8,
}

impl idl::Lane for LaneServant {
    fn forward(&self, _: Upcall<'_>, events: &[idl::EventView<'_>]) -> Result<()> {
        if let Some(link) = self.end.link() {
            for e in events {
                self.end.federation.receive_event(link, &read_event(e, self.level));
            }
        }
        Ok(())
    }
}

/// The transport of a link over GIOP: the neighbour's end, once known, and this member's objects.
struct OrbTransport {
    there: OnceLock<RemoteEnd>,
    _here: LocalEnd,
}

impl Transport for OrbTransport {
    fn announce(&self, messages: &[ControlMessage]) -> Result<(), LinkDown> {
        let messages: Vec<idl::ControlMessage> = messages.iter().map(write_notice).collect();
        self.there.get().ok_or(LinkDown)?.link.announce(&messages).map_err(|_| LinkDown)
    }

    fn forward(&self, event: &ForwardedEvent<'_>) -> Result<(), ForwardError> {
        let lane = self.there.get().and_then(|there| there.lanes.get(event.level as usize));
        let lane = lane.ok_or(ForwardError::Down)?;
        lane.forward(&[write_event(event)][..]).map_err(|exception| match exception.kind {
            // Sending it again would fail again.
            Kind::ImpLimit | Kind::Marshal | Kind::BadParam => ForwardError::TooLarge,
            _ => ForwardError::Down,
        })
    }
}

impl Drop for OrbTransport {
    fn drop(&mut self) {
        // The neighbour's gateway need not send any more. If it is gone, the error does not matter.
        if let Some(there) = self.there.get() {
            let _ = there.link.leave();
        }
    }
}

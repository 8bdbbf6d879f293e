//! Links of a federation over the ORB.

use super::isorb_link::isorb_event as idl;
use super::words::{read_event, read_notice, write_event, write_notice};
use crate::federation::{Federation, Link, LinkDown, LinkId, NotForwarded, Notice, Passed};
use idl::{LaneRef, LinkRef, NeighbourRef};
use isorb::poa::PoaPolicies;
use isorb::rt::policy::{PriorityModel, RtPolicy};
use isorb::rt::{Overrides, ThreadpoolLane, ThreadpoolOptions};
use isorb::{Kind, Object, Orb, Poa, Policies, Reference, Result, SyncScope, SystemException, Upcall};
use isorb_rt::sync::PiMutex;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The most links of a channel that others may join.
const MAX_LINKS: usize = 1024;

/// How a member's links are served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkOptions {
    /// How long a call to a neighbour may take.
    pub timeout: Duration,
    /// Whether what comes at each level of urgency has a thread of its own, with the priority at which the level begins, and with it an
    /// endpoint of its own (a thread pool with lanes). If not, all of it comes over one connection a neighbour, in order of sending. What is
    /// announced has a connection of its own either way.
    pub lanes: bool,
}

/// A channel's place in a federation as an object that neighbours join.
pub struct Neighbourhood {
    shared: Arc<Shared>,
    object: Object,
}

struct Shared {
    federation: Federation,
    poa: Poa,
    /// Where events come in, and whether each level has a lane there.
    entry: Poa,
    options: LinkOptions,
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
    /// a call to a neighbour may take. Events of all levels come in order of sending.
    ///
    /// # Errors
    /// BAD_INV_ORDER when the ORB has one already, and what making a POA ends in.
    pub fn start(orb: &Orb, federation: &Federation, timeout: Duration) -> Result<Neighbourhood> {
        Neighbourhood::with(orb, federation, LinkOptions { timeout, lanes: false })
    }

    /// As [`start`](Self::start), with all that can be said of it.
    ///
    /// # Errors
    /// As [`start`](Self::start), and what making a thread pool ends in.
    pub fn with(orb: &Orb, federation: &Federation, options: LinkOptions) -> Result<Neighbourhood> {
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
            // What one lane has is in order only with one thread.
            let lanes: Vec<_> = begins.iter().map(|begin| ThreadpoolLane::new(begin.get(), 1)).collect();
            let pool = orb.rt().create_threadpool_with_lanes(&lanes, &ThreadpoolOptions::default())?;
            let policies = PoaPolicies::new().threadpool(pool);
            make("event-lanes", policies.priority_model(PriorityModel::ServerDeclared, begins[0].get()))?
        } else {
            poa.clone()
        };
        let shared = Arc::new(Shared { federation: federation.clone(), poa, entry, options });
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
        let here = shared.here().map_err(LinkError::System)?;
        let (end, ending) = (here.end.clone(), here.ending.clone());
        // This end first: the neighbour tells what it knows while it joins.
        let far = Arc::new(Far { there: OnceLock::new(), _here: here });
        let link = federation.join(far.clone());
        *end.link.lock() = Some(link);
        let neighbour = NeighbourRef::from_object(timed(neighbour, shared.options.timeout));
        let refused = match neighbour.join(federation.id(), &ending) {
            Ok(there) => match shared.there(there.here.as_ref(), &refs(&there.levels)) {
                Some(there) => {
                    let _ = far.there.set(there);
                    federation.tell(link);
                    return Ok(link);
                }
                None => LinkError::Refused,
            },
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
    /// Makes this channel's end of a link.
    fn here(&self) -> Result<Here> {
        let end = Arc::new(End { federation: self.federation.clone(), link: PiMutex::new(None) });
        let own: LinkRef = self.poa.activate(end.clone())?;
        let mut servants = vec![Servant { poa: self.poa.clone(), object: own.object().clone() }];
        let mut levels = Vec::new();
        for (level, begin) in self.federation.levels().begins().iter().enumerate() {
            let entry = Arc::new(Entry { end: end.clone(), level: level as u8 });
            let lane: LaneRef = match self.options.lanes {
                true => {
                    self.entry.activate_with_priority(entry, begin.get()).map_err(SystemException::from)?
                }
                false => self.entry.activate(entry)?,
            };
            servants.push(Servant { poa: self.entry.clone(), object: lane.object().clone() });
            levels.push(Some(lane));
        }
        Ok(Here { end, ending: idl::Ending { here: Some(own), levels }, _servants: servants })
    }

    /// The neighbour's end, if it is one.
    fn there(&self, link: Option<&LinkRef>, lanes: &[Option<&LaneRef>]) -> Option<There> {
        let timed = |object: &Object| timed(object, self.options.timeout);
        let same = lanes.len() == self.federation.levels().begins().len();
        let lane = |lane: &Option<&LaneRef>| lane.map(|lane| LaneRef::from_object(timed(lane.object())));
        let lanes = lanes.iter().map(lane).collect::<Option<Box<[LaneRef]>>>()?;
        // What is announced would wait behind an event for which the neighbour has something to announce itself: each for the other.
        let private = Overrides::new(&[RtPolicy::PrivateConnection]).ok()?;
        let link = timed(link?.object()).with_rt_overrides(&private);
        same.then_some(There { link: LinkRef::from_object(link), lanes })
    }
}

fn refs(lanes: &[Option<LaneRef>]) -> Vec<Option<&LaneRef>> {
    lanes.iter().map(Option::as_ref).collect()
}

/// This channel's end of a link as objects, as long as there is the link.
struct Here {
    end: Arc<End>,
    ending: idl::Ending,
    _servants: Vec<Servant>,
}

/// The neighbour's end of a link.
struct There {
    link: LinkRef,
    /// By level.
    lanes: Box<[LaneRef]>,
}

/// An object that goes with its link.
struct Servant {
    poa: Poa,
    object: Object,
}

impl Drop for Servant {
    fn drop(&mut self) {
        if let Ok(id) = self.poa.reference_to_id(&self.object) {
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
        back: idl::EndingView<'u>,
    ) -> Result<idl::EndingView<'u>> {
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
            return Err(bad(format!("{levels} levels of urgency here, {theirs} there: make both the same")));
        }
        let there = shared.there(back.here, back.levels).ok_or(Kind::BadParam)?;
        if shared.federation.links() >= MAX_LINKS {
            let why = format!("{MAX_LINKS} neighbours are joined already");
            return Err(SystemException::from(Kind::ImpLimit).detail(why));
        }
        let here = shared.here()?;
        let (end, ending) = (here.end.clone(), cx.keep(here.ending.clone())?);
        let far = Far { there: OnceLock::from(there), _here: here };
        *end.link.lock() = Some(shared.federation.join(Arc::new(far)));
        let levels = cx.slice(&refs(&ending.levels))?;
        Ok(idl::EndingView { here: ending.here.as_ref(), levels })
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
    fn announce(&self, _: Upcall<'_>, told: idl::NoticesView<'_>) -> Result<()> {
        let Some(link) = self.link() else {
            return Err(Kind::Transient.into());
        };
        let notices = told.iter().map(read_notice).collect::<Result<Vec<Notice>>>()?;
        match notices.iter().all(|notice| self.federation.heard(link, notice)) {
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

/// Where events of one level come in.
struct Entry {
    end: Arc<End>,
    level: u8,
}

impl idl::Lane for Entry {
    fn forward(&self, _: Upcall<'_>, events: &[idl::EventView<'_>]) -> Result<()> {
        if let Some(link) = self.end.link() {
            for e in events {
                self.end.federation.received(link, &read_event(e, self.level));
            }
        }
        Ok(())
    }
}

/// The neighbour's end of a link, once it is known, and with it this one's.
struct Far {
    there: OnceLock<There>,
    _here: Here,
}

impl Link for Far {
    fn announce(&self, notices: &[Notice]) -> Result<(), LinkDown> {
        let notices: Vec<idl::Notice> = notices.iter().map(write_notice).collect();
        self.there.get().ok_or(LinkDown)?.link.announce(&notices).map_err(|_| LinkDown)
    }

    fn forward(&self, event: &Passed<'_>) -> Result<(), NotForwarded> {
        let lane = self.there.get().and_then(|there| there.lanes.get(event.level as usize));
        let lane = lane.ok_or(NotForwarded::Down)?;
        lane.forward(&[write_event(event)][..]).map_err(|exception| match exception.kind {
            // No matter how often it is sent.
            Kind::ImpLimit | Kind::Marshal | Kind::BadParam => NotForwarded::TooLarge,
            _ => NotForwarded::Down,
        })
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        // If it is gone it knows; else its gateway need not send any more.
        if let Some(there) = self.there.get() {
            let _ = there.link.leave();
        }
    }
}

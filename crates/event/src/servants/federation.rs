//! Links of a federation over the ORB.

use super::codec::{read_event, read_notice, write_event, write_notice};
use super::isorb_link::isorb_event as idl;
use crate::federation::{
    ClockReading, ControlMessage, Federation, ForwardError, ForwardedEvent, LevelMarks, LinkDown, LinkId,
    Security, Transport,
};
use idl::{LaneRef, LinkRef, NeighbourRef};
use isorb::poa::PoaPolicies;
use isorb::rt::policy::{PriorityModel, Protocol, RtPolicy, TcpProperties};
use isorb::rt::{Overrides, Priority, ThreadpoolLane, ThreadpoolOptions};
use isorb::{Kind, Object, Orb, Poa, Policies, Reference, Result, SyncScope, SystemException, Upcall};
use isorb_access::{PeerLimit, Share, take_share};
use isorb_rt::sync::PiMutex;
use std::collections::VecDeque;
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
    marked: bool,
    peer_links: usize,
}

impl LinkOptions {
    /// Links with this time-out for calls. Events of all levels arrive over one connection, in the
    /// order of sending.
    pub fn new(timeout: Duration) -> LinkOptions {
        LinkOptions { timeout, lanes: false, marked: false, peer_links: 0 }
    }

    /// Gives the events of each level an endpoint and a thread of their own, with the priority at
    /// which the level begins (a thread pool with lanes). Control messages always have a connection
    /// of their own. Lanes have no TLS: where the ORB listens over TLS only, a start with them is
    /// BAD_PARAM.
    #[must_use]
    pub fn lanes(mut self, lanes: bool) -> LinkOptions {
        self.lanes = lanes;
        self
    }

    /// Lets one client join at most so often; 0 for no limit. A join counts until its link ends.
    #[must_use]
    pub fn peer_links(mut self, most: usize) -> LinkOptions {
        self.peer_links = most;
        self
    }

    /// Marks the packets of events by their level, for the network (DSCP) and for the queue of the
    /// interface ([`LevelMarks`], unless the ORB has a mapping of network priorities). Needs lanes:
    /// levels that share a connection share its marks.
    #[must_use]
    pub fn marked(mut self, marked: bool) -> LinkOptions {
        self.marked = marked;
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
    /// The challenges that wait for a join.
    challenges: PiMutex<VecDeque<[u8; NONCE]>>,
    /// The links of each client that joined.
    peers: PeerLimit,
}

/// Why a neighbour was not joined.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum LinkError {
    /// The neighbour returned a nil reference or another number of levels.
    Refused,
    /// The object is no member of a federation.
    NotAMember(SystemException),
    /// This address is beyond this host, and the member's [`Security`] does not allow that.
    BeyondThisHost(String),
    /// The neighbour has a key, and this member has none.
    KeyThere,
    /// This member has a key, and the neighbour has none or another one.
    NoKeyThere,
    /// The call to it failed.
    System(SystemException),
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkError::Refused => f.write_str("the neighbour gave no valid link"),
            LinkError::NotAMember(exception) => write!(
                f,
                "the object there is no member of a federation ({exception}); give the URL that a channel with \
                 --id prints as FEDERATION"
            ),
            LinkError::BeyondThisHost(host) => write!(
                f,
                "{host} is beyond this host, and the members have no key: give all the same one (--key-file), use \
                 TLS, or --insecure in a network of trusted machines"
            ),
            LinkError::KeyThere => {
                f.write_str("the members there have a key: give this one the same (--key-file)")
            }
            LinkError::NoKeyThere => f.write_str(
                "the neighbour does not have the key of this member: give it the same (--key-file)",
            ),
            LinkError::System(exception) => match &exception.detail {
                Some(why) => f.write_str(why),
                None => exception.fmt(f),
            },
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
    /// BAD_INV_ORDER if the ORB has a member already, BAD_PARAM for marks without lanes, and the
    /// errors of creating a POA or a thread pool.
    pub fn start(orb: &Orb, federation: &Federation, options: LinkOptions) -> Result<FederationServant> {
        if options.marked && !options.lanes {
            return Err(SystemException::from(Kind::BadParam)
                .detail("links are marked by level only if each level has a lane (LinkOptions::lanes)"));
        }
        if options.marked && orb.network_priority_mapping().to_network(Priority::MAX).is_none() {
            orb.set_network_priority_mapping(Arc::new(LevelMarks::new(federation.levels())));
        }
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
            // Events have no bound of their own, so the lanes share the blocks of the ORB.
            let lane = |begin: &Priority| ThreadpoolLane::new(begin.get(), 1).messages(1, 0);
            let lanes: Vec<_> = begins.iter().map(lane).collect();
            let pool = orb.rt().create_threadpool_with_lanes(&lanes, &ThreadpoolOptions::default())?;
            let policies = PoaPolicies::new().threadpool(pool);
            make("event-lanes", policies.priority_model(PriorityModel::ServerDeclared, begins[0].get()))?
        } else {
            poa.clone()
        };
        let shared = Arc::new(Shared {
            federation: federation.clone(),
            poa,
            entry,
            options,
            challenges: PiMutex::default(),
            peers: PeerLimit::new("links", "--max-peer-joins", options.peer_links),
        });
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
    /// [`LinkError`]; its text says what to do.
    pub fn join(&self, neighbour: &Object) -> Result<LinkId, LinkError> {
        let shared = &self.shared;
        let federation = &shared.federation;
        shared.trust(neighbour)?;
        let neighbour = NeighbourRef::from_object(timed(neighbour, shared.options.timeout));
        let challenge = neighbour.challenge().map_err(|exception| match exception.kind {
            Kind::BadOperation | Kind::ObjectNotExist | Kind::InvObjref | Kind::Marshal => {
                LinkError::NotAMember(exception)
            }
            _ => LinkError::System(exception),
        })?;
        let key = match federation.security() {
            Security::Key(key) => Some(key),
            _ if challenge.is_empty() => None,
            _ => return Err(LinkError::KeyThere),
        };
        let mine = key.map(|_| nonce());
        let mine = mine.as_ref().map_or(&[][..], |mine| &mine[..]);
        let mut here = shared.here().map_err(LinkError::System)?;
        if let Some(key) = key {
            here.link_end.shown = key.prove(&proof_text(JOIN, &challenge, mine, federation.id())).to_vec();
        }
        let (end, link_end) = (here.end.clone(), here.link_end.clone());
        // This end first: the neighbour sends its state while it joins.
        let transport =
            Arc::new(OrbTransport { there: OnceLock::new(), _here: here, _share: Share::default() });
        let link = federation.join(transport.clone());
        *end.link.lock() = Some(link);
        let shown = |there: &idl::LinkEnd| {
            let text = proof_text(JOINED, &challenge, mine, there.channel);
            key.is_none_or(|key| key.verifies(&text, &there.shown))
        };
        let refused = match neighbour.join(&challenge[..], mine, &link_end) {
            Ok(there) if !shown(&there) => {
                federation.count_unauthenticated(format_args!("channel {} has another key", there.channel));
                LinkError::NoKeyThere
            }
            Ok(there) => match shared.there(there.here.as_ref(), &refs(&there.levels)) {
                Ok(there) => {
                    let _ = transport.there.set(there);
                    federation.resend(link);
                    return Ok(link);
                }
                Err(error) => error,
            },
            Err(exception) if exception.kind == Kind::NoPermission && key.is_some() => LinkError::NoKeyThere,
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
        let channel = self.federation.id();
        let link_end = idl::LinkEnd { channel, here: Some(own), levels, shown: Vec::new() };
        Ok(LocalEnd { end, link_end, _servants: servants })
    }

    /// The neighbour's end, if it is valid.
    fn there(&self, link: Option<&LinkRef>, lanes: &[Option<&LaneRef>]) -> Result<RemoteEnd, LinkError> {
        let link = link.ok_or(LinkError::Refused)?.object();
        if lanes.len() != self.federation.levels().begins().len() {
            return Err(LinkError::Refused);
        }
        self.trust(link)?;
        let tcp = Protocol::iiop(TcpProperties { network_priority: true, ..TcpProperties::default() });
        let marked = Overrides::new(&[RtPolicy::ClientProtocol(vec![tcp])]).map_err(LinkError::System)?;
        let lane = |lane: &Option<&LaneRef>| {
            let lane = lane.ok_or(LinkError::Refused)?.object();
            self.trust(lane)?;
            let lane = timed(lane, self.options.timeout);
            Ok(LaneRef::from_object(if self.options.marked { lane.with_rt_overrides(&marked) } else { lane }))
        };
        let lanes = lanes.iter().map(lane).collect::<Result<Box<[LaneRef]>, LinkError>>()?;
        // On a shared connection a control message would wait behind an event while its receiver
        // waits for a control message of this member.
        let private = Overrides::new(&[RtPolicy::PrivateConnection]).map_err(LinkError::System)?;
        let address =
            addresses(link).next().map_or_else(String::new, |(host, port)| format!("{host}:{port}"));
        let link = timed(link, self.options.timeout).with_rt_overrides(&private);
        Ok(RemoteEnd { link: LinkRef::from_object(link), lanes, address })
    }

    /// Refuses an address beyond this host, unless the member's security allows it.
    fn trust(&self, object: &Object) -> Result<(), LinkError> {
        match (self.federation.security(), beyond_this_host(object)) {
            (Security::Loopback, Some(host)) => Err(LinkError::BeyondThisHost(host)),
            _ => Ok(()),
        }
    }

    /// Checks the proof of a neighbour that joins, and makes this member's.
    fn check_proof(&self, challenged: &[u8], mine: &[u8], back: &idl::LinkEndView<'_>) -> Result<Vec<u8>> {
        let Security::Key(key) = self.federation.security() else { return Ok(Vec::new()) };
        let mut challenges = self.challenges.lock();
        let at = challenges.iter().position(|challenge| challenge[..] == *challenged);
        let known = at.and_then(|at| challenges.remove(at)).is_some();
        drop(challenges);
        let proves = || key.verifies(&proof_text(JOIN, challenged, mine, back.channel), back.shown);
        if !known || !proves() {
            let channel = back.channel;
            self.federation.count_unauthenticated(format_args!("channel {channel} joins without the key"));
            return Err(SystemException::from(Kind::NoPermission).detail(LinkError::KeyThere.to_string()));
        }
        Ok(key.prove(&proof_text(JOINED, challenged, mine, self.federation.id())).to_vec())
    }
}

/// The octets of a nonce.
const NONCE: usize = 16;
/// The most challenges that wait for a join; the oldest is dropped.
const MAX_CHALLENGES: usize = 64;
/// What a proof is for: a neighbour that joins, and its answer.
const JOIN: &[u8] = b"isorb join";
const JOINED: &[u8] = b"isorb joined";

fn nonce() -> [u8; NONCE] {
    let mut nonce = [0; NONCE];
    nonce[..8].copy_from_slice(&isorb_rt::random_u64().to_be_bytes());
    nonce[8..].copy_from_slice(&isorb_rt::random_u64().to_be_bytes());
    nonce
}

fn proof_text(purpose: &[u8], challenge: &[u8], mine: &[u8], channel: u64) -> Vec<u8> {
    [purpose, challenge, mine, &channel.to_be_bytes()].concat()
}

/// The addresses of a reference at which it is called without TLS.
fn addresses(object: &Object) -> impl Iterator<Item = (String, u16)> {
    let profiles = object.ior().iiop_profiles().flatten();
    profiles.flat_map(|profile| profile.addresses().filter(|(_, port)| *port != 0).collect::<Vec<_>>())
}

/// The first host of a reference that is not this one and is called without TLS; `None` if there is
/// none.
pub fn beyond_this_host(object: &Object) -> Option<String> {
    let is_here = |host: &str| {
        let ip = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
        host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
    };
    addresses(object).map(|(host, _)| host).find(|host| !is_here(host))
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
    /// Of its host.
    address: String,
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
    fn challenge<'u>(&'u self, cx: Upcall<'u>) -> Result<&'u [u8]> {
        let Security::Key(_) = self.0.federation.security() else { return Ok(&[]) };
        let challenge = nonce();
        let mut challenges = self.0.challenges.lock();
        let dropped = if challenges.len() >= MAX_CHALLENGES { challenges.pop_front() } else { None };
        challenges.push_back(challenge);
        drop((challenges, dropped));
        Ok(cx.keep(challenge)?)
    }

    fn join<'u>(
        &'u self,
        cx: Upcall<'u>,
        challenged: &'u [u8],
        mine: &'u [u8],
        back: idl::LinkEndView<'u>,
    ) -> Result<idl::LinkEndView<'u>> {
        let shared = &self.0;
        let refused = |kind: Kind, why: String| {
            isorb_rt::log::warn(
                "isorb::federation",
                format_args!(
                    "channel {}: channel {} was not joined: {why}",
                    shared.federation.id(),
                    back.channel
                ),
            );
            Err(SystemException::from(kind).detail(why))
        };
        let (own, channel) = (shared.federation.id(), back.channel);
        if channel == 0 {
            return refused(Kind::BadParam, "a channel of a federation has a number from 1 on".into());
        }
        if channel == own {
            let why = format!("the channel there has the number {channel}, too: give each its own (--id)");
            return refused(Kind::BadParam, why);
        }
        let shown = shared.check_proof(challenged, mine, &back)?;
        let (levels, theirs) = (shared.federation.levels().begins().len(), back.levels.len());
        if levels != theirs {
            let why = format!(
                "channel {own} has {levels} priority levels, and the other {theirs}: give both the same"
            );
            return refused(Kind::BadParam, why);
        }
        let there = match shared.there(back.here, back.levels) {
            Ok(there) => there,
            Err(error @ LinkError::BeyondThisHost(_)) => {
                return refused(Kind::NoPermission, error.to_string());
            }
            Err(error) => return refused(Kind::BadParam, error.to_string()),
        };
        if shared.federation.links() >= MAX_LINKS {
            return refused(Kind::ImpLimit, format!("channel {own} has {MAX_LINKS} neighbours already"));
        }
        let share = match take_share(cx, &shared.peers) {
            Ok(share) => share,
            Err(exception) => {
                return refused(exception.kind, exception.detail.unwrap_or_default().to_string());
            }
        };
        let here = shared.here()?;
        let (end, link_end) = (here.end.clone(), cx.keep(here.link_end.clone())?);
        let transport = OrbTransport { there: OnceLock::from(there), _here: here, _share: share };
        *end.link.lock() = Some(shared.federation.join(Arc::new(transport)));
        let levels = cx.slice(&refs(&link_end.levels))?;
        let shown = cx.keep(shown)?;
        Ok(idl::LinkEndView { channel: own, here: link_end.here.as_ref(), levels, shown })
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
    fn announce(&self, _: Upcall<'_>, received: idl::ControlMessagesView<'_>) -> Result<()> {
        let Some(link) = self.link() else {
            return Err(Kind::Transient.into());
        };
        let messages = received.iter().map(read_notice).collect::<Result<Vec<ControlMessage>>>()?;
        match messages.iter().all(|message| self.federation.receive_message(link, message)) {
            true => Ok(()),
            // This end has abandoned the link.
            false => Err(Kind::ObjectNotExist.into()),
        }
    }

    fn now(&self, _: Upcall<'_>) -> Result<u64> {
        Ok(isorb_rt::time::now_ns())
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
    /// Of the client that joined.
    _share: Share,
}

impl Transport for OrbTransport {
    fn announce(&self, messages: &[ControlMessage]) -> Result<(), LinkDown> {
        let messages: Vec<idl::ControlMessage> = messages.iter().map(write_notice).collect();
        self.there.get().ok_or(LinkDown)?.link.announce(&messages).map_err(|_| LinkDown)
    }

    fn read_clock(&self) -> Option<ClockReading> {
        let link = &self.there.get()?.link;
        let sent_ns = isorb_rt::time::now_ns();
        // A channel of an earlier version has no such operation.
        let far_ns = link.now().ok()?;
        Some(ClockReading { sent_ns, far_ns, arrived_ns: isorb_rt::time::now_ns() })
    }

    fn is_joined(&self) -> bool {
        self.there.get().is_some()
    }

    fn address(&self) -> String {
        self.there.get().map_or_else(String::new, |there| there.address.clone())
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

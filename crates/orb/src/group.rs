//! References to groups of objects behind a multicast group (CORBA 3.3 part 2, clause 11).
//!
//! A reference to a group comes from a URL, such as
//! `corbaloc:miop:1.0@1.0-domain-1/225.1.1.1:5000`, or from another ORB. Its oneway operations go
//! to all members; others go to the object behind IIOP that the reference names beside the group,
//! or are BAD_OPERATION.

use crate::binding::RtComponents;
use crate::object::{Locality, Target};
use crate::peer::Peer;
use crate::transports::Route;
use crate::{Object, Orb, Result, SystemException};
use isorb_giop::codeset::negotiate;
use isorb_giop::message::RequestHead;
use isorb_giop::miop::{Group, UipmcProfile};
use isorb_giop::profile::TAG_UIPMC;
use isorb_giop::{Completion, Ior, Kind};
use std::net::SocketAddr;
use std::sync::Arc;

/// Where calls to a group go.
pub(crate) struct GroupTarget {
    /// All members.
    pub peer: Arc<Peer>,
    /// The object that answers for them.
    answering: Option<Object>,
}

impl GroupTarget {
    /// The target of calls with a reply.
    ///
    /// # Errors
    /// BAD_OPERATION without an object that replies.
    #[cold]
    pub fn answering(&self) -> Result<Arc<Target>> {
        match &self.answering {
            Some(object) => object.target(),
            None => Err(SystemException::new(Kind::BadOperation, 0, Completion::No).detail(
                "a group answers no requests: call oneway operations, with SYNC_NONE or SYNC_WITH_TRANSPORT, and narrow its reference unchecked; \
                 or name an object behind IIOP in the reference (corbaloc:miop:...;iiop:host:port/key)",
            )),
        }
    }
}

/// Where a group's profile leads to: its multicast address, and which group is meant there.
pub(crate) fn read(ior: &Ior) -> Option<(UipmcProfile, SocketAddr, Group)> {
    let tagged = ior.profiles.iter().find(|profile| profile.tag == TAG_UIPMC)?;
    let profile = UipmcProfile::parse(&tagged.data).ok()?;
    let at = SocketAddr::new(profile.address.parse().ok()?, profile.port);
    let group = profile.group()?;
    (at.ip().is_multicast() && at.port() != 0).then_some((profile, at, group))
}

/// The address of a reference's group, for people.
pub(crate) fn address(ior: &Ior) -> Option<String> {
    read(ior).map(|(_, at, group)| format!("{at}, group {} of {}", group.id, group.domain))
}

/// The target of a reference if its first profile is a group's. `None` for any other reference, and
/// without a transport to groups.
///
/// # Errors
/// INV_OBJREF for a malformed profile, CODESET_INCOMPATIBLE.
pub(crate) fn resolve(orb: &Orb, ior: &Arc<Ior>) -> Result<Option<Target>> {
    let Some(tagged) = ior.profiles.first().filter(|profile| profile.tag == TAG_UIPMC) else {
        return Ok(None);
    };
    if !orb.transports().order().contains(&TAG_UIPMC) {
        return Ok(None);
    }
    let malformed = || {
        SystemException::new(Kind::InvObjref, 0, Completion::No)
            .detail("the reference's profile names no group behind an address of IP multicast")
    };
    let (profile, at, _) = read(ior).ok_or_else(malformed)?;
    let theirs = profile.code_sets();
    let code_sets = theirs.map(|theirs| negotiate(&orb.config().code_sets(), &theirs)).transpose()?;
    let peer = orb.peer(vec![Route { tag: TAG_UIPMC, address: at.to_string() }]);
    let answering = profile.answering().and_then(|iiop| Ior::iiop(&*ior.type_id, &iiop).ok());
    let answering = answering.map(|ior| Object::new(orb, ior));
    let head = RequestHead::by_profile(tagged).ok_or_else(malformed)?;
    let facts = RtComponents::read(TAG_UIPMC, &profile.components)?;
    let locality = Locality::Group(Box::new(GroupTarget { peer, answering }));
    Ok(Some(Target::of_group(locality, ior.clone(), head, code_sets, facts)))
}

//! Groups of objects behind a multicast group (CORBA 3.3 part 2, clause 11): calling all members at once, and being one.
//!
//! A reference to a group comes from a URL, such as `corbaloc:miop:1.0@1.0-domain-1/225.1.1.1:5000`, or from another ORB. Its oneway operations go to all
//! members; others go to the object behind IIOP that the reference names beside the group, or are BAD_OPERATION. Objects become members with
//! [`Poa::associate_reference_with_id`] or [`Poa::create_id_for_reference`].

use crate::object::{Place, Target};
use crate::peer::Peer;
use crate::poa::{GroupError, ObjectId};
use crate::rt::Facts;
use crate::server::{Joined, Membership};
use crate::transports::Route;
use crate::{Object, Orb, Poa, Result, SystemException};
use isorb_giop::codeset::negotiate;
use isorb_giop::message::RequestHead;
use isorb_giop::miop::{Group, UipmcProfile};
use isorb_giop::profile::TAG_UIPMC;
use isorb_giop::{Completion, Ior, Kind};
use isorb_rt::sched::SchedClass;
use isorb_rt::sync::PiMutex;
use isorb_transport::miop::GroupStatistics;
use std::net::SocketAddr;
use std::sync::Arc;

/// Where calls to a group go.
pub(crate) struct GroupPlace {
    /// All members.
    pub peer: Arc<Peer>,
    /// The object that answers for them.
    answering: Option<Object>,
}

impl GroupPlace {
    /// Where a call goes whose caller waits for an answer.
    ///
    /// # Errors
    /// BAD_OPERATION where nobody answers.
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
fn read(ior: &Ior) -> Option<(UipmcProfile, SocketAddr, Group)> {
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

/// What calls to a reference need whose first profile is a group's; `None` for any other, or where no transport goes to groups.
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
    let facts = Facts::read(TAG_UIPMC, &profile.components)?;
    let place = Place::Group(Box::new(GroupPlace { peer, answering }));
    Ok(Some(Target::of_group(place, ior.clone(), head, code_sets, facts)))
}

/// The multicast groups that an ORB has joined.
#[derive(Default)]
pub(crate) struct Groups(PiMutex<Vec<Arc<Joined>>>);

impl Groups {
    fn add(
        &self,
        orb: &Orb,
        at: SocketAddr,
        membership: Membership,
        lanes: Option<SchedClass>,
    ) -> Result<()> {
        let mut all = self.0.lock();
        orb.check_running()?;
        let joined = match all.iter().find(|joined| joined.is_at(at)) {
            Some(joined) => joined.clone(),
            None => {
                let joined = Joined::new(orb, at)?;
                all.push(joined.clone());
                joined
            }
        };
        if let Some(class) = lanes {
            joined.hand_to(class);
        }
        let known = joined.memberships();
        if !known.iter().any(|other| other.is(&membership)) {
            joined.set_memberships(known.iter().cloned().chain([membership]));
        }
        Ok(())
    }

    /// Whether there was such a member.
    fn remove(&self, at: SocketAddr, membership: &Membership) -> bool {
        let mut all = self.0.lock();
        let Some(index) = all.iter().position(|joined| joined.is_at(at)) else { return false };
        let known = all[index].memberships();
        let left = || known.iter().filter(|other| !other.is(membership)).cloned();
        let count = left().count();
        all[index].set_memberships(left());
        if count == 0 {
            all.remove(index).close();
        }
        count < known.len()
    }

    fn keys(&self, at: SocketAddr, group: &Group) -> Vec<Arc<[u8]>> {
        let all = self.0.lock();
        let memberships = all.iter().find(|joined| joined.is_at(at)).map(|joined| joined.memberships());
        let memberships = memberships.iter().flat_map(|all| all.iter());
        memberships.filter(|member| member.is_of(group)).map(|member| member.key.clone()).collect()
    }

    /// Leaves all groups.
    pub fn close(&self) {
        self.0.lock().drain(..).for_each(|joined| joined.close());
    }
}

impl Membership {
    fn is_of(&self, group: &Group) -> bool {
        (self.group.id, &self.group.domain) == (group.id, &group.domain)
    }

    fn is(&self, other: &Membership) -> bool {
        self.key == other.key && self.is_of(&other.group)
    }
}

impl Orb {
    /// What became of packets and messages of groups, here and on the way out.
    pub fn group_statistics(&self) -> GroupStatistics {
        self.transports().groups().counts.now()
    }
}

/// PortableGroup::GOA: a POA whose objects are members of groups.
impl Poa {
    /// Makes an id, and the object with that id a member of a group; activate it with
    /// [`activate_object_with_id`](Poa::activate_object_with_id).
    ///
    /// # Errors
    /// NotAGroupObject; WrongPolicy without SYSTEM_ID; COMM_FAILURE when the multicast group cannot be joined.
    ///
    /// # Real-time
    /// As [`associate_reference_with_id`](Poa::associate_reference_with_id).
    pub fn create_id_for_reference(&self, group: &Object) -> Result<ObjectId, GroupError> {
        read(group.ior()).ok_or(GroupError::NotAGroupObject)?;
        let id = self.new_group_id()?;
        self.associate_reference_with_id(group, &id)?;
        Ok(id)
    }

    /// Makes the object with this id a member of a group. Where its POA has a thread pool, requests to the group run on the lane of their
    /// priority: the calling thread's where the POA's priority model is client-propagated, the object's own where it is server-declared.
    /// Otherwise they run on the thread that hears them, one after the other, for one member after the other.
    ///
    /// # Errors
    /// NotAGroupObject; BAD_PARAM with minor code OMG|14 with SYSTEM_ID, when the POA did not make the id; COMM_FAILURE when the multicast group
    /// cannot be joined.
    ///
    /// # Real-time
    /// For the first member at an address: opens a socket, starts a thread as urgent as the calling one, and allocates what messages are put
    /// together in, about `multicast_message_bytes` times `multicast_messages`. That thread becomes as urgent as the most urgent lane of the
    /// POA's pool.
    pub fn associate_reference_with_id(
        &self,
        group: &Object,
        id: impl AsRef<[u8]>,
    ) -> Result<(), GroupError> {
        let (at, membership) = self.membership(group, id.as_ref())?;
        let orb = self.group_orb()?;
        Ok(orb.joined_groups().add(&orb, at, membership, self.most_urgent_lane())?)
    }

    /// Ends a membership. The last one at an address leaves the multicast group.
    ///
    /// # Errors
    /// NotAGroupObject; NotAMember.
    pub fn disassociate_reference_with_id(
        &self,
        group: &Object,
        id: impl AsRef<[u8]>,
    ) -> Result<(), GroupError> {
        let (at, membership) = self.membership(group, id.as_ref())?;
        let removed = self.group_orb()?.joined_groups().remove(at, &membership);
        if removed { Ok(()) } else { Err(GroupError::NotAMember) }
    }

    /// The ids of this POA's objects that are members of a group.
    ///
    /// # Errors
    /// NotAGroupObject.
    ///
    /// # Real-time
    /// Allocates.
    pub fn reference_to_ids(&self, group: &Object) -> Result<Vec<ObjectId>, GroupError> {
        let (_, at, named) = read(group.ior()).ok_or(GroupError::NotAGroupObject)?;
        let keys = self.group_orb()?.joined_groups().keys(at, &named);
        let prefix = self.group_key(&[]);
        Ok(keys.iter().filter_map(|key| key.strip_prefix(&*prefix)).map(ObjectId::from).collect())
    }

    fn membership(&self, group: &Object, id: &[u8]) -> Result<(SocketAddr, Membership), GroupError> {
        let (_, at, group) = read(group.ior()).ok_or(GroupError::NotAGroupObject)?;
        self.check_group_id(id)?;
        Ok((at, Membership { group, key: self.group_key(id).into() }))
    }
}

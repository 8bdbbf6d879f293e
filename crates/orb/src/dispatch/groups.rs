//! Objects of this ORB as members of groups ([`group`](crate::group)): they become members with
//! [`Poa::associate_reference_with_id`] or [`Poa::create_id_for_reference`].

use super::joined::{Joined, Membership};
use crate::group::read;
use crate::poa::{GroupError, ObjectId};
use crate::{Object, Orb, Poa, Result};
use isorb_giop::miop::Group;
use isorb_rt::sched::SchedClass;
use isorb_rt::sync::PiMutex;
use isorb_transport::miop::GroupStatistics;
use std::net::SocketAddr;
use std::sync::Arc;

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
            joined.raise_reader(class);
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

/// PortableGroup::GOA: a POA with objects that are members of groups.
impl Poa {
    /// Makes an id, and the object with that id a member of a group; activate it with
    /// [`activate_object_with_id`](Poa::activate_object_with_id).
    ///
    /// # Errors
    /// NotAGroupObject; WrongPolicy without SYSTEM_ID; COMM_FAILURE when the multicast group cannot
    /// be joined.
    ///
    /// # Real-time
    /// As [`associate_reference_with_id`](Poa::associate_reference_with_id).
    pub fn create_id_for_reference(&self, group: &Object) -> Result<ObjectId, GroupError> {
        read(group.ior()).ok_or(GroupError::NotAGroupObject)?;
        let id = self.new_group_id()?;
        self.associate_reference_with_id(group, &id)?;
        Ok(id)
    }

    /// Makes the object with this id a member of a group. Where its POA has a thread pool, requests
    /// to the group run on the lane of their priority: the calling thread's where the POA's
    /// priority model is client-propagated, the object's own where it is server-declared. Otherwise
    /// they run on the thread that receives them, one after the other, for one member after the
    /// other.
    ///
    /// # Errors
    /// NotAGroupObject; BAD_PARAM with minor code OMG|14 with SYSTEM_ID, when the POA did not make
    /// the id; COMM_FAILURE when the multicast group cannot be joined.
    ///
    /// # Real-time
    /// For the first member at an address: opens a socket, starts a thread as urgent as the calling
    /// one, and allocates what messages are put together in, about `multicast_message_bytes` times
    /// `multicast_messages`. That thread becomes as urgent as the most urgent lane of the POA's
    /// pool.
    pub fn associate_reference_with_id(
        &self,
        group: &Object,
        id: impl AsRef<[u8]>,
    ) -> Result<(), GroupError> {
        let (at, membership) = self.membership(group, id.as_ref())?;
        let orb = self.group_orb()?;
        Ok(orb.server().groups.add(&orb, at, membership, self.most_urgent_lane())?)
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
        let removed = self.group_orb()?.server().groups.remove(at, &membership);
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
        let keys = self.group_orb()?.server().groups.keys(at, &named);
        let prefix = self.group_key(&[]);
        Ok(keys.iter().filter_map(|key| key.strip_prefix(&*prefix)).map(ObjectId::from).collect())
    }

    fn membership(&self, group: &Object, id: &[u8]) -> Result<(SocketAddr, Membership), GroupError> {
        let (_, at, group) = read(group.ior()).ok_or(GroupError::NotAGroupObject)?;
        self.check_group_id(id)?;
        Ok((at, Membership { group, key: self.group_key(id).into() }))
    }
}

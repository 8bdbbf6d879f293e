//! Requests to groups: the members of this process in one multicast group, and the thread that
//! receives the group's messages.
//!
//! Each request is written once for each member, with the member's object key in place of the
//! group's profile, and then served as any other oneway: by a lane of the member's thread pool, or
//! by this thread.
//!
//! ```text
//!   datagrams ──► reader, at the class of the highest lane ──┬─► a lane of each member's pool, by the request's priority
//!                                                            └─► members without a pool: on the reader, at its own class
//! ```

use super::group_thread::GroupThread;
use super::{ServerCore, request_priority, unanswered};
use crate::buffers::CallBuffers;
use crate::connection::Arrived;
use crate::server::spawn_supervised;
use crate::{Orb, Result, SystemException};
use isorb_cdr::{Text, Version};
use isorb_giop::context::CodeSets;
use isorb_giop::miop::{Group, GroupRequest};
use isorb_giop::{Completion, Kind};
use isorb_rt::sched::SchedClass;
use isorb_rt::sync::PiMutex;
use isorb_transport::miop::{Member, Memory};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// An object of this ORB in a group.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    pub group: Group,
    pub key: Arc<[u8]>,
}

/// A multicast group that this ORB has joined.
pub(crate) struct Joined {
    member: Member,
    memberships: PiMutex<Arc<[Membership]>>,
    reader: GroupThread,
}

impl Joined {
    /// Joins a multicast group and starts the thread that serves its requests.
    ///
    /// # Errors
    /// COMM_FAILURE, NO_RESOURCES.
    pub fn new(orb: &Orb, at: SocketAddr) -> Result<Arc<Joined>> {
        let miop = orb.transports().groups();
        let member = miop.join(at).map_err(|error| {
            SystemException::new(Kind::CommFailure, 0, Completion::No)
                .detail(format!("cannot join the multicast group {at}: {error}"))
        })?;
        let mut memory = Memory::new(miop);
        let memberships = PiMutex::new(Arc::new([]) as Arc<[Membership]>);
        let joined = Arc::new(Joined { member, memberships, reader: GroupThread::default() });
        let (orb, serving) = (orb.clone(), joined.clone());
        spawn_supervised("isorb-group".into(), move || serving.serve(&orb, &mut memory))?;
        Ok(joined)
    }

    pub fn is_at(&self, at: SocketAddr) -> bool {
        self.member.group() == at
    }

    pub fn memberships(&self) -> Arc<[Membership]> {
        self.memberships.lock().clone()
    }

    pub fn set_memberships(&self, memberships: impl Iterator<Item = Membership>) {
        let memberships = memberships.collect();
        *self.memberships.lock() = memberships;
    }

    /// Raises the reader to the class of a lane that it hands requests to.
    pub fn raise_reader(&self, class: SchedClass) {
        self.reader.raise(class);
    }

    /// Leaves the group; a request that is served now is the last one.
    pub fn close(&self) {
        self.member.close();
    }

    fn serve(&self, orb: &Orb, memory: &mut Memory) {
        let mut buffers = CallBuffers::new(orb.pool());
        super::prepare_thread();
        self.reader.register();
        let mut each = |message: &[u8], _| {
            self.request(orb, message, &mut buffers);
            buffers.trim();
        };
        // A failure, such as a lack of kernel memory, may be over in a moment.
        while let Err(error) = self.member.serve(memory, &mut each) {
            crate::log::warn("isorb::dispatch", format_args!("{}: {error}", self.member.group()));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Serves a request to all members of its group.
    ///
    /// # Real-time
    /// Copies the message for each member; allocates nothing in the steady state. Hands it over
    /// under two PI locks and with a system call for each that has a thread pool; runs the others'
    /// upcalls.
    fn request(&self, orb: &Orb, message: &[u8], buffers: &mut CallBuffers) {
        let counts = &orb.transports().groups().counts;
        let Ok(request) = GroupRequest::find(message) else { return counts.refuse() };
        let Some(text) = text(&request) else { return counts.refuse() };
        let memberships = self.memberships();
        let mut has_member = false;
        for Membership { key, .. } in memberships.iter().filter(|member| request.group.is(&member.group)) {
            has_member = true;
            let room = GroupRequest::room(message.len(), key.len());
            if buffers.block.capacity() < room {
                let Some(block) = orb.pool().take(room) else { return counts.refuse() };
                buffers.block = block;
            }
            let Some(length) = request.to_key(key, buffers.block.bytes_mut()) else { continue };
            let Ok(arrived) = Arrived::of_local(&buffers.block.bytes()[..length]) else {
                return counts.refuse();
            };
            match orb.server().registry.pool_of(key) {
                Some(pool) => {
                    let priority = request_priority(orb.server(), orb, arrived, buffers);
                    let lane = pool.lane_for(priority).lane();
                    let Some(server) = lane.server() else { continue };
                    let octets = &buffers.block.bytes()[..length];
                    if !server.queue_group_request(lane, (text, priority), arrived, octets) {
                        counts.overrun();
                    }
                }
                None => self.reader.at_its_own_class(|| run(orb.server(), orb, text, arrived, buffers)),
            }
        }
        if !has_member {
            counts.refuse();
        }
    }
}

/// Runs a request of a group that lies in `buffers.block` and is written to a member's key.
pub(super) fn run(server: &ServerCore, orb: &Orb, text: Text, arrived: Arrived, buffers: &mut CallBuffers) {
    // User code that panics outside of an upcall must not end the thread.
    let served = catch_unwind(AssertUnwindSafe(|| unanswered(server, orb, text, arrived, buffers)));
    if matches!(served, Ok(Err(_))) {
        orb.transports().groups().counts.refuse();
    }
    buffers.trim();
}

/// The encoding of the request's text, from the request itself, since there is no connection with
/// agreed code sets.
fn text(request: &GroupRequest<'_>) -> Option<Text> {
    match request.code_sets {
        Some(data) => CodeSets::read(data).ok()?.text(Version::V1_2).ok(),
        None => Some(Text::fallback(Version::V1_2)),
    }
}

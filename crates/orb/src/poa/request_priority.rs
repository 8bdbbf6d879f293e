//! At which priority a request runs, once its object is known.
//!
//! ```text
//!   model            comes from                                       then
//!   client-propagated  context 10, else the model's server priority   ─► inbound transform ─► thread
//!   server-declared    the object, its reference, else the model      ─►
//!   none               the pool's default priority                    ─►
//! ```
//!
//! A thread of a lane runs at the lane's priority whatever the request's is; the request's is what `RTCORBA::Current` shows and what
//! goes out with nested calls. Any other thread takes the priority for the upcall: one of a pool without lanes, one that came in by
//! another endpoint, the caller of an object of its own process.

use super::rt_adapter::Adapter;
use crate::sched::policy::PriorityModel;
use crate::sched::{Raised, thread};
use crate::{Orb, Result};
use isorb_giop::context::{RT_CORBA_PRIORITY, read_rt_corba_priority};
use isorb_giop::message::ServiceContexts;
use isorb_rt::priority::Priority;

/// The priority of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Urgency {
    /// At which it runs; `None` leaves the thread as it is.
    priority: Option<Priority>,
    /// What the client sent, and hears again with the reply.
    pub echo: Option<i16>,
}

impl Urgency {
    /// At which the request runs, if it has one.
    pub fn priority(&self) -> Option<Priority> {
        self.priority
    }
}

impl Adapter {
    /// The priority of a request for an object.
    ///
    /// # Errors
    /// MARSHAL for a context 10 that cannot be read; DATA_CONVERSION with minor code OMG|2 for one that is no priority, and where the
    /// transform gives none.
    ///
    /// # Real-time
    /// Allocates nothing. A PI lock where references were given priorities of their own.
    #[inline]
    pub fn urgency(
        &self,
        orb: &Orb,
        contexts: &ServiceContexts<'_>,
        own: Option<Priority>,
        object_id: &[u8],
    ) -> Result<Urgency> {
        let mut echo = None;
        let priority = match self.model() {
            None => {
                let default = self.pool().map(|pool| pool.lane_for(None).priority);
                return Ok(Urgency { priority: default, echo });
            }
            Some((PriorityModel::ServerDeclared, server)) => {
                own.or_else(|| self.given(object_id)).unwrap_or(server)
            }
            Some((PriorityModel::ClientPropagated, server)) => match contexts.get(RT_CORBA_PRIORITY) {
                None => server,
                Some(data) => {
                    let sent = read_rt_corba_priority(data)?;
                    echo = Some(sent);
                    // It was read as one that is not negative.
                    Priority::new(sent).unwrap_or(server)
                }
            },
        };
        let priority = orb.sched().priorities.inbound(priority, object_id)?;
        Ok(Urgency { priority: Some(priority), echo })
    }

    /// Gives the calling thread the priority of a request, as long as the result lives.
    ///
    /// # Errors
    /// DATA_CONVERSION with minor code OMG|2 where the mapping has no native priority for it; NO_PERMISSION where the system refuses.
    ///
    /// # Real-time
    /// As [`Raised::to`].
    #[inline]
    pub fn take_on(&self, orb: &Orb, urgency: Urgency) -> Result<Option<Raised>> {
        let Some(priority) = urgency.priority else { return Ok(None) };
        let priorities = &orb.sched().priorities;
        let Some(pool) = self.pool().filter(|pool| pool.has_lanes) else {
            return Raised::to(priorities, priority).map(Some);
        };
        let class = match thread::serves() == pool.id {
            true => None,
            false => Some(pool.lane_for(Some(priority)).class),
        };
        Raised::with_class(priorities, priority, class).map(Some)
    }
}

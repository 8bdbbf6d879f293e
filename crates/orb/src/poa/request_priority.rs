//! The priority of a request, once its object is known.
//!
//! ```text
//!   model            source                                         then
//!   client-propagated  context 10, else the model's priority     ─► inbound transform ─► thread
//!   server-declared    the object, its reference, else the model    ─►
//!   none               the pool's default priority                  ─►
//! ```
//!
//! A thread of a lane runs at the lane's priority. The request's priority is that of
//! `RTCORBA::Current`, and nested calls carry it. Any other thread takes the request's priority for
//! the upcall: a thread of a pool without lanes, a thread of another endpoint, a caller of this
//! process to which the pool leaves its calls.

use super::rt_adapter::Adapter;
use crate::sched::policy::PriorityModel;
use crate::sched::{PriorityGuard, thread};
use crate::{Orb, Result};
use isorb_giop::context::{RT_CORBA_PRIORITY, read_rt_corba_priority};
use isorb_giop::message::ServiceContexts;
use isorb_rt::priority::Priority;

/// The priority of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestPriority {
    /// The priority for the upcall; `None` leaves the thread unchanged.
    priority: Option<Priority>,
    /// The client's priority, which the reply returns.
    pub echo: Option<i16>,
}

impl RequestPriority {
    /// The priority for the upcall, if the request has one.
    pub fn priority(&self) -> Option<Priority> {
        self.priority
    }
}

impl Adapter {
    /// The priority of a request for an object.
    ///
    /// # Errors
    /// MARSHAL for a malformed context 10; DATA_CONVERSION with minor code OMG|2 for an invalid
    /// priority, and if the transform has none.
    ///
    /// # Real-time
    /// Allocates nothing. Takes a PI lock if references have priorities of their own.
    #[inline]
    pub fn request_priority(
        &self,
        orb: &Orb,
        contexts: &ServiceContexts<'_>,
        own: Option<Priority>,
        object_id: &[u8],
    ) -> Result<RequestPriority> {
        let propagates = matches!(self.model(), Some((PriorityModel::ClientPropagated, _)));
        let echo = match contexts.get(RT_CORBA_PRIORITY).filter(|_| propagates) {
            Some(data) => Some(read_rt_corba_priority(data)?),
            None => None,
        };
        // The reader rejects negative priorities.
        let priority = self.priority_of(orb, echo.and_then(Priority::new), own, object_id)?;
        Ok(RequestPriority { priority, echo })
    }

    /// The priority of a request with the priority that its client sent.
    ///
    /// # Errors
    /// DATA_CONVERSION if the transform has no priority.
    #[inline]
    pub fn priority_of(
        &self,
        orb: &Orb,
        sent: Option<Priority>,
        own: Option<Priority>,
        object_id: &[u8],
    ) -> Result<Option<Priority>> {
        let priority = match self.model() {
            None => return Ok(self.pool().map(|pool| pool.lane_for(None).priority)),
            Some((PriorityModel::ServerDeclared, server)) => {
                own.or_else(|| self.assigned(object_id)).unwrap_or(server)
            }
            Some((PriorityModel::ClientPropagated, server)) => sent.unwrap_or(server),
        };
        orb.sched().priorities.inbound(priority, object_id).map(Some)
    }

    /// Gives the calling thread the priority of a request until the result is dropped.
    ///
    /// # Errors
    /// DATA_CONVERSION with minor code OMG|2 if the mapping has no native priority for it;
    /// NO_PERMISSION if the system refuses.
    ///
    /// # Real-time
    /// As [`PriorityGuard::to`].
    #[inline]
    pub fn apply_priority(&self, orb: &Orb, priority: RequestPriority) -> Result<Option<PriorityGuard>> {
        let Some(priority) = priority.priority else { return Ok(None) };
        let priorities = &orb.sched().priorities;
        let Some(pool) = self.pool().filter(|pool| pool.has_lanes) else {
            return PriorityGuard::to(priorities, priority).map(Some);
        };
        let class = match thread::pool_id() == pool.id {
            true => None,
            false => Some(pool.lane_for(Some(priority)).class),
        };
        PriorityGuard::with_class(priorities, priority, class).map(Some)
    }
}

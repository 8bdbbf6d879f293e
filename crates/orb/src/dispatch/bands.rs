//! Serving `_bind_priority_band`: the connection of a band goes to the lane of that band (RT-CORBA
//! 1.2, priority-banded connections).
//!
//! A client that uses the lane's own address is there already. A connection that was accepted
//! elsewhere is moved: the lane watches it from now on, and its former thread releases it after
//! this message.

use crate::connection::Connection;
use crate::poa::UpcallTarget;
use crate::sched::{BIND_PRIORITY_BAND, mark};
use crate::server::Lane;
use crate::{Orb, Result, SystemException};
use isorb_giop::context::{PriorityRange, RT_CORBA_PRIORITY_RANGE};
use isorb_giop::message::Request;
use isorb_giop::{Kind, minor};
use isorb_rt::priority::Priority;
use std::sync::Arc;

/// Moves a connection to the lane of its band, if the request announces one.
///
/// # Errors
/// NO_RESOURCES (OMG|2) where the object's pool has no lane for the band, or its lane takes no more
/// connections; what reading the band gives.
#[cold]
pub(super) fn bind(
    orb: &Orb,
    connection: &Arc<Connection>,
    request: &Request<'_>,
    entered: &UpcallTarget<'_>,
) -> Result<()> {
    if request.operation.as_bytes() != BIND_PRIORITY_BAND.as_bytes() {
        return Ok(());
    }
    // Without a band the operation itself refuses the request.
    let Some(data) = request.contexts.get(RT_CORBA_PRIORITY_RANGE) else { return Ok(()) };
    let band = PriorityRange::read(data)?;
    if let Some(rt) = entered.rt() {
        if let Some(pool) = rt.pool().filter(|pool| pool.has_lanes) {
            let lane = pool.lane_in(band).ok_or_else(|| no_lane(band))?;
            move_to(orb, connection, lane.lane())?;
        }
        if let Some(marks) = rt.marks(orb, Priority::new(band.high).unwrap_or_default()) {
            mark(connection.stream().fd(), marks)?;
        }
    }
    connection.set_band(band);
    Ok(())
}

fn move_to(orb: &Orb, connection: &Arc<Connection>, lane: &Arc<Lane>) -> Result<()> {
    if lane.has(connection) {
        return Ok(());
    }
    let full = || {
        SystemException::from(Kind::NoResources)
            .minor(minor::NO_RESOURCES_PRIORITY)
            .detail("the lane of the band takes no more connections")
    };
    // A connection moves once: the first band counts.
    if connection.lane.get().is_some()
        || !lane.has_room(orb, orb.config().max_connections)
        || connection.lane.set(lane.number()).is_err()
    {
        return Err(full());
    }
    if let Some(server) = lane.server() {
        connection.use_lane(server.blocks());
    }
    lane.add(connection.clone()).map_err(|_| full())
}

#[cold]
fn no_lane(PriorityRange { low, high }: PriorityRange) -> SystemException {
    SystemException::from(Kind::NoResources)
        .minor(minor::NO_RESOURCES_PRIORITY)
        .detail(format!("no lane of the object's thread pool has a priority from {low} to {high}"))
}

//! Requests that run in a lane, under a permit or without, and those that it refuses.

use super::super::buffered::{BufferedRequest, Source};
use super::super::lane::Member;
use super::super::local::{LocalTicket, no_block};
use super::super::reply::reject;
use super::super::{Next, guarded};
use super::LaneServer;
use crate::buffers::CallBuffers;
use crate::connection::Arrived;
use crate::{Orb, SystemException};
use isorb_giop::{Completion, Kind, minor};
use isorb_rt::time::Deadline;
use isorb_scope::BufferPool;
use std::cell::Cell;
use std::sync::Arc;

/// A request's permit. It is released also when the request ends in a panic.
pub(super) struct Permit<'s> {
    server: &'s LaneServer,
    held: Cell<bool>,
}

impl<'s> Permit<'s> {
    pub fn of(server: &'s LaneServer) -> Permit<'s> {
        Permit { server, held: Cell::new(true) }
    }

    /// Releases the permit before the reply is sent, unless a buffered request needs it. The client
    /// may call again before this thread is back, and must not find the lane busy with a request
    /// that was answered.
    pub fn release_before_reply(&self) {
        if self.held.get() && self.server.threads.release_unless_buffered() {
            self.held.set(false);
        }
    }

    /// The next buffered request, under the same permit.
    pub fn next(&self) -> Option<BufferedRequest> {
        if !self.held.get() {
            return None;
        }
        let next = self.server.threads.next();
        self.held.set(next.is_some());
        next
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if self.held.get() {
            self.server.threads.release();
        }
    }
}

/// No message block of the lane takes a request.
pub(super) fn unfit(too_long: bool) -> SystemException {
    match too_long {
        true => SystemException::new(Kind::ImpLimit, minor::IMP_LIMIT_LANE, Completion::No),
        false => no_block(),
    }
}

/// The lane's threads are busy, and no more requests may wait.
pub(super) fn full() -> SystemException {
    SystemException::new(Kind::Transient, minor::TRANSIENT_DISCARDED, Completion::No)
        .detail("the lane's threads are busy and its request buffer is full (request buffering of its pool)")
}

/// Runs a request and sends its reply. A failure ends the connection.
pub(super) fn run(
    pool: &Arc<BufferPool>,
    orb: &Orb,
    source: Source<'_>,
    arrived: Arrived,
    buffers: &mut CallBuffers,
    permit: Option<&Permit<'_>>,
) {
    match source {
        Source::Member(member) => run_of(member, orb, arrived, buffers, permit),
        #[cfg(feature = "miop")]
        Source::Group(text) => orb.handler().handle_group_request(orb, text, arrived, buffers),
        Source::Local(ticket) => run_local(ticket, pool, orb, arrived, buffers, permit),
    }
}

/// Runs a request of this process, unless its caller has gone.
fn run_local(
    ticket: Option<&LocalTicket>,
    pool: &Arc<BufferPool>,
    orb: &Orb,
    arrived: Arrived,
    buffers: &mut CallBuffers,
    permit: Option<&Permit<'_>>,
) {
    let mut send = |message: &isorb_cdr::Message<'_>| {
        if let Some(permit) = permit {
            permit.release_before_reply();
        }
        if let Some(ticket) = ticket {
            ticket.reply(message, pool);
        }
    };
    let mut handle = |deadline| {
        let _ = guarded(|| {
            orb.handler().handle_local(orb, deadline, arrived, buffers, &mut send);
            Next::Continue(())
        });
        buffers.trim();
    };
    match ticket {
        Some(ticket) => ticket.run(handle),
        None => handle(Deadline::NONE),
    }
}

#[inline(always)]
fn run_of(
    member: &Member,
    orb: &Orb,
    arrived: Arrived,
    buffers: &mut CallBuffers,
    permit: Option<&Permit<'_>>,
) {
    let connection = member.connection();
    let mut send = |message: &isorb_cdr::Message<'_>| {
        if let Some(permit) = permit {
            permit.release_before_reply();
        }
        member.about_to_reply();
        member.send(message);
    };
    let next = guarded(|| orb.handler().handle(orb, connection, arrived, buffers, &mut send));
    if next.is_break() {
        connection.break_off();
    }
    buffers.trim();
}

/// Refuses a request for which the lane's buffer has no room.
#[cold]
pub(super) fn refuse(
    pool: &Arc<BufferPool>,
    orb: &Orb,
    source: Source<'_>,
    arrived: Arrived,
    buffers: &mut CallBuffers,
) {
    if let Some(statistics) = orb.statistics() {
        statistics.refuse();
    }
    match source {
        Source::Member(member) => refuse_of(member, orb, arrived, buffers),
        Source::Local(ticket) => {
            let mut send = |message: &isorb_cdr::Message<'_>| {
                if let Some(ticket) = ticket {
                    ticket.reply(message, pool);
                }
            };
            // This process made the request, so it can be read.
            let _ = reject(orb, None, arrived, buffers, &full(), &mut send);
        }
        #[cfg(feature = "miop")]
        Source::Group(_) => orb.transports().groups().counts.overrun(),
    }
}

fn refuse_of(member: &Member, orb: &Orb, arrived: Arrived, buffers: &mut CallBuffers) {
    let connection = member.connection();
    let mut send = |message: &isorb_cdr::Message<'_>| member.send(message);
    if reject(orb, Some(connection), arrived, buffers, &full(), &mut send).is_err() {
        connection.break_off();
    }
}

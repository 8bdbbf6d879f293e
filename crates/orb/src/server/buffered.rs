//! A request on its way from the thread that read it to the thread that runs it.

use super::lane::Member;
use super::local::LocalTicket;
use crate::buffers::LANE_SMALL;
use crate::connection::{Arrived, Claim};
use crate::sched::thread::ThreadPlan;
use isorb_scope::Buffer;
use std::sync::Arc;

/// Where a request came from.
#[derive(Clone, Copy)]
pub(crate) enum Source<'m> {
    Member(&'m Arc<Member>),
    /// A group, with the encoding of the request's text. There is no reply.
    #[cfg(feature = "miop")]
    Group(isorb_cdr::Text),
    /// This process; without a ticket no thread waits for a reply.
    Local(Option<&'m LocalTicket>),
}

/// A [`Source`] that is kept.
pub(crate) enum OwnedSource {
    Member(Arc<Member>),
    #[cfg(feature = "miop")]
    Group(isorb_cdr::Text),
    Local(Option<LocalTicket>),
}

impl Source<'_> {
    pub fn to_owned_source(self) -> OwnedSource {
        match self {
            Source::Member(member) => OwnedSource::Member(member.clone()),
            #[cfg(feature = "miop")]
            Source::Group(text) => OwnedSource::Group(text),
            Source::Local(ticket) => OwnedSource::Local(ticket.cloned()),
        }
    }
}

impl OwnedSource {
    pub fn as_source(&self) -> Source<'_> {
        match self {
            OwnedSource::Member(member) => Source::Member(member),
            #[cfg(feature = "miop")]
            OwnedSource::Group(text) => Source::Group(*text),
            OwnedSource::Local(ticket) => Source::Local(ticket.as_ref()),
        }
    }
}

/// A request that another thread than its reader runs.
pub(crate) struct BufferedRequest {
    pub source: OwnedSource,
    pub arrived: Arrived,
    pub block: Buffer,
    /// Its count for its client, if that has a limit.
    pub claim: Option<Claim>,
    /// The borrowing lane's, for a thread that runs the request for another lane.
    pub plan: Option<ThreadPlan>,
}

impl BufferedRequest {
    /// Takes a request out of a thread's block: a short one by a copy to `spare`, another with the
    /// block, for which the thread gets `spare`.
    pub fn new(
        source: Source<'_>,
        arrived: Arrived,
        block: &mut Buffer,
        mut spare: Buffer,
        claim: Option<Claim>,
        plan: Option<ThreadPlan>,
    ) -> BufferedRequest {
        if arrived.len <= LANE_SMALL.min(spare.capacity()) {
            spare.bytes_mut()[..arrived.len].copy_from_slice(&block.bytes()[..arrived.len]);
        } else {
            std::mem::swap(block, &mut spare);
        }
        BufferedRequest { source: source.to_owned_source(), arrived, block: spare, claim, plan }
    }
}

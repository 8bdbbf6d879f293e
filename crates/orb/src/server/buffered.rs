//! A request on its way from the thread that read it to the thread that runs it.

use super::lane::Member;
use crate::connection::Arrived;
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
}

/// A [`Source`] that is kept.
pub(crate) enum OwnedSource {
    Member(Arc<Member>),
    #[cfg(feature = "miop")]
    Group(isorb_cdr::Text),
}

impl Source<'_> {
    pub fn to_owned_source(self) -> OwnedSource {
        match self {
            Source::Member(member) => OwnedSource::Member(member.clone()),
            #[cfg(feature = "miop")]
            Source::Group(text) => OwnedSource::Group(text),
        }
    }
}

impl OwnedSource {
    pub fn as_source(&self) -> Source<'_> {
        match self {
            OwnedSource::Member(member) => Source::Member(member),
            #[cfg(feature = "miop")]
            OwnedSource::Group(text) => Source::Group(*text),
        }
    }
}

/// A request that another thread than its reader runs.
pub(crate) struct BufferedRequest {
    pub source: OwnedSource,
    pub arrived: Arrived,
    pub block: Buffer,
    /// The borrowing lane's, for a thread that runs the request for another lane.
    pub plan: Option<ThreadPlan>,
}

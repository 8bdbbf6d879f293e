//! A request on its way from the thread that read it to the thread that runs it.

use super::lane::Member;
use crate::connection::Arrived;
use crate::rt::ThreadPlan;
use isorb_scope::Buffer;
use std::sync::Arc;

/// Where a request came from.
#[derive(Clone, Copy)]
pub(crate) enum Caller<'m> {
    Member(&'m Arc<Member>),
    /// A group, and how its text is to be read. Nobody hears an answer.
    #[cfg(feature = "miop")]
    Group(isorb_cdr::Text),
}

/// [`Caller`], kept.
pub(crate) enum Sender {
    Member(Arc<Member>),
    #[cfg(feature = "miop")]
    Group(isorb_cdr::Text),
}

impl Caller<'_> {
    pub fn keep(self) -> Sender {
        match self {
            Caller::Member(member) => Sender::Member(member.clone()),
            #[cfg(feature = "miop")]
            Caller::Group(text) => Sender::Group(text),
        }
    }
}

impl Sender {
    pub fn as_caller(&self) -> Caller<'_> {
        match self {
            Sender::Member(member) => Caller::Member(member),
            #[cfg(feature = "miop")]
            Sender::Group(text) => Caller::Group(*text),
        }
    }
}

/// A request that was read, on its way to another thread than its reader.
pub(crate) struct Parcel {
    pub sender: Sender,
    pub arrived: Arrived,
    pub block: Buffer,
    /// Of the lane that borrows.
    pub plan: Option<ThreadPlan>,
}

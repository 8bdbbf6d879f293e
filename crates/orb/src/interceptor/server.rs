//! What interceptors of a server are and see (clauses 16.3.8, 16.3.14).

use super::contexts::Contexts;
use super::slots::{PiCurrent, SlotId, Table, give_back};
use super::{InvalidSlot, Raised, ReplyStatus, no_context, not_here, unknown_user_exception};
use crate::poa::Poa;
use crate::{Any, Interface, Object, Orb, Result, SyncScope, SystemException};
use isorb_giop::message::{Request, Response};
use isorb_giop::{Kind, minor};
use std::fmt;

/// Sees the requests that this ORB serves. All points of a request run in the thread that runs the servant.
///
/// A panic is UNKNOWN to the client and nothing to others.
pub trait ServerRequestInterceptor: Send + Sync {
    /// As [`ClientRequestInterceptor::name`](super::ClientRequestInterceptor::name).
    fn name(&self) -> &str {
        ""
    }

    /// Starting point: a request came; who serves it is not known yet. The place to move service contexts into slots.
    ///
    /// # Errors
    /// A system exception, which becomes COMPLETED_NO, or [`Raised::Forward`], is the answer: further interceptors are not
    /// asked, those before get `send_exception` or `send_other`.
    fn receive_request_service_contexts(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        let _ = info;
        Ok(())
    }

    /// Between: the servant is found and about to be called.
    ///
    /// # Errors
    /// A system exception, which becomes COMPLETED_NO, or [`Raised::Forward`], is the answer: the servant is not called,
    /// further interceptors are not asked at this point; all get `send_exception` or `send_other`.
    fn receive_request(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        let _ = info;
        Ok(())
    }

    /// Ending point: the servant gave results.
    ///
    /// # Errors
    /// A system exception, which becomes COMPLETED_YES, goes to the client instead.
    fn send_reply(&self, info: &mut ServerRequestInfo<'_>) -> Result<()> {
        let _ = info;
        Ok(())
    }

    /// Ending point: the client gets an exception.
    ///
    /// # Errors
    /// A system exception goes to the client instead, with the completion status of the one that it replaces (COMPLETED_YES
    /// for a user exception). [`Raised::Forward`] sends the client elsewhere; not to be raised unless the exception is
    /// COMPLETED_NO, since the operation would run twice.
    fn send_exception(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        let _ = info;
        Ok(())
    }

    /// Ending point: the client is sent elsewhere.
    ///
    /// # Errors
    /// A system exception, which becomes COMPLETED_NO, or another [`Raised::Forward`], is the answer instead.
    fn send_other(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        let _ = info;
        Ok(())
    }

    /// The ORB has ended.
    fn destroy(&self) {}
}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Point {
    ReceiveRequestServiceContexts,
    ReceiveRequest,
    SendReply,
    SendException,
    SendOther,
}

impl Point {
    fn is_end(self) -> bool {
        matches!(self, Point::SendReply | Point::SendException | Point::SendOther)
    }
}

/// Who serves the request.
pub(super) struct Place<'r> {
    pub poa: Poa,
    pub object_id: &'r [u8],
    pub interface: &'static Interface,
}

/// What the client gets that is no result.
pub(super) enum Sending {
    Nothing,
    System(SystemException),
    User(Box<str>),
}

/// A request, as interceptors see it. What is not there at a point raises BAD_INV_ORDER with minor code OMG|14.
pub struct ServerRequestInfo<'r> {
    pub(super) orb: &'r Orb,
    pub(super) current: PiCurrent,
    pub(super) request: Request<'r>,
    pub(super) operation: &'r str,
    pub(super) point: Point,
    pub(super) status: ReplyStatus,
    /// The request's slots, until they are the thread's.
    pub(super) slots: Option<Table>,
    pub(super) reply: Contexts,
    pub(super) place: Option<Place<'r>>,
    pub(super) sending: Sending,
    pub(super) forward: Option<Object>,
}

impl ServerRequestInfo<'_> {
    /// The ORB.
    pub fn orb(&self) -> &Orb {
        self.orb
    }

    /// The number of the request in the message; clients number theirs independently of each other.
    pub fn request_id(&self) -> u32 {
        self.request.id
    }

    /// The operation's name on the wire.
    pub fn operation(&self) -> &str {
        self.operation
    }

    /// Whether the client waits for a reply.
    pub fn response_expected(&self) -> bool {
        self.request.response.expected()
    }

    /// What the client waits for. Whether it waits for its transport cannot be known here.
    pub fn sync_scope(&self) -> SyncScope {
        match self.request.response {
            Response::None => SyncScope::None,
            Response::Server => SyncScope::WithServer,
            Response::Target => SyncScope::WithTarget,
        }
    }

    /// How the request ended.
    ///
    /// # Errors
    /// BAD_INV_ORDER (OMG|14) before it did.
    pub fn reply_status(&self) -> Result<ReplyStatus> {
        if self.point.is_end() { Ok(self.status) } else { Err(not_here("reply_status")) }
    }

    /// Where the client is sent.
    ///
    /// # Errors
    /// BAD_INV_ORDER (OMG|14) unless the status is [`ReplyStatus::LocationForward`].
    pub fn forward_reference(&self) -> Result<&Object> {
        self.forward.as_ref().filter(|_| self.point.is_end()).ok_or_else(|| not_here("forward_reference"))
    }

    /// The value of a slot in the scope of the request; null where none was set.
    ///
    /// # Errors
    /// [`InvalidSlot`].
    ///
    /// # Real-time
    /// Counts a reference.
    pub fn slot(&self, id: SlotId) -> Result<Any, InvalidSlot> {
        match &self.slots {
            Some(slots) => Ok(slots.get(id.0 as usize).ok_or(InvalidSlot)?.clone().unwrap_or_default()),
            None => self.current.slot(id),
        }
    }

    /// Sets a slot in the scope of the request. From `receive_request` on that is also the scope of the servant's thread.
    ///
    /// # Errors
    /// [`InvalidSlot`].
    ///
    /// # Real-time
    /// Neither allocates nor blocks.
    pub fn set_slot(&mut self, id: SlotId, value: Any) -> Result<(), InvalidSlot> {
        match &mut self.slots {
            Some(slots) => {
                *slots.get_mut(id.0 as usize).ok_or(InvalidSlot)? = Some(value);
                Ok(())
            }
            None => self.current.set_slot(id, value),
        }
    }

    /// A service context of the request.
    ///
    /// # Errors
    /// BAD_PARAM (OMG|26) when there is none with this id.
    ///
    /// # Real-time
    /// Linear in the number of contexts; allocates nothing.
    pub fn request_service_context(&self, id: u32) -> Result<&[u8]> {
        self.request.contexts.get(id).ok_or_else(|| no_context(id))
    }

    /// A service context that an interceptor added to the reply.
    ///
    /// # Errors
    /// BAD_INV_ORDER (OMG|14) before the request ended, BAD_PARAM (OMG|26) when there is none with this id.
    pub fn reply_service_context(&self, id: u32) -> Result<&[u8]> {
        if !self.point.is_end() {
            return Err(not_here("reply_service_context"));
        }
        self.reply.get(id).ok_or_else(|| no_context(id))
    }

    /// Adds a service context to the reply; `data` is an encapsulation by rule. `replace`: in the place of one with this id, if
    /// there is one. A oneway with SYNC_WITH_SERVER is answered before the servant is called: what is added after the starting
    /// point goes nowhere.
    ///
    /// # Errors
    /// BAD_INV_ORDER with minor code OMG|15 when there is one and `replace` is false; IMP_LIMIT for too many.
    ///
    /// # Real-time
    /// Has the reply be written a second time, with an allocation.
    pub fn add_reply_service_context(&mut self, id: u32, data: &[u8], replace: bool) -> Result<()> {
        self.reply.add(id, data, replace)
    }

    /// The id of the object in its POA.
    ///
    /// # Errors
    /// BAD_INV_ORDER (OMG|14) at the starting point; NO_RESOURCES (OMG|1) when the request ended before the object was found.
    pub fn object_id(&self) -> Result<&[u8]> {
        Ok(self.place("object_id")?.object_id)
    }

    /// The POA, whose id is the standard's `adapter_id` and whose path of names is its `adapter_name`.
    ///
    /// # Errors
    /// As [`object_id`](Self::object_id).
    pub fn poa(&self) -> Result<&Poa> {
        Ok(&self.place("poa")?.poa)
    }

    /// Octets that no other POA of this process has.
    ///
    /// # Errors
    /// As [`object_id`](Self::object_id).
    pub fn adapter_id(&self) -> Result<[u8; 8]> {
        Ok(self.place("adapter_id")?.poa.id())
    }

    /// The names of the POAs from the root down.
    ///
    /// # Errors
    /// As [`object_id`](Self::object_id).
    ///
    /// # Real-time
    /// Allocates.
    pub fn adapter_name(&self) -> Result<Vec<String>> {
        let mut poa = Some(self.place("adapter_name")?.poa.clone());
        let mut names = Vec::new();
        while let Some(this) = poa {
            names.push(this.name().to_owned());
            poa = this.parent();
        }
        names.reverse();
        Ok(names)
    }

    /// The repository id of the servant's interface.
    ///
    /// # Errors
    /// As [`object_id`](Self::object_id).
    pub fn target_most_derived_interface(&self) -> Result<&'static str> {
        Ok(self.place("target_most_derived_interface")?.interface.id)
    }

    /// Whether the servant is of the interface with this repository id.
    ///
    /// # Errors
    /// As [`object_id`](Self::object_id).
    pub fn target_is_a(&self, id: &str) -> Result<bool> {
        Ok(self.place("target_is_a")?.interface.is_a(id))
    }

    /// The exception that the client gets; for a user exception, whose type is not known here, UNKNOWN with minor code OMG|1.
    ///
    /// # Errors
    /// BAD_INV_ORDER (OMG|14) at points other than `send_exception`.
    pub fn sending_exception(&self) -> Result<SystemException> {
        match &self.sending {
            Sending::System(exception) => Ok(exception.clone()),
            Sending::User(_) => Ok(unknown_user_exception()),
            Sending::Nothing => Err(not_here("sending_exception")),
        }
    }

    /// The repository id of the exception that the client gets. Not in the standard, which has it inside of the exception.
    ///
    /// # Errors
    /// As [`sending_exception`](Self::sending_exception).
    pub fn sending_exception_id(&self) -> Result<&str> {
        match &self.sending {
            Sending::System(exception) => Ok(exception.repository_id()),
            Sending::User(id) => Ok(id),
            Sending::Nothing => Err(not_here("sending_exception_id")),
        }
    }

    fn place(&self, what: &'static str) -> Result<&Place<'_>> {
        match (&self.place, self.point) {
            (Some(place), _) => Ok(place),
            (None, Point::ReceiveRequestServiceContexts) => Err(not_here(what)),
            (None, _) => Err(SystemException::from(Kind::NoResources)
                .minor(minor::NO_RESOURCES_INTERCEPTOR)
                .detail(format!("{what} is not known: the request ended before its object was found"))),
        }
    }
}

impl Drop for ServerRequestInfo<'_> {
    fn drop(&mut self) {
        if let Some(slots) = self.slots.take() {
            give_back(slots);
        }
    }
}

impl fmt::Debug for ServerRequestInfo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerRequestInfo")
            .field("id", &self.request.id)
            .field("operation", &self.operation)
            .field("point", &self.point)
            .finish_non_exhaustive()
    }
}

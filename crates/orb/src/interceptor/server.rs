//! Server request interceptors (clauses 16.3.8, 16.3.14).

use super::contexts::Contexts;
use super::slots::{PiCurrent, SlotId, Table, give_back};
use super::{InvalidSlot, Raised, ReplyStatus, no_context, not_here, unknown_user_exception};
use crate::poa::Poa;
use crate::{Any, Caller, Interface, Object, Orb, Principal, Result, SyncScope, SystemException};
use isorb_giop::message::{Request, Response};
use isorb_giop::{Kind, minor};
use std::fmt;
use std::sync::Arc;

/// Intercepts the requests that this ORB serves. All points of a request run on the thread of the
/// servant.
///
/// A panic is UNKNOWN for the client and does not affect other requests.
pub trait ServerRequestInterceptor: Send + Sync {
    /// As [`ClientRequestInterceptor::name`](super::ClientRequestInterceptor::name).
    fn name(&self) -> &str {
        ""
    }

    /// Starting point: a request arrived, its servant is not known yet. Service contexts can be
    /// copied into slots here.
    ///
    /// # Errors
    /// A system exception, which becomes COMPLETED_NO, or [`Raised::Forward`], is the reply: later
    /// interceptors are not called, earlier ones get `send_exception` or `send_other`.
    fn receive_request_service_contexts(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        let _ = info;
        Ok(())
    }

    /// Intermediate point: the servant is known and about to be called.
    ///
    /// # Errors
    /// A system exception, which becomes COMPLETED_NO, or [`Raised::Forward`], is the reply:
    /// neither the servant nor later interceptors are called at this point; all get
    /// `send_exception` or `send_other`.
    fn receive_request(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        let _ = info;
        Ok(())
    }

    /// Ending point: the servant returned results.
    ///
    /// # Errors
    /// A system exception, which becomes COMPLETED_YES, replaces the results.
    fn send_reply(&self, info: &mut ServerRequestInfo<'_>) -> Result<()> {
        let _ = info;
        Ok(())
    }

    /// Ending point: the client gets an exception.
    ///
    /// # Errors
    /// A system exception replaces the other one and keeps its completion status (COMPLETED_YES for
    /// a user exception). [`Raised::Forward`] forwards the client; raise it only if the exception
    /// is COMPLETED_NO, because the operation would run twice.
    fn send_exception(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        let _ = info;
        Ok(())
    }

    /// Ending point: the client is forwarded, or the servant replies after the upcall
    /// ([`ReplyStatus::Unknown`]): then this is the last point of the request, and what it raises
    /// is logged.
    ///
    /// # Errors
    /// A system exception, which becomes COMPLETED_NO, or another [`Raised::Forward`], is the reply
    /// instead.
    fn send_other(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        let _ = info;
        Ok(())
    }

    /// The ORB has ended.
    fn destroy(&self) {}
}

/// The point that a request has reached.
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

/// The POA and object of the request.
pub(super) struct RequestTarget<'r> {
    pub poa: Poa,
    pub object_id: &'r [u8],
    pub interface: &'static Interface,
}

/// A reply without results.
pub(super) enum Sending {
    Nothing,
    System(SystemException),
    User(Box<str>),
}

/// A request. An attribute that does not exist at a point raises BAD_INV_ORDER with minor code
/// OMG|14.
pub struct ServerRequestInfo<'r> {
    pub(super) orb: &'r Orb,
    pub(super) caller: Caller<'r>,
    pub(super) current: PiCurrent,
    pub(super) request: Request<'r>,
    pub(super) operation: &'r str,
    pub(super) point: Point,
    pub(super) status: ReplyStatus,
    /// The request's slots, until they move to the thread.
    pub(super) slots: Option<Table>,
    pub(super) reply: Contexts,
    /// The authenticated client.
    pub(super) principal: Option<Arc<Principal>>,
    pub(super) target: Option<RequestTarget<'r>>,
    pub(super) sending: Sending,
    pub(super) forward: Option<Object>,
}

impl ServerRequestInfo<'_> {
    /// The ORB.
    pub fn orb(&self) -> &Orb {
        self.orb
    }

    /// The caller of the request, as far as the transport knows it.
    pub fn caller(&self) -> Caller<'_> {
        self.caller
    }

    /// The client that an interceptor authenticated.
    pub fn principal(&self) -> Option<&Principal> {
        self.principal.as_deref()
    }

    /// Names the client. The servant, later interceptors and the [`Guard`](crate::Guard) see
    /// it ([`Caller::principal`]). A request from this process has none.
    ///
    /// # Errors
    /// BAD_INV_ORDER (OMG|14) after the starting point.
    ///
    /// # Real-time
    /// Allocates nothing.
    pub fn set_principal(&mut self, principal: Arc<Principal>) -> Result<()> {
        if self.point != Point::ReceiveRequestServiceContexts {
            return Err(not_here("set_principal"));
        }
        self.principal = Some(principal);
        Ok(())
    }

    /// The number of the request in the message; each client counts by itself.
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

    /// The client's sync scope. Whether it waits for its transport is unknown here.
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
    /// BAD_INV_ORDER (OMG|14) before the end.
    pub fn reply_status(&self) -> Result<ReplyStatus> {
        if self.point.is_end() { Ok(self.status) } else { Err(not_here("reply_status")) }
    }

    /// The target of the forward.
    ///
    /// # Errors
    /// BAD_INV_ORDER (OMG|14) unless the status is [`ReplyStatus::LocationForward`].
    pub fn forward_reference(&self) -> Result<&Object> {
        self.forward.as_ref().filter(|_| self.point.is_end()).ok_or_else(|| not_here("forward_reference"))
    }

    /// The value of a slot in the scope of the request; null if none was set.
    ///
    /// # Errors
    /// [`InvalidSlot`].
    ///
    /// # Real-time
    /// Clones a reference.
    pub fn slot(&self, id: SlotId) -> Result<Any, InvalidSlot> {
        match &self.slots {
            Some(slots) => Ok(slots.get(id.0 as usize).ok_or(InvalidSlot)?.clone().unwrap_or_default()),
            None => self.current.slot(id),
        }
    }

    /// Sets a slot in the scope of the request. From `receive_request` on, that is also the scope
    /// of the servant's thread.
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
    /// BAD_INV_ORDER (OMG|14) before the request ended, BAD_PARAM (OMG|26) when there is none with
    /// this id.
    pub fn reply_service_context(&self, id: u32) -> Result<&[u8]> {
        if !self.point.is_end() {
            return Err(not_here("reply_service_context"));
        }
        self.reply.get(id).ok_or_else(|| no_context(id))
    }

    /// Adds a service context to the reply; `data` is an encapsulation by rule. `replace`: replaces
    /// one with this id. A oneway with SYNC_WITH_SERVER gets its reply before the servant is
    /// called; contexts added after the starting point are then lost.
    ///
    /// # Errors
    /// BAD_INV_ORDER with minor code OMG|15 for an existing one without `replace`; IMP_LIMIT for
    /// too many.
    ///
    /// # Real-time
    /// Makes the ORB write the reply a second time, with an allocation.
    pub fn add_reply_service_context(&mut self, id: u32, data: &[u8], replace: bool) -> Result<()> {
        self.reply.add(id, data, replace)
    }

    /// The id of the object in its POA.
    ///
    /// # Errors
    /// BAD_INV_ORDER (OMG|14) at the starting point; NO_RESOURCES (OMG|1) when the request ended
    /// before the object was found.
    pub fn object_id(&self) -> Result<&[u8]> {
        Ok(self.target("object_id")?.object_id)
    }

    /// The POA: its id is the standard's `adapter_id`, its path of names the `adapter_name`.
    ///
    /// # Errors
    /// As [`object_id`](Self::object_id).
    pub fn poa(&self) -> Result<&Poa> {
        Ok(&self.target("poa")?.poa)
    }

    /// Octets that no other POA of this process has.
    ///
    /// # Errors
    /// As [`object_id`](Self::object_id).
    pub fn adapter_id(&self) -> Result<[u8; 8]> {
        Ok(self.target("adapter_id")?.poa.id())
    }

    /// The names of the POAs from the root down.
    ///
    /// # Errors
    /// As [`object_id`](Self::object_id).
    ///
    /// # Real-time
    /// Allocates.
    pub fn adapter_name(&self) -> Result<Vec<String>> {
        let mut poa = Some(self.target("adapter_name")?.poa.clone());
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
        Ok(self.target("target_most_derived_interface")?.interface.id)
    }

    /// Whether the servant is of the interface with this repository id.
    ///
    /// # Errors
    /// As [`object_id`](Self::object_id).
    pub fn target_is_a(&self, id: &str) -> Result<bool> {
        Ok(self.target("target_is_a")?.interface.is_a(id))
    }

    /// The client's exception; for a user exception, with its unknown type, UNKNOWN with minor code
    /// OMG|1.
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

    /// The repository id of the client's exception. The standard has it only inside the exception.
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

    fn target(&self, what: &'static str) -> Result<&RequestTarget<'_>> {
        match (&self.target, self.point) {
            (Some(target), _) => Ok(target),
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

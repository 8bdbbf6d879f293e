//! Client request interceptors (clauses 16.3.5, 16.3.13).

use super::contexts::Contexts;
use super::slots::{PiCurrent, SlotId, Table, give_back};
use super::{InvalidSlot, Raised, ReplyStatus, no_context, not_here, unknown_user_exception};
#[cfg(feature = "interceptors")]
use crate::connection::Connection;
use crate::object::Target;
use crate::{Any, Object, Orb, Result, SyncScope, SystemException};
use isorb_giop::component::TaggedComponent;
use isorb_giop::message::{Response, ServiceContexts};
use isorb_giop::{IiopProfile, Kind, TaggedProfile, minor};
use std::cell::OnceCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// Intercepts the requests that this ORB sends. All points run on the calling thread.
///
/// A panic propagates to the caller.
pub trait ClientRequestInterceptor: Send + Sync {
    /// Its name, unique among the ORB's interceptors of this kind; empty for an anonymous one.
    fn name(&self) -> &str {
        ""
    }

    /// Starting point: the request is about to be sent. Only here can service contexts be added.
    ///
    /// # Errors
    /// A system exception, which becomes COMPLETED_NO, or [`Raised::Forward`], ends this request:
    /// nothing is sent, later interceptors are not called, and earlier ones get `receive_exception`
    /// or `receive_other`.
    fn send_request(&self, info: &mut ClientRequestInfo<'_>) -> Result<(), Raised> {
        let _ = info;
        Ok(())
    }

    /// Ending point: the reply has results.
    ///
    /// # Errors
    /// A system exception, which becomes COMPLETED_YES, replaces the results.
    fn receive_reply(&self, info: &ClientRequestInfo<'_>) -> Result<()> {
        let _ = info;
        Ok(())
    }

    /// Ending point: an exception of the server or of the ORB.
    ///
    /// # Errors
    /// A system exception replaces the other one and keeps its completion status (COMPLETED_YES for
    /// a user exception). With [`Raised::Forward`] the ORB sends the request to that reference;
    /// raise it only if the exception is COMPLETED_NO, because the operation would run twice.
    fn receive_exception(&self, info: &ClientRequestInfo<'_>) -> Result<(), Raised> {
        let _ = info;
        Ok(())
    }

    /// Ending point: neither results nor exception. A oneway was sent
    /// ([`ReplyStatus::Successful`]), or the ORB forwards or retries.
    ///
    /// # Errors
    /// A system exception, which becomes COMPLETED_NO, goes to the caller; with [`Raised::Forward`]
    /// the ORB tries that reference.
    fn receive_other(&self, info: &ClientRequestInfo<'_>) -> Result<(), Raised> {
        let _ = info;
        Ok(())
    }

    /// The ORB has ended.
    fn destroy(&self) {}
}

/// The point that a request has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    SendRequest,
    ReceiveReply,
    ReceiveException,
    ReceiveOther,
}

/// A reply without results.
pub(crate) enum Received<'r> {
    Nothing,
    System(SystemException),
    User(&'r str),
}

/// One attempt of a call. An attribute that does not exist at a point raises BAD_INV_ORDER with
/// minor code OMG|14.
pub struct ClientRequestInfo<'r> {
    pub(crate) object: &'r Object,
    pub(crate) at: &'r Target,
    pub(crate) operation: &'r str,
    pub(crate) response: Response,
    pub(crate) sync_scope: SyncScope,
    pub(crate) id: u32,
    pub(crate) point: Point,
    pub(crate) status: ReplyStatus,
    pub(crate) slots: Table,
    pub(crate) exchange: Exchange,
    pub(crate) received: Received<'r>,
    pub(crate) forward: Option<Object>,
}

impl ClientRequestInfo<'_> {
    /// The ORB.
    pub fn orb(&self) -> &Orb {
        self.object.orb()
    }

    /// A number that no other pending request of this ORB has. It is not the one in the message.
    pub fn request_id(&self) -> u32 {
        self.id
    }

    /// The operation's name on the wire.
    pub fn operation(&self) -> &str {
        self.operation
    }

    /// Whether a reply will come. If not, the ending point is `receive_other`, or
    /// `receive_exception` if sending failed.
    pub fn response_expected(&self) -> bool {
        self.response.expected()
    }

    /// The sync scope of a oneway; `WithTarget` for two-way calls.
    pub fn sync_scope(&self) -> SyncScope {
        self.sync_scope
    }

    /// How the request ended.
    ///
    /// # Errors
    /// BAD_INV_ORDER (OMG|14) before the end.
    pub fn reply_status(&self) -> Result<ReplyStatus> {
        if self.point == Point::SendRequest { Err(not_here("reply_status")) } else { Ok(self.status) }
    }

    /// The next target of the request.
    ///
    /// # Errors
    /// BAD_INV_ORDER (OMG|14) unless the status is [`ReplyStatus::LocationForward`].
    pub fn forward_reference(&self) -> Result<&Object> {
        self.forward.as_ref().ok_or_else(|| not_here("forward_reference"))
    }

    /// The value of a slot in the scope of the request: that of the thread when the call began.
    ///
    /// # Errors
    /// [`InvalidSlot`].
    ///
    /// # Real-time
    /// Clones a reference.
    pub fn slot(&self, id: SlotId) -> Result<Any, InvalidSlot> {
        Ok(self.slots.get(id.0 as usize).ok_or(InvalidSlot)?.clone().unwrap_or_default())
    }

    /// A service context that an interceptor added to the request.
    ///
    /// # Errors
    /// BAD_PARAM (OMG|26) if there is none with this id.
    ///
    /// # Real-time
    /// Linear in the number of contexts; allocates nothing. The other methods of this kind cost the
    /// same.
    pub fn request_service_context(&self, id: u32) -> Result<&[u8]> {
        self.exchange.request.get(id).ok_or_else(|| no_context(id))
    }

    /// Adds a service context to the request; `data` is an encapsulation by rule. `replace`:
    /// replaces one with this id that an interceptor added.
    ///
    /// # Errors
    /// BAD_INV_ORDER with minor code OMG|14 after the starting point, with OMG|15 for an existing
    /// one without `replace`; IMP_LIMIT for too many.
    ///
    /// # Real-time
    /// Copies the octets, into memory that the thread keeps.
    pub fn add_request_service_context(&mut self, id: u32, data: &[u8], replace: bool) -> Result<()> {
        if self.point != Point::SendRequest {
            return Err(not_here("add_request_service_context"));
        }
        self.exchange.request.add(id, data, replace)
    }

    /// Adds a service context to the request that is sent over an encrypted connection only, such
    /// as a password. Over another one, and to objects of this process, the request goes without.
    ///
    /// # Errors
    /// As [`add_request_service_context`](Self::add_request_service_context).
    ///
    /// # Real-time
    /// As [`add_request_service_context`](Self::add_request_service_context).
    pub fn add_confidential_service_context(&mut self, id: u32, data: &[u8]) -> Result<()> {
        if self.point != Point::SendRequest {
            return Err(not_here("add_confidential_service_context"));
        }
        self.exchange.confidential.add(id, data, false)
    }

    /// The octets of the first component of [`effective_profile`](Self::effective_profile) with
    /// this tag.
    ///
    /// # Real-time
    /// Linear in the size of the profile; allocates nothing.
    pub fn effective_component_data(&self, tag: u32) -> Option<&[u8]> {
        self.at.ior.profiles.iter().find_map(|profile| IiopProfile::component_data(profile, tag))
    }

    /// A service context of the reply.
    ///
    /// # Errors
    /// BAD_INV_ORDER (OMG|14) at the starting point, BAD_PARAM (OMG|26) when there is none with
    /// this id.
    pub fn reply_service_context(&self, id: u32) -> Result<&[u8]> {
        if self.point == Point::SendRequest {
            return Err(not_here("reply_service_context"));
        }
        self.exchange.arrived.get().and_then(|arrived| arrived.get(id)).ok_or_else(|| no_context(id))
    }

    /// The reference that was called.
    pub fn target(&self) -> &Object {
        self.object
    }

    /// The actual object of the request: another one than [`target`](Self::target) after a forward.
    ///
    /// # Real-time
    /// Allocates after a forward.
    pub fn effective_target(&self) -> Object {
        if std::ptr::eq(&*self.at.ior, self.object.ior()) {
            self.object.clone()
        } else {
            Object::new(self.orb(), (*self.at.ior).clone())
        }
    }

    /// The profile of the actual object's reference.
    pub fn effective_profile(&self) -> Option<&TaggedProfile> {
        self.at.ior.profiles.iter().find(|profile| IiopProfile::parse(&profile.data).is_ok())
    }

    /// The first component of [`effective_profile`](Self::effective_profile) with this tag.
    ///
    /// # Errors
    /// BAD_PARAM (OMG|28) when there is none.
    ///
    /// # Real-time
    /// Allocates.
    pub fn effective_component(&self, tag: u32) -> Result<TaggedComponent> {
        Ok(self.effective_components(tag)?.swap_remove(0))
    }

    /// All components of [`effective_profile`](Self::effective_profile) with this tag, at least
    /// one.
    ///
    /// # Errors
    /// BAD_PARAM (OMG|28) when there is none.
    ///
    /// # Real-time
    /// Allocates.
    pub fn effective_components(&self, tag: u32) -> Result<Vec<TaggedComponent>> {
        let profile = self.at.ior.iiop_profiles().flatten().next();
        let mut components = profile.map_or_else(Vec::new, |profile| profile.components);
        components.retain(|component| component.tag == tag);
        if components.is_empty() {
            return Err(SystemException::from(Kind::BadParam)
                .minor(minor::BAD_PARAM_COMPONENT_ID)
                .detail(format!("the reference has no component {tag}")));
        }
        Ok(components)
    }

    /// The received exception; for a user exception, with its unknown type, UNKNOWN with minor code
    /// OMG|1.
    ///
    /// # Errors
    /// BAD_INV_ORDER (OMG|14) at points other than `receive_exception`.
    pub fn received_exception(&self) -> Result<SystemException> {
        match &self.received {
            Received::System(exception) => Ok(exception.clone()),
            Received::User(_) => Ok(unknown_user_exception()),
            Received::Nothing => Err(not_here("received_exception")),
        }
    }

    /// The repository id of the received exception.
    ///
    /// # Errors
    /// As [`received_exception`](Self::received_exception).
    pub fn received_exception_id(&self) -> Result<&str> {
        match &self.received {
            Received::System(exception) => Ok(exception.repository_id()),
            Received::User(id) => Ok(id),
            Received::Nothing => Err(not_here("received_exception_id")),
        }
    }
}

impl Drop for ClientRequestInfo<'_> {
    fn drop(&mut self) {
        give_back(std::mem::take(&mut self.slots));
    }
}

impl fmt::Debug for ClientRequestInfo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientRequestInfo")
            .field("id", &self.id)
            .field("operation", &self.operation)
            .field("point", &self.point)
            .finish_non_exhaustive()
    }
}

/// The interceptors of a client, at least one.
pub(crate) struct ClientChain {
    pub interceptors: Box<[Arc<dyn ClientRequestInterceptor>]>,
    pub current: PiCurrent,
    pub next_id: AtomicU32,
}

/// Service contexts of a request and its reply.
pub(crate) struct Exchange {
    pub request: Contexts,
    /// Contexts that are sent over encrypted connections only.
    pub confidential: Contexts,
    pub arrived: OnceCell<Contexts>,
}

impl Exchange {
    /// Without contexts.
    ///
    /// # Real-time
    /// As [`Contexts::new`].
    pub fn new() -> Exchange {
        Exchange { request: Contexts::new(), confidential: Contexts::new(), arrived: OnceCell::new() }
    }

    /// The contexts for an encrypted connection.
    #[cfg(feature = "interceptors")]
    pub fn confidential(&self, connection: Option<&Connection>) -> Option<&Contexts> {
        let encrypted = |connection: &Connection| connection.stream().identity().encrypted;
        Some(&self.confidential).filter(|it| !it.is_empty() && connection.is_some_and(encrypted))
    }

    /// Stores the contexts of the reply.
    pub fn note(&self, contexts: &ServiceContexts<'_>) {
        if !contexts.is_empty() {
            self.arrived.get_or_init(|| {
                let mut arrived = Contexts::new();
                arrived.copy(contexts);
                arrived
            });
        }
    }
}

impl ClientChain {
    /// `None` when there are no interceptors.
    pub fn new(
        interceptors: Vec<Arc<dyn ClientRequestInterceptor>>,
        current: PiCurrent,
    ) -> Option<ClientChain> {
        let next_id = AtomicU32::new(1);
        (!interceptors.is_empty()).then(|| ClientChain {
            interceptors: interceptors.into(),
            current,
            next_id,
        })
    }

    pub fn destroy(&self) {
        self.interceptors.iter().for_each(|interceptor| interceptor.destroy());
    }
}

//! Portable Interceptors (CORBA 3.3 part 1, clause 16): services intercept requests, add data to
//! messages and references, and raise exceptions in the ORB's place.
//!
//! Interceptors can neither see nor change arguments and results. The standard lets an ORB omit
//! those lists (NO_RESOURCES with minor code OMG|1). Here the attributes `arguments`, `exceptions`,
//! `contexts`, `operation_context` and `result` do not exist, so a program that needs them does not
//! compile. `send_poll` does not exist either, because there are no polled requests.
//!
//! ```text
//!   client                                              server
//!   send_request ─────────────► request ─────────────►  receive_request_service_contexts  (starting)
//!                                                       servant manager, then receive_request
//!                                                       servant
//!   receive_reply          ◄─┐                       ┌─ send_reply
//!   receive_exception      ◄─┼── reply ◄─────────────┼─ send_exception                    (ending)
//!   receive_other          ◄─┘                       └─ send_other
//! ```
//!
//! Starting points run in the order of registration. Ending points run in the reverse order, for
//! exactly those interceptors that completed their starting point. An exception of an interceptor
//! replaces the earlier result: after a system exception the remaining interceptors get
//! `…_exception`, after [`Raised::Forward`] they get `…_other`. Each attempt of a call is a request
//! of its own: after a forward, or before a request that was certainly not processed is repeated,
//! interceptors get `receive_other` and then `send_request` once more. Calls inside one process
//! pass all points too.
//!
//! Interceptors are registered before the ORB exists and never change:
//!
//! ```
//! use isorb::interceptor::*;
//! use isorb::{Any, Orb};
//! use std::sync::Arc;
//!
//! const TRACE: u32 = 0x4953_0100; // a service context of our own
//!
//! /// Carries a number from the caller's thread to the servant's.
//! struct Trace(SlotId);
//!
//! impl ClientRequestInterceptor for Trace {
//!     fn name(&self) -> &str {
//!         "trace"
//!     }
//!     fn send_request(&self, info: &mut ClientRequestInfo<'_>) -> Result<(), Raised> {
//!         if let Some(number) = info.slot(self.0)?.get::<u64>() {
//!             info.add_request_service_context(TRACE, &number.to_be_bytes(), false)?;
//!         }
//!         Ok(())
//!     }
//! }
//!
//! impl ServerRequestInterceptor for Trace {
//!     fn name(&self) -> &str {
//!         "trace"
//!     }
//!     fn receive_request_service_contexts(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
//!         if let Ok(Some(octets)) = info.request_service_context(TRACE).map(<[u8]>::first_chunk) {
//!             let number = u64::from_be_bytes(*octets);
//!             info.set_slot(self.0, Any::new(&number).map_err(|_| isorb::Kind::NoMemory)?)?;
//!         }
//!         Ok(())
//!     }
//! }
//!
//! let mut slot = None;
//! let orb = Orb::builder().arguments(std::env::args()).register(|info| {
//!     let id = info.allocate_slot_id();
//!     slot = Some(id);
//!     info.add_client_request_interceptor(Arc::new(Trace(id)))?;
//!     info.add_server_request_interceptor(Arc::new(Trace(id)))?;
//!     Ok(())
//! }).build()?;
//! // Calls of this thread carry the number now; a servant reads it with orb.pi_current().slot(id).
//! orb.pi_current().set_slot(slot.unwrap(), Any::new(&42_u64).unwrap()).unwrap();
//! # orb.shutdown(true)?;
//! # Ok::<(), isorb::SystemException>(())
//! ```
//!
//! # Real-time
//! Without interceptors a call tests one pointer, and the server a few for each request: a few
//! dozen instructions of a void call under callgrind, no memory. With interceptors that add no
//! context, the ORB allocates nothing after a thread's first requests, takes no lock, and clones
//! one reference for each slot. A context of a client's interceptor costs its copy. A context of a
//! server's interceptor makes the ORB write the reply a second time, with an allocation. The
//! interceptors' own cost comes on top.

mod client;
mod contexts;
mod init;
mod ior;
mod server;
mod server_flow;
mod slots;

pub use client::{ClientRequestInfo, ClientRequestInterceptor};
pub use init::{InitError, OrbInitInfo};
pub use ior::{IorInfo, IorInterceptor, SecureComponent};
pub use isorb_giop::TaggedProfile;
pub use isorb_giop::component::TaggedComponent;
pub use server::{ServerRequestInfo, ServerRequestInterceptor};
pub(crate) use slots::forget_thread_slots;
pub use slots::{InvalidSlot, PiCurrent, SlotId};

pub(crate) use client::{ClientChain, Exchange, Point, Received};
pub(crate) use contexts::join;
pub(crate) use init::Initial;
pub(crate) use ior::components;
pub(crate) use server_flow::{ReplyOffsets, ServerChain, Serving};

use crate::poa::Refusal;
use crate::{Object, SystemException};
use isorb_giop::{Completion, Kind, minor};
use std::sync::Arc;

/// An exception or forward raised at an interception point.
#[derive(Clone, Debug)]
pub enum Raised {
    /// The caller gets this exception.
    Exception(SystemException),
    /// `PortableInterceptor::ForwardRequest`: the request goes to this reference.
    Forward(Object),
}

impl From<SystemException> for Raised {
    fn from(exception: SystemException) -> Raised {
        Raised::Exception(exception)
    }
}

impl From<Kind> for Raised {
    fn from(kind: Kind) -> Raised {
        Raised::Exception(kind.into())
    }
}

impl From<InvalidSlot> for Raised {
    fn from(error: InvalidSlot) -> Raised {
        Raised::Exception(error.into())
    }
}

impl From<Raised> for Refusal {
    fn from(raised: Raised) -> Refusal {
        match raised {
            Raised::Exception(exception) => Refusal::Exception(exception),
            Raised::Forward(to) => Refusal::Forward { to, permanent: false },
        }
    }
}

/// The end of a request for interceptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i16)]
pub enum ReplyStatus {
    /// With results; for a oneway, it was sent.
    Successful = 0,
    /// With a system exception.
    SystemException = 1,
    /// With a user exception.
    UserException = 2,
    /// The object is elsewhere; the ORB tries that reference.
    LocationForward = 3,
    /// It was not processed; the ORB tries again.
    TransportRetry = 4,
    /// Not known: the servant replies later ([`Upcall::defer`](crate::Upcall::defer)).
    Unknown = 5,
}

/// A type without values if the feature is off: code that needs a value is removed from the
/// program.
#[cfg(feature = "interceptors")]
#[derive(Clone, Copy)]
struct InterceptorsEnabled;
#[cfg(not(feature = "interceptors"))]
#[derive(Clone, Copy)]
enum InterceptorsEnabled {}

fn interceptors_enabled() -> Option<InterceptorsEnabled> {
    #[cfg(feature = "interceptors")]
    return Some(InterceptorsEnabled);
    #[cfg(not(feature = "interceptors"))]
    None
}

/// The registered interceptors; constant once the ORB exists.
pub(crate) struct Interceptors {
    client: Option<ClientChain>,
    server: Option<ServerChain>,
    ior: Box<[Arc<dyn IorInterceptor>]>,
    #[cfg(feature = "interceptors")]
    secure: Option<Arc<dyn SecureComponent>>,
    current: PiCurrent,
}

impl Interceptors {
    /// The client's interceptors; `None` if there are none.
    #[inline(always)]
    pub fn client(&self) -> Option<&ClientChain> {
        if cfg!(feature = "interceptors") { self.client.as_ref() } else { None }
    }

    /// The server's interceptors; `None` without interceptors and slots.
    #[inline(always)]
    pub fn server(&self) -> Option<&ServerChain> {
        if cfg!(feature = "interceptors") { self.server.as_ref() } else { None }
    }

    #[inline(always)]
    pub fn ior(&self) -> &[Arc<dyn IorInterceptor>] {
        if cfg!(feature = "interceptors") { &self.ior } else { &[] }
    }

    /// The component beside an address over TLS.
    #[cfg(feature = "interceptors")]
    pub fn secure_component(&self, (host, port): &(String, u16)) -> Option<TaggedComponent> {
        self.secure.as_ref()?.component(host, *port)
    }

    pub fn current(&self) -> PiCurrent {
        self.current
    }

    /// Calls `destroy` of all interceptors.
    pub fn destroy(&self) {
        self.client.iter().for_each(ClientChain::destroy);
        self.server.iter().for_each(ServerChain::destroy);
        self.ior.iter().for_each(|interceptor| interceptor.destroy());
    }
}

/// The attribute or operation does not exist at this interception point.
#[cold]
fn not_here(what: &'static str) -> SystemException {
    SystemException::from(Kind::BadInvOrder)
        .minor(minor::BAD_INV_ORDER_INTERCEPTOR)
        .detail(format!("{what} is not there at this interception point"))
}

#[cold]
fn no_context(id: u32) -> SystemException {
    SystemException::from(Kind::BadParam)
        .minor(minor::BAD_PARAM_CONTEXT_ID)
        .detail(format!("there is no service context {id}"))
}

/// Stands for a user exception of unknown type: UNKNOWN with minor code OMG|1.
#[cold]
fn unknown_user_exception() -> SystemException {
    SystemException::new(Kind::Unknown, minor::UNKNOWN_USER_EXCEPTION, Completion::Yes)
}

/// The example of the page is compiled, and run, with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guides/interceptors.md")]
struct Page;

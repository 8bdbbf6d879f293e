//! Portable Interceptors (CORBA 3.3 part 1, clause 16): where services see requests on their way, add what they need to
//! messages and references, and raise instead of the ORB.
//!
//! What this is not: a way to see or change arguments and results. The standard lets an ORB leave those lists out (NO_RESOURCES
//! with minor code OMG|1); here the attributes `arguments`, `exceptions`, `contexts`, `operation_context` and `result` are not
//! there at all, so a program that needs them does not compile. Neither is `send_poll`: there are no polled requests.
//!
//! ```text
//!   client                                              server
//!   send_request ─────────────► request ─────────────►  receive_request_service_contexts    (starting points)
//!                                                       servant manager, then receive_request
//!                                                       servant
//!   receive_reply          ◄─┐                       ┌─ send_reply
//!   receive_exception      ◄─┼── reply ◄─────────────┼─ send_exception                      (ending points)
//!   receive_other          ◄─┘                       └─ send_other
//! ```
//!
//! Starting points run in the order of registration, ending points in the reverse order, for exactly those interceptors whose
//! starting point succeeded. What an interceptor raises takes the place of what there was: a system exception makes the rest
//! see `…_exception`, [`Raised::Forward`] makes it see `…_other`. Each try of a call is a request of its own: after a forward, or when a
//! request was certainly not processed and is sent again, interceptors see `receive_other` and then `send_request` once more.
//! Calls inside one process pass all points too.
//!
//! Interceptors are registered before the ORB is there and never change:
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
//! Without interceptors a call tests one pointer where it begins, and a request a few where it is served: a few dozen instructions of a void
//! call as counted under callgrind, no memory. With
//! interceptors that add no context, the machinery allocates nothing after a thread's first requests, takes no lock, and copies one
//! reference a slot. A context that a client's interceptor adds costs its copy; one that a server's interceptor adds makes the reply be
//! written a second time, with an allocation. What interceptors themselves do is theirs.

mod client;
mod contexts;
mod init;
mod ior;
mod server;
mod server_flow;
mod slots;

pub use client::{ClientRequestInfo, ClientRequestInterceptor};
pub use init::{InitError, OrbInitInfo};
pub use ior::{IorInfo, IorInterceptor};
pub use isorb_giop::TaggedProfile;
pub use isorb_giop::component::TaggedComponent;
pub use server::{ServerRequestInfo, ServerRequestInterceptor};
pub use slots::{InvalidSlot, PiCurrent, SlotId};

pub(crate) use client::{ClientChain, Exchange, Point, Received};
pub(crate) use contexts::{Contexts, join};
pub(crate) use init::Initial;
pub(crate) use ior::components;
pub(crate) use server_flow::{Places, ServerChain, Serving};

use crate::poa::Refusal;
use crate::{Object, SystemException};
use isorb_giop::{Completion, Kind, minor};
use std::sync::Arc;

/// What an interception point raises.
#[derive(Clone, Debug)]
pub enum Raised {
    /// The caller gets this exception.
    Exception(SystemException),
    /// `PortableInterceptor::ForwardRequest`: the request is to be sent there.
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

/// How a request ended, as interceptors see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i16)]
pub enum ReplyStatus {
    /// With results; for a oneway, it was sent.
    Successful = 0,
    /// With a system exception.
    SystemException = 1,
    /// With a user exception.
    UserException = 2,
    /// The object is elsewhere; the ORB tries there.
    LocationForward = 3,
    /// It was not processed; the ORB tries once more.
    TransportRetry = 4,
}

/// A type that no value has where the feature is off: what holds one cannot be, and all that would be done with it is left out of
/// the program.
#[cfg(feature = "interceptors")]
#[derive(Clone, Copy)]
struct Possible;
#[cfg(not(feature = "interceptors"))]
#[derive(Clone, Copy)]
enum Possible {}

fn possible() -> Option<Possible> {
    #[cfg(feature = "interceptors")]
    return Some(Possible);
    #[cfg(not(feature = "interceptors"))]
    None
}

/// What is registered with an ORB; fixed when the ORB is made.
pub(crate) struct Interceptors {
    client: Option<ClientChain>,
    server: Option<ServerChain>,
    ior: Box<[Arc<dyn IorInterceptor>]>,
    current: PiCurrent,
}

impl Interceptors {
    /// Those at the client; `None` where there are none.
    #[inline(always)]
    pub fn client(&self) -> Option<&ClientChain> {
        if cfg!(feature = "interceptors") { self.client.as_ref() } else { None }
    }

    /// Those at the server; `None` where there are neither any nor slots.
    #[inline(always)]
    pub fn server(&self) -> Option<&ServerChain> {
        if cfg!(feature = "interceptors") { self.server.as_ref() } else { None }
    }

    #[inline(always)]
    pub fn ior(&self) -> &[Arc<dyn IorInterceptor>] {
        if cfg!(feature = "interceptors") { &self.ior } else { &[] }
    }

    pub fn current(&self) -> PiCurrent {
        self.current
    }

    /// Tells all that the ORB has ended.
    pub fn destroy(&self) {
        self.client.iter().for_each(ClientChain::destroy);
        self.server.iter().for_each(ServerChain::destroy);
        self.ior.iter().for_each(|interceptor| interceptor.destroy());
    }
}

/// The attribute or operation is not there at this interception point.
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

/// What stands for a user exception whose type is not known here: UNKNOWN with minor code OMG|1.
#[cold]
fn unknown_user_exception() -> SystemException {
    SystemException::new(Kind::Unknown, minor::UNKNOWN_USER_EXCEPTION, Completion::Yes)
}

/// The example of the page is compiled, and run, with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guides/interceptors.md")]
struct Page;

//! What a servant may know and use while it runs.

use crate::{Orb, Result};
use isorb_scope::Scope;
use std::fmt;

/// The first argument of every operation of a servant: the scope of this upcall and what is known of the request.
///
/// `'u` covers the servant, its arguments, the scope and statics, so a result may borrow from any of them without a copy.
/// It is `Copy` and stays on its thread. See ZEN (paper 004, section 3) for the nesting of scopes.
#[derive(Clone, Copy)]
pub struct Upcall<'u> {
    request: &'u Request<'u>,
}

/// The request behind an [`Upcall`]; made by the dispatcher.
pub(crate) struct Request<'u> {
    pub scope: &'u Scope<'u>,
    pub orb: &'u Orb,
    pub operation: &'u str,
    pub object_id: &'u [u8],
    pub poa: Option<&'u crate::poa::Poa>,
    pub contexts: isorb_giop::message::ServiceContexts<'u>,
}

impl<'u> Upcall<'u> {
    pub(crate) fn new(request: &'u Request<'u>) -> Upcall<'u> {
        Upcall { request }
    }

    /// The scope of this upcall. What is placed there lives until the reply has been sent.
    pub fn scope(self) -> &'u Scope<'u> {
        self.request.scope
    }

    /// Copies a string into the scope, as from behind a lock's guard.
    ///
    /// # Errors
    /// NO_MEMORY when the scope is full.
    ///
    /// # Real-time
    /// Allocates nothing; the cost of the copy.
    pub fn str(self, s: &str) -> Result<&'u str> {
        Ok(self.scope().str(s)?)
    }

    /// Copies a slice into the scope.
    ///
    /// # Errors
    /// NO_MEMORY when the scope is full.
    ///
    /// # Real-time
    /// Allocates nothing; the cost of the copy.
    pub fn slice<T: Copy>(self, from: &[T]) -> Result<&'u [T]> {
        Ok(self.scope().slice(from)?)
    }

    /// Formats into the scope.
    ///
    /// # Errors
    /// NO_MEMORY when the scope is full.
    ///
    /// # Real-time
    /// Allocates nothing; formats twice.
    pub fn format(self, text: fmt::Arguments<'_>) -> Result<&'u str> {
        Ok(self.scope().format(text)?)
    }

    /// Hands an owned value over to the scope, which drops it after the reply.
    ///
    /// # Errors
    /// NO_MEMORY when the scope is full.
    ///
    /// # Real-time
    /// Allocates nothing by itself; the destructor runs when the scope is left.
    pub fn keep<T: 'static>(self, value: T) -> Result<&'u T> {
        Ok(self.scope().keep(value)?)
    }

    /// Monotonic time in nanoseconds.
    pub fn now_ns(self) -> u64 {
        isorb_rt::time::now_ns()
    }

    /// The ORB that the request came through.
    pub fn orb(self) -> &'u Orb {
        self.request.orb
    }

    /// The operation's name on the wire.
    pub fn operation(self) -> &'u str {
        self.request.operation
    }

    /// The object's id in its POA.
    pub fn object_id(self) -> &'u [u8] {
        self.request.object_id
    }

    /// The POA that dispatches the request; none for pseudo-operations of the ORB itself.
    pub fn poa(self) -> Option<&'u crate::poa::Poa> {
        self.request.poa
    }

    /// The CORBA priority at which the request runs, where its POA has one (`RTCORBA::Current::the_priority`).
    ///
    /// # Real-time
    /// A look at memory of the thread.
    pub fn priority(self) -> Option<isorb_rt::priority::Priority> {
        crate::sched::thread::priority()
    }

    /// The encapsulated data of a service context of the request, if it came with one.
    pub fn service_context(self, id: u32) -> Option<&'u [u8]> {
        self.request.contexts.get(id)
    }
}

impl fmt::Debug for Upcall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upcall").field("operation", &self.operation()).finish_non_exhaustive()
    }
}

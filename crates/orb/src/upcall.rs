//! The context of an upcall for its servant.

use crate::deferred::{Deferred, ReplyAddress, deferred_before};
use crate::{Caller, Guard, Orb, Result};
use isorb_cdr::Idl;
use isorb_scope::Scope;
use std::cell::Cell;
use std::fmt;

/// The first argument of every operation of a servant: the scope of this upcall and the data of the
/// request.
///
/// `'u` covers the servant, its arguments, the scope and statics, so a result may borrow from any
/// of them without a copy. It is `Copy` and stays on its thread. See ZEN, section 3, for the
/// nesting of scopes.
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
    pub caller: Caller<'u>,
    pub guard: Option<&'u dyn Guard>,
    /// Whether the guard refused the request.
    pub refused: Cell<bool>,
    pub reply: ReplyAddress<'u>,
    /// Whether the reply comes from a [`Deferred`].
    pub deferred: Cell<bool>,
}

impl<'u> Upcall<'u> {
    pub(crate) fn new(request: &'u Request<'u>) -> Upcall<'u> {
        Upcall { request }
    }

    /// The scope of this upcall. Its contents live until the reply has been sent.
    pub fn scope(self) -> &'u Scope<'u> {
        self.request.scope
    }

    /// Copies a string into the scope, for example from behind a lock guard.
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

    /// Moves an owned value into the scope, which drops it after the reply.
    ///
    /// # Errors
    /// NO_MEMORY when the scope is full.
    ///
    /// # Real-time
    /// Allocates nothing by itself; the destructor runs when the scope is left.
    pub fn keep<T: 'static>(self, value: T) -> Result<&'u T> {
        Ok(self.scope().keep(value)?)
    }

    /// Moves an owned value into the scope and gives its view: `cx.give(track)` is a `TrackView`,
    /// `cx.give(tracks)` a slice of them. The scope drops the value after the reply.
    ///
    /// # Errors
    /// NO_MEMORY when the scope is full.
    ///
    /// # Real-time
    /// As [`keep`](Self::keep) and [`view`](Self::view).
    pub fn give<T: Idl>(self, value: T) -> Result<T::View<'u>> {
        self.view(self.keep(value)?)
    }

    /// The view of an owned value of the servant. `Track::view` does the same without a scope,
    /// where the type has no sequence of views.
    ///
    /// # Errors
    /// NO_MEMORY when the scope is full.
    ///
    /// # Real-time
    /// Allocates nothing; the views of a sequence's elements are made in the scope.
    pub fn view<T: Idl>(self, value: &'u T) -> Result<T::View<'u>> {
        Ok(value.view_in(self.scope())?)
    }

    /// Keeps the right to reply, for any thread and any later time. The result of the operation is
    /// not sent then: return [`Deferred::LATER`].
    ///
    /// The upcall counts as running until it returns, the request of the connection until its
    /// reply. The POA can be destroyed before the reply, which is sent all the same.
    ///
    /// # Errors
    /// IMP_LIMIT when as many replies are deferred as may be (`deferred_replies_per_connection`,
    /// `deferred_replies_per_poa`); BAD_INV_ORDER for a request that was deferred before.
    ///
    /// # Real-time
    /// Allocates nothing, except where a thread calls an object of its own ORB: then as with such a
    /// call through a lane. A few atomic operations.
    pub fn defer(self) -> Result<Deferred> {
        if self.request.deferred.get() {
            return Err(deferred_before());
        }
        let deferred = Deferred::new(self.request)?;
        self.request.deferred.set(true);
        Ok(deferred)
    }

    /// Monotonic time in nanoseconds.
    pub fn now_ns(self) -> u64 {
        isorb_rt::time::now_ns()
    }

    /// The ORB of the request.
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

    /// The caller of the request.
    ///
    /// # Real-time
    /// Neither allocates nor blocks.
    #[inline]
    pub fn caller(self) -> Caller<'u> {
        self.request.caller
    }

    /// The connection of the request; `None` for one of this process or to a group.
    #[cfg(not(loom))]
    pub(crate) fn connection(self) -> Option<&'u std::sync::Arc<crate::connection::Connection>> {
        self.request.reply.connection
    }

    /// The access control in front of the ORB's servants.
    pub fn guard(self) -> Option<&'u dyn Guard> {
        self.request.guard
    }

    /// The CORBA priority of the request, if its POA has priorities
    /// (`RTCORBA::Current::the_priority`).
    ///
    /// # Real-time
    /// One read of the thread's own memory.
    pub fn priority(self) -> Option<isorb_rt::priority::Priority> {
        crate::sched::thread::priority()
    }

    /// The encapsulated data of a service context of the request, if it has one.
    pub fn service_context(self, id: u32) -> Option<&'u [u8]> {
        self.request.contexts.get(id)
    }
}

impl fmt::Debug for Upcall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upcall").field("operation", &self.operation()).finish_non_exhaustive()
    }
}

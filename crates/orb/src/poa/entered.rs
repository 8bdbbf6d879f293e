//! A request inside a POA, from the gate to the reply.

use super::active_map::Active;
use super::current;
use super::errors::{DESTROYED, guarded};
use super::gate::{DEAD, HELD, STARTING};
use super::managers::{Cookie, ServantLocator};
use super::patience;
use super::poa::Poa;
use super::registry::Registry;
use super::rt_adapter::Adapter;
use crate::hot::hot;
use crate::{Result, Servant, SystemException};
use isorb_giop::message::OperationName;
use isorb_rt::priority::Priority;
use isorb_rt::time::Deadline;
use std::cell::RefCell;
use std::hint::cold_path;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};

/// Counts as a running request of the POA while it lives.
pub(super) struct Visit {
    pub poa: Poa,
}

impl Visit {
    /// Goes through the POA's gate, waiting as the state of its manager says.
    ///
    /// # Errors
    /// TRANSIENT or OBJ_ADAPTER, as the state of the manager says; TRANSIENT with minor code OMG|4 when the POA is being
    /// destroyed.
    #[inline]
    pub fn new(poa: Poa) -> Result<Visit> {
        let closed = poa.gate().enter();
        if closed != 0 {
            Visit::pass(&poa, closed)?;
        }
        Ok(Visit { poa })
    }

    /// Goes through the POA's gate if it is open.
    #[inline(always)]
    pub fn at_once(poa: Poa) -> Option<Visit> {
        if poa.gate().enter() != 0 {
            cold_path();
            poa.leave_gate();
            return None;
        }
        Some(Visit { poa })
    }

    /// For a request that came in although the gate is closed: leaves, waits, tries again.
    #[cold]
    fn pass(poa: &Poa, mut closed: u64) -> Result<()> {
        let deadline = patience::deadline();
        let mut ignored = 0;
        while closed & !ignored != 0 {
            poa.leave_gate();
            if closed & DEAD != 0 {
                return Err(DESTROYED);
            }
            if closed & !ignored & STARTING != 0 && poa.await_started(deadline)? {
                ignored |= STARTING;
            }
            if closed & HELD != 0 {
                poa.0.manager.await_active(poa.gate(), deadline)?;
            }
            closed = poa.gate().enter();
        }
        Ok(())
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.poa.leave_gate();
    }
}

/// An object in the active object map that a request is for, and that counts it already. It must be entered: a few words that
/// are handed up from the look-up in registers, where [`Entered`] would be copied.
#[must_use = "the request counts as running in the object until it is entered, and left"]
pub(crate) struct Found {
    pub(super) visit: Visit,
    pub(super) active: Arc<Active>,
}

impl Found {
    /// The request runs.
    #[inline(always)]
    pub fn enter(self, operation: OperationName<'_>) -> Entered<'_> {
        Entered::active(self.visit, self.active, operation)
    }

    /// The object's servant.
    pub fn servant(&self) -> &Servant {
        &self.active.servant
    }

    /// Remembers the object.
    pub fn trace(&self) -> Trace {
        Trace(Arc::downgrade(&self.active))
    }

    /// The request does not run after all.
    #[cold]
    pub fn give_up(self, operation: OperationName<'_>) {
        drop(self.enter(operation));
    }
}

/// An object that was found in an active object map, and keeps neither servant nor POA alive. It is found again as long as it is
/// active: an object that is leaving says so itself, a POA that is being destroyed has closed its gate, and neither comes back;
/// what is made in their place is another.
#[derive(Default)]
pub(crate) struct Trace(Weak<Active>);

impl Trace {
    /// As [`Registry::find_active`](super::Registry::find_active) would find it, in the ORB of this registry.
    ///
    /// # Real-time
    /// Neither allocates nor waits, and takes no lock.
    #[inline(always)]
    pub fn find(&self, registry: &Registry) -> Option<Found> {
        let active = hot(self.0.upgrade())?;
        if active.poa.orb_number() != registry.number() {
            return none(active);
        }
        let Some(visit) = Visit::at_once(active.poa.clone()) else { return none(active) };
        if active.enter_unless_leaving() { Some(Found { visit, active }) } else { none((visit, active)) }
    }
}

/// Nothing was found; what was held for it goes.
#[cold]
fn none<T>(held: impl Sized) -> Option<T> {
    drop(held);
    None
}

/// A request that has its servant. Dropping it ends the request: `postinvoke` if it was not called, etherealisation of an
/// object that was deactivated meanwhile, the rest of a destruction that waited for this request. It stays on its thread.
pub(crate) struct Entered<'k> {
    subject: Subject<'k>,
    operation: OperationName<'k>,
    /// Last, so that the servant is let go before a destruction that waits for this request goes on.
    visit: Visit,
    /// It has a frame on this thread's stack.
    here: PhantomData<*const ()>,
}

/// Who serves.
enum Subject<'k> {
    Active(Arc<Active>),
    /// The object's id, and what is to be called after the upcall.
    Servant(Servant, &'k [u8], RefCell<Located>),
}

/// A servant locator that gave the servant, and what it wants to be told.
pub(super) type Located = Option<(Arc<dyn ServantLocator>, Cookie)>;

impl<'k> Entered<'k> {
    #[inline(always)]
    pub(super) fn active(visit: Visit, active: Arc<Active>, operation: OperationName<'k>) -> Self {
        current::push_active(active.clone());
        let subject = Subject::Active(active);
        Entered { subject, operation, visit, here: PhantomData }
    }

    pub(super) fn servant_of(
        visit: Visit,
        servant: Servant,
        located: Located,
        object_id: &'k [u8],
        operation: OperationName<'k>,
    ) -> Self {
        current::push_servant(visit.poa.clone(), servant.clone(), object_id);
        let subject = Subject::Servant(servant, object_id, RefCell::new(located));
        Entered { subject, operation, visit, here: PhantomData }
    }

    /// The servant.
    pub fn servant(&self) -> &Servant {
        match &self.subject {
            Subject::Active(active) => &active.servant,
            Subject::Servant(servant, ..) => servant,
        }
    }

    /// The POA.
    pub fn poa(&self) -> &Poa {
        &self.visit.poa
    }

    /// The object's id in the POA.
    #[inline]
    pub fn object_id(&self) -> &[u8] {
        match &self.subject {
            Subject::Active(active) => &active.id,
            Subject::Servant(_, id, _) => id,
        }
    }

    /// The POA's real-time side, if it has one.
    #[inline]
    pub fn rt(&self) -> Option<&Adapter> {
        self.visit.poa.0.rt.as_deref()
    }

    /// The object's own CORBA priority, where it was activated with one.
    pub fn own_priority(&self) -> Option<Priority> {
        match &self.subject {
            Subject::Active(active) => active.priority,
            Subject::Servant(..) => None,
        }
    }

    /// Calls `upcall` as the POA's thread model allows. All upcalls to the servant go through here.
    ///
    /// # Errors
    /// BAD_INV_ORDER with minor code OMG|3 when waiting for the model's turn would be for ever; TRANSIENT with OMG|1 when too
    /// many wait for the main thread. `upcall` was not called then.
    ///
    /// # Real-time
    /// Neither allocates nor blocks, except in the single-thread and main-thread models, which wait for the upcall that
    /// runs.
    #[inline(always)]
    pub fn upcall<'e, T>(&'e self, upcall: impl FnOnce(&'e Servant) -> T) -> Result<T> {
        let poa = self.poa();
        let permit = if poa.needs_permit() {
            cold_path();
            Some(poa.permit(patience::deadline())?)
        } else {
            None
        };
        let result = upcall(self.servant());
        if let Some(permit) = permit {
            cold_path();
            drop(permit);
        }
        Ok(result)
    }

    /// Whether a servant manager or a default servant stands behind it, so that [`postinvoke`](Self::postinvoke) may do something.
    #[inline(always)]
    pub fn is_located(&self) -> bool {
        matches!(self.subject, Subject::Servant(..))
    }

    /// Tells the servant locator, if there is one, that the upcall is over. Before the reply is sent, since its exception
    /// takes the place of the servant's answer.
    ///
    /// # Errors
    /// What `postinvoke` raises.
    #[inline(always)]
    pub fn postinvoke(&self) -> Result<()> {
        match &self.subject {
            Subject::Active(_) => Ok(()),
            Subject::Servant(servant, _, located) => self.tell_locator(servant, located.take()),
        }
    }

    fn tell_locator(&self, servant: &Servant, located: Located) -> Result<()> {
        let Some((locator, cookie)) = located else { return Ok(()) };
        let poa = self.poa();
        let operation = self.operation.text().map_err(SystemException::from)?;
        let _permit = poa.permit(Deadline::NONE)?;
        guarded("postinvoke", || {
            locator.postinvoke(self.object_id(), poa, operation, cookie, servant.clone())
        })
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        match &self.subject {
            Subject::Active(active) => {
                self.visit.poa.leave_object(active);
                current::pop_active();
            }
            Subject::Servant(..) => {
                cold_path();
                // After a panic of the servant: nobody is left to tell what it raises.
                _ = self.postinvoke();
                current::pop();
            }
        }
    }
}

//! The target of an upcall: a request from its admission to the reply.

use super::active_map::ActiveObject;
use super::admission::{DESTROYING, HOLDING, STARTING};
use super::current;
use super::errors::{DESTROYED, guarded};
use super::managers::{Cookie, ServantLocator};
use super::poa::Poa;
use super::registry::Registry;
use super::rt_adapter::Adapter;
use super::wait_deadline;
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
pub(super) struct PoaGuard {
    pub poa: Poa,
}

impl PoaGuard {
    /// Admits a request to the POA, waiting as the state of its manager requires.
    ///
    /// # Errors
    /// TRANSIENT or OBJ_ADAPTER, as the state of the manager says; TRANSIENT with minor code OMG|4
    /// when the POA is being destroyed.
    #[inline]
    pub fn new(poa: Poa) -> Result<PoaGuard> {
        let closed = poa.admission().begin();
        if closed != 0 {
            PoaGuard::pass(&poa, closed)?;
        }
        Ok(PoaGuard { poa })
    }

    /// Admits a request if nothing blocks it.
    #[inline(always)]
    pub fn try_new(poa: Poa) -> Option<PoaGuard> {
        if poa.admission().begin() != 0 {
            cold_path();
            poa.end_request();
            return None;
        }
        Some(PoaGuard { poa })
    }

    /// For a blocked request: withdraws, waits, tries again.
    #[cold]
    fn pass(poa: &Poa, mut closed: u64) -> Result<()> {
        let deadline = wait_deadline::current();
        let mut ignored = 0;
        while closed & !ignored != 0 {
            poa.end_request();
            if closed & DESTROYING != 0 {
                return Err(DESTROYED);
            }
            if closed & !ignored & STARTING != 0 && poa.await_started(deadline)? {
                ignored |= STARTING;
            }
            if closed & HOLDING != 0 {
                poa.0.manager.await_active(poa.admission(), deadline)?;
            }
            closed = poa.admission().begin();
        }
        Ok(())
    }
}

impl Drop for PoaGuard {
    fn drop(&mut self) {
        self.poa.end_request();
    }
}

/// An object in the active object map, the target of a request that it counts already. The request
/// must [enter](Self::enter) it. It is a few words, which the look-up returns in registers; an
/// [`UpcallTarget`] would be copied.
#[must_use = "the request counts as running in the object until it is entered, and left"]
pub(crate) struct ActiveObjectRef {
    pub(super) visit: PoaGuard,
    pub(super) active: Arc<ActiveObject>,
}

impl ActiveObjectRef {
    /// Begins the upcall.
    #[inline(always)]
    pub fn enter(self, operation: OperationName<'_>) -> UpcallTarget<'_> {
        UpcallTarget::active(self.visit, self.active, operation)
    }

    /// The object's servant.
    pub fn servant(&self) -> &Servant {
        &self.active.servant
    }

    /// A weak reference to the object, for a cache.
    pub fn downgrade(&self) -> WeakTarget {
        WeakTarget(Arc::downgrade(&self.active))
    }

    /// Abandons the request.
    #[cold]
    pub fn abandon(self, operation: OperationName<'_>) {
        drop(self.enter(operation));
    }
}

/// A weak reference to an active object, which keeps neither servant nor POA alive. It can be
/// resolved as long as the object is active: a deactivated object and a POA under destruction never
/// become active again. A new object in the same place is another one.
#[derive(Default)]
pub(crate) struct WeakTarget(Weak<ActiveObject>);

impl WeakTarget {
    /// Resolves the reference, as [`Registry::find_active`](super::Registry::find_active) does, if
    /// the object is in the ORB of this registry.
    ///
    /// # Real-time
    /// Neither allocates nor waits, and takes no lock.
    #[inline(always)]
    pub fn find(&self, registry: &Registry) -> Option<ActiveObjectRef> {
        let active = hot(self.0.upgrade())?;
        if active.poa.orb_number() != registry.number() {
            return none(active);
        }
        let Some(visit) = PoaGuard::try_new(active.poa.clone()) else { return none(active) };
        if active.begin_unless_deactivated() {
            Some(ActiveObjectRef { visit, active })
        } else {
            none((visit, active))
        }
    }
}

/// Not found: drops what was acquired.
#[cold]
fn none<T>(held: impl Sized) -> Option<T> {
    drop(held);
    None
}

/// The target of a request: POA, object and servant. Dropping it ends the request: it calls
/// `postinvoke` if that has not happened, etherealises an object that was deactivated meanwhile,
/// and continues a destruction that waited for this request. It stays on its thread.
pub(crate) struct UpcallTarget<'k> {
    subject: Subject<'k>,
    operation: OperationName<'k>,
    /// Last, so that the servant is dropped before a waiting destruction continues.
    visit: PoaGuard,
    /// It has a frame on this thread's stack.
    here: PhantomData<*const ()>,
}

/// The serving object or servant.
enum Subject<'k> {
    Active(Arc<ActiveObject>),
    /// The object's id, and the locator to be called after the upcall.
    Servant(Servant, &'k [u8], RefCell<Located>),
}

/// The servant locator that returned the servant, and its cookie.
pub(super) type Located = Option<(Arc<dyn ServantLocator>, Cookie)>;

impl<'k> UpcallTarget<'k> {
    #[inline(always)]
    pub(super) fn active(visit: PoaGuard, active: Arc<ActiveObject>, operation: OperationName<'k>) -> Self {
        current::push_active(active.clone());
        let subject = Subject::Active(active);
        UpcallTarget { subject, operation, visit, here: PhantomData }
    }

    pub(super) fn servant_of(
        visit: PoaGuard,
        servant: Servant,
        located: Located,
        object_id: &'k [u8],
        operation: OperationName<'k>,
    ) -> Self {
        current::push_servant(visit.poa.clone(), servant.clone(), object_id);
        let subject = Subject::Servant(servant, object_id, RefCell::new(located));
        UpcallTarget { subject, operation, visit, here: PhantomData }
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

    /// The object's own CORBA priority, if it was activated with one.
    pub fn own_priority(&self) -> Option<Priority> {
        match &self.subject {
            Subject::Active(active) => active.priority,
            Subject::Servant(..) => None,
        }
    }

    /// Calls `upcall` as the POA's thread model allows. Every upcall to the servant passes here.
    ///
    /// # Errors
    /// BAD_INV_ORDER with minor code OMG|3 when the wait for the thread model would never end;
    /// TRANSIENT with OMG|1 when too many requests wait for the main thread. `upcall` was not
    /// called then.
    ///
    /// # Real-time
    /// Neither allocates nor blocks, except in the single-thread and main-thread models, which wait
    /// for the running upcall.
    #[inline(always)]
    pub fn upcall<'e, T>(&'e self, upcall: impl FnOnce(&'e Servant) -> T) -> Result<T> {
        let poa = self.poa();
        let permit = if poa.needs_permit() {
            cold_path();
            Some(poa.permit(wait_deadline::current())?)
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

    /// Whether it comes from a servant manager or is the default servant, so that
    /// [`postinvoke`](Self::postinvoke) may call user code.
    #[inline(always)]
    pub fn is_located(&self) -> bool {
        matches!(self.subject, Subject::Servant(..))
    }

    /// Calls `postinvoke` of the servant locator, if there is one. This happens before the reply,
    /// because its exception replaces the servant's reply.
    ///
    /// # Errors
    /// The exception of `postinvoke`.
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

impl Drop for UpcallTarget<'_> {
    fn drop(&mut self) {
        match &self.subject {
            Subject::Active(active) => {
                self.visit.poa.leave_object(active);
                current::pop_active();
            }
            Subject::Servant(..) => {
                cold_path();
                // After a panic of the servant the exception of `postinvoke` has no receiver.
                _ = self.postinvoke();
                current::pop();
            }
        }
    }
}

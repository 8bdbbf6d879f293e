//! A request inside a POA, from the gate to the reply.

use super::active_map::Active;
use super::current::{self, Subject};
use super::errors::DESTROYED;
use super::gate::{DEAD, HELD, STARTING};
use super::managers::{Cookie, ServantLocator};
use super::poa::Poa;
use crate::{Result, Servant};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

/// Counts as a running request of the POA while it lives, with a frame on its thread's stack.
pub(super) struct Visit {
    pub poa: Poa,
    /// The frame is on this thread's stack.
    here: PhantomData<*const ()>,
}

impl Visit {
    /// Goes through the POA's gate, waiting as the state of its manager says.
    ///
    /// # Errors
    /// TRANSIENT or OBJ_ADAPTER, as the state of the manager says; TRANSIENT with minor code OMG|4 when the POA is being
    /// destroyed.
    #[inline]
    pub fn new(poa: Poa, id: &[u8]) -> Result<Visit> {
        let closed = poa.gate().enter();
        if closed != 0 {
            Visit::pass(&poa, closed)?;
        }
        current::push(poa.clone(), id);
        Ok(Visit { poa, here: PhantomData })
    }

    /// For a request that came in although the gate is closed: leaves, waits, tries again.
    #[cold]
    fn pass(poa: &Poa, mut closed: u64) -> Result<()> {
        let mut ignored = 0;
        while closed & !ignored != 0 {
            poa.leave_gate();
            if closed & DEAD != 0 {
                return Err(DESTROYED);
            }
            if closed & !ignored & STARTING != 0 && poa.await_started()? {
                ignored |= STARTING;
            }
            if closed & HELD != 0 {
                poa.0.manager.await_active(poa.gate())?;
            }
            closed = poa.gate().enter();
        }
        Ok(())
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        current::pop();
        self.poa.leave_gate();
    }
}

/// A request that has its servant. Dropping it ends the request: `postinvoke` if it was not called, etherealisation of an
/// object that was deactivated meanwhile, the rest of a destruction that waited for this request. It stays on its thread.
pub(crate) struct Entered<'k> {
    subject: Subject,
    located: RefCell<Option<(Arc<dyn ServantLocator>, Cookie)>>,
    object_id: &'k [u8],
    operation: &'k str,
    /// Last, so that the servant is let go before a destruction that waits for this request goes on.
    visit: Visit,
}

impl<'k> Entered<'k> {
    pub(super) fn active(visit: Visit, active: Arc<Active>, object_id: &'k [u8], operation: &'k str) -> Self {
        current::set(Subject::Active(active.clone()));
        let subject = Subject::Active(active);
        Entered { subject, located: RefCell::new(None), object_id, operation, visit }
    }

    pub(super) fn servant_of(
        visit: Visit,
        servant: Servant,
        located: Option<(Arc<dyn ServantLocator>, Cookie)>,
        object_id: &'k [u8],
        operation: &'k str,
    ) -> Self {
        current::set(Subject::Servant(servant.clone()));
        let subject = Subject::Servant(servant);
        Entered { subject, located: RefCell::new(located), object_id, operation, visit }
    }

    /// The servant.
    pub fn servant(&self) -> &Servant {
        match self.subject.servant() {
            Some(servant) => servant,
            None => unreachable!("both ways to make this give a servant"),
        }
    }

    /// The POA.
    pub fn poa(&self) -> &Poa {
        &self.visit.poa
    }

    /// The object's id in the POA.
    pub fn object_id(&self) -> &'k [u8] {
        self.object_id
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
    #[inline]
    pub fn upcall<'e, T>(&'e self, upcall: impl FnOnce(&'e Servant) -> T) -> Result<T> {
        let _permit = self.visit.poa.permit()?;
        Ok(upcall(self.servant()))
    }

    /// Tells the servant locator, if there is one, that the upcall is over. Before the reply is sent, since its exception
    /// takes the place of the servant's answer.
    ///
    /// # Errors
    /// What `postinvoke` raises.
    #[inline]
    pub fn postinvoke(&self) -> Result<()> {
        let located = self.located.take();
        match located {
            None => Ok(()),
            Some((locator, cookie)) => {
                let poa = self.poa();
                let _permit = poa.permit()?;
                locator.postinvoke(self.object_id, poa, self.operation, cookie, self.servant().clone())
            }
        }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        // After a panic of the servant: nobody is left to tell what it raises.
        let _ = self.postinvoke();
        if let Subject::Active(active) = &self.subject {
            self.visit.poa.leave_object(active);
        }
    }
}

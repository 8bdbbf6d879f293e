//! The thread models: when user code of a POA may run.

use super::Poa;
use super::current::thread_token;
use super::errors::DEADLOCK;
use super::main_thread::MainThreadPermit;
use super::policies::ThreadModel;
use super::wait_deadline::TIMED_OUT;
use crate::Result;
use isorb_giop::Kind;
use isorb_rt::sync::{LockError, PiGuard, PiMutex};
use isorb_rt::time::Deadline;

/// The right to run user code of a POA.
pub(super) struct Permit<'p> {
    poa: &'p Poa,
    lock: ModelLock<'p>,
}

enum ModelLock<'p> {
    /// Nothing is needed, or an outer permit of this thread has the lock.
    Nothing,
    Single(#[expect(dead_code, reason = "held, not read")] PiGuard<'p, ()>),
    Main(#[expect(dead_code, reason = "held, not read")] MainThreadPermit<'p>),
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        // Other threads could not etherealise while this thread was in the POA, and left the queue
        // to it.
        let single = matches!(self.lock, ModelLock::Single(_));
        self.lock = ModelLock::Nothing;
        if single {
            self.poa.etherealize_pending();
        }
    }
}

impl Poa {
    /// Whether the thread model restricts user code, so that [`permit`](Self::permit) must lock.
    #[inline]
    pub(super) fn needs_permit(&self) -> bool {
        self.0.policies.thread_model_value() != ThreadModel::OrbControlled
    }

    /// Waits until user code of this POA may run on this thread.
    ///
    /// # Errors
    /// BAD_INV_ORDER with minor code OMG|3 when the wait would never end, TIMEOUT at the deadline;
    /// the errors of [`MainThread::take`].
    ///
    /// # Real-time
    /// Does nothing in the ORB-controlled model. In the others it waits for the running upcall.
    ///
    /// [`MainThread::take`]: super::MainThread::take
    pub(super) fn permit(&self, deadline: Deadline) -> Result<Permit<'_>> {
        let lock = match self.0.policies.thread_model_value() {
            ThreadModel::OrbControlled => ModelLock::Nothing,
            ThreadModel::SingleThread => match lock(&self.0.single, deadline)? {
                Some(guard) => ModelLock::Single(guard),
                None => ModelLock::Nothing,
            },
            ThreadModel::MainThread => ModelLock::Main(self.0.shared.main.take(deadline)?),
        };
        Ok(Permit { poa: self, lock })
    }

    /// As [`permit`](Self::permit) without waiting, for etherealisation: the standard leaves its
    /// thread open, so it needs no permit of the main thread. `None`: another thread is in the POA,
    /// and etherealises when it leaves.
    pub(super) fn try_permit(&self) -> Option<Permit<'_>> {
        let lock = match self.0.policies.thread_model_value() {
            ThreadModel::OrbControlled | ThreadModel::MainThread => ModelLock::Nothing,
            ThreadModel::SingleThread => match self.0.single.try_lock() {
                Ok(guard) => ModelLock::Single(guard),
                Err(LockError::Deadlock) => ModelLock::Nothing,
                Err(_) => return None,
            },
        };
        Some(Permit { poa: self, lock })
    }

    /// Waits for the lock of the servant activator.
    ///
    /// # Errors
    /// BAD_INV_ORDER with minor code OMG|3 when this thread has it already, or the wait would never
    /// end; TIMEOUT at the deadline.
    pub(super) fn activator_lock(&self, deadline: Deadline) -> Result<ActivatorGuard<'_>> {
        match self.0.activator_lock.lock_until(deadline) {
            Ok(guard) => Ok(ActivatorGuard { poa: self, guard: Some(guard) }),
            Err(LockError::Deadlock) => Err(DEADLOCK),
            Err(LockError::TimedOut) => Err(TIMED_OUT),
            Err(_) => Err(Kind::Internal.into()),
        }
    }

    /// An identifier of the calling thread, for comparisons.
    pub(super) fn this_thread() -> usize {
        thread_token()
    }
}

/// Whether this thread has the lock.
pub(super) fn holds(mutex: &PiMutex<()>) -> bool {
    mutex.try_lock().err() == Some(LockError::Deadlock)
}

/// Locks; `None` when this thread has the lock already.
fn lock(mutex: &PiMutex<()>, deadline: Deadline) -> Result<Option<PiGuard<'_, ()>>> {
    match mutex.try_lock() {
        Ok(guard) => Ok(Some(guard)),
        Err(LockError::Deadlock) => Ok(None),
        // The kernel detects a cycle of waiting threads, as between two POAs of this model.
        Err(_) => match mutex.lock_until(deadline) {
            Ok(guard) => Ok(Some(guard)),
            Err(LockError::Deadlock) => Err(DEADLOCK),
            Err(LockError::TimedOut) => Err(TIMED_OUT),
            Err(_) => Err(Kind::Internal.into()),
        },
    }
}

/// The right to be in the servant activator.
pub(super) struct ActivatorGuard<'p> {
    poa: &'p Poa,
    guard: Option<PiGuard<'p, ()>>,
}

impl Drop for ActivatorGuard<'_> {
    fn drop(&mut self) {
        drop(self.guard.take());
        self.poa.etherealize_pending();
    }
}

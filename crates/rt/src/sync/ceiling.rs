//! A mutex with a priority ceiling.

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use super::pi_lock::LockError;
use super::pi_mutex::{PiGuard, PiMutex};
use crate::sched::{NativeRange, SchedClass, SchedError};
use crate::time::Deadline;

/// A mutual-exclusion lock that raises its holder to the lock's ceiling: the native priority of its
/// most urgent user.
///
/// This is the immediate priority ceiling protocol, POSIX's `PTHREAD_PRIO_PROTECT`. On one
/// processor, and as long as holders do not sleep, a thread finds the lock free whenever it runs.
/// It is delayed by at most one critical section of less urgent threads, and cannot deadlock over
/// locks with ceilings. A [`PiMutex`] does its work beneath, so that on several processors, or
/// where a holder could not be raised, a waiter still lends its priority.
///
/// Locks nest, and may be released in any order: a thread runs at the highest ceiling of those that
/// it holds, or at its own priority if that is higher. The ceiling of a further lock is compared
/// with the thread's own priority, not with the ceiling that it runs at.
///
/// - **Ordinary threads** (`SCHED_OTHER`; all threads without the right to real-time scheduling)
///   are not raised: for them the lock only excludes, and inherits from its waiters. Threads with
///   reserved processor time are above every ceiling.
/// - **A class that another thread sets** for the holder is kept at unlock, so a thread that is
///   demoted meanwhile stays demoted. It may be below the ceiling for the rest of the section;
///   inheritance bounds the cost.
/// - It does not poison. Dead owners, `fork` and other processes are as with [`PiMutex`].
///
/// ```
/// use isorb_rt::sync::CeilingMutex;
///
/// let map = CeilingMutex::new(30, [0u8; 4])?;
/// map.lock()?[0] = 1;
/// assert_eq!(map.lock()?[0], 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CeilingMutex<T: ?Sized> {
    ceiling: u8,
    mutex: PiMutex<T>,
}

/// Why a [`CeilingMutex`] was not locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CeilingError {
    /// The calling thread is more urgent than the ceiling, so the ceiling is wrong: it is not that
    /// of the most urgent user.
    AboveCeiling {
        /// What the thread has.
        class: SchedClass,
        /// The lock's ceiling.
        ceiling: u8,
    },
    /// The thread has a real-time class, and the system does not raise it to the ceiling: its limit
    /// is lower (`RLIMIT_RTPRIO`).
    NotRaised {
        /// The lock's ceiling.
        ceiling: u8,
        /// What the system says.
        error: SchedError,
    },
    /// The system does not tell the thread's class.
    Unknown(SchedError),
    /// The lock itself.
    Lock(LockError),
}

impl fmt::Display for CeilingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CeilingError::AboveCeiling { class, ceiling } => write!(
                f,
                "the calling thread ({class}) is above the mutex's ceiling of {ceiling}; the ceiling must be the priority of the most urgent user"
            ),
            CeilingError::NotRaised { ceiling, error } => {
                write!(f, "the calling thread cannot be raised to the mutex's ceiling of {ceiling}: {error}")
            }
            CeilingError::Unknown(error) => {
                write!(f, "the calling thread's scheduling class cannot be read: {error}")
            }
            CeilingError::Lock(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CeilingError {}

impl From<LockError> for CeilingError {
    fn from(error: LockError) -> Self {
        CeilingError::Lock(error)
    }
}

impl<T> CeilingMutex<T> {
    /// A free mutex around `value`, with a native priority as ceiling.
    ///
    /// # Errors
    /// [`SchedError::OutOfRange`] where the system has no such priority (1 to 99 on Linux).
    pub fn new(ceiling: u8, value: T) -> Result<Self, SchedError> {
        if !NativeRange::system().contains(ceiling) || usize::from(ceiling) >= CEILINGS {
            return Err(SchedError::OutOfRange);
        }
        Ok(CeilingMutex { ceiling, mutex: PiMutex::new(value) })
    }

    /// The value, without the mutex.
    pub fn into_inner(self) -> T {
        self.mutex.into_inner()
    }
}

impl<T: ?Sized> CeilingMutex<T> {
    /// The native priority that a holder runs at.
    pub fn ceiling(&self) -> u8 {
        self.ceiling
    }

    /// Raises the calling thread to the ceiling and locks, waiting as long as it takes.
    ///
    /// # Errors
    /// [`CeilingError`]; the thread has the priority that it had, then.
    ///
    /// # Real-time
    /// Does not allocate. Two system calls for a real-time thread (its class is read, and set where
    /// the ceiling is higher than what it runs at), one for an ordinary thread; a real-time thread
    /// as many again at unlock, an ordinary one none. Blocks while another thread holds the lock:
    /// on one processor never, if holders do not sleep and all users are real-time threads; else
    /// bounded as [`PiMutex::lock`].
    pub fn lock(&self) -> Result<CeilingGuard<'_, T>, CeilingError> {
        self.lock_until(Deadline::NONE)
    }

    /// As [`lock`](Self::lock), waiting until `deadline` at most.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), and [`LockError::TimedOut`].
    ///
    /// # Real-time
    /// As [`lock`](Self::lock), and bounded by `deadline` besides.
    pub fn lock_until(&self, deadline: Deadline) -> Result<CeilingGuard<'_, T>, CeilingError> {
        let raised = Raised::to(self.ceiling)?;
        Ok(CeilingGuard { value: self.mutex.lock_until(deadline)?, _raised: raised })
    }

    /// Locks if the mutex is free.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), and [`LockError::WouldBlock`].
    ///
    /// # Real-time
    /// As [`lock`](Self::lock), but does not block.
    pub fn try_lock(&self) -> Result<CeilingGuard<'_, T>, CeilingError> {
        let raised = Raised::to(self.ceiling)?;
        Ok(CeilingGuard { value: self.mutex.try_lock()?, _raised: raised })
    }

    /// The value, without locking: `&mut self` is the only reference.
    pub fn get_mut(&mut self) -> &mut T {
        self.mutex.get_mut()
    }
}

impl<T: ?Sized> fmt::Debug for CeilingMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CeilingMutex").field("ceiling", &self.ceiling).finish_non_exhaustive()
    }
}

/// The right to use what a [`CeilingMutex`] protects; dropping it unlocks, and lowers the thread's
/// priority again. It stays on the thread that locked.
#[must_use = "dropping the guard unlocks at once"]
pub struct CeilingGuard<'a, T: ?Sized> {
    // In this order: the thread comes down when the lock is free already.
    value: PiGuard<'a, T>,
    _raised: Raised,
}

impl<T: ?Sized> Deref for CeilingGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: ?Sized> DerefMut for CeilingGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for CeilingGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Linux has 1 to 99.
const CEILINGS: usize = 100;

/// What a thread knows of the ceilings that it runs under.
struct HeldCeilings {
    /// How many locks of each ceiling.
    locks: [Cell<u32>; CEILINGS],
    /// What it has without them; `None` while it holds none.
    own: Cell<Option<SchedClass>>,
    /// What it was given last on their account.
    given: Cell<SchedClass>,
}

thread_local! {
    static HELD: HeldCeilings = const {
        HeldCeilings {
            locks: [const { Cell::new(0) }; CEILINGS],
            own: Cell::new(None),
            given: Cell::new(SchedClass::Other),
        }
    };
}

impl HeldCeilings {
    /// The thread's own class, which is the one that it has now unless that was given here; and the
    /// one that it has now.
    fn own(&self) -> Result<(SchedClass, SchedClass), SchedError> {
        let now = SchedClass::current()?;
        Ok((self.own.get().filter(|_| now == self.given.get()).unwrap_or(now), now))
    }

    /// What a thread with this class of its own runs at.
    fn class(&self, own: SchedClass) -> SchedClass {
        let highest = (0..CEILINGS).rev().find(|ceiling| self.locks[*ceiling].get() > 0);
        let ceiling = highest.and_then(|ceiling| u8::try_from(ceiling).ok()).unwrap_or(0);
        match own {
            SchedClass::Fifo(priority) => SchedClass::Fifo(priority.max(ceiling)),
            SchedClass::Rr(priority) => SchedClass::Rr(priority.max(ceiling)),
            SchedClass::Other | SchedClass::Reserved(_) => own,
        }
    }

    fn raise(&self, ceiling: u8) -> Result<(), CeilingError> {
        let (own, now) = self.own().map_err(CeilingError::Unknown)?;
        let above = match own {
            SchedClass::Fifo(priority) | SchedClass::Rr(priority) => priority > ceiling,
            SchedClass::Reserved(_) => true,
            SchedClass::Other => false,
        };
        if above {
            return Err(CeilingError::AboveCeiling { class: own, ceiling });
        }
        let locks = &self.locks[usize::from(ceiling)];
        locks.set(locks.get() + 1);
        let class = self.class(own);
        if class != now
            && let Err(error) = class.set_current()
        {
            locks.set(locks.get() - 1);
            return Err(CeilingError::NotRaised { ceiling, error });
        }
        self.own.set(Some(own));
        self.given.set(class);
        Ok(())
    }

    fn lower(&self, ceiling: u8) {
        let locks = &self.locks[usize::from(ceiling)];
        locks.set(locks.get() - 1);
        let last = self.locks.iter().all(|locks| locks.get() == 0);
        let own = if last { self.own.take() } else { self.own.get() };
        // Nothing to lower if another held lock has as high a ceiling, or another thread changed
        // the class.
        if let Some(own) = own
            && self.class(own) != self.given.get()
            && SchedClass::current() == Ok(self.given.get())
        {
            // Lower, and of the same class: what the system grants to everybody.
            if self.class(own).set_current().is_ok() {
                self.given.set(self.class(own));
            }
        }
    }
}

/// Counts a lock that the calling thread holds, or is about to take, among the ceilings that it
/// runs under.
struct Raised {
    ceiling: u8,
    // It counts for the thread that made it.
    not_send: PhantomData<*const ()>,
}

// SAFETY: nothing can be done with a shared one.
unsafe impl Sync for Raised {}

impl Raised {
    fn to(ceiling: u8) -> Result<Raised, CeilingError> {
        HELD.with(|held| held.raise(ceiling))?;
        Ok(Raised { ceiling, not_send: PhantomData })
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        HELD.with(|held| held.lower(self.ceiling));
    }
}

#[cfg(all(test, not(loom)))]
#[path = "ceiling_tests.rs"]
mod tests;

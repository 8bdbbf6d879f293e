//! `RTCORBA::Mutex` (RT-CORBA 1.2, mutexes): the ORB's own mutex, for programs.

use crate::{Result, SystemException};
use isorb_giop::{Completion, Kind};
use isorb_rt::sync::{LockError, PiLock, PiMutex};
use isorb_rt::time::Deadline;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A mutex with priority inheritance: its owner runs at the priority of the highest-priority thread
/// that waits for it. Cheap to clone: all clones are one mutex. The thread that locks it must
/// unlock it.
#[derive(Clone)]
pub struct Mutex(Arc<Inner>);

#[derive(Default)]
struct Inner {
    lock: PiLock,
    destroyed: AtomicBool,
}

/// `RTCORBA::RTORB::MutexNotFound`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MutexNotFound;

impl fmt::Display for MutexNotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "MutexNotFound: no mutex of this name was created, or it was destroyed; use create_named_mutex",
        )
    }
}

impl std::error::Error for MutexNotFound {}

/// The unit of the standard's `TimeBase::TimeT`: 100 ns.
const TICK_NS: u64 = 100;

impl Mutex {
    fn new() -> Mutex {
        Mutex(Arc::default())
    }

    /// Locks, without a time limit.
    ///
    /// # Errors
    /// BAD_INV_ORDER when this thread owns it, or owns a mutex that its owner waits for;
    /// OBJECT_NOT_EXIST once it is destroyed; INTERNAL when its owner ended without unlocking.
    ///
    /// # Real-time
    /// Does not allocate. Blocks while another thread owns the mutex; that thread runs at this
    /// thread's priority meanwhile.
    pub fn lock(&self) -> Result<()> {
        self.lock_until(Deadline::NONE).map(drop)
    }

    /// Unlocks. The waiting thread of the highest priority locks it next.
    ///
    /// # Errors
    /// BAD_INV_ORDER when this thread does not own it.
    ///
    /// # Real-time
    /// Neither allocates nor blocks.
    pub fn unlock(&self) -> Result<()> {
        self.0.lock.unlock().map_err(|error| refused(Kind::BadInvOrder, error))
    }

    /// Locks, waiting up to `max_wait` (in units of 100 ns, as `TimeBase::TimeT`; 0 does not wait).
    /// `false` when another thread still owned it then.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    ///
    /// # Real-time
    /// Does not allocate. Blocks up to `max_wait` on the monotonic clock.
    pub fn try_lock(&self, max_wait: u64) -> Result<bool> {
        if max_wait == 0 {
            self.check()?;
            return match self.0.lock.try_lock() {
                Ok(()) => self.locked(),
                Err(LockError::WouldBlock) => Ok(false),
                Err(error) => Err(refusal(error)),
            };
        }
        let wait = Duration::from_nanos(max_wait.saturating_mul(TICK_NS));
        self.lock_until(Deadline::after(wait))
    }

    fn lock_until(&self, deadline: Deadline) -> Result<bool> {
        self.check()?;
        match self.0.lock.lock_until(deadline) {
            Ok(()) => self.locked(),
            Err(LockError::TimedOut) => Ok(false),
            Err(error) => Err(refusal(error)),
        }
    }

    /// Unlocks again if it was destroyed while this thread waited.
    fn locked(&self) -> Result<bool> {
        let destroyed = self.check();
        if destroyed.is_err() {
            // This thread owns it, so unlocking cannot fail. The next waiter must get the error
            // too.
            let _ = self.0.lock.unlock();
        }
        destroyed.map(|()| true)
    }

    fn check(&self) -> Result<()> {
        if self.0.destroyed.load(Ordering::Acquire) {
            return Err(SystemException::from(Kind::ObjectNotExist).detail("the mutex was destroyed"));
        }
        Ok(())
    }
}

impl PartialEq for Mutex {
    fn eq(&self, other: &Mutex) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Mutex {}

impl fmt::Debug for Mutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").field("lock", &self.0.lock).finish_non_exhaustive()
    }
}

#[cold]
fn refusal(error: LockError) -> SystemException {
    let kind = match error {
        LockError::Deadlock => Kind::BadInvOrder,
        LockError::NoMemory => Kind::NoResources,
        LockError::Unsupported => Kind::NoImplement,
        _ => Kind::Internal,
    };
    refused(kind, error)
}

#[cold]
fn refused(kind: Kind, why: impl fmt::Display) -> SystemException {
    SystemException::new(kind, 0, Completion::No).detail(why.to_string())
}

/// The named mutexes of an ORB.
#[derive(Default)]
pub(crate) struct Mutexes(PiMutex<HashMap<Box<str>, Mutex>>);

impl Mutexes {
    /// The number of mutexes that can have names.
    const LIMIT: usize = 1 << 16;

    pub fn create(&self) -> Mutex {
        Mutex::new()
    }

    /// The mutex of this name; true if it was created now.
    ///
    /// # Errors
    /// IMP_LIMIT.
    pub fn create_named(&self, name: &str) -> Result<(Mutex, bool)> {
        let mut named = self.0.lock();
        if let Some(mutex) = named.get(name) {
            return Ok((mutex.clone(), false));
        }
        if named.len() >= Self::LIMIT {
            return Err(SystemException::from(Kind::ImpLimit).detail("65536 mutexes have names already"));
        }
        let mutex = Mutex::new();
        named.insert(name.into(), mutex.clone());
        Ok((mutex, true))
    }

    pub fn open_named(&self, name: &str) -> Result<Mutex, MutexNotFound> {
        self.0.lock().get(name).cloned().ok_or(MutexNotFound)
    }

    pub fn destroy(&self, mutex: &Mutex) {
        mutex.0.destroyed.store(true, Ordering::Release);
        let mut gone = Vec::new();
        self.0.lock().retain(|_, other| {
            let keep = other != mutex;
            if !keep {
                gone.push(other.clone());
            }
            keep
        });
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_at_a_time() {
        let mutex = Mutexes::default().create();
        mutex.lock().unwrap();
        assert_eq!(mutex.lock().unwrap_err().kind, Kind::BadInvOrder, "it has it already");
        assert_eq!(mutex.try_lock(0).unwrap_err().kind, Kind::BadInvOrder);
        let other = mutex.clone();
        std::thread::spawn(move || {
            assert_eq!(other.try_lock(0), Ok(false));
            assert_eq!(other.try_lock(10_000), Ok(false), "a millisecond");
            assert_eq!(other.unlock().unwrap_err().kind, Kind::BadInvOrder);
        })
        .join()
        .unwrap();
        mutex.unlock().unwrap();
        assert_eq!(mutex.try_lock(u64::MAX), Ok(true));
        mutex.unlock().unwrap();
        assert_eq!(mutex.unlock().unwrap_err().kind, Kind::BadInvOrder);
    }

    #[test]
    fn names_are_found_until_the_mutex_is_destroyed() {
        let mutexes = Mutexes::default();
        assert_eq!(mutexes.open_named("a"), Err(MutexNotFound));
        let (a, created) = mutexes.create_named("a").unwrap();
        assert!(created);
        assert_eq!(mutexes.create_named("a"), Ok((a.clone(), false)));
        assert_eq!(mutexes.open_named("a"), Ok(a.clone()));
        assert_ne!(mutexes.create(), a);
        mutexes.destroy(&a);
        assert_eq!(mutexes.open_named("a"), Err(MutexNotFound));
        assert_eq!(a.lock().unwrap_err().kind, Kind::ObjectNotExist);
        assert_eq!(a.try_lock(0).unwrap_err().kind, Kind::ObjectNotExist);
        assert!(mutexes.create_named("a").unwrap().1);
    }

    #[test]
    fn waiters_of_a_destroyed_mutex_are_refused() {
        let mutexes = Mutexes::default();
        let mutex = mutexes.create();
        mutex.lock().unwrap();
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let mutex = mutex.clone();
                std::thread::spawn(move || mutex.lock().map_err(|error| error.kind))
            })
            .collect();
        mutexes.destroy(&mutex);
        mutex.unlock().unwrap();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Err(Kind::ObjectNotExist));
        }
    }
}

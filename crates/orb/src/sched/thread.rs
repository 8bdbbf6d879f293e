//! The CORBA priority of the calling thread, and its scheduling class.
//!
//! A thread caches its class, so that setting the same class again needs no system call.

use super::priorities::Priorities;
use crate::{Result, SystemException};
use isorb_giop::Kind;
use isorb_rt::priority::Priority;
use isorb_rt::sched::{Cpus, SchedClass, ThreadSpec};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

/// The number of a thread pool in its ORB (`RTCORBA::ThreadpoolId`).
pub type ThreadpoolId = u32;

thread_local! {
    static PRIORITY: Cell<Option<Priority>> = const { Cell::new(None) };
    static POOL: Cell<ThreadpoolId> = const { Cell::new(0) };
    /// The lane that this thread runs requests of; 0 for none.
    static LANE: Cell<u64> = const { Cell::new(0) };
    /// `None` until it is known.
    static CLASS: Cell<Option<SchedClass>> = const { Cell::new(None) };
    /// The ORB started this thread, and changes its class.
    static OWN: Cell<bool> = const { Cell::new(false) };
}

/// The CORBA priority of this thread, if it has one: what `RTCORBA::Current` shows.
#[inline]
pub(crate) fn priority() -> Option<Priority> {
    PRIORITY.get()
}

/// Sets this thread's CORBA priority, and the class that it maps to.
///
/// # Errors
/// DATA_CONVERSION with minor code OMG|2 without a native priority; NO_PERMISSION when the system
/// refuses it.
///
/// # Real-time
/// One PI lock; one system call if the class changes.
pub(crate) fn set_priority(priorities: &Priorities, priority: Priority) -> Result<()> {
    let class = priorities.class(priority)?;
    if priorities.are_schedulable() {
        apply(class)?;
    }
    PRIORITY.set(Some(priority));
    Ok(())
}

/// Records the pool, priority and class with which this thread was started.
pub(crate) fn started_at(pool: ThreadpoolId, priority: Priority, class: SchedClass) {
    POOL.set(pool);
    PRIORITY.set(Some(priority));
    CLASS.set(Some(class));
}

/// Records the class of this thread, which the ORB has serve a connection. It may have served
/// another one before.
pub(crate) fn started_for_connection() {
    CLASS.set(SchedClass::current().ok());
    OWN.set(true);
    PRIORITY.set(None);
}

/// The class of this thread. That of a thread of the program may have been changed by the program.
///
/// # Real-time
/// A system call, unless the ORB started the thread.
pub(crate) fn present_class() -> Option<SchedClass> {
    let known = if OWN.get() { CLASS.get() } else { None };
    known.or_else(|| SchedClass::current().ok())
}

/// Records the lane that this thread runs requests of from now on: its own, or one that borrows it.
pub(crate) fn set_lane(lane: u64) {
    LANE.set(lane);
}

/// The number of the lane that this thread runs requests of; 0 for none. Numbers differ between all
/// lanes of the process.
pub(crate) fn lane() -> u64 {
    LANE.get()
}

/// The pool that this thread belongs to; 0 for none.
#[inline]
pub(crate) fn pool_id() -> ThreadpoolId {
    POOL.get()
}

/// Sets this thread's class.
///
/// # Errors
/// NO_PERMISSION.
#[inline]
pub(crate) fn apply(class: SchedClass) -> Result<()> {
    if CLASS.get() == Some(class) {
        return Ok(());
    }
    change(class)
}

fn change(class: SchedClass) -> Result<()> {
    class
        .set_current()
        .map_err(|error| SystemException::from(Kind::NoPermission).detail(format!("{class}: {error}")))?;
    CLASS.set(Some(class));
    Ok(())
}

/// Sets this thread's priority and class after another thread may have changed the class. A refusal
/// of the system is logged.
pub(crate) fn reassert(priority: Priority, class: SchedClass) {
    PRIORITY.set(Some(priority));
    if let Err(error) = change(class) {
        CLASS.set(None);
        crate::log::warn("isorb::sched", format_args!("a thread of a lane: {error}"));
    }
}

/// Forgets this thread's class, because another thread may change it from now on.
#[cfg(any(feature = "miop", feature = "dynamic-scheduling"))]
pub(crate) fn forget_class() {
    CLASS.set(None);
}

/// The priority and the class of a thread, to be restored later.
#[cfg(feature = "dynamic-scheduling")]
#[derive(Debug)]
pub(crate) struct SavedPriority {
    priority: Option<Priority>,
    class: Option<SchedClass>,
}

/// Saves the calling thread's priority and class.
///
/// # Real-time
/// A system call if the class is not known.
#[cfg(feature = "dynamic-scheduling")]
pub(crate) fn save() -> SavedPriority {
    SavedPriority { priority: PRIORITY.get(), class: CLASS.get().or_else(|| SchedClass::current().ok()) }
}

#[cfg(feature = "dynamic-scheduling")]
impl SavedPriority {
    /// Restores the calling thread's priority and class. A refusal of the system is logged.
    ///
    /// # Real-time
    /// A system call if the class differs or is not known.
    pub fn restore(self) {
        PRIORITY.set(self.priority);
        if let Some(class) = self.class
            && let Err(error) = apply(class)
        {
            crate::log::warn(
                "isorb::sched",
                format_args!("a thread keeps the priority of a scheduling segment: {error}"),
            );
        }
    }
}

/// This thread's class, if it is known.
pub(crate) fn class() -> Option<SchedClass> {
    CLASS.get()
}

/// Restores this thread's class after a demotion; the ordinary class if none is known.
#[cold]
pub(crate) fn restore_class(class: Option<SchedClass>) {
    if let Err(error) = change(class.unwrap_or_default()) {
        CLASS.set(None);
        crate::log::warn("isorb::sched", format_args!("a demoted thread stays so: {error}"));
    }
}

/// Runs the thread at another priority while it lives, then at the earlier one. Stays on its
/// thread.
#[derive(Debug)]
pub(crate) struct PriorityGuard {
    before: Option<Priority>,
    /// The class to restore, if it was changed.
    class: Option<SchedClass>,
    here: PhantomData<*const ()>,
}

impl PriorityGuard {
    /// Sets the calling thread's priority for a time.
    ///
    /// # Errors
    /// As [`set_priority`].
    ///
    /// # Real-time
    /// Nothing if the thread has that priority; else one PI lock, and a system call now and at the
    /// end if the class differs.
    #[inline]
    pub fn to(priorities: &Priorities, priority: Priority) -> Result<PriorityGuard> {
        let before = PRIORITY.get();
        if before == Some(priority) {
            return Ok(PriorityGuard { before, class: None, here: PhantomData });
        }
        let class = priorities.class(priority)?;
        PriorityGuard::with_class(priorities, priority, Some(class))
    }

    /// Sets the calling thread's priority, and a class that need not correspond to it, for a time;
    /// `None` leaves the class unchanged.
    ///
    /// # Errors
    /// NO_PERMISSION where the system refuses the class.
    ///
    /// # Real-time
    /// A system call now and at the end if the class differs.
    #[inline]
    pub fn with_class(
        priorities: &Priorities,
        priority: Priority,
        class: Option<SchedClass>,
    ) -> Result<PriorityGuard> {
        let class = match class {
            Some(class) if priorities.are_schedulable() => replace_class(class)?,
            _ => None,
        };
        let before = PRIORITY.replace(Some(priority));
        Ok(PriorityGuard { before, class, here: PhantomData })
    }
}

/// Sets this thread's class, and returns the earlier one if it differs.
fn replace_class(class: SchedClass) -> Result<Option<SchedClass>> {
    let now = match CLASS.get() {
        Some(now) => now,
        None => SchedClass::current().unwrap_or_default(),
    };
    CLASS.set(Some(now));
    if now == class {
        return Ok(None);
    }
    apply(class)?;
    Ok(Some(now))
}

impl Drop for PriorityGuard {
    #[inline]
    fn drop(&mut self) {
        PRIORITY.set(self.before);
        if let Some(class) = self.class {
            // Restoring the earlier class is normally permitted. After a refusal the thread keeps
            // its higher priority, which is logged.
            if let Err(error) = apply(class) {
                crate::log::warn(
                    "isorb::sched",
                    format_args!("a thread keeps the priority of a request: {error}"),
                );
            }
        }
    }
}

/// The attributes of a lane's threads.
#[derive(Clone, Debug)]
pub(crate) struct ThreadPlan {
    pub pool: ThreadpoolId,
    /// The number of the lane.
    pub lane: u64,
    pub priority: Priority,
    pub class: SchedClass,
    pub name: Arc<str>,
    pub cpus: Option<Cpus>,
    pub stack_size: usize,
    pub prefault: usize,
}

impl ThreadPlan {
    /// The attributes of the next thread.
    pub fn spec(&self) -> ThreadSpec {
        let spec = ThreadSpec::new(&*self.name).class(self.class).prefault(self.prefault);
        let spec = if self.stack_size == 0 { spec } else { spec.stack_size(self.stack_size) };
        match self.cpus {
            Some(cpus) => spec.cpus(cpus),
            None => spec,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::RealTimeConfig;
    use super::super::priorities::checked;
    use super::*;

    #[test]
    fn a_priority_is_had_for_a_time() {
        std::thread::spawn(|| {
            let priorities = Priorities::new(&RealTimeConfig::default());
            let (low, high) = (checked(10).unwrap(), Priority::MAX);
            assert_eq!(priority(), None);
            set_priority(&priorities, low).unwrap();
            let class = SchedClass::current().unwrap();
            {
                let _guard = PriorityGuard::to(&priorities, high).unwrap();
                assert_eq!(priority(), Some(high));
                if priorities.are_schedulable() {
                    assert_ne!(SchedClass::current(), Ok(class));
                } else {
                    println!("skipped: no right to real-time scheduling here");
                }
                let _same = PriorityGuard::to(&priorities, high).unwrap();
            }
            assert_eq!((priority(), SchedClass::current()), (Some(low), Ok(class)));
        })
        .join()
        .unwrap();
    }

    /// The priority of its calls is that of its class. A system call for each would be one of three
    /// in the thread of a channel that passes an event on.
    #[test]
    fn the_class_is_asked_for_once_where_only_the_orb_changes_it() {
        let fifo = SchedClass::Fifo(1);
        if !std::thread::spawn(move || fifo.set_current().is_ok()).join().unwrap() {
            return println!("skipped: no right to real-time scheduling here");
        }
        let changed = |started: fn()| {
            let thread = std::thread::spawn(move || {
                started();
                let before = present_class();
                fifo.set_current().unwrap();
                (before, present_class())
            });
            thread.join().unwrap()
        };
        let (before, after) = changed(|| ());
        assert_eq!(after, Some(fifo), "the program may change its own threads");
        assert_eq!(changed(started_for_connection), (before, before));
        let applied = std::thread::spawn(move || {
            started_for_connection();
            apply(fifo).unwrap();
            present_class()
        });
        assert_eq!(applied.join().unwrap(), Some(fifo));
    }

    #[test]
    fn what_cannot_be_mapped_changes_nothing() {
        use super::super::config::Mapping;
        let config = RealTimeConfig { mapping: Mapping::Direct, ..RealTimeConfig::default() };
        let priorities = Priorities::new(&config);
        assert_eq!(PriorityGuard::to(&priorities, Priority::MAX).unwrap_err().kind, Kind::DataConversion);
        assert_eq!(priority(), None);
    }
}

//! The CORBA priority of the calling thread, and the scheduling class that goes with it.
//!
//! A thread knows what it was given last, so that giving it the same again costs no system call.

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
    /// `None` until it is known.
    static CLASS: Cell<Option<SchedClass>> = const { Cell::new(None) };
}

/// The CORBA priority of this thread, if it has one: what `RTCORBA::Current` shows.
#[inline]
pub(crate) fn priority() -> Option<Priority> {
    PRIORITY.get()
}

/// Gives this thread a CORBA priority, and the class that it maps to.
///
/// # Errors
/// DATA_CONVERSION with minor code OMG|2 where there is none; NO_PERMISSION when the system refuses it.
///
/// # Real-time
/// One PI lock; one system call where the class changes.
pub(crate) fn set_priority(priorities: &Priorities, priority: Priority) -> Result<()> {
    let class = priorities.class(priority)?;
    if priorities.are_applied() {
        apply(class)?;
    }
    PRIORITY.set(Some(priority));
    Ok(())
}

/// Tells a thread of a pool that was just started at a priority and in a class that it was.
pub(crate) fn started_at(pool: ThreadpoolId, priority: Priority, class: SchedClass) {
    POOL.set(pool);
    PRIORITY.set(Some(priority));
    CLASS.set(Some(class));
}

/// The pool that this thread belongs to; 0 for none.
#[inline]
pub(crate) fn serves() -> ThreadpoolId {
    POOL.get()
}

/// Gives this thread a class.
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

/// Gives this thread a priority and its class, when somebody else may have changed the class. What the system refuses is
/// noted.
pub(crate) fn become_of(priority: Priority, class: SchedClass) {
    PRIORITY.set(Some(priority));
    if let Err(error) = change(class) {
        CLASS.set(None);
        crate::log::note(format_args!("a thread of a lane: {error}"));
    }
}

/// Somebody else may change this thread's class from now on: it is not known any more.
pub(crate) fn class_was_changed() {
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
/// A system call where the class is not known.
#[cfg(feature = "dynamic-scheduling")]
pub(crate) fn save() -> SavedPriority {
    SavedPriority { priority: PRIORITY.get(), class: CLASS.get().or_else(|| SchedClass::current().ok()) }
}

#[cfg(feature = "dynamic-scheduling")]
impl SavedPriority {
    /// Restores the calling thread's priority and class. A refusal of the system is logged.
    ///
    /// # Real-time
    /// A system call where the class is another one or not known.
    pub fn restore(self) {
        PRIORITY.set(self.priority);
        if let Some(class) = self.class
            && let Err(error) = apply(class)
        {
            crate::log::note(format_args!("a thread keeps the priority of a scheduling segment: {error}"));
        }
    }
}

/// This thread's class, where it was given one.
pub(crate) fn class() -> Option<SchedClass> {
    CLASS.get()
}

/// Gives this thread its class back which somebody took; an ordinary one where it was never given any.
#[cold]
pub(crate) fn restore_class(class: Option<SchedClass>) {
    if let Err(error) = change(class.unwrap_or_default()) {
        CLASS.set(None);
        crate::log::note(format_args!("a demoted thread stays so: {error}"));
    }
}

/// Runs at another priority while it lives, then at the one before. Stays on its thread.
#[derive(Debug)]
pub(crate) struct Raised {
    before: Option<Priority>,
    /// The class to go back to, where it was changed.
    class: Option<SchedClass>,
    here: PhantomData<*const ()>,
}

impl Raised {
    /// Gives the calling thread a priority for a time.
    ///
    /// # Errors
    /// As [`set_priority`].
    ///
    /// # Real-time
    /// Nothing where the thread has that priority; else one PI lock, and a system call now and at the end where the class differs.
    #[inline]
    pub fn to(priorities: &Priorities, priority: Priority) -> Result<Raised> {
        let before = PRIORITY.get();
        if before == Some(priority) {
            return Ok(Raised { before, class: None, here: PhantomData });
        }
        let class = priorities.class(priority)?;
        Raised::with_class(priorities, priority, Some(class))
    }

    /// Gives the calling thread a priority and a class that need not go with it, for a time; `None` leaves the class as it is.
    ///
    /// # Errors
    /// NO_PERMISSION where the system refuses the class.
    ///
    /// # Real-time
    /// A system call now and at the end where the class differs.
    #[inline]
    pub fn with_class(
        priorities: &Priorities,
        priority: Priority,
        class: Option<SchedClass>,
    ) -> Result<Raised> {
        let class = match class {
            Some(class) if priorities.are_applied() => replace_class(class)?,
            _ => None,
        };
        let before = PRIORITY.replace(Some(priority));
        Ok(Raised { before, class, here: PhantomData })
    }
}

/// Gives this thread a class; the one before, if that was another.
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

impl Drop for Raised {
    #[inline]
    fn drop(&mut self) {
        PRIORITY.set(self.before);
        if let Some(class) = self.class {
            // What it had a moment ago it may have again; a refusal leaves it more urgent, which is noted.
            if let Err(error) = apply(class) {
                crate::log::note(format_args!("a thread keeps the priority of a request: {error}"));
            }
        }
    }
}

/// What a thread of a lane is.
#[derive(Clone, Debug)]
pub(crate) struct ThreadPlan {
    pub pool: ThreadpoolId,
    pub priority: Priority,
    pub class: SchedClass,
    pub name: Arc<str>,
    pub cpus: Option<Cpus>,
    pub stack_size: usize,
    pub prefault: usize,
}

impl ThreadPlan {
    /// For the next thread.
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
                let _raised = Raised::to(&priorities, high).unwrap();
                assert_eq!(priority(), Some(high));
                if priorities.are_applied() {
                    assert_ne!(SchedClass::current(), Ok(class));
                } else {
                    println!("skipped: no right to real-time scheduling here");
                }
                let _same = Raised::to(&priorities, high).unwrap();
            }
            assert_eq!((priority(), SchedClass::current()), (Some(low), Ok(class)));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn what_cannot_be_mapped_changes_nothing() {
        use super::super::config::Mapping;
        let config = RealTimeConfig { mapping: Mapping::Direct, ..RealTimeConfig::default() };
        let priorities = Priorities::new(&config);
        assert_eq!(Raised::to(&priorities, Priority::MAX).unwrap_err().kind, Kind::DataConversion);
        assert_eq!(priority(), None);
    }
}

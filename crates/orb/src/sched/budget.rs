//! Budgets of operations: the processor time that an upcall may take, and records of upcalls that
//! took more.
//!
//! A budget is compared with the processor clock of the thread, so that time taken by other threads
//! does not count. The thread itself checks at the end of its upcall. A
//! [watchdog](super::watchdog), if one is started, checks while it runs.

use super::thread;
use crate::{Interface, Result, SystemException};
use isorb_giop::Kind;
use isorb_rt::pool::IndexPool;
use isorb_rt::sched::{SchedClass, ThreadId};
use isorb_rt::sync::PiMutex;
use isorb_rt::time::thread_cpu_ns;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The consequence for an upcall that exceeds its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Overrun {
    /// The overrun is counted and reported.
    #[default]
    Report,
    /// In addition the thread runs in the ordinary class until it returns, so that other threads
    /// keep their deadlines. Needs a watchdog.
    Demote,
}

/// The allowed cost of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Worst-case execution time: processor time of one upcall, arguments and results included.
    pub worst_case: Duration,
    /// The consequence of exceeding it.
    pub overrun: Overrun,
}

/// The state of an operation with a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetStatus {
    /// Repository id of the interface.
    pub interface: String,
    /// Operation.
    pub operation: String,
    /// Its budget.
    pub budget: Budget,
    /// Upcalls that have ended.
    pub calls: u64,
    /// Upcalls that exceeded the budget.
    pub overruns: u64,
    /// Of these, the upcalls that the watchdog demoted.
    pub demoted: u64,
    /// Upcalls that ran at the same time as 256 others with budgets. They are not watched, but
    /// counted when they end.
    pub unwatched: u64,
    /// The most processor time of an upcall.
    pub worst_seen: Duration,
}

/// Receives overruns, on the thread that found them: the watchdog's, or the upcall's own at its
/// end.
pub trait OverrunObserver: Send + Sync {
    /// An upcall of this operation has used `used`. It is still running if `running`.
    fn overrun(&self, operation: &BudgetStatus, used: Duration, running: bool);
}

/// An operation with a budget.
pub(crate) struct Entry {
    interface: String,
    operation: String,
    budget: Budget,
    calls: AtomicU64,
    overruns: AtomicU64,
    demoted: AtomicU64,
    unwatched: AtomicU64,
    worst_ns: AtomicU64,
}

impl Entry {
    fn budget_ns(&self) -> u64 {
        u64::try_from(self.budget.worst_case.as_nanos()).unwrap_or(u64::MAX)
    }

    fn status(&self) -> BudgetStatus {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        BudgetStatus {
            interface: self.interface.clone(),
            operation: self.operation.clone(),
            budget: self.budget,
            calls: count(&self.calls),
            overruns: count(&self.overruns),
            demoted: count(&self.demoted),
            unwatched: count(&self.unwatched),
            worst_seen: Duration::from_nanos(count(&self.worst_ns)),
        }
    }
}

/// The budgets of an ORB.
pub(crate) struct Budgets {
    /// Whether there are any; read for each request.
    any: AtomicBool,
    table: PiMutex<Table>,
    slots: IndexPool,
    /// Running upcalls by slot.
    watched: Box<[PiMutex<Option<RunningUpcall>>]>,
    observer: PiMutex<Option<Arc<dyn OverrunObserver>>>,
}

#[derive(Default)]
struct Table {
    declared: Vec<Arc<Entry>>,
    /// The entries of called operations, by the interface's address and the operation's number.
    found: HashMap<(usize, u16), Option<Arc<Entry>>>,
}

/// A running upcall.
struct RunningUpcall {
    entry: Arc<Entry>,
    thread: ThreadId,
    /// On the thread's processor clock.
    began_ns: u64,
    /// Whether its thread was demoted, and needs its class back.
    demoted: bool,
    reported: bool,
}

impl Budgets {
    /// The number of upcalls with budgets that are watched at a time.
    pub const MOST_WATCHED: usize = 256;
    /// The number of operations that may have budgets.
    const MOST: usize = 4096;

    pub fn new() -> Budgets {
        Budgets {
            any: AtomicBool::new(false),
            table: PiMutex::default(),
            slots: IndexPool::new(Self::MOST_WATCHED),
            watched: (0..Self::MOST_WATCHED).map(|_| PiMutex::new(None)).collect(),
            observer: PiMutex::default(),
        }
    }

    /// Sets or replaces the budget of an operation, and resets its counts.
    ///
    /// # Errors
    /// BAD_PARAM for a budget of zero; IMP_LIMIT.
    pub fn set(&self, interface: &str, operation: &str, budget: Budget) -> Result<()> {
        if budget.worst_case.is_zero() {
            return Err(SystemException::from(Kind::BadParam).detail("a budget is more than nothing"));
        }
        let entry = Arc::new(Entry {
            interface: interface.into(),
            operation: operation.into(),
            budget,
            calls: AtomicU64::new(0),
            overruns: AtomicU64::new(0),
            demoted: AtomicU64::new(0),
            unwatched: AtomicU64::new(0),
            worst_ns: AtomicU64::new(0),
        });
        let mut table = self.table.lock();
        table.declared.retain(|other| other.interface != interface || other.operation != operation);
        if table.declared.len() >= Self::MOST {
            return Err(SystemException::from(Kind::ImpLimit).detail("4096 operations have budgets already"));
        }
        table.declared.push(entry);
        table.found.clear();
        self.any.store(true, Ordering::Release);
        Ok(())
    }

    /// Removes a budget; false if there was none.
    pub fn clear(&self, interface: &str, operation: &str) -> bool {
        let mut table = self.table.lock();
        let before = table.declared.len();
        table.declared.retain(|other| other.interface != interface || other.operation != operation);
        table.found.clear();
        self.any.store(!table.declared.is_empty(), Ordering::Release);
        table.declared.len() < before
    }

    pub fn status(&self) -> Vec<BudgetStatus> {
        self.table.lock().declared.iter().map(|entry| entry.status()).collect()
    }

    pub fn set_observer(&self, observer: Option<Arc<dyn OverrunObserver>>) {
        let before = std::mem::replace(&mut *self.observer.lock(), observer);
        drop(before);
    }

    /// Begins to measure an upcall, if its operation has a budget.
    ///
    /// # Real-time
    /// One load if the ORB has no budgets. Else a PI lock and a look-up; for an operation with a
    /// budget two more PI locks, held briefly, and a system call at each end. Allocates with the
    /// first call of each operation.
    #[inline(always)]
    pub fn begin(
        &self,
        interface: &'static Interface,
        operation: (u16, &'static str),
    ) -> Option<BudgetGuard<'_>> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        self.begin_if_declared(interface, operation)
    }

    #[inline(never)]
    fn begin_if_declared(
        &self,
        interface: &'static Interface,
        (index, name): (u16, &'static str),
    ) -> Option<BudgetGuard<'_>> {
        let address = std::ptr::from_ref(interface).addr();
        let entry = {
            let mut table = self.table.lock();
            let Table { declared, found } = &mut *table;
            let declared = || {
                let of_it = |entry: &&Arc<Entry>| entry.operation == name && interface.is_a(&entry.interface);
                declared.iter().find(of_it).cloned()
            };
            found.entry((address, index)).or_insert_with(declared).clone()?
        };
        let began_ns = thread_cpu_ns();
        let slot = self.slots.take();
        match slot {
            None => _ = entry.unwatched.fetch_add(1, Ordering::Relaxed),
            Some(slot) => {
                let thread = ThreadId::current();
                let entry = entry.clone();
                *self.watched[slot].lock() =
                    Some(RunningUpcall { entry, thread, began_ns, demoted: false, reported: false });
            }
        }
        Some(BudgetGuard { budgets: self, entry, began_ns, slot, class: thread::class() })
    }

    /// Checks the running upcalls; for the watchdog.
    pub fn check_running(&self) {
        for slot in &self.watched {
            let overrun = {
                let mut watched = slot.lock();
                match &mut *watched {
                    Some(watched) if !watched.reported => watched.look(),
                    _ => None,
                }
            };
            if let Some((entry, used)) = overrun {
                self.report(&entry, used, true);
            }
        }
    }

    #[cold]
    fn report(&self, entry: &Entry, used_ns: u64, running: bool) {
        let used = Duration::from_nanos(used_ns);
        let observer = self.observer.lock().clone();
        match observer {
            Some(observer) => observer.overrun(&entry.status(), used, running),
            None => crate::log::warn(
                "isorb::sched",
                format_args!(
                    "{} of {} has used {used:?} of processor time{}, its budget is {:?}",
                    entry.operation,
                    entry.interface,
                    if running { " and runs" } else { "" },
                    entry.budget.worst_case
                ),
            ),
        }
    }
}

impl RunningUpcall {
    /// With the slot locked, so that the upcall does not end and its thread does not change
    /// meanwhile.
    fn look(&mut self) -> Option<(Arc<Entry>, u64)> {
        let used = self.thread.cpu_ns().ok()?.saturating_sub(self.began_ns);
        if used <= self.entry.budget_ns() {
            return None;
        }
        self.reported = true;
        self.entry.overruns.fetch_add(1, Ordering::Relaxed);
        if self.entry.budget.overrun == Overrun::Demote && self.thread.set_class(SchedClass::Other).is_ok() {
            self.demoted = true;
            self.entry.demoted.fetch_add(1, Ordering::Relaxed);
        }
        Some((self.entry.clone(), used))
    }
}

/// The measurement of a running upcall with a budget.
pub(crate) struct BudgetGuard<'b> {
    budgets: &'b Budgets,
    entry: Arc<Entry>,
    began_ns: u64,
    slot: Option<usize>,
    class: Option<SchedClass>,
}

impl Drop for BudgetGuard<'_> {
    fn drop(&mut self) {
        let mut reported = false;
        if let Some(slot) = self.slot {
            let watched = self.budgets.watched[slot].lock().take();
            self.budgets.slots.give(slot);
            if let Some(watched) = watched {
                reported = watched.reported;
                if watched.demoted {
                    thread::restore_class(self.class);
                }
            }
        }
        let used = thread_cpu_ns().saturating_sub(self.began_ns);
        let entry = &self.entry;
        entry.calls.fetch_add(1, Ordering::Relaxed);
        entry.worst_ns.fetch_max(used, Ordering::Relaxed);
        if !reported && used > entry.budget_ns() {
            entry.overruns.fetch_add(1, Ordering::Relaxed);
            self.budgets.report(entry, used, false);
        }
    }
}

impl fmt::Debug for Budgets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.status()).finish()
    }
}

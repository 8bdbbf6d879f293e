//! Processors that a thread may run on.

use core::fmt;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::class::SchedError;

/// A set of processors, by the kernel's numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Cpus(CpuSet);

impl Cpus {
    /// All processors of any machine have numbers below this.
    pub const MAX: usize = CpuSet::MAX_CPU;

    /// No processor.
    pub fn none() -> Cpus {
        Cpus(CpuSet::new())
    }

    /// One processor.
    pub fn one(cpu: usize) -> Cpus {
        Cpus::none().with(cpu)
    }

    /// This set and one more. Numbers beyond what the kernel can have (1024) are left out, so the
    /// set may be empty, which [`set_current_cpus`] refuses.
    #[must_use]
    pub fn with(mut self, cpu: usize) -> Cpus {
        if cpu < CpuSet::MAX_CPU {
            self.0.set(cpu);
        }
        self
    }

    /// Whether the processor is in the set.
    pub fn contains(&self, cpu: usize) -> bool {
        cpu < CpuSet::MAX_CPU && self.0.is_set(cpu)
    }

    /// The number of processors.
    pub fn len(&self) -> usize {
        self.0.count() as usize
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..CpuSet::MAX_CPU).filter(|&cpu| self.0.is_set(cpu))
    }
}

impl FromIterator<usize> for Cpus {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        cpus.into_iter().fold(Cpus::none(), Cpus::with)
    }
}

impl fmt::Display for Cpus {
    /// Their numbers, with commas between.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, cpu) in self.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{cpu}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Confines the calling thread to `cpus`. Threads that it creates later inherit that.
///
/// # Errors
/// [`SchedError::OutOfRange`] if none of them exists or all are forbidden by the control group.
///
/// # Real-time
/// Does not allocate. May block for the migration; for start-up.
pub fn set_current_cpus(cpus: &Cpus) -> Result<(), SchedError> {
    sched_setaffinity(None, &cpus.0).map_err(SchedError::from_errno)
}

/// The processors that the calling thread may use.
///
/// # Errors
/// [`SchedError::OutOfRange`] on a machine with more than 1024 processors.
pub fn current_cpus() -> Result<Cpus, SchedError> {
    sched_getaffinity(None).map(Cpus).map_err(SchedError::from_errno)
}

/// The processor that the calling thread runs on now. Unless the thread is confined to one, it may
/// have moved when this returns.
///
/// # Real-time
/// Some nanoseconds. The C library reads a word that the kernel keeps for each thread (glibc from
/// 2.35 on), or runs code that the kernel lends it; a system call where it can do neither.
#[inline]
pub fn current_cpu() -> usize {
    // SAFETY: it takes nothing and only reads.
    let cpu = unsafe { libc::sched_getcpu() };
    // It fails on no kernel since 2.6.19. No processor has that number.
    usize::try_from(cpu).unwrap_or(usize::MAX)
}

/// The number of processors that the machine can have; their numbers are below this.
///
/// # Real-time
/// Opens a file; for start-up.
pub fn possible_cpus() -> usize {
    // "0-3", or "0-3,8-11": the last number is the highest.
    let listed = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let highest = listed.trim().rsplit([',', '-']).next().and_then(|number| number.parse::<usize>().ok());
    let usable = || current_cpus().ok().and_then(|cpus| cpus.iter().last());
    highest.or_else(usable).map_or(1, |highest| (highest + 1).min(Cpus::MAX))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::testing::in_thread;

    #[test]
    fn a_thread_stays_where_it_is_put() {
        in_thread(|| {
            let all = current_cpus().unwrap();
            let last = all.iter().last().unwrap();
            set_current_cpus(&Cpus::one(last)).unwrap();
            assert_eq!(current_cpus().unwrap(), Cpus::one(last));
            assert_eq!(current_cpu(), last);
            assert!(last < possible_cpus());
        });
    }

    #[test]
    fn an_empty_set_is_refused() {
        in_thread(|| {
            assert_eq!(set_current_cpus(&Cpus::none()), Err(SchedError::OutOfRange));
            assert_eq!(set_current_cpus(&Cpus::one(1023)), Err(SchedError::OutOfRange));
            assert!(Cpus::one(usize::MAX).is_empty());
        });
    }

    #[test]
    fn sets_are_sets() {
        let s: Cpus = [3, 1, 3].into_iter().collect();
        assert_eq!(s.iter().collect::<Vec<_>>(), [1, 3]);
        assert_eq!((s.len(), s.contains(1), s.contains(2)), (2, true, false));
        assert_eq!(format!("{s:?}"), "{1, 3}");
    }
}

//! Scheduling classes and native priorities.
//!
//! Through `sched_setattr(2)`, the one call that knows every class; neither libc nor rustix wraps
//! it. (libc's own `sched_setscheduler` would do for all but the reservation.)

use core::fmt;

use rustix::io::Errno;
use rustix::process::Pid;

/// How a thread competes for the processor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum SchedClass {
    /// Time sharing, the class of ordinary threads (`SCHED_OTHER`), at the nice value that the
    /// thread has.
    #[default]
    Other,
    /// Runs until it blocks or a more urgent thread arrives (`SCHED_FIFO`). The native priority is
    /// in the [`NativeRange`]; higher is more urgent.
    Fifo(u8),
    /// As `Fifo`, but threads of one priority take turns (`SCHED_RR`).
    Rr(u8),
    /// Guaranteed processor time by earliest deadline first (`SCHED_DEADLINE`), above every `Fifo`
    /// and `Rr`.
    Reserved(Reservation),
}

/// `runtime_ns` of processor time in each `period_ns`, within `deadline_ns` of the period's start.
/// The kernel admits reservations only as far as the processors can serve them all.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reservation {
    /// Processor time a period; at least 1024 ns.
    pub runtime_ns: u64,
    /// Relative deadline: `runtime_ns <= deadline_ns <= period_ns`.
    pub deadline_ns: u64,
    /// Period.
    pub period_ns: u64,
}

/// Why a class could not be set or read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SchedError {
    /// The process lacks the right; [`RealTime`](super::RealTime) explains which. A reservation is
    /// also refused to a thread that may not run on all processors of its root domain.
    NotPermitted,
    /// The priority is outside the native range, the reservation's numbers contradict each other,
    /// or the set of processors has none that the thread may use.
    OutOfRange,
    /// The processors cannot serve this reservation beside those that were admitted.
    NotAdmitted,
    /// The thread has ended.
    NoThread,
    /// Another error of the kernel.
    Os(Errno),
}

impl SchedError {
    pub(super) fn from_errno(e: Errno) -> Self {
        match e {
            Errno::PERM | Errno::ACCESS => SchedError::NotPermitted,
            Errno::INVAL => SchedError::OutOfRange,
            Errno::BUSY => SchedError::NotAdmitted,
            Errno::SRCH => SchedError::NoThread,
            e => SchedError::Os(e),
        }
    }
}

impl fmt::Display for SchedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SchedError::NotPermitted => "the process may not schedule a thread like that",
            SchedError::OutOfRange => "a scheduling parameter is out of range",
            SchedError::NotAdmitted => "the processors cannot serve this reservation beside the others",
            SchedError::NoThread => "the thread has ended",
            SchedError::Os(e) => return write!(f, "the kernel refused a scheduling request: {e}"),
        })
    }
}

impl std::error::Error for SchedError {}

impl SchedClass {
    /// Sets the class of the calling thread. Threads that it creates later with the standard
    /// library inherit it.
    ///
    /// # Errors
    /// [`SchedError`].
    ///
    /// # Real-time
    /// Neither allocates nor blocks; one system call, two for `Other`. A thread that lowers itself
    /// may lose the processor.
    pub fn set_current(self) -> Result<(), SchedError> {
        self.set(0)
    }

    /// The calling thread's class. A class that is not one of these (batch, idle) reads as `Other`.
    ///
    /// # Errors
    /// [`SchedError::Os`], where a sandbox forbids the call.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; one system call.
    pub fn current() -> Result<SchedClass, SchedError> {
        Self::get(0)
    }

    /// The native priority, if the class has one.
    pub fn native_priority(self) -> Option<u8> {
        match self {
            SchedClass::Fifo(p) | SchedClass::Rr(p) => Some(p),
            SchedClass::Other | SchedClass::Reserved(_) => None,
        }
    }

    pub(super) fn set(self, thread: i32) -> Result<(), SchedError> {
        let mut attr = self.attr();
        if self == SchedClass::Other {
            // A thread that was started with a nice value keeps it. Without rights, lowering it is
            // refused.
            attr.sched_nice = nice(thread);
        }
        // SAFETY: the kernel reads as many bytes as the structure's size field says, which is the
        // structure's.
        let r = unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const attr, 0) };
        if r == 0 { Ok(()) } else { Err(last_error()) }
    }

    pub(crate) fn get(thread: i32) -> Result<SchedClass, SchedError> {
        let mut attr = blank();
        let size = attr.size;
        // SAFETY: the kernel writes at most `size` bytes, the structure's size.
        let r = unsafe { libc::syscall(libc::SYS_sched_getattr, thread, &raw mut attr, size, 0) };
        if r != 0 {
            return Err(last_error());
        }
        Ok(match attr.sched_policy as i32 {
            libc::SCHED_FIFO => SchedClass::Fifo(attr.sched_priority as u8),
            libc::SCHED_RR => SchedClass::Rr(attr.sched_priority as u8),
            SCHED_DEADLINE => SchedClass::Reserved(Reservation {
                runtime_ns: attr.sched_runtime,
                deadline_ns: attr.sched_deadline,
                period_ns: attr.sched_period,
            }),
            _ => SchedClass::Other,
        })
    }

    fn attr(self) -> libc::sched_attr {
        let mut attr = blank();
        match self {
            SchedClass::Other => attr.sched_policy = libc::SCHED_OTHER as u32,
            SchedClass::Fifo(p) => {
                attr.sched_policy = libc::SCHED_FIFO as u32;
                attr.sched_priority = p.into();
            }
            SchedClass::Rr(p) => {
                attr.sched_policy = libc::SCHED_RR as u32;
                attr.sched_priority = p.into();
            }
            SchedClass::Reserved(r) => {
                attr.sched_policy = SCHED_DEADLINE as u32;
                // Without this flag the kernel lets the thread start no others, since nothing is
                // reserved for them.
                attr.sched_flags = libc::SCHED_FLAG_RESET_ON_FORK as u64;
                attr.sched_runtime = r.runtime_ns;
                attr.sched_deadline = r.deadline_ns;
                attr.sched_period = r.period_ns;
            }
        }
        attr
    }
}

impl fmt::Display for SchedClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchedClass::Other => f.write_str("SCHED_OTHER"),
            SchedClass::Fifo(p) => write!(f, "SCHED_FIFO {p}"),
            SchedClass::Rr(p) => write!(f, "SCHED_RR {p}"),
            SchedClass::Reserved(r) => {
                write!(
                    f,
                    "SCHED_DEADLINE {} ns within {} ns every {} ns",
                    r.runtime_ns, r.deadline_ns, r.period_ns
                )
            }
        }
    }
}

/// The native priorities that may be used, ends included; higher is more urgent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NativeRange {
    /// Least urgent.
    pub min: u8,
    /// Most urgent.
    pub max: u8,
}

impl NativeRange {
    /// The system's range for `Fifo` and `Rr`; 1 to 99 on Linux.
    pub fn system() -> NativeRange {
        // SAFETY: no preconditions; the answers are in 1..=99 or, for a class the kernel lacks, -1.
        let (min, max) = unsafe {
            (libc::sched_get_priority_min(libc::SCHED_FIFO), libc::sched_get_priority_max(libc::SCHED_FIFO))
        };
        NativeRange { min: min.clamp(1, 255) as u8, max: max.clamp(1, 255) as u8 }
    }

    /// A part of the system's range, so that something else can have the rest (interrupt threads of
    /// a PREEMPT_RT kernel run at 50). `None` if `min > max` or an end lies outside the system's
    /// range.
    pub fn new(min: u8, max: u8) -> Option<NativeRange> {
        let system = NativeRange::system();
        (system.min <= min && min <= max && max <= system.max).then_some(NativeRange { min, max })
    }

    /// Whether the range contains `native`.
    pub const fn contains(self, native: u8) -> bool {
        self.min <= native && native <= self.max
    }
}

impl Default for NativeRange {
    fn default() -> Self {
        NativeRange::system()
    }
}

// The libc crate has it for some systems' libraries only.
const SCHED_DEADLINE: i32 = 6;

fn blank() -> libc::sched_attr {
    libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    }
}

/// The nice value of a thread, 0 for the calling one. Each class has one. For a thread that has
/// ended the result is 0, and the next request reports the error.
fn nice(thread: i32) -> i32 {
    rustix::process::getpriority_process(Pid::from_raw(thread)).unwrap_or(0)
}

fn last_error() -> SchedError {
    SchedError::from_errno(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::testing::{in_thread, may_be_real_time};

    #[test]
    fn what_was_set_is_read_back() {
        if !may_be_real_time() {
            return;
        }
        in_thread(|| {
            assert_eq!(SchedClass::current(), Ok(SchedClass::Other));
            for class in [SchedClass::Fifo(3), SchedClass::Rr(99), SchedClass::Fifo(1), SchedClass::Other] {
                class.set_current().unwrap();
                assert_eq!(SchedClass::current(), Ok(class));
            }
        });
    }

    #[test]
    fn a_nice_process_stays_nice() {
        in_thread(|| {
            // Each process may raise its nice value.
            rustix::process::setpriority_process(None, 19).unwrap();
            SchedClass::Other.set_current().unwrap();
            assert_eq!(nice(0), 19);
            if may_be_real_time() {
                SchedClass::Fifo(3).set_current().unwrap();
                SchedClass::Other.set_current().unwrap();
                assert_eq!(nice(0), 19);
            }
        });
    }

    #[test]
    fn nonsense_is_out_of_range() {
        if !may_be_real_time() {
            return;
        }
        in_thread(|| {
            assert_eq!(SchedClass::Fifo(0).set_current(), Err(SchedError::OutOfRange));
            assert_eq!(SchedClass::Fifo(100).set_current(), Err(SchedError::OutOfRange));
            let r = Reservation { runtime_ns: 2_000_000, deadline_ns: 1_000_000, period_ns: 3_000_000 };
            assert_eq!(SchedClass::Reserved(r).set_current(), Err(SchedError::OutOfRange));
            assert_eq!(SchedClass::current(), Ok(SchedClass::Other));
        });
    }

    #[test]
    fn a_reservation_is_admitted_or_refused_for_a_named_reason() {
        if !may_be_real_time() {
            return;
        }
        in_thread(|| {
            let r = Reservation { runtime_ns: 1_000_000, deadline_ns: 10_000_000, period_ns: 20_000_000 };
            match SchedClass::Reserved(r).set_current() {
                Ok(()) => assert_eq!(SchedClass::current(), Ok(SchedClass::Reserved(r))),
                Err(e) => {
                    println!("skipped: no reservation here: {e}");
                    assert!(matches!(e, SchedError::NotPermitted | SchedError::NotAdmitted));
                }
            }
        });
    }

    #[test]
    fn the_range_is_checked() {
        let all = NativeRange::system();
        assert!(all.min >= 1 && all.min < all.max);
        assert_eq!(NativeRange::new(all.min, all.max), Some(all));
        assert_eq!(NativeRange::new(0, all.max), None);
        assert_eq!(NativeRange::new(all.min, all.max + 1), None);
        assert_eq!(NativeRange::new(20, 10), None);
        assert!(NativeRange::new(10, 20).unwrap().contains(20));
        assert!(!NativeRange::new(10, 20).unwrap().contains(9));
    }
}

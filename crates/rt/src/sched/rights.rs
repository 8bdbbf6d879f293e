//! The real-time rights of the process, determined once.

use core::fmt;
use core::str::FromStr;
use std::thread;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use super::class::{NativeRange, SchedClass, SchedError};
use super::memory::{MemoryLock, lock_memory};

/// What to do where the process lacks a right that it needs for real-time work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RealTime {
    /// The program does not start.
    Require,
    /// The program starts, with a warning.
    #[default]
    Prefer,
    /// The rights are not requested: ordinary threads, pageable memory.
    Off,
}

/// The rights that a process requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Need {
    /// The highest native priority of its threads, limited to the system's range.
    pub native_priority: u8,
    /// How its memory is locked, if at all.
    pub lock_memory: Option<MemoryLock>,
}

/// The rights that it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Granted {
    /// Threads may have the requested native priority.
    pub scheduling: bool,
    /// The memory is locked.
    pub memory: bool,
    missing: [Option<MissingRight>; 2],
}

/// A right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Right {
    /// A thread of class `SCHED_FIFO` with this native priority.
    Scheduling {
        /// The native priority.
        native_priority: u8,
    },
    /// All memory locked, later mappings included.
    LockedMemory,
}

/// A right that the process lacks. [`Display`](fmt::Display) says why, and how to grant it, in
/// several lines for the operator of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MissingRight {
    /// The right.
    pub right: Right,
    /// The limit that stands in the way (`RLIMIT_RTPRIO` or `RLIMIT_MEMLOCK`, in bytes); `None` is
    /// unlimited.
    pub hard_limit: Option<u64>,
    /// Whether the process has the capability that would lift the limit (`CAP_SYS_NICE` or
    /// `CAP_IPC_LOCK`). If it has, and is refused nevertheless, a container or control group is in
    /// the way.
    pub has_capability: bool,
}

impl RealTime {
    /// Determines the rights by an attempt: a thread that exists only for this takes the native
    /// priority, and the memory is locked. Raises the soft limits as far as the hard ones permit.
    /// Call it once at start, before threads with memory to be locked.
    ///
    /// # Errors
    /// The first [`MissingRight`], under [`Require`](RealTime::Require) only.
    ///
    /// # Real-time
    /// Allocates, blocks, starts a thread. For start-up.
    pub fn resolve(self, need: Need) -> Result<Granted, MissingRight> {
        let mut granted = Granted { scheduling: false, memory: false, missing: [None; 2] };
        if self == RealTime::Off {
            return Ok(granted);
        }
        match try_scheduling(need.native_priority) {
            Ok(()) => granted.scheduling = true,
            Err(missing) if self == RealTime::Require => return Err(missing),
            Err(missing) => granted.missing[0] = Some(missing),
        }
        match need.lock_memory.map(try_memory) {
            None => {}
            Some(Ok(())) => granted.memory = true,
            Some(Err(missing)) if self == RealTime::Require => return Err(missing),
            Some(Err(missing)) => granted.missing[1] = Some(missing),
        }
        Ok(granted)
    }
}

impl FromStr for RealTime {
    type Err = &'static str;

    /// As the configuration spells it: `require`, `prefer`, `off`.
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        match s {
            "require" => Ok(RealTime::Require),
            "prefer" => Ok(RealTime::Prefer),
            "off" => Ok(RealTime::Off),
            _ => Err("real-time mode is none of: require, prefer, off"),
        }
    }
}

impl Granted {
    /// The requested rights that are missing; each deserves one warning.
    pub fn missing(&self) -> impl Iterator<Item = &MissingRight> {
        self.missing.iter().flatten()
    }

    /// `class` where real-time scheduling was granted, the ordinary class where it was not.
    pub fn class(&self, class: SchedClass) -> SchedClass {
        if self.scheduling { class } else { SchedClass::Other }
    }
}

impl MissingRight {
    /// Limit or capability would suffice, so something else prevents it.
    fn is_refused_by_others(&self) -> bool {
        let needed = match self.right {
            Right::Scheduling { native_priority } => u64::from(native_priority),
            Right::LockedMemory => u64::MAX,
        };
        self.has_capability || self.hard_limit.is_none_or(|limit| limit >= needed)
    }
}

impl fmt::Display for MissingRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exe = std::env::current_exe().ok();
        let exe = exe.as_ref().map_or("PROGRAM".into(), |p| p.to_string_lossy());
        let (limit, capability) = match self.right {
            Right::Scheduling { native_priority } => {
                write!(f, "no right to real-time scheduling (SCHED_FIFO {native_priority}): ")?;
                ("RLIMIT_RTPRIO", "CAP_SYS_NICE")
            }
            Right::LockedMemory => {
                f.write_str("no right to lock all memory: ")?;
                ("RLIMIT_MEMLOCK", "CAP_IPC_LOCK")
            }
        };
        if self.is_refused_by_others() {
            let granted = if self.has_capability { capability } else { limit };
            write!(f, "{granted} would do, so a container, a sandbox")?;
            return f.write_str(match self.right {
                Right::Scheduling { .. } => {
                    " or its control group refuses.\n  \
                     container: run it with --cap-add=sys_nice\n  \
                     control group (v1, cpu): write a budget to cpu.rt_runtime_us of the group and its parents"
                }
                Right::LockedMemory => " or a lack of memory refuses.\n  container: run it with --ulimit memlock=-1",
            });
        }
        let hard = self.hard_limit.unwrap_or(u64::MAX);
        writeln!(f, "{limit} is {hard} and the process lacks {capability}. Do one of:")?;
        let capability = capability.to_ascii_lowercase();
        match self.right {
            Right::Scheduling { native_priority: p } => write!(
                f,
                "  /etc/security/limits.conf (then log in again):  {} - rtprio {p}\n  \
                 systemd unit, section [Service]:                LimitRTPRIO={p}\n  ",
                user()
            )?,
            Right::LockedMemory => write!(
                f,
                "  /etc/security/limits.conf (then log in again):  {} - memlock unlimited\n  \
                 systemd unit, section [Service]:                LimitMEMLOCK=infinity\n  ",
                user()
            )?,
        }
        write!(
            f,
            "systemd unit, the capability instead:           AmbientCapabilities={}\n  \
             once, for the program file:                     setcap {capability}+ep {exe}",
            capability.to_ascii_uppercase()
        )
    }
}

impl std::error::Error for MissingRight {}

fn try_scheduling(native_priority: u8) -> Result<(), MissingRight> {
    let NativeRange { min, max } = NativeRange::system();
    let native_priority = native_priority.clamp(min, max);
    raise_soft_limit(Resource::Rtprio, Some(native_priority.into()));
    let probe = thread::Builder::new().name("rt-probe".into()).stack_size(64 * 1024);
    let tried = probe
        .spawn(move || SchedClass::Fifo(native_priority).set_current())
        .map(|t| t.join().unwrap_or(Err(SchedError::NotPermitted)));
    match tried {
        Ok(Ok(())) => Ok(()),
        _ => Err(MissingRight {
            right: Right::Scheduling { native_priority },
            hard_limit: getrlimit(Resource::Rtprio).maximum,
            has_capability: has(CapabilitySet::SYS_NICE),
        }),
    }
}

fn try_memory(lock: MemoryLock) -> Result<(), MissingRight> {
    raise_soft_limit(Resource::Memlock, None);
    let limit = getrlimit(Resource::Memlock);
    let has_capability = has(CapabilitySet::IPC_LOCK);
    let unlimited = has_capability || limit.current.is_none();
    // With a limit it may succeed now, but each mapping beyond the limit would fail later.
    let locked = if unlimited { lock_memory(lock) } else { Err(Errno::NOMEM) };
    locked.map_err(|_| MissingRight { right: Right::LockedMemory, hard_limit: limit.maximum, has_capability })
}

/// Raises the soft limit to `wanted` (`None`: to unlimited), as far as the hard one lets it, and
/// never lowers it.
fn raise_soft_limit(resource: Resource, wanted: Option<u64>) {
    let as_number = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    let Rlimit { current, maximum } = getrlimit(resource);
    if as_number(wanted) > as_number(current) && as_number(wanted) <= as_number(maximum) {
        // If this is refused, the attempt that follows is refused and explained.
        let _ = setrlimit(resource, Rlimit { current: wanted, maximum });
    }
}

fn has(capability: CapabilitySet) -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(capability))
}

fn user() -> String {
    std::env::var("USER").unwrap_or_else(|_| "USER".into())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use rustix::thread::set_capabilities;

    use super::*;
    use crate::testing::{in_thread, may_be_real_time};

    const NEED: Need = Need { native_priority: 70, lock_memory: None };

    /// Capabilities belong to the thread, and the thread that resolve starts inherits them.
    fn without(capability: CapabilitySet) {
        let mut sets = capabilities(None).unwrap();
        sets.effective.remove(capability);
        sets.permitted.remove(capability);
        set_capabilities(None, sets).unwrap();
    }

    #[test]
    fn what_is_allowed_is_granted() {
        if may_be_real_time() {
            let granted = RealTime::Require.resolve(Need { native_priority: 255, ..NEED }).unwrap();
            assert!(granted.scheduling);
            let granted = RealTime::Require.resolve(NEED).unwrap();
            assert!(granted.scheduling && !granted.memory);
            assert_eq!(granted.missing().count(), 0);
            assert_eq!(granted.class(SchedClass::Fifo(70)), SchedClass::Fifo(70));
        }
    }

    #[test]
    fn a_missing_right_is_explained() {
        if getrlimit(Resource::Rtprio).maximum.is_none_or(|hard| hard >= 70) {
            println!("skipped: the limit lets everybody be real-time here");
            return;
        }
        in_thread(|| {
            without(CapabilitySet::SYS_NICE);
            let missing = RealTime::Require.resolve(NEED).unwrap_err();
            assert_eq!(missing.right, Right::Scheduling { native_priority: 70 });
            let text = missing.to_string();
            for part in [
                "RLIMIT_RTPRIO is 0",
                "lacks CAP_SYS_NICE",
                "rtprio 70",
                "LimitRTPRIO=70",
                "setcap cap_sys_nice+ep /",
            ] {
                assert!(text.contains(part), "{part:?} is not in\n{text}");
            }

            let granted = RealTime::Prefer.resolve(NEED).unwrap();
            assert!(!granted.scheduling);
            assert_eq!(granted.missing().copied().collect::<Vec<_>>(), [missing]);
            assert_eq!(granted.class(SchedClass::Fifo(70)), SchedClass::Other);

            assert_eq!(RealTime::Off.resolve(NEED).unwrap().missing().count(), 0);
        });
    }

    #[test]
    fn a_limit_on_locked_memory_counts_as_no_right() {
        if getrlimit(Resource::Memlock).maximum.is_none() {
            println!("skipped: memory may be locked without limit here");
            return;
        }
        in_thread(|| {
            without(CapabilitySet::IPC_LOCK);
            let missing = try_memory(MemoryLock::OnFault).unwrap_err();
            let text = missing.to_string();
            for part in
                ["RLIMIT_MEMLOCK is ", "lacks CAP_IPC_LOCK", "memlock unlimited", "LimitMEMLOCK=infinity"]
            {
                assert!(text.contains(part), "{part:?} is not in\n{text}");
            }
        });
    }

    #[test]
    fn a_refusal_despite_the_capability_points_elsewhere() {
        let right = Right::Scheduling { native_priority: 1 };
        let text = MissingRight { right, hard_limit: Some(0), has_capability: true }.to_string();
        assert!(text.contains("CAP_SYS_NICE would do") && text.contains("cpu.rt_runtime_us"), "{text}");
        let text = MissingRight { right, hard_limit: Some(1), has_capability: false }.to_string();
        assert!(text.contains("RLIMIT_RTPRIO would do"), "{text}");
    }

    #[test]
    fn modes_have_names() {
        assert_eq!("require".parse(), Ok(RealTime::Require));
        assert_eq!("prefer".parse(), Ok(RealTime::Prefer));
        assert_eq!("off".parse(), Ok(RealTime::Off));
        assert!("Require".parse::<RealTime>().is_err());
    }
}

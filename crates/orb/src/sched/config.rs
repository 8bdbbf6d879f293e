//! The table `[real_time]` of the configuration.

use crate::settings::{Setting, choice, settings};
use isorb_rt::priority::{Continuous, Direct, Linear, PriorityMapping};
use isorb_rt::sched::{Cpus, MemoryLock, NativeRange, RealTime};
use std::sync::Arc;
use std::time::Duration;

settings! {
    /// Real-time settings of an ORB. Each key of the table `[real_time]` has the name of its field
    /// here.
    #[derive(Clone, Debug, PartialEq)]
    pub struct RealTimeConfig {
        /// `require`: the ORB does not start without the rights that this table needs. `prefer`: it
        /// logs a missing right once and continues without it. `off`: requests carry CORBA
        /// priorities, and the scheduling of threads does not change.
        #[cfg_attr(feature = "config-file", serde(deserialize_with = "by_name"))]
        mode: RealTime = RealTime::Prefer, "-ORBRealTime";
        /// Scheduling class of real-time threads: `fifo` or `rr`.
        class: RealTimeClass = RealTimeClass::Fifo;
        /// The mapping from CORBA priorities to native ones: `linear`, `continuous` or `direct`. A
        /// program can set its own with `RtOrb::set_priority_mapping`.
        mapping: Mapping = Mapping::Linear;
        /// Lowest native priority to use. The lowest of Linux is 1.
        native_min: u8 = NativeRange::system().min;
        /// Highest native priority to use. Below 50, the interrupt threads of a PREEMPT_RT kernel
        /// stay above the ORB.
        native_max: u8 = NativeRange::system().max;
        /// Threads at lower CORBA priorities are in the ordinary class: they share the time that
        /// real-time threads leave.
        ordinary_below: i16 = 0, in 0..;
        /// Whether the process locks its memory: `no`, `all` or `on-fault`.
        lock_memory: LockMemory = LockMemory::No;
        /// Processors of pool threads, by number. Empty: all processors of the process. A pool can
        /// choose its own.
        cpus: Vec<usize> = Vec::new();
        /// How long a dynamic thread waits for a request before it ends, in milliseconds.
        idle_timeout_ms: u64 = 10_000, in 1..;
        /// The number of requests that a lane may buffer. It also bounds pools that ask for no
        /// limit.
        max_buffered_requests: u32 = 1024, in 1..;
        /// The octets of requests that a lane may buffer. It also bounds pools that ask for no
        /// limit.
        max_request_buffer_size: u32 = 16 << 20, in 1..;
        /// Memory of an upcall in octets: the region of each pool thread, made when the thread
        /// starts.
        region_bytes: usize = 16 << 10, in 1024..;
        /// Octets of the longest message that a lane of a thread pool takes, its header aside,
        /// unless the lane declares its own (`ThreadpoolLane::messages`). Not more than
        /// `message_limit`.
        lane_message_bytes: usize = 256 << 10, in 1.., "-ORBLaneMessageBytes";
        /// Message blocks that each lane of a thread pool reserves, unless it declares its own. 0:
        /// its messages lie in the blocks of all connections (`memory_limit`).
        lane_messages: usize = 8, in 0..=65_536, "-ORBLaneMessages";
        /// `scope`: an upcall that needs more than the region gets NO_MEMORY. `heap`: each request
        /// takes its memory from the heap.
        memory: UpcallMemory = UpcallMemory::Scope;
        /// The thread that runs a call of this process to an object of a thread pool. `lane`: one
        /// of the lane; the caller waits, unless it is a thread of that lane. `caller`: the
        /// caller's, at the priority of the request.
        local_calls: LocalCalls = LocalCalls::Lane, "-ORBLocalCalls";
        /// For tests: what happens when an upcall of a thread pool takes memory from the heap.
        /// `no`: nothing. `report`: it is counted, and a log record names the operation. `abort`:
        /// the process prints where, and aborts. Needs the feature `alloc-count` and its allocator.
        heap_free: HeapFree = HeapFree::No, "-ORBHeapFree";
    }
}

choice!(RealTimeClass: "fifo" Fifo, "rr" Rr);
choice!(Mapping: "linear" Linear, "continuous" Continuous, "direct" Direct);
choice!(LockMemory: "no" No, "all" All, "on-fault" OnFault);
choice!(UpcallMemory: "scope" Scope, "heap" Heap);
choice!(LocalCalls: "lane" Lane, "caller" Caller);
choice!(HeapFree: "no" No, "report" Report, "abort" Abort);

impl Setting for RealTimeConfig {
    const FORM: &'static str = "";
    fn set(&mut self, _: &str) -> Result<(), String> {
        Err("is a table".into())
    }
    fn show(&self) -> String {
        String::new()
    }
}

/// The location of an upcall's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "config-file", derive(serde::Deserialize), serde(rename_all = "lowercase"))]
pub enum UpcallMemory {
    /// In a region of fixed size, made when the thread starts. An upcall that needs more gets
    /// NO_MEMORY; others are not affected.
    #[default]
    Scope,
    /// On the heap, allocated and freed for each request: for comparison, and for requests without
    /// a bound.
    Heap,
}

/// The thread that runs a call of this process to an object of a thread pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "config-file", derive(serde::Deserialize), serde(rename_all = "lowercase"))]
pub enum LocalCalls {
    /// A thread of the lane, within the limits of the pool. A caller that is a thread of this lane
    /// runs the call itself.
    #[default]
    Lane,
    /// The thread of the caller, at the priority of the request. It does not count as a thread of
    /// the pool.
    Caller,
}

/// What happens when an upcall takes memory from the heap, in its servant or in a call that this
/// makes. For tests of lanes that may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "config-file", derive(serde::Deserialize), serde(rename_all = "lowercase"))]
pub enum HeapFree {
    /// Nothing.
    #[default]
    No,
    /// It is counted in `LaneStatus::heap_upcalls`; a log record names the operation and the number
    /// of allocations.
    Report,
    /// The process prints a backtrace of the allocation and aborts.
    Abort,
}

/// A real-time scheduling class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "config-file", derive(serde::Deserialize), serde(rename_all = "lowercase"))]
pub enum RealTimeClass {
    /// `SCHED_FIFO`: a thread runs until it blocks or a thread of higher priority preempts it.
    #[default]
    Fifo,
    /// `SCHED_RR`: threads of one priority share the processor by time slices.
    Rr,
}

/// The priority mappings of the ORB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "config-file", derive(serde::Deserialize), serde(rename_all = "lowercase"))]
pub enum Mapping {
    /// Spreads 0 to 32767 evenly over the native range.
    #[default]
    Linear,
    /// Counts up from the lower end of the native range.
    Continuous,
    /// Takes the number as it is; 0 is an ordinary thread.
    Direct,
}

/// Whether memory is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "config-file", derive(serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum LockMemory {
    /// Memory is not locked.
    #[default]
    No,
    /// All memory, now and later.
    All,
    /// Pages stay in memory once they were touched.
    OnFault,
}

impl RealTimeConfig {
    /// Checks the ranges, and that the native priorities are within those of the system.
    ///
    /// # Errors
    /// A sentence that names the key.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.check_ranges().map_err(|sentence| format!("real_time: {sentence}"))?;
        let (min, max) = (self.native_min, self.native_max);
        if NativeRange::new(min, max).is_none() {
            let NativeRange { min: low, max: high } = NativeRange::system();
            return Err(format!(
                "real_time: native_min {min} to native_max {max} is not within {low} to {high}"
            ));
        }
        Ok(())
    }

    pub(crate) fn native(&self) -> NativeRange {
        NativeRange { min: self.native_min, max: self.native_max }
    }

    pub(crate) fn mapping(&self) -> Arc<dyn PriorityMapping> {
        let range = self.native();
        match self.mapping {
            Mapping::Linear => Arc::new(Linear(range)),
            Mapping::Continuous => Arc::new(Continuous(range)),
            Mapping::Direct => Arc::new(Direct(range)),
        }
    }

    pub(crate) fn memory_lock(&self) -> Option<MemoryLock> {
        match self.lock_memory {
            LockMemory::No => None,
            LockMemory::All => Some(MemoryLock::All),
            LockMemory::OnFault => Some(MemoryLock::OnFault),
        }
    }

    pub(crate) fn cpus(&self) -> Option<Cpus> {
        (!self.cpus.is_empty()).then(|| self.cpus.iter().copied().collect())
    }

    pub(crate) fn idle_timeout(&self) -> Duration {
        Duration::from_millis(self.idle_timeout_ms)
    }
}

#[cfg(feature = "config-file")]
pub(crate) fn by_name<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: std::str::FromStr<Err = &'static str>,
{
    let name: String = serde::Deserialize::deserialize(from)?;
    name.parse().map_err(serde::de::Error::custom)
}

#[cfg(all(test, feature = "config-file"))]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<RealTimeConfig, String> {
        let config: RealTimeConfig = toml::from_str(text).map_err(|error| error.to_string())?;
        config.check().map(|()| config)
    }

    #[test]
    fn names_are_read() {
        let config = read(
            "mode = 'require'\nclass = 'rr'\nmapping = 'direct'\nlock_memory = 'on-fault'\nmemory = 'heap'\ncpus = [1, 0]",
        );
        let config = config.unwrap();
        assert_eq!((config.mode, config.class), (RealTime::Require, RealTimeClass::Rr));
        assert_eq!(config.memory_lock(), Some(MemoryLock::OnFault));
        assert_eq!(config.memory, UpcallMemory::Heap);
        assert_eq!(config.cpus().unwrap().len(), 2);
        assert_eq!(read("").unwrap(), RealTimeConfig::default());
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, part) in [
            ("mode = 'maybe'", "require, prefer, off"),
            ("native_min = 0", "native_min"),
            ("native_max = 200", "native_max"),
            ("ordinary_below = -1", "ordinary_below"),
            ("region_bytes = 10", "region_bytes"),
            ("max_buffered_requests = 0", "max_buffered_requests"),
            ("idle_timeout_ms = 0", "idle_timeout_ms"),
            ("urgency = 3", "urgency"),
        ] {
            let sentence = read(text).unwrap_err();
            assert!(sentence.contains(part), "{text}: {sentence}");
        }
    }
}

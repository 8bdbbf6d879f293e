//! What an ORB is told about real time: the table `[real_time]` of `isorb.toml`.

use isorb_rt::priority::{Continuous, Direct, Linear, PriorityMapping};
use isorb_rt::sched::{Cpus, MemoryLock, NativeRange, RealTime};
use std::sync::Arc;
use std::time::Duration;

/// Real-time settings of an ORB. All keys have the names of these fields.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "config-file", derive(serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct RealTimeConfig {
    /// `require`: the ORB does not start without the rights that this table needs. `prefer` (the default): it warns once and goes on
    /// with what it may. `off`: CORBA priorities travel, and no thread's scheduling is touched.
    #[cfg_attr(feature = "config-file", serde(deserialize_with = "by_name"))]
    pub mode: RealTime,
    /// Scheduling class of real-time threads: `fifo` or `rr`.
    pub class: RealTimeClass,
    /// How CORBA priorities become native ones: `linear`, `continuous` or `direct`. A program may set one of its own
    /// ([`RtOrb::set_priority_mapping`](super::RtOrb::set_priority_mapping)).
    pub mapping: Mapping,
    /// Lowest native priority to use; 1 is the lowest that Linux has.
    pub native_min: u8,
    /// Highest native priority to use. Below 50, the interrupt threads of a PREEMPT_RT kernel stay above the ORB.
    pub native_max: u8,
    /// CORBA priorities below this one are of the ordinary class: their threads share what real-time threads leave.
    pub ordinary_below: i16,
    /// Whether the process locks its memory: `no`, `all` or `on-fault`.
    pub lock_memory: LockMemory,
    /// Processors of pool threads, by number; empty for all that the process has. A pool can say otherwise.
    pub cpus: Vec<usize>,
    /// How long an idle dynamic thread waits for a request before it ends, in milliseconds.
    pub idle_timeout_ms: u64,
    /// Most requests that a lane may buffer, also for pools that ask for no limit.
    pub max_buffered_requests: u32,
    /// Most bytes of requests that a lane may buffer, also for pools that ask for no limit.
    pub max_request_buffer_size: u32,
    /// Memory of an upcall in bytes: the region of each pool thread, made when the thread starts.
    pub region_bytes: usize,
    /// `scope`: what does not fit the region is NO_MEMORY. `heap`: it is taken from the heap, request by request.
    pub memory: UpcallMemory,
}

/// Where what an upcall needs lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "config-file", derive(serde::Deserialize), serde(rename_all = "lowercase"))]
pub enum UpcallMemory {
    /// In a region of fixed size that was made beforehand. What does not fit is NO_MEMORY to the caller, and nothing to others.
    #[default]
    Scope,
    /// On the heap, taken and given back for each request: for comparison, and for those whose requests know no bound.
    Heap,
}

/// A real-time scheduling class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "config-file", derive(serde::Deserialize), serde(rename_all = "lowercase"))]
pub enum RealTimeClass {
    /// `SCHED_FIFO`: a thread runs until it blocks or a more urgent one comes.
    #[default]
    Fifo,
    /// `SCHED_RR`: threads of one priority take turns.
    Rr,
}

/// The mappings that come with the ORB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "config-file", derive(serde::Deserialize), serde(rename_all = "lowercase"))]
pub enum Mapping {
    /// Spreads 0 to 32767 evenly over the native range.
    #[default]
    Linear,
    /// Counts up from the lower end of the native range.
    Continuous,
    /// Takes the number as it is.
    Direct,
}

/// Whether memory is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "config-file", derive(serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum LockMemory {
    /// It is not.
    #[default]
    No,
    /// All of it, now and later.
    All,
    /// What was touched stays.
    OnFault,
}

impl Default for RealTimeConfig {
    fn default() -> RealTimeConfig {
        let NativeRange { min, max } = NativeRange::system();
        RealTimeConfig {
            mode: RealTime::Prefer,
            class: RealTimeClass::Fifo,
            mapping: Mapping::Linear,
            native_min: min,
            native_max: max,
            ordinary_below: 0,
            lock_memory: LockMemory::No,
            cpus: Vec::new(),
            idle_timeout_ms: 10_000,
            max_buffered_requests: 1024,
            max_request_buffer_size: 16 << 20,
            region_bytes: 16 << 10,
            memory: UpcallMemory::Scope,
        }
    }
}

impl RealTimeConfig {
    /// What is wrong, as a sentence.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (min, max) = (self.native_min, self.native_max);
        if NativeRange::new(min, max).is_none() {
            let NativeRange { min: low, max: high } = NativeRange::system();
            return Err(format!(
                "real_time: native_min {min} to native_max {max} is not within {low} to {high}"
            ));
        }
        if self.ordinary_below < 0 {
            return Err("real_time: ordinary_below is a CORBA priority, 0 to 32767".into());
        }
        if self.region_bytes < 1024 {
            return Err("real_time: region_bytes must be at least 1024".into());
        }
        if self.max_buffered_requests == 0 || self.max_request_buffer_size == 0 {
            return Err("real_time: the limits of request buffers must be at least 1".into());
        }
        if self.idle_timeout_ms == 0 {
            return Err("real_time: idle_timeout_ms must be at least 1".into());
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
fn by_name<'de, D, T>(from: D) -> Result<T, D::Error>
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
            ("max_buffered_requests = 0", "buffers"),
            ("idle_timeout_ms = 0", "idle_timeout_ms"),
            ("urgency = 3", "urgency"),
        ] {
            let sentence = read(text).unwrap_err();
            assert!(sentence.contains(part), "{text}: {sentence}");
        }
    }
}

//! A clock that several nodes read alike, because hardware or a daemon keeps it the same.
//!
//! PTP (IEEE 1588) keeps the clocks of network interfaces within a microsecond. Two nodes that
//! compare their monotonic clocks with such a clock know the offset between these without a round
//! trip: see [`OffsetEstimator::agreed`](crate::clock_sync::OffsetEstimator::agreed).

use core::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::time::{ClockId, DynamicClockId, clock_gettime_dynamic};

use crate::time::{NS_PER_S, now_ns};

/// A clock that several nodes read alike.
///
/// # Real-time
/// Implementations neither allocate nor wait for another thread.
pub trait CommonClock: fmt::Debug + Send {
    /// The common clock beside this node's monotonic one; none while it cannot be read.
    fn read(&mut self) -> Option<CommonTime>;
}

/// The common clock beside a node's monotonic one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommonTime {
    /// The common clock minus the node's, nanoseconds (modulo 2^64).
    pub ahead_ns: u64,
    /// How far that may be wrong in either direction, by the reading and by how well the common
    /// clock is kept; at least 1.
    pub bound_ns: u32,
}

impl CommonTime {
    /// The far node's clock minus this one's, and how far that may be wrong. `self` is this node's
    /// reading.
    pub fn offset_to(self, far: CommonTime) -> (i64, u64) {
        let offset_ns = self.ahead_ns.wrapping_sub(far.ahead_ns) as i64;
        (offset_ns, u64::from(self.bound_ns) + u64::from(far.bound_ns))
    }
}

/// The source of a [`SystemCommonClock`], and its error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommonClockConfig {
    /// A PTP device, such as `/dev/ptp0`. None: the system's `CLOCK_REALTIME`, which phc2sys or
    /// another daemon keeps.
    pub device: Option<PathBuf>,
    /// How far the clock may be wrong in either direction, nanoseconds: what the daemon that keeps
    /// it reports at worst.
    pub error_ns: u32,
}

/// A PTP device of this machine, or its `CLOCK_REALTIME`.
#[derive(Debug)]
pub struct SystemCommonClock {
    device: Option<File>,
    error_ns: u32,
}

impl SystemCommonClock {
    /// Opens it, and reads it once.
    ///
    /// # Errors
    /// Those of the system, with the device's name; a file that is no clock is one.
    pub fn open(config: &CommonClockConfig) -> io::Result<SystemCommonClock> {
        let named = |path: &Path, error: io::Error| {
            io::Error::new(error.kind(), format!("the common clock {}: {error}", path.display()))
        };
        let device = match &config.device {
            Some(path) => Some(File::open(path).map_err(|error| named(path, error))?),
            None => None,
        };
        let clock = SystemCommonClock { device, error_ns: config.error_ns };
        if let Some(path) = &config.device {
            clock.now_ns().map_err(|error| named(path, error))?;
        }
        Ok(clock)
    }

    fn now_ns(&self) -> io::Result<u64> {
        let id = match &self.device {
            Some(device) => DynamicClockId::Dynamic(device.as_fd()),
            None => DynamicClockId::Known(ClockId::Realtime),
        };
        let time = clock_gettime_dynamic(id)?;
        Ok((time.tv_sec as u64).wrapping_mul(NS_PER_S).wrapping_add(time.tv_nsec as u64))
    }
}

/// So many readings are made, of which the quickest counts.
const READINGS: usize = 3;

impl CommonClock for SystemCommonClock {
    /// # Real-time
    /// Neither allocates nor blocks. Three readings; a device is read over the bus, which takes
    /// some microseconds each.
    fn read(&mut self) -> Option<CommonTime> {
        let mut best: Option<(u64, u64)> = None;
        for _ in 0..READINGS {
            let before = now_ns();
            let common = self.now_ns().ok()?;
            let width = now_ns().saturating_sub(before);
            if best.is_none_or(|(least, _)| width < least) {
                best = Some((width, common.wrapping_sub(before + width / 2)));
            }
        }
        let (width, ahead_ns) = best?;
        let bound_ns = u32::try_from(width / 2 + 1).ok()?.checked_add(self.error_ns)?;
        Some(CommonTime { ahead_ns, bound_ns })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn two_readings_of_one_clock_agree() {
        let config = CommonClockConfig { device: None, error_ns: 1_000 };
        let mut clock = SystemCommonClock::open(&config).unwrap();
        let (here, far) = (clock.read().unwrap(), clock.read().unwrap());
        assert!(here.bound_ns > 1_000);
        let (offset_ns, bound_ns) = here.offset_to(far);
        // The clock of the day may be slewed between.
        assert!(offset_ns.unsigned_abs() <= bound_ns + 1_000_000, "{offset_ns} of {bound_ns}");
        let day = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
        let said = now_ns().wrapping_add(far.ahead_ns);
        assert!(day.abs_diff(said) < 60_000_000_000, "{day} and {said}");
    }

    #[test]
    fn a_file_that_is_no_clock_is_refused_by_name() {
        for path in ["/dev/null", "/no/such/clock"] {
            let config = CommonClockConfig { device: Some(path.into()), error_ns: 1 };
            let error = SystemCommonClock::open(&config).unwrap_err().to_string();
            assert!(error.contains(path), "{error}");
        }
    }

    #[test]
    fn clocks_that_are_days_apart_have_the_offset_of_their_readings() {
        let here = CommonTime { ahead_ns: 5_000, bound_ns: 10 };
        let far = CommonTime { ahead_ns: 0_u64.wrapping_sub(1_000), bound_ns: 20 };
        // The far clock is ahead by what the common one is ahead of here more than of there.
        assert_eq!(here.offset_to(far), (6_000, 30));
    }
}

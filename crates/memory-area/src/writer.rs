//! Writers.

use crate::error::{ClaimError, TooLarge};
use crate::fail_points::{FailPoint, fail_point};
use crate::geometry::Geometry;
use crate::head::State;
use crate::mapping::Mapping;
use crate::ring::{Ring, Stamp};
use crate::words::Cells;
use core::fmt;
use isorb_rt::Errno;
use isorb_rt::sync::atomic::Ordering::Relaxed;
use isorb_rt::time::now_ns;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, flock};
use std::sync::Arc;

/// An area's only writer. The claim ends with this value or with the process, however that ends.
pub struct Writer {
    mapping: Arc<Mapping>,
    geometry: Geometry,
    latest: u64,
    epoch: u64,
    wake: bool,
    /// Locked; the kernel lets go of it when the last descriptor is closed, which includes those of
    /// forked children.
    claim: OwnedFd,
}

/// Where a value of a replica comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Source {
    /// Its number at the writer's node.
    pub sequence: u64,
    /// Which writer of that area wrote it.
    pub epoch: u64,
    /// How far the time of writing may be wrong in either direction, because another node's clock
    /// measured it, in nanoseconds; [`u64::MAX`] where it is not known.
    pub bound_ns: u64,
}

impl Writer {
    pub(crate) fn claim(
        file: OwnedFd,
        mapping: Arc<Mapping>,
        geometry: Geometry,
    ) -> Result<Writer, ClaimError> {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(ClaimError::Taken),
            Err(error) => return Err(error.into()),
        }
        let head = mapping.head();
        let epoch = head.epoch.load(Relaxed).wrapping_add(1);
        head.epoch.store(epoch, Relaxed);
        let latest = mapping.ring(geometry).recover();
        head.set_state(State::Open);
        Ok(Writer { mapping, geometry, latest, epoch, wake: true, claim: file })
    }

    /// Writes a value, from now on the latest, and wakes readers that wait. Gives its sequence
    /// number.
    ///
    /// # Errors
    /// When it is larger than the area takes; nothing changes then.
    ///
    /// # Real-time
    /// Does not allocate, never waits for a reader. One copy, then one system call to wake readers,
    /// made when the value can already be read.
    #[inline]
    pub fn write(&mut self, value: &[u8]) -> Result<u64, TooLarge> {
        if self.draft().put(0, value).is_err() {
            return Err(self.too_large(value.len()));
        }
        // After the copy: while the clock is read, the lines of the value come over from the
        // readers' processors.
        self.publish(value.len(), now_ns())
    }

    /// [`write`](Self::write) with the time at which the value came to be, on the clock of
    /// [`now_ns`].
    ///
    /// # Errors
    /// As [`write`](Self::write).
    #[inline]
    pub fn write_at(&mut self, value: &[u8], written_ns: u64) -> Result<u64, TooLarge> {
        if self.draft().put(0, value).is_err() {
            return Err(self.too_large(value.len()));
        }
        self.publish(value.len(), written_ns)
    }

    /// Lets `fill` write the value in place, without a copy, and publishes `len` bytes of it. The
    /// buffer holds an earlier value at first. If `fill` panics, nothing is published.
    ///
    /// # Errors
    /// When `len` is more than the area takes.
    ///
    /// # Real-time
    /// As [`write`](Self::write), without the copy.
    pub fn write_with(&mut self, len: usize, fill: impl FnOnce(&Cells<'_>)) -> Result<u64, TooLarge> {
        if len > self.geometry.size() {
            return Err(self.too_large(len));
        }
        fill(&self.draft());
        self.publish(len, now_ns())
    }

    /// The value that comes next, to be filled piece by piece over several calls until
    /// [`publish`](Self::publish). Readers see nothing of it; one that is never published is
    /// written over by the next.
    ///
    /// # Real-time
    /// Two stores.
    #[inline]
    pub fn draft(&mut self) -> Cells<'_> {
        self.ring().open(self.latest + 1)
    }

    /// Publishes the first `len` bytes of the [`draft`](Self::draft).
    ///
    /// # Errors
    /// When `len` is more than the area takes.
    #[inline]
    pub fn publish(&mut self, len: usize, written_ns: u64) -> Result<u64, TooLarge> {
        self.publish_as(len, written_ns, Source { sequence: self.latest + 1, epoch: self.epoch, bound_ns: 0 })
    }

    /// [`publish`](Self::publish) for a replica: what is published was written elsewhere, where it
    /// has the number and the writer of `source`.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    pub fn publish_as(&mut self, len: usize, written_ns: u64, source: Source) -> Result<u64, TooLarge> {
        if len > self.geometry.size() {
            return Err(self.too_large(len));
        }
        self.latest += 1;
        let Source { sequence, epoch, bound_ns } = source;
        let stamp = Stamp { len, written_ns, bound_ns, epoch, source: sequence };
        self.ring().publish(self.latest, stamp);
        if self.wake {
            self.mapping.head().announce();
        }
        fail_point(FailPoint::Written);
        Ok(self.latest)
    }

    /// Does the segment's owner want a ring after each value? Ask after the value is written: an
    /// owner that wants rings from then on sees the value. The writer's library knows how to ring.
    ///
    /// # Real-time
    /// A fence and a load.
    #[inline]
    pub fn wants_doorbell(&self) -> bool {
        self.mapping.head().wants_doorbell()
    }

    /// The sequence number of the last value; 0 for none.
    pub fn sequence(&self) -> u64 {
        self.latest
    }

    /// Which writer of this area this is, from 1.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Size and histories.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Whether [`write`](Self::write) wakes readers. Without it a write makes no system call, and
    /// readers that wait notice a new value when their time-out passes: for areas that are polled
    /// only.
    pub fn set_wake(&mut self, wake: bool) {
        self.wake = wake;
    }

    /// Sets the area's state for all readers.
    pub fn set_state(&mut self, state: State) {
        self.mapping.head().set_state(state);
    }

    fn ring(&self) -> Ring<'_> {
        self.mapping.ring(self.geometry)
    }

    #[cold]
    fn too_large(&self, len: usize) -> TooLarge {
        TooLarge { len, limit: self.geometry.size() }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Closing is not enough while a child that another thread forks has not come to its exec.
        let _ = flock(&self.claim, FlockOperation::Unlock);
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("sequence", &self.latest)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

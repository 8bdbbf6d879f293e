//! A value that is looked at in place for a while, by code that the view's closure cannot hold.

use crate::error::ReadError;
use crate::geometry::Geometry;
use crate::mapping::Mapping;
use crate::reader::{Reader, Sample};
use crate::words::{OutOfBounds, View};
use core::fmt;
use std::sync::Arc;

/// A value in the area, which stays mapped as long as the lease lives.
///
/// The writer does not wait for it. It returns to the buffer after histories + 1 more values, and
/// then the octets are those of a later value, or a mixture. So what was read through a lease
/// counts only if [`is_intact`](Self::is_intact) afterwards.
pub struct Lease {
    mapping: Arc<Mapping>,
    geometry: Geometry,
    sample: Sample,
}

impl Reader {
    /// Leases the latest value, new or not. It counts as read.
    ///
    /// # Errors
    /// [`ReadError`].
    ///
    /// # Real-time
    /// As [`latest`](Self::latest), without the copy.
    pub fn lease(&mut self) -> Result<Lease, ReadError> {
        let ((), sample) = self.read_with(|_| ())?;
        Ok(Lease { mapping: self.mapping().clone(), geometry: self.geometry(), sample })
    }
}

impl Lease {
    /// What is known about the value.
    pub fn sample(&self) -> &Sample {
        &self.sample
    }

    /// Is the value still whole? Then all that was read through the lease before belongs to it.
    ///
    /// # Real-time
    /// A fence and a load.
    #[inline]
    pub fn is_intact(&self) -> bool {
        self.mapping.ring(self.geometry).holds(self.sample.sequence)
    }

    /// Copies octets of the value from `offset` on. They count only if the lease
    /// [is intact](Self::is_intact) afterwards.
    ///
    /// # Errors
    /// When the range lies outside the value.
    ///
    /// # Real-time
    /// Neither allocates nor blocks.
    pub fn copy_to(&self, offset: usize, out: &mut [u8]) -> Result<(), OutOfBounds> {
        self.view().copy_to(offset, out)
    }

    /// Where the value lies, for code in other languages. It is mapped for reading until the lease
    /// is dropped, and aligned to 16 octets. Another process may change it at any time.
    pub fn as_ptr(&self) -> *const u8 {
        self.view().as_ptr()
    }

    fn view(&self) -> View<'_> {
        self.mapping.ring(self.geometry).view(self.sample.sequence, self.sample.len)
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("sample", &self.sample).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Geometry, ReadError, Segment};

    #[test]
    fn a_lease_is_intact_until_the_writer_returns_to_its_buffer() {
        let segment = Segment::create("leased", Geometry::new(20, 1).unwrap()).unwrap();
        let (mut writer, mut reader) = (segment.writer().unwrap(), segment.reader().unwrap());
        assert_eq!(reader.lease().err(), Some(ReadError::Empty));
        writer.write(&[7; 20]).unwrap();
        let lease = reader.lease().unwrap();
        assert!(!reader.has_new(), "it counts as read");
        assert!(lease.as_ptr().addr().is_multiple_of(16));
        let mut out = [0; 20];
        lease.copy_to(0, &mut out).unwrap();
        assert!(lease.is_intact());
        assert_eq!((out, lease.sample().len, lease.sample().sequence), ([7; 20], 20, 1));
        assert!(lease.copy_to(1, &mut out).is_err());
        for n in 2..=3 {
            writer.write(&[n; 20]).unwrap();
            assert!(lease.is_intact(), "{n}");
        }
        // Three buffers: the fourth value takes the first one's.
        writer.write(&[4; 20]).unwrap();
        assert!(!lease.is_intact());
        // The memory outlives its reader.
        drop((segment, reader, writer));
        lease.copy_to(0, &mut out).unwrap();
        assert_eq!(out, [4; 20]);
    }

    #[test]
    fn a_value_under_way_ends_the_lease() {
        let segment = Segment::create("leased", Geometry::new(8, 0).unwrap()).unwrap();
        let (mut writer, mut reader) = (segment.writer().unwrap(), segment.reader().unwrap());
        writer.write(&[1; 8]).unwrap();
        let lease = reader.lease().unwrap();
        writer.write(&[2; 8]).unwrap();
        assert!(lease.is_intact());
        writer.draft().put(0, &[3]).unwrap();
        assert!(!lease.is_intact(), "the writer has begun, and publishes later");
    }
}

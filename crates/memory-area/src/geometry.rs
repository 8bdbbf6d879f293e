//! How large an area is, and where in it what lies.

use core::fmt;

/// The largest value an area takes, bytes.
pub const MAX_SIZE: usize = 1 << 30;
/// The most values an area keeps beside the latest one.
pub const MAX_HISTORIES: usize = 1022;

/// Bytes of the head of a segment; whole cache lines.
pub(crate) const HEAD_BYTES: usize = 256;
/// Words before the value in a buffer: mark, length, time and its bound, epoch, source sequence.
pub(crate) const SLOT_HEAD: usize = 6;
/// A buffer begins at a cache line of its own, so that writing one does not disturb the readers of
/// another.
const LINE_WORDS: usize = 8;

/// The size of the largest value and the number of values that are kept beside the latest one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Geometry {
    size: usize,
    histories: usize,
}

impl Geometry {
    /// Values of up to `size` bytes, `histories` of them kept beside the latest.
    ///
    /// # Errors
    /// When a number is zero or beyond the limits [`MAX_SIZE`] and [`MAX_HISTORIES`], or the whole
    /// would be larger than 4 GiB. `histories` may be zero.
    pub fn new(size: usize, histories: usize) -> Result<Geometry, GeometryError> {
        let geometry = Geometry { size, histories };
        if size == 0 || size > MAX_SIZE {
            return Err(GeometryError::Size { requested: size, limit: MAX_SIZE });
        }
        if histories > MAX_HISTORIES {
            return Err(GeometryError::Histories { requested: histories, limit: MAX_HISTORIES });
        }
        if geometry.total_bytes() > MAX_TOTAL {
            return Err(GeometryError::Total { requested: geometry.total_bytes(), limit: MAX_TOTAL });
        }
        Ok(geometry)
    }

    /// Bytes of the largest value.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Values that are kept beside the latest one.
    pub fn histories(&self) -> usize {
        self.histories
    }

    /// Buffers: the latest value, the ones before it, and the one that is being written.
    pub fn buffers(&self) -> usize {
        self.histories + 2
    }

    /// Bytes of the whole segment.
    pub fn total_bytes(&self) -> usize {
        HEAD_BYTES + self.buffers() * self.slot_words() * 8
    }

    /// Words from one buffer to the next.
    pub(crate) fn slot_words(&self) -> usize {
        (SLOT_HEAD + self.size.div_ceil(8)).next_multiple_of(LINE_WORDS)
    }
}

/// The most bytes of a segment.
const MAX_TOTAL: usize = 4 << 30;

/// A geometry that no area can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GeometryError {
    /// The value is empty or too large, in bytes.
    Size {
        /// What was asked for.
        requested: usize,
        /// What there may be.
        limit: usize,
    },
    /// Too many values are to be kept.
    Histories {
        /// What was asked for.
        requested: usize,
        /// What there may be.
        limit: usize,
    },
    /// All buffers together are too large, in bytes.
    Total {
        /// What was asked for.
        requested: usize,
        /// What there may be.
        limit: usize,
    },
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GeometryError::Size { requested, limit } => {
                write!(f, "a value of {requested} bytes: an area takes 1 to {limit}")
            }
            GeometryError::Histories { requested, limit } => {
                write!(f, "{requested} histories: an area keeps up to {limit}")
            }
            GeometryError::Total { requested, limit } => {
                write!(f, "a segment of {requested} bytes: the limit is {limit}")
            }
        }
    }
}

impl core::error::Error for GeometryError {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn buffers_begin_at_cache_lines_and_hold_the_value() {
        for size in [1, 7, 8, 31, 32, 33, 64, 1000, 8192] {
            let g = Geometry::new(size, 3).unwrap();
            assert_eq!(g.slot_words() % LINE_WORDS, 0);
            assert!((g.slot_words() - SLOT_HEAD) * 8 >= size);
            assert_eq!(g.buffers(), 5);
        }
    }

    #[test]
    fn what_is_too_large_is_refused_with_the_numbers() {
        assert_eq!(Geometry::new(0, 0), Err(GeometryError::Size { requested: 0, limit: MAX_SIZE }));
        assert!(matches!(Geometry::new(MAX_SIZE + 1, 0), Err(GeometryError::Size { .. })));
        assert!(matches!(Geometry::new(usize::MAX, usize::MAX), Err(GeometryError::Size { .. })));
        assert!(matches!(Geometry::new(1, MAX_HISTORIES + 1), Err(GeometryError::Histories { .. })));
        assert!(matches!(Geometry::new(MAX_SIZE, MAX_HISTORIES), Err(GeometryError::Total { .. })));
    }
}

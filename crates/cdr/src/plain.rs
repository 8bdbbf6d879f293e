//! Types with equal bytes on the wire and in memory.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A type with a wire form that equals its Rust form up to byte order: integers, floats, octets,
/// and structures of them without padding that have the same alignment in both forms.
///
/// Sequences of such types are read in place; a foreign byte order is corrected there, once.
pub trait Plain: FromBytes + IntoBytes + Immutable + KnownLayout + Copy + 'static {
    /// CDR alignment of the first member, in bytes; also `align_of::<Self>()` on this machine or
    /// more.
    const ALIGN: usize;
    /// Reverses the byte order of each member.
    fn swap(&mut self);
}

macro_rules! plain {
    ($($t:ty)*) => { $(
        impl Plain for $t {
            const ALIGN: usize = size_of::<$t>();
            #[inline]
            fn swap(&mut self) {
                let mut bytes = self.to_ne_bytes();
                bytes.reverse();
                *self = <$t>::from_ne_bytes(bytes);
            }
        }
    )* };
}

plain!(u8 i8 i16 u16 i32 u32 i64 u64 f32 f64);

impl<T: Plain, const N: usize> Plain for [T; N] {
    const ALIGN: usize = T::ALIGN;
    fn swap(&mut self) {
        self.iter_mut().for_each(T::swap);
    }
}

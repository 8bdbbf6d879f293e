//! A region while it is entered: bump allocation with lifetimes.

use crate::buffer::Block;
use crate::{Buffer, BufferPool};
use alloc::sync::Arc;
use core::cell::Cell;
use core::fmt;
use core::hint::cold_path;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// The region has no room for the value. Becomes `NO_MEMORY` at the ORB's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Bytes that were asked for, padding not counted.
    pub wanted: usize,
    /// Bytes that were left.
    pub left: usize,
    /// Bytes of the scope in all.
    pub size: usize,
    /// The scope would continue in blocks of a pool, but the pool had none.
    pub pooled: bool,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Full { wanted, left, size, pooled } = self;
        write!(f, "the scope has {size} octets: {wanted} were wanted, {left} left")?;
        f.write_str(match pooled {
            true => ", and the pool has no block for them (memory_limit)",
            false => "; make the region larger (region_bytes)",
        })
    }
}

impl core::error::Error for Full {}

/// An entered region. Values that are placed here live as long as the borrow of the scope.
///
/// Only types without a destructor may be placed ([`Copy`]), so that leaving is O(1);
/// [`Scope::keep`] is the stated exception. A scope stays on the thread that entered it.
pub struct Scope<'r> {
    /// The block in use: the region's own, then those of the pool.
    base: Cell<NonNull<u8>>,
    capacity: Cell<usize>,
    used: Cell<usize>,
    /// Bytes used in the blocks before.
    before: Cell<usize>,
    overflow: Option<&'r Arc<BufferPool>>,
    /// Newest record of the values that `keep` holds, each linked to the one before.
    kept: Cell<Option<NonNull<DropRecord>>>,
    peak: Cell<usize>,
    report_peak: NonNull<usize>,
    refused: Cell<Option<Full>>,
    _region: PhantomData<&'r mut u64>,
}

/// Stands in the region before a kept value.
struct DropRecord {
    before: Option<NonNull<DropRecord>>,
    drop: unsafe fn(*mut u8),
    value: *mut u8,
}

/// A block of the pool, as it stands at its own beginning.
struct Borrowed {
    block: Block,
    pool: Option<Arc<BufferPool>>,
}

impl<'r> Scope<'r> {
    pub(crate) fn over(
        block: &'r mut [MaybeUninit<u64>],
        overflow: Option<&'r Arc<BufferPool>>,
        peak: &'r mut usize,
    ) -> Scope<'r> {
        Scope {
            capacity: Cell::new(size_of_val(block)),
            base: Cell::new(NonNull::from(block).cast()),
            used: Cell::new(0),
            before: Cell::new(0),
            overflow,
            kept: Cell::new(None),
            peak: Cell::new(*peak),
            report_peak: NonNull::from(peak),
            refused: Cell::new(None),
            _region: PhantomData,
        }
    }

    /// Places one value. A type that wants more than 8-byte alignment does not compile:
    ///
    /// ```compile_fail
    /// #[derive(Clone, Copy)]
    /// #[repr(align(64))]
    /// struct Line([u8; 64]);
    /// let mut region = isorb_scope::Region::new(256);
    /// let scope = region.enter();
    /// scope.alloc(Line([0; 64])).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Full`] when the rest of the region is too small.
    ///
    /// # Real-time
    /// O(1), does not allocate or block; so are all of this type's methods unless they say
    /// otherwise.
    pub fn alloc<T: Copy>(&self, value: T) -> Result<&mut T, Full> {
        let place = self.reserve::<T>(1)?;
        // SAFETY: `reserve` gave an aligned place for one T that no other reference covers.
        unsafe {
            place.write(value);
            Ok(&mut *place)
        }
    }

    /// Places a copy of a slice.
    ///
    /// # Errors
    /// [`Full`] when the rest of the region is too small.
    pub fn slice<T: Copy>(&self, from: &[T]) -> Result<&mut [T], Full> {
        let place = self.reserve::<T>(from.len())?;
        // SAFETY: the place is new, aligned and as long as `from`, so they do not overlap.
        unsafe {
            core::ptr::copy_nonoverlapping(from.as_ptr(), place, from.len());
            Ok(core::slice::from_raw_parts_mut(place, from.len()))
        }
    }

    /// Places `n` values that `make` gives for their indices. `make` may itself use the scope: what
    /// it places lies behind the slice.
    ///
    /// # Errors
    /// The error of `make`, or [`Full`] as `E`.
    pub fn fill<T: Copy, E: From<Full>>(
        &self,
        n: usize,
        mut make: impl FnMut(usize) -> Result<T, E>,
    ) -> Result<&mut [T], E> {
        let place = self.reserve::<T>(n)?;
        for i in 0..n {
            let value = make(i)?;
            // SAFETY: i < n, and the n places were reserved for this slice alone.
            unsafe { place.add(i).write(value) }
        }
        // SAFETY: all n values were written above.
        Ok(unsafe { core::slice::from_raw_parts_mut(place, n) })
    }

    /// Places a copy of a string.
    ///
    /// # Errors
    /// [`Full`] when the rest of the region is too small.
    pub fn str(&self, from: &str) -> Result<&str, Full> {
        let bytes = self.slice(from.as_bytes())?;
        // SAFETY: a copy of the bytes of a str.
        Ok(unsafe { core::str::from_utf8_unchecked(bytes) })
    }

    /// Places `n` zero bytes at an 8-aligned address.
    ///
    /// # Errors
    /// [`Full`] when the rest of the region is too small.
    pub fn bytes_mut(&self, n: usize) -> Result<&mut [u8], Full> {
        let place = self.reserve::<u64>(n.div_ceil(8))?.cast::<u8>();
        // SAFETY: at least n new bytes; zeroed before they are seen.
        unsafe {
            place.write_bytes(0, n);
            Ok(core::slice::from_raw_parts_mut(place, n))
        }
    }

    /// Places a copy of `from` at an 8-aligned address, where CDR may be read in place.
    ///
    /// # Errors
    /// [`Full`] when the rest of the region is too small.
    pub fn aligned_copy(&self, from: &[u8]) -> Result<&mut [u8], Full> {
        let place = self.reserve::<u64>(from.len().div_ceil(8))?.cast::<u8>();
        // SAFETY: at least from.len() new bytes, written before they are seen.
        unsafe {
            core::ptr::copy_nonoverlapping(from.as_ptr(), place, from.len());
            Ok(core::slice::from_raw_parts_mut(place, from.len()))
        }
    }

    /// Places a string built from UTF-8 pieces of which only an upper bound of the length is known;
    /// `build` fills the bytes and returns how many it used. The unused rest goes back to the scope
    /// if `build` placed nothing.
    ///
    /// # Errors
    /// [`Full`] as `E`, or what `build` gives. Bytes that are not UTF-8 panic: `build` is the
    /// codec's own code.
    pub fn str_with<E: From<Full>>(
        &self,
        at_most: usize,
        build: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<&str, E> {
        let place = self.reserve::<u8>(at_most)?;
        let (block, end) = (self.base.get(), self.used.get());
        // SAFETY: at_most new bytes, zeroed before they are seen.
        let bytes = unsafe {
            place.write_bytes(0, at_most);
            core::slice::from_raw_parts_mut(place, at_most)
        };
        let n = build(bytes)?;
        if (self.base.get(), self.used.get()) == (block, end) {
            self.used.set(end - at_most + n);
        }
        Ok(core::str::from_utf8(&bytes[..n]).expect("str_with built UTF-8"))
    }

    /// Places formatted text.
    ///
    /// The text is measured first and written second, so a `Display` implementation that itself
    /// places values in this scope cannot tear it; one that prints different text the second time
    /// is cut at the first length.
    ///
    /// # Errors
    /// [`Full`] when the rest of the region is too small, or a `Display` implementation failed.
    ///
    /// # Real-time
    /// Formats twice; its cost is that of the `Display` implementations involved.
    pub fn format(&self, text: fmt::Arguments<'_>) -> Result<&str, Full> {
        if let Some(text) = text.as_str() {
            return self.str(text);
        }
        let mut length = Measure(0);
        fmt::write(&mut length, text).map_err(|_| self.refuse(0))?;
        let bytes = self.bytes_mut(length.0)?;
        let mut at = Transcribe { to: bytes, at: 0 };
        // A Display that prints more the second time stops here, at a character boundary.
        let _ = fmt::write(&mut at, text);
        let n = at.at;
        Ok(core::str::from_utf8(&bytes[..n]).expect("whole characters only"))
    }

    /// Takes ownership of a value: it lives as long as the scope and is dropped when the scope is
    /// left.
    ///
    /// # Errors
    /// [`Full`] when its place and record do not fit; the value is dropped.
    ///
    /// # Real-time
    /// The value lies in the region, so this allocates nothing by itself; leaving the scope costs
    /// the destructors of what was kept, newest first.
    pub fn keep<T: 'static>(&self, value: T) -> Result<&mut T, Full> {
        unsafe fn drop_it<T>(value: *mut u8) {
            // SAFETY: called once, from Scope::drop, with the place of a live T.
            unsafe { value.cast::<T>().drop_in_place() }
        }
        let place = self.reserve::<T>(1)?;
        if core::mem::needs_drop::<T>() {
            let record = self.reserve::<DropRecord>(1)?;
            // SAFETY: new, aligned place for one record.
            unsafe {
                record.write(DropRecord { before: self.kept.get(), drop: drop_it::<T>, value: place.cast() })
            };
            self.kept.set(NonNull::new(record));
        }
        // SAFETY: new, aligned place for one T; dropped by Scope::drop, after the last borrow of
        // the scope.
        unsafe {
            place.write(value);
            Ok(&mut *place)
        }
    }

    /// Bytes used so far, padding included.
    pub fn used(&self) -> usize {
        self.before.get() + self.used.get()
    }

    /// Bytes left in the block in use, before padding.
    pub fn left(&self) -> usize {
        self.capacity.get() - self.used.get()
    }

    fn reserve<T>(&self, n: usize) -> Result<*mut T, Full> {
        const { assert!(align_of::<T>() <= 8, "a scope aligns to 8 bytes at most") };
        let wanted = n.saturating_mul(size_of::<T>());
        let place = match self.place::<T>(wanted) {
            Some(place) => Some(place),
            None if self.grow(wanted) => self.place::<T>(wanted),
            None => None,
        };
        place.ok_or_else(|| self.refuse(wanted))
    }

    /// The last value that did not fit.
    pub fn refused(&self) -> Option<Full> {
        self.refused.get()
    }

    #[cold]
    fn refuse(&self, wanted: usize) -> Full {
        let size = self.before.get() + self.capacity.get();
        let full = Full { wanted, left: self.left(), size, pooled: self.overflow.is_some() };
        self.refused.set(Some(full));
        full
    }

    #[inline]
    fn place<T>(&self, wanted: usize) -> Option<*mut T> {
        let start = self.used.get().next_multiple_of(align_of::<T>());
        let end = start.checked_add(wanted).filter(|end| *end <= self.capacity.get())?;
        self.used.set(end);
        // SAFETY: start <= end <= capacity, so the offset stays inside the block.
        Some(unsafe { self.base.get().as_ptr().add(start) }.cast())
    }

    /// Continues in a block of the pool with room for `wanted` bytes, if there is a pool and it has
    /// one. The rest of the former block is lost.
    #[cold]
    fn grow(&self, wanted: usize) -> bool {
        unsafe fn give_back(place: *mut u8) {
            // SAFETY: called once, from Scope::drop, with the place of a Borrowed; everything that
            // lay in its block was placed after it and is gone.
            unsafe {
                let Borrowed { block, pool } = place.cast::<Borrowed>().read();
                drop(Buffer::from_parts(block, pool));
            }
        }
        const HEAD: usize = size_of::<Borrowed>() + size_of::<DropRecord>();
        let Some(size) = wanted.checked_add(HEAD + 8) else { return false };
        let size = size.max(self.capacity.get().saturating_mul(2));
        let Some(buffer) = self.overflow.and_then(|pool| pool.take(size)) else { return false };
        let (block, pool) = buffer.into_parts();
        self.before.set(self.before.get() + self.used.get());
        self.base.set(block.first.cast());
        self.capacity.set(block.words * 8);
        self.used.set(HEAD);
        // SAFETY: the block is ours alone, 8-aligned and longer than HEAD; both types align to at
        // most 8.
        unsafe {
            let borrowed = block.first.as_ptr().cast::<Borrowed>();
            borrowed.write(Borrowed { block, pool });
            let record = borrowed.add(1).cast::<DropRecord>();
            record.write(DropRecord { before: self.kept.get(), drop: give_back, value: borrowed.cast() });
            self.kept.set(NonNull::new(record));
        }
        true
    }
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        let used = self.used();
        if used > self.peak.get() {
            cold_path();
            // SAFETY: points into the region that 'r borrows exclusively for this scope.
            unsafe { self.report_peak.write(used) };
        }
        while let Some(record) = self.kept.take() {
            cold_path();
            // SAFETY: records lie in the region, are written once and never moved; each is visited
            // once, and no borrow of the scope is left when it is dropped.
            unsafe {
                let DropRecord { before, drop, value } = record.read();
                self.kept.set(before);
                drop(value);
            }
        }
    }
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("capacity", &self.capacity.get()).field("used", &self.used()).finish()
    }
}

struct Measure(usize);

impl fmt::Write for Measure {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.0 += s.len();
        Ok(())
    }
}

struct Transcribe<'a> {
    to: &'a mut [u8],
    at: usize,
}

impl fmt::Write for Transcribe<'_> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let room = self.to.len() - self.at;
        let n = s.floor_char_boundary(room.min(s.len()));
        self.to[self.at..self.at + n].copy_from_slice(&s.as_bytes()[..n]);
        self.at += n;
        if n == s.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Full, Region};
    use alloc::string::String;
    use alloc::vec::Vec;
    use alloc::{rc::Rc, string::ToString, vec};

    #[test]
    fn places_and_reuses() {
        let mut region = Region::new(64);
        for _ in 0..3 {
            let scope = region.enter();
            assert_eq!(scope.str("abc").unwrap(), "abc");
            assert_eq!(scope.slice(&[1u32, 2]).unwrap(), &[1, 2]);
            assert_eq!(*scope.alloc(7u64).unwrap(), 7);
            assert!(scope.used() <= 32);
        }
        assert!(region.peak() > 0 && region.peak() <= 32);
    }

    #[test]
    fn what_does_not_fit_is_refused_and_the_rest_stays() {
        let mut region = Region::new(16);
        let scope = region.enter();
        let a = scope.str("0123456789").unwrap();
        assert_eq!(scope.slice(&[0u8; 7]), Err(Full { wanted: 7, left: 6, size: 16, pooled: false }));
        assert_eq!(
            scope.fill(usize::MAX, |_| Ok::<u64, Full>(0)),
            Err(Full { wanted: usize::MAX, left: 6, size: 16, pooled: false })
        );
        assert_eq!(a, "0123456789");
        assert_eq!(scope.slice(&[9u8; 6]).unwrap(), &[9; 6]);
    }

    #[test]
    fn nested_fill_lands_behind() {
        let mut region = Region::new(256);
        let scope = region.enter();
        let rows = scope.fill(3, |i| scope.fill(2, |j| Ok::<_, Full>(i * 10 + j)).map(|row| &*row)).unwrap();
        assert_eq!(rows, &[&[0, 1][..], &[10, 11], &[20, 21]]);
    }

    #[test]
    fn format_measures_then_writes() {
        struct Sly<'a>(&'a crate::Scope<'a>);
        impl core::fmt::Display for Sly<'_> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                self.0.str("intruder").unwrap();
                f.write_str("text")
            }
        }
        let mut region = Region::new(256);
        let scope = region.enter();
        assert_eq!(scope.format(format_args!("<{}>", Sly(&scope))).unwrap(), "<text>");
    }

    #[test]
    fn format_of_something_that_changes_is_cut_not_torn() {
        struct Grows(core::cell::Cell<usize>);
        impl core::fmt::Display for Grows {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                self.0.set(self.0.get() + 1);
                (0..self.0.get()).try_for_each(|_| f.write_str("é"))
            }
        }
        let mut region = Region::new(256);
        let scope = region.enter();
        assert_eq!(scope.format(format_args!("{}{}", Grows(0.into()), 1)).unwrap().chars().next(), Some('é'));
    }

    #[test]
    fn kept_values_are_dropped_newest_first() {
        let log = Rc::new(core::cell::RefCell::new(Vec::new()));
        struct Loud(Rc<core::cell::RefCell<Vec<u8>>>, u8);
        impl Drop for Loud {
            fn drop(&mut self) {
                self.0.borrow_mut().push(self.1)
            }
        }
        let mut region = Region::new(256);
        {
            let scope = region.enter();
            scope.keep(Loud(log.clone(), 1)).unwrap();
            let text = scope.keep("owned".to_string()).unwrap();
            scope.keep(Loud(log.clone(), 2)).unwrap();
            text.push('!');
            assert_eq!(text, "owned!");
            assert!(log.borrow().is_empty());
        }
        assert_eq!(*log.borrow(), vec![2, 1]);
        let mut tiny = Region::new(8);
        let scope = tiny.enter();
        assert!(scope.keep(Loud(log.clone(), 3)).is_err());
        assert_eq!(*log.borrow(), vec![2, 1, 3], "a value that does not fit is dropped, once");
    }

    #[test]
    fn str_with_gives_the_rest_back() {
        let mut region = Region::new(32);
        let scope = region.enter();
        let s = scope
            .str_with(30, |b| {
                b[..2].copy_from_slice(b"ok");
                Ok::<_, Full>(2)
            })
            .unwrap();
        assert_eq!(s, "ok");
        assert_eq!(scope.used(), 2);
        let _: Option<String> = None;
    }

    #[test]
    fn overflow_goes_to_the_pool_and_comes_back() {
        let pool = crate::BufferPool::new(1 << 20, 1 << 20);
        let mut region = Region::with_overflow(64, pool.clone());
        let dropped = Rc::new(core::cell::Cell::new(0));
        struct Counted(Rc<core::cell::Cell<u32>>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1)
            }
        }
        for round in 1..3 {
            {
                let scope = region.enter();
                let small = scope.str("small").unwrap();
                assert_eq!(pool.out(), 0, "what fits stays in the region");
                // Miri takes minutes for more.
                let many = if cfg!(miri) { 100 } else { 3000 };
                let texts: Vec<&str> =
                    (0..many).map(|i| scope.format(format_args!("text {i}")).unwrap()).collect();
                scope.keep(Counted(dropped.clone())).unwrap();
                let long = scope.slice(&vec![7u64; 30_000]).unwrap();
                let rows = scope.fill(100, |i| scope.slice(&[i; 50]).map(|row| &*row)).unwrap();
                assert!(pool.out() > 240_000 && scope.used() > 240_000);
                assert_eq!(small, "small");
                assert!(texts.iter().enumerate().all(|(i, text)| *text == alloc::format!("text {i}")));
                assert_eq!(long, vec![7; 30_000]);
                assert!(rows.iter().enumerate().all(|(i, row)| **row == [i; 50]));
                let half = scope
                    .str_with(200_000, |b| {
                        b[..2].copy_from_slice(b"ok");
                        Ok::<_, Full>(2)
                    })
                    .unwrap();
                assert_eq!(half, "ok");
                assert!(scope.slice(&vec![0u8; 1 << 20]).is_err(), "the pool is bounded");
                assert_eq!(scope.str("still usable").unwrap(), "still usable");
            }
            assert_eq!((pool.out(), dropped.get()), (0, round));
        }
        assert!(region.peak() > 240_000);
    }

    proptest::proptest! {
        #[test]
        fn never_overlaps(sizes in proptest::collection::vec(0usize..40, 0..60)) {
            let mut region = Region::new(512);
            let scope = region.enter();
            let mut placed: Vec<(&mut [u8], u8)> = Vec::new();
            for (i, n) in sizes.iter().enumerate() {
                let fill = i as u8;
                let got = if i % 2 == 0 { scope.slice(&vec![fill; *n]) } else { scope.aligned_copy(&vec![fill; *n]) };
                if let Ok(s) = got { placed.push((s, fill)) }
            }
            for (s, fill) in &placed { assert!(s.iter().all(|b| b == fill)) }
        }
    }
}

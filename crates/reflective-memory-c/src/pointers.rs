//! Pointers from C, checked as far as that is possible.

use crate::result::Failure;
use core::ffi::{CStr, c_char};

const NULL: &str = "is null";

fn check<T>(pointer: *const T, argument: &'static str) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(Failure::Argument(argument, NULL));
    }
    if !pointer.is_aligned() {
        return Err(Failure::Argument(argument, "is not aligned for its type"));
    }
    Ok(())
}

/// A text.
///
/// # Safety
/// Unless it is null, a zero ends the octets at `pointer`, and nothing changes them meanwhile.
pub unsafe fn text<'c>(pointer: *const c_char, argument: &'static str) -> Result<&'c str, Failure> {
    // SAFETY: the caller's promise.
    let text = unsafe { optional_text(pointer, argument) }?;
    text.ok_or(Failure::Argument(argument, NULL))
}

/// A text, or none for null.
///
/// # Safety
/// As [`text`].
pub unsafe fn optional_text<'c>(
    pointer: *const c_char,
    argument: &'static str,
) -> Result<Option<&'c str>, Failure> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(pointer) }.to_str();
    text.map(Some).map_err(|_| Failure::Argument(argument, "is not UTF-8"))
}

/// A structure.
///
/// # Safety
/// Unless it is null or misaligned, there is a `T` at `pointer`, and nothing changes it meanwhile.
pub unsafe fn structure<'c, T>(pointer: *const T, argument: &'static str) -> Result<&'c T, Failure> {
    check(pointer, argument)?;
    // SAFETY: it is neither null nor misaligned; the rest is the caller's promise.
    Ok(unsafe { &*pointer })
}

/// A structure, or the default for null.
///
/// # Safety
/// As [`structure`].
pub unsafe fn structure_or_default<T: Default + Copy>(
    pointer: *const T,
    argument: &'static str,
) -> Result<T, Failure> {
    if pointer.is_null() {
        return Ok(T::default());
    }
    // SAFETY: the caller's promise.
    unsafe { structure(pointer, argument) }.copied()
}

/// Several structures. They may be null if there are none.
///
/// # Safety
/// There are `count` of them at `pointer`, and nothing changes them meanwhile.
pub unsafe fn structures<'c, T>(
    pointer: *const T,
    count: usize,
    argument: &'static str,
) -> Result<&'c [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    check(pointer, argument)?;
    check_len(count.saturating_mul(size_of::<T>()))?;
    // SAFETY: not null, aligned, at most isize::MAX octets; the rest is the caller's promise.
    Ok(unsafe { core::slice::from_raw_parts(pointer, count) })
}

/// Octets to read. They may be null if there are none.
///
/// # Safety
/// There are `len` octets at `pointer`, and nothing changes them meanwhile.
pub unsafe fn octets<'c>(
    pointer: *const u8,
    len: usize,
    argument: &'static str,
) -> Result<&'c [u8], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    check(pointer, argument)?;
    check_len(len)?;
    // SAFETY: not null, at most isize::MAX octets; the rest is the caller's promise.
    Ok(unsafe { core::slice::from_raw_parts(pointer, len) })
}

/// Octets to write. They may be null if there are none.
///
/// # Safety
/// There are `len` octets at `pointer`, which nothing else uses meanwhile.
pub unsafe fn octets_mut<'c>(
    pointer: *mut u8,
    len: usize,
    argument: &'static str,
) -> Result<&'c mut [u8], Failure> {
    if len == 0 {
        return Ok(&mut []);
    }
    check(pointer, argument)?;
    check_len(len)?;
    // SAFETY: not null, at most isize::MAX octets; the rest is the caller's promise.
    Ok(unsafe { core::slice::from_raw_parts_mut(pointer, len) })
}

fn check_len(len: usize) -> Result<(), Failure> {
    match isize::try_from(len) {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::Argument("len", "is larger than half of all memory")),
    }
}

/// Memory for a result. It need not hold a valid value before.
pub struct Output<T>(*mut T);

/// Memory for a result that the caller must give.
///
/// # Safety
/// Unless it is null or misaligned, there is memory for a `T` at `pointer`, which nothing else uses
/// before the [`Output`] is gone.
pub unsafe fn output<T>(pointer: *mut T, argument: &'static str) -> Result<Output<T>, Failure> {
    check(pointer, argument)?;
    Ok(Output(pointer))
}

/// Memory for a result that the caller may not want: null then.
///
/// # Safety
/// As [`output`].
pub unsafe fn optional_output<T>(pointer: *mut T, argument: &'static str) -> Result<Output<T>, Failure> {
    if pointer.is_null() {
        return Ok(Output(pointer));
    }
    // SAFETY: the caller's promise.
    unsafe { output(pointer, argument) }
}

impl<T> Output<T> {
    pub fn set(&self, value: T) {
        self.set_with(|| value);
    }

    /// Computes the value only for a caller that wants it.
    #[inline]
    pub fn set_with(&self, value: impl FnOnce() -> T) {
        if !self.0.is_null() {
            // SAFETY: aligned, and memory for a `T` by the promise at its making.
            unsafe { self.0.write(value()) }
        }
    }
}

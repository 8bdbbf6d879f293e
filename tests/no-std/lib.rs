//! Everything of the crates without std, reachable from C: compiled with a panic handler and an
//! allocator of its own. Where any of the crates, or what they depend on, asked for the standard
//! library, there would be two panic handlers, and the compiler refuses.
#![no_std]

extern crate alloc;
/// The control: with it, this must not compile.
#[cfg(feature = "with-std")]
extern crate std;

mod call;

use alloc::vec::Vec;
use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicUsize, Ordering};

use isorb_cdr::{Decode, Decoder, Encode, Encoder, Order, Text};
use isorb_giop::url::ObjectUrl;
use isorb_scope::Region;

/// Gives out a block of memory from its beginning, and takes nothing back.
struct Bump;

static USED: AtomicUsize = AtomicUsize::new(0);
const MEMORY: usize = 1 << 20;
static mut BLOCK: [u8; MEMORY] = [0; MEMORY];

// SAFETY: `fetch_update` gives every octet of the block to one caller only.
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let base = (&raw mut BLOCK).cast::<u8>();
        let place = |used: usize| {
            let start = (base as usize + used).next_multiple_of(layout.align()) - base as usize;
            let end = start.checked_add(layout.size())?;
            (end <= MEMORY).then_some((start, end))
        };
        let taken =
            USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| place(used).map(|(_, end)| end));
        match taken.ok().and_then(place) {
            // SAFETY: within the block, as `place` has checked.
            Some((start, _)) => unsafe { base.add(start) },
            None => core::ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static ALLOCATOR: Bump = Bump;

#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// A value to octets and back, a URL, a type code: 0 when all is as it should be.
#[unsafe(no_mangle)]
pub extern "C" fn isorb_no_std() -> i32 {
    let mut encoder = Encoder::new(Vec::new(), Text::DEFAULT);
    ("lamp", 21.5f64).encode(&mut encoder);
    let Ok(mut octets) = encoder.flatten() else { return 1 };
    let mut region = Region::new(256);
    let scope = region.enter();
    let mut decoder = Decoder::new(&mut octets, Order::NATIVE, Text::DEFAULT, &scope);
    if <(&str, f64)>::decode(&mut decoder) != Ok(("lamp", 21.5)) {
        return 2;
    }
    if "corbaloc::1.2@host:2809/Key".parse::<ObjectUrl>().is_err() {
        return 3;
    }
    if isorb_any::TypeCode::string(0) == isorb_any::TypeCode::string(7) {
        return 4;
    }
    0
}

/// Calls the naming service of this URL over the pipe: 0 when all answers are as they should be.
///
/// # Safety
/// `url` points to `length` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isorb_no_std_calls(url: *const u8, length: usize) -> i32 {
    // SAFETY: by contract.
    let url = unsafe { core::slice::from_raw_parts(url, length) };
    let called = core::str::from_utf8(url).map_err(|_| call::Fault::Url).and_then(call::calls);
    called.map_or_else(|fault| fault as i32, |()| 0)
}

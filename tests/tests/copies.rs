//! How often the octets of a long sequence are copied in user space, for each way to pass one. This
//! program has a `memcpy` of its own that counts; the kernel's copies are not in it.
//!
//! The table of `docs/explanation/life-of-a-request.md` has these numbers.

use isorb::{Concurrency, Config, Orb};
use isorb_tests::serve_with;
use isorb_tests::steady::*;
use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Shorter copies are of headers and of values, not of sequences.
const COUNTED_FROM: usize = 1024;

/// Octets that this process has copied in pieces of at least [`COUNTED_FROM`].
static COPIED: AtomicUsize = AtomicUsize::new(0);
/// One test at a time: the count is the process'.
static COUNTER: Mutex<()> = Mutex::new(());

/// Replaces the C library's in this program.
///
/// # Safety
/// That of C's `memcpy`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut c_void, from: *const c_void, n: usize) -> *mut c_void {
    // SAFETY: the caller promises more.
    unsafe { memmove(to, from, n) }
}

/// As [`memcpy`], for places that may overlap.
///
/// # Safety
/// That of C's `memmove`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut c_void, from: *const c_void, n: usize) -> *mut c_void {
    if n >= COUNTED_FROM {
        COPIED.fetch_add(n, Ordering::Relaxed);
    }
    let (target, source) = (to.cast::<u8>(), from.cast::<u8>());
    let backwards = target.addr() > source.addr();
    let mut done = 0;
    while done < n {
        let i = if backwards { n - 1 - done } else { done };
        // SAFETY: inside of both, as the caller promises. Volatile, so that the compiler does not
        // turn the loop into a call of this function.
        unsafe { target.add(i).write_volatile(source.add(i).read_volatile()) };
        done += 1;
    }
    to
}

/// Octets that `call` copies.
fn copied(call: impl FnOnce()) -> usize {
    let before = COPIED.load(Ordering::Relaxed);
    call();
    COPIED.load(Ordering::Relaxed) - before
}

/// How often `call` copies `len` octets, rounded. The fewest of several calls, because other
/// threads of the process may still end what an earlier call began.
fn copies(len: usize, mut call: impl FnMut()) -> usize {
    // The blocks have their size afterwards.
    for _ in 0..4 {
        call();
    }
    let fewest = (0..6).map(|_| copied(&mut call)).min().unwrap();
    (fewest + len / 2) / len
}

/// Copies of an echo, argument and result together: the result as a view in the scope, and owned.
fn of_octets(path: &PathRef, client: &Orb, len: usize) -> [usize; 2] {
    let octets = vec![3; len];
    let view = copies(len, || {
        client
            .scope(|scope| path.echo_octets_in(scope, &octets).map(|back| assert_eq!(back.len(), len)))
            .unwrap();
    });
    let owned = copies(len, || assert_eq!(path.echo_octets(&octets).unwrap().len(), len));
    [view, owned]
}

/// As [`of_octets`], for structures that are the same in memory as in the message: two sequences
/// there, three back.
fn of_structures(path: &PathRef, client: &Orb, len: usize) -> usize {
    let stamps: Vec<Stamp> =
        (0..len / size_of::<Stamp>()).map(|i| Stamp { value: 0.5, at: i as u64 }).collect();
    copies(len, || {
        client
            .scope(|scope| {
                let mut b = &*stamps;
                let (result, c) = path.echo_stamps_in(scope, &stamps, &mut b)?;
                assert!([result, b, c].iter().all(|back| back.len() == stamps.len() && back[7].at == 7));
                Ok::<(), isorb::SystemException>(())
            })
            .unwrap();
    })
}

#[test]
fn the_counter_counts() {
    let _alone = COUNTER.lock().unwrap();
    let from: Vec<u8> = (0..5000).map(|i| i as u8).collect();
    let mut to = vec![0u8; 5000];
    assert!(copied(|| to.copy_from_slice(std::hint::black_box(&from))) >= 5000);
    assert_eq!(from, to);
    // Overlapping, in both directions.
    to.copy_within(0..4000, 100);
    assert_eq!(from[..4000], to[100..4100]);
    to.copy_within(100..4100, 0);
    assert_eq!(from[..4000], to[..4000]);
}

#[test]
fn long_sequences_are_copied_as_often_as_documented() {
    let _alone = COUNTER.lock().unwrap();
    for concurrency in [Concurrency::Connection, Concurrency::Lane] {
        let config = Config { concurrency, lane_threads: 1, ..Config::default() };
        let (server, client, path) = serve_with(config, false);
        for len in [16 << 10, 64 << 10, 256 << 10, 1 << 20] {
            let [view, owned] = of_octets(&path, &client, len);
            assert_eq!((view, owned), (0, 1), "{concurrency:?}, {len} octets");
            let structures = of_structures(&path, &client, len);
            assert_eq!(structures, 0, "{concurrency:?}, {len} octets of structures");
        }
        server.shutdown(true).unwrap();
    }
}

#[test]
fn short_sequences_are_copied_into_their_messages() {
    let _alone = COUNTER.lock().unwrap();
    let config = Config { concurrency: Concurrency::Connection, ..Config::default() };
    let (server, client, path) = serve_with(config, false);
    let [view, owned] = of_octets(&path, &client, 3000);
    // Into the request and into the reply; the owned result once more.
    assert_eq!((view, owned), (2, 3));
    server.shutdown(true).unwrap();
}

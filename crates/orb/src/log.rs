//! The few lines that an ORB writes: what a peer did wrong, never on the request path.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// At most this many lines a second, so that a hostile peer fills no disk.
const PER_SECOND: u64 = 10;

/// Second (upper bits) and lines in it (lower eight).
static RECENT: AtomicU64 = AtomicU64::new(0);

/// Writes one line to standard error (for the services on the ORB as well), unless there were too many of late or `ISORB_LOG=off`.
#[cold]
pub fn note(text: fmt::Arguments<'_>) {
    let second = isorb_rt::time::now_ns() / 1_000_000_000;
    let before = RECENT.load(Ordering::Relaxed);
    let lines = if before >> 8 == second { before & 0xff } else { 0 };
    if lines >= PER_SECOND || std::env::var_os("ISORB_LOG").is_some_and(|value| value == "off") {
        return;
    }
    RECENT.store(second << 8 | (lines + 1), Ordering::Relaxed);
    eprintln!("isorb: {text}");
}

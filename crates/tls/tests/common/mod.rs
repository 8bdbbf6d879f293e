//! Authorities, each in its own folder below cargo's folder for tests.

use isorb_tls::testing::Authority;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

pub fn authority() -> Authority {
    static N: AtomicU32 = AtomicU32::new(0);
    let n = N.fetch_add(1, Ordering::Relaxed);
    Authority::at(
        &Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("authority-{}-{n}", std::process::id())),
    )
    .unwrap()
}

//! The suite that every transport passes.

use isorb_example_transport::Abstract;
use std::sync::atomic::{AtomicU32, Ordering};

/// A name that no other test has.
fn name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("isorb-example-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

isorb_transport::transport_conformance!(abstract_namespace, || (Box::new(Abstract), name()));

//! Portable interceptors: the points and their order, and what they raise, add and see.

mod common;
#[path = "interceptors/contexts.rs"]
mod contexts;
#[path = "interceptors/cost.rs"]
mod cost;
#[path = "interceptors/forwards.rs"]
mod forwards;
#[path = "interceptors/initialisation.rs"]
mod initialisation;
#[path = "interceptors/points.rs"]
mod points;
#[path = "interceptors/recorder.rs"]
mod recorder;
#[path = "interceptors/references.rs"]
mod references;
#[path = "interceptors/slots.rs"]
mod slots;

use isorb::interceptor::{ClientRequestInterceptor, ServerRequestInterceptor};
use isorb_rt::alloc_count::CountingAllocator;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Ids of contexts and components that tests add.
const FIRST: u32 = 0x4953_1000;

const ALL_POINTS: [&str; 10] = [
    "A.send_request",
    "B.send_request",
    "A.receive_request_service_contexts",
    "B.receive_request_service_contexts",
    "A.receive_request",
    "B.receive_request",
    "B.send_reply",
    "A.send_reply",
    "B.receive_reply",
    "A.receive_reply",
];

/// Does nothing, at all points.
struct Idle(&'static str, Arc<AtomicU64>);

impl ClientRequestInterceptor for Idle {
    fn name(&self) -> &str {
        self.0
    }
    fn destroy(&self) {
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

impl ServerRequestInterceptor for Idle {
    fn name(&self) -> &str {
        self.0
    }
    fn destroy(&self) {
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

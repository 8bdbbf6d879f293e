//! The experiments of the paper on TAO's Real-time Event Service, on a channel in one process.

pub mod dispatch_cost;
pub mod latency;
mod pairs;
pub mod spacing;
pub mod timeline;
pub mod utilisation;

use isorb_event::{Event, Filter};
use isorb_rt::time::now_ns;

use super::BenchError;

/// Type and source of every event here.
const TYPE: i32 = 16;
const SOURCE: i32 = 1;

/// What every consumer here wants.
fn wanted() -> Filter {
    Filter::of(TYPE, SOURCE)
}

/// Calls `push` with an event that carries the time.
fn stamped<R>(push: impl FnOnce(&Event<'_>) -> R) -> R {
    let now = now_ns().to_ne_bytes();
    push(&Event::new(TYPE, SOURCE).octets(&now))
}

/// Nanoseconds since the event was made; `None` if it carries no time.
fn age(event: &Event<'_>) -> Option<u64> {
    let made = u64::from_ne_bytes(event.data.octets.try_into().ok()?);
    Some(now_ns().saturating_sub(made))
}

/// What a channel refused.
fn refused(error: impl std::fmt::Display) -> BenchError {
    BenchError::Channel(error.to_string())
}

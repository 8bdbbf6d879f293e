//! The experiments of the paper on TAO's Real-time Event Service, on channels in one process and in
//! two.

pub mod cost;
pub mod dispatch_cost;
pub mod latency;
pub mod pairs;
mod remote;
pub mod spacing;
pub mod timeline;
pub mod utilisation;

use std::sync::Arc;

use isorb_event::{Channel, ConsumerQos, Event, Filter, ProxyPushSupplier};
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

/// Connects consumers that want nothing of what is pushed here. Without filtering they get it all
/// the same.
fn bystanders(channel: &Channel, count: u32) -> Result<Vec<ProxyPushSupplier>, BenchError> {
    let one = |i| {
        let throws_away = |events: &[Event<'_>]| {
            let _ = events.first().and_then(age);
        };
        let qos = ConsumerQos::new(format!("other-{i}"), Filter::of(TYPE + 1, SOURCE));
        channel.for_consumers().connect(Arc::new(throws_away), qos).map_err(refused)
    };
    (0..count).map(one).collect()
}

/// What a channel refused.
fn refused(error: impl std::fmt::Display) -> BenchError {
    BenchError::Channel(error.to_string())
}

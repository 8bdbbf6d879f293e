//! Relays: a client speaks to the relay's address instead of the server's, and the way between is
//! as bad as planned.
//!
//! Both run on threads of the test and end when they are dropped. They bind to loopback addresses.

mod datagrams;
mod stream;

pub use datagrams::DatagramRelay;
pub use stream::{StreamPlan, StreamRelay};

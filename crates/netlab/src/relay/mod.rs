//! Relays: a client connects to the relay's address instead of the server's, and the path between
//! them is as bad as planned.
//!
//! Both run on threads of the test and end when they are dropped. They bind to loopback addresses.

mod datagrams;
mod stream;

pub use datagrams::DatagramRelay;
pub use stream::{StreamPlan, StreamRelay};

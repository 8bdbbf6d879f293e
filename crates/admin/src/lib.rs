//! Live pages of isorb's services: the state of an event channel or of a node's server of
//! reflective memory, in a browser.
//!
//! [`Admin::start`] serves three things over HTTP/1.1: `GET /` is the page, `GET /state` the
//! numbers as JSON, `GET /events` the same as server-sent events (WHATWG HTML, section 9.2), which
//! the page listens to. Nothing can be changed through it.
//!
//! ```text
//!  browser ── GET /events ──► connection's thread ◄── board: the latest numbers ◄── sampler's thread ── Source::sample
//!                             (16 at most)            (waits without viewers)       (twice a second)
//! ```
//!
//! # Real-time
//! Its threads have class `Other`, whatever the process's own class is, and read the service's
//! counters. Without viewers they sample nothing.
//!
//! # Why so little of HTTP, and by hand
//! The page needs one method, three paths and no body. A web framework for that brings 40 packages
//! and an asynchronous run-time into every build and into the process that runs the real-time
//! threads. What is here reads one bounded head a connection and closes it after the answer.
//!
//! # Access
//! Every client that reaches the port is served, without encryption or a password. So the server
//! listens on loopback unless it is configured otherwise. A page of another site that has its name
//! resolve to this machine (DNS rebinding) is refused by the `Host` it sends: names other than
//! `localhost` must be allowed by [`Options::hosts`].
#![forbid(unsafe_code)]

mod board;
mod channel;
mod connection;
mod memory;
mod process;
mod rate;
mod request;
mod server;
mod together;

pub use channel::ChannelSource;
pub use memory::MemorySource;
pub use server::{Admin, Options, Probes};
pub use together::{OtherPage, Together};

/// Reads the head of a request, and says whether it is answered with a resource. For the fuzz
/// target.
#[doc(hidden)]
pub fn is_request(octets: &[u8], hosts: &[String]) -> bool {
    let Some(end) = request::end_of_head(octets) else { return false };
    match request::parse(&octets[..end], hosts) {
        Ok(_) => true,
        Err(refusal) => {
            let (status, sentence) = refusal.answer();
            assert!(!status.is_empty() && !sentence.is_empty());
            false
        }
    }
}

/// A source of numbers.
pub trait Source: Send + 'static {
    /// The present numbers, as one JSON object in one line. Its `kind` selects the tables of the
    /// page.
    fn sample(&mut self) -> String;
}

impl Source for Box<dyn Source> {
    fn sample(&mut self) -> String {
        (**self).sample()
    }
}

//! The settings of a gateway, and why it does not start.

use isorb_event::{ConnectError, Filter};
use std::fmt;

/// The settings of a [`Gateway`](crate::Gateway).
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of the federation. Sites of other federations may use the same routers.
    pub federation: String,
    /// The name of this site, unique in the federation.
    pub site: String,
    /// The zenoh routers of this site, such as `tcp/10.0.0.1:7447`. The gateway uses one at a time,
    /// and another one when that ends.
    pub routers: Vec<String>,
    /// The events that may wait for each zenoh priority. Later ones are lost and counted.
    pub queue: usize,
    /// The most octets of an event's data (payload and any together), in both directions. Larger
    /// ones are lost and counted.
    pub payload: usize,
    /// The most pairs of type and source that this site asks for; with more it asks for everything.
    /// The pairs of another site beyond this number, and sites beyond it, are ignored and logged.
    pub interests: usize,
    /// The most pairs of type and source that are numbered, in each direction.
    pub streams: usize,
    /// The events that are kept for sites that join later, and are sent again when they were lost.
    pub history: Option<History>,
    /// Further settings of zenoh, as path and JSON5, such as `("transport/link/tx/lease", "3000")`.
    pub zenoh: Vec<(String, String)>,
}

/// The history of a gateway, kept by zenoh's advanced publishers and read by its advanced
/// subscribers.
#[derive(Clone, PartialEq, Debug)]
pub struct History {
    /// The events that are kept of each type and source, and requested when this site begins to
    /// want them.
    pub events: usize,
    /// The events that this site keeps, even while no other site wants them.
    pub filters: Vec<Filter>,
}

impl Settings {
    /// A gateway of this site, with queues of 4,096 events, 64 KiB for an event, 1,024 interests,
    /// 65,536 streams, and no history.
    pub fn new(federation: impl Into<String>, site: impl Into<String>, routers: Vec<String>) -> Settings {
        Settings {
            federation: federation.into(),
            site: site.into(),
            routers,
            queue: 4096,
            payload: 64 << 10,
            interests: 1024,
            streams: 65_536,
            history: None,
            zenoh: Vec::new(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), GatewayError> {
        for (setting, name) in [("federation", &self.federation), ("site", &self.site)] {
            if !is_name(name) {
                return Err(GatewayError::Name { setting, name: name.clone() });
            }
        }
        if self.routers.is_empty() {
            return Err(GatewayError::NoRouters);
        }
        Ok(())
    }
}

/// Whether this is one part of a key expression, without a meaning for zenoh.
pub(crate) fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=64).contains(&name.len()) && name.chars().all(allowed)
}

/// Why a gateway did not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum GatewayError {
    /// The name of the site or federation.
    Name {
        /// The setting.
        setting: &'static str,
        /// Its value.
        name: String,
    },
    /// [`Settings::routers`] is empty.
    NoRouters,
    /// zenoh refuses a setting, reaches no router, or the session ended.
    Zenoh(zenoh::Error),
    /// The channel takes no further consumer, supplier or observer.
    Channel(ConnectError),
    /// A thread did not start.
    Thread(String),
}

impl fmt::Display for GatewayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GatewayError::Name { setting, name } => write!(
                f,
                "the {setting} '{name}' is not 1 to 64 letters, digits, '-', '_' and '.'; choose another name"
            ),
            GatewayError::NoRouters => f.write_str("no zenoh router is named; give one as tcp/HOST:PORT"),
            GatewayError::Zenoh(why) => write!(f, "zenoh: {why}"),
            GatewayError::Channel(why) => write!(f, "the channel takes no gateway: {why}"),
            GatewayError::Thread(why) => write!(f, "a thread of the gateway did not start: {why}"),
        }
    }
}

impl std::error::Error for GatewayError {}

impl From<zenoh::Error> for GatewayError {
    fn from(why: zenoh::Error) -> GatewayError {
        GatewayError::Zenoh(why)
    }
}

impl From<ConnectError> for GatewayError {
    fn from(why: ConnectError) -> GatewayError {
        GatewayError::Channel(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_part_of_a_key_expression() {
        for good in ["vienna", "site-7", "a.b_c", "x"] {
            assert!(is_name(good), "{good}");
        }
        let long = "x".repeat(65);
        for bad in ["", "a/b", "*", "**", "$*", "a b", "@x", "ü", "a?b", "a#", &long] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}

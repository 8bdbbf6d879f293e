//! Sessions with zenoh: a gateway's, as a client of a router, and a router in this process.

use crate::settings::{GatewayError, Settings};
use zenoh::{Config, Session, Wait};

/// A gateway is a client of one router at a time. Nothing is discovered: it connects to the routers
/// that it was given.
pub(crate) fn open(settings: &Settings) -> Result<Session, GatewayError> {
    let mut config = Config::default();
    let limit = settings.payload.saturating_add(4096).to_string();
    let fixed = [
        ("mode", "\"client\"".to_string()),
        ("connect/endpoints", list(&settings.routers)),
        ("scouting/multicast/enabled", "false".into()),
        ("scouting/gossip/enabled", "false".into()),
        // zenoh drops larger messages before they take memory.
        ("transport/link/rx/max_message_size", limit),
        // Caches of a history need time stamps.
        ("timestamping/enabled", settings.history.is_some().to_string()),
    ];
    for (path, value) in fixed {
        config.insert_json5(path, &value)?;
    }
    for (path, value) in &settings.zenoh {
        config.insert_json5(path, value)?;
    }
    Ok(zenoh::open(config).wait()?)
}

/// A zenoh router in this process, for a site without `zenohd`. It ends when this is dropped.
#[derive(Debug)]
pub struct Router(Session);

impl Router {
    /// Starts a router that listens at these addresses (`tcp/127.0.0.1:7447`) and keeps itself
    /// connected to the other routers.
    ///
    /// # Errors
    /// [`GatewayError::Zenoh`]: an address is malformed or taken.
    ///
    /// # Real-time
    /// Starts zenoh's threads, which are ordinary ones.
    pub fn start(listen: &[String], routers: &[String]) -> Result<Router, GatewayError> {
        let mut config = Config::default();
        for (path, value) in [
            ("mode", "\"router\"".to_string()),
            ("listen/endpoints", list(listen)),
            ("connect/endpoints", list(routers)),
            ("connect/retry", "{ period_init_ms: 200, period_max_ms: 1000 }".into()),
            ("scouting/multicast/enabled", "false".into()),
        ] {
            config.insert_json5(path, &value)?;
        }
        Ok(Router(zenoh::open(config).wait()?))
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        let _ = self.0.close().wait();
    }
}

/// A JSON5 list of texts.
fn list(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", quoted.join(","))
}

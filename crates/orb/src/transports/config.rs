//! The table `[transport]` of the configuration.

/// Settings of the transports. All keys of the table `[transport]` in `isorb.toml` have the names of these fields.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config-file", derive(serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct TransportConfig {
    /// By which of a reference's addresses to call, most wanted first; a transport of this ORB that is not in the list is not
    /// used for calls. Addresses that mean nothing on this host are passed over.
    pub protocols: Vec<String>,
    /// Permissions of the unix sockets that are listened at: `0o600` lets the own user in.
    pub socket_mode: u32,
}

impl Default for TransportConfig {
    fn default() -> TransportConfig {
        TransportConfig { protocols: ["unix", "tcp"].map(String::from).into(), socket_mode: 0o600 }
    }
}

impl TransportConfig {
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.socket_mode > 0o777 {
            return Err(format!("socket_mode is at most 0o777, not {:#o}", self.socket_mode));
        }
        if self.protocols.is_empty() {
            return Err("protocols must name a transport".into());
        }
        Ok(())
    }
}

//! The table `[transport]` of the configuration.

#[cfg(feature = "segments")]
use std::time::Duration;

/// Settings of the transports. All keys of the table `[transport]` in `isorb.toml` have the names of these fields.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config-file", derive(serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct TransportConfig {
    /// By which of a reference's addresses to call, most wanted first; a transport of this ORB that is not in the list is not
    /// used for calls. Addresses that mean nothing on this host are passed over.
    pub protocols: Vec<String>,
    /// Permissions of the unix sockets that are listened at, those of segments included: `0o600` lets the own user in.
    pub socket_mode: u32,
    /// Bytes of a connection's receive segment, rounded up to a power of two from 4 KiB to 1 GiB; each side has one.
    pub segment_bytes: usize,
    /// How long, in microseconds, a side that waits on a segment looks before it sleeps; only while its peer was last seen on
    /// another processor. 0 for never.
    pub segment_spin_us: u64,
    /// Numbers of users besides the own one that may share segments with this ORB, either way.
    pub segment_users: Vec<u32>,
    /// Most senders that a UDP endpoint knows at a time.
    pub udp_peers: usize,
}

impl Default for TransportConfig {
    fn default() -> TransportConfig {
        TransportConfig {
            protocols: ["segment", "unix", "tcp", "udp"].map(String::from).into(),
            socket_mode: 0o600,
            segment_bytes: 64 << 10,
            segment_spin_us: 20,
            segment_users: Vec::new(),
            udp_peers: 64,
        }
    }
}

impl TransportConfig {
    #[cfg(feature = "segments")]
    pub(crate) fn segment_spin(&self) -> Duration {
        Duration::from_micros(self.segment_spin_us)
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if !(4 << 10..=1 << 30).contains(&self.segment_bytes) {
            return Err(format!("segment_bytes is 4096 to 1073741824, not {}", self.segment_bytes));
        }
        if self.socket_mode > 0o777 {
            return Err(format!("socket_mode is at most 0o777, not {:#o}", self.socket_mode));
        }
        if self.udp_peers == 0 {
            return Err("udp_peers is at least 1".into());
        }
        if self.protocols.is_empty() {
            return Err("protocols must name a transport".into());
        }
        Ok(())
    }
}

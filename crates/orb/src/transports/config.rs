//! The table `[transport]` of the configuration.

use super::ADDED;
#[cfg(feature = "segments")]
use std::time::Duration;

/// Settings of the transports. All keys of the table `[transport]` in `isorb.toml` have the names of these fields.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config-file", derive(serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct TransportConfig {
    /// By which of a reference's addresses to call, most wanted first; a transport of this ORB that is not in the list is not
    /// used for calls. `added` stands for those that were added to the ORB and are not named. Addresses that mean nothing on this
    /// host are passed over.
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
    /// On which interface groups are joined and sent to: its name, or an address of IPv4; nothing for the routed one.
    #[cfg(feature = "miop")]
    pub multicast_interface: String,
    /// How many networks a message to a group may pass: 1 stays on the own one.
    #[cfg(feature = "miop")]
    pub multicast_hops: u32,
    /// Whether what is sent to a group also reaches its members on this host.
    #[cfg(feature = "miop")]
    pub multicast_loopback: bool,
    /// The longest packet to a group, in octets.
    #[cfg(feature = "miop")]
    pub multicast_packet_bytes: usize,
    /// The longest message that is sent to a group, or put together again of packets, in octets.
    #[cfg(feature = "miop")]
    pub multicast_message_bytes: usize,
    /// Messages of more than one packet that a member of a group may have under way.
    #[cfg(feature = "miop")]
    pub multicast_messages: usize,
    /// How long such a message may take from its first packet, in milliseconds.
    #[cfg(feature = "miop")]
    pub multicast_timeout_ms: u64,
}

impl Default for TransportConfig {
    fn default() -> TransportConfig {
        TransportConfig {
            #[cfg(feature = "miop")]
            protocols: ["segment", "unix", ADDED, "tcp", "udp", "miop"].map(String::from).into(),
            #[cfg(not(feature = "miop"))]
            protocols: ["segment", "unix", ADDED, "tcp", "udp"].map(String::from).into(),
            socket_mode: 0o600,
            segment_bytes: 64 << 10,
            segment_spin_us: 20,
            segment_users: Vec::new(),
            udp_peers: 64,
            #[cfg(feature = "miop")]
            multicast_interface: String::new(),
            #[cfg(feature = "miop")]
            multicast_hops: 1,
            #[cfg(feature = "miop")]
            multicast_loopback: true,
            #[cfg(feature = "miop")]
            multicast_packet_bytes: isorb_transport::miop::ETHERNET_PACKET,
            #[cfg(feature = "miop")]
            multicast_message_bytes: 64 << 10,
            #[cfg(feature = "miop")]
            multicast_messages: 16,
            #[cfg(feature = "miop")]
            multicast_timeout_ms: 500,
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
        #[cfg(feature = "miop")]
        self.check_multicast()?;
        Ok(())
    }

    #[cfg(feature = "miop")]
    fn check_multicast(&self) -> Result<(), String> {
        let within = |name, value: usize, low, high| match value {
            value if (low..=high).contains(&value) => Ok(()),
            value => Err(format!("{name} is {low} to {high}, not {value}")),
        };
        within("multicast_hops", self.multicast_hops as usize, 0, 255)?;
        let longest = isorb_transport::LONGEST_DATAGRAM;
        within("multicast_packet_bytes", self.multicast_packet_bytes, 128, longest)?;
        within("multicast_message_bytes", self.multicast_message_bytes, 1024, 16 << 20)?;
        within("multicast_messages", self.multicast_messages, 1, 1024)
    }

    #[cfg(feature = "miop")]
    pub(crate) fn miop(&self) -> isorb_transport::Miop {
        isorb_transport::Miop {
            multicast: isorb_transport::Multicast {
                interface: self.multicast_interface.as_str().into(),
                hops: self.multicast_hops,
                loopback: self.multicast_loopback,
            },
            packet: self.multicast_packet_bytes,
            message: self.multicast_message_bytes,
            messages: self.multicast_messages,
            age: std::time::Duration::from_millis(self.multicast_timeout_ms),
            counts: Default::default(),
        }
    }
}

#[cfg(all(test, feature = "miop"))]
mod tests {
    use super::*;

    #[test]
    fn settings_of_groups_are_checked() {
        let wrong = |change: fn(&mut TransportConfig)| {
            let mut config = TransportConfig::default();
            assert_eq!(config.check(), Ok(()));
            change(&mut config);
            config.check().unwrap_err()
        };
        assert_eq!(wrong(|c| c.multicast_hops = 256), "multicast_hops is 0 to 255, not 256");
        assert!(wrong(|c| c.multicast_packet_bytes = 64).contains("128 to 65507"));
        assert!(wrong(|c| c.multicast_message_bytes = 32 << 20).contains("multicast_message_bytes"));
        assert!(wrong(|c| c.multicast_messages = 0).contains("1 to 1024"));
    }
}

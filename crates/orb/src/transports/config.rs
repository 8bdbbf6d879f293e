//! The table `[transport]` of the configuration.

use super::ADDED;
use crate::settings::{Setting, settings};
#[cfg(feature = "segments")]
use std::time::Duration;

#[cfg(feature = "miop")]
const PROTOCOLS: &[&str] = &["segment", "unix", ADDED, "tcp", "udp", "miop"];
#[cfg(not(feature = "miop"))]
const PROTOCOLS: &[&str] = &["segment", "unix", ADDED, "tcp", "udp"];

settings! {
    /// Settings of the transports. Each key of the table `[transport]` has the name of its field
    /// here.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct TransportConfig {
        /// The transports that calls use, in order of preference. The ORB does not call over a
        /// transport that is not in the list. `added` stands for the transports that the program
        /// added and the list does not name. A call skips addresses that have no meaning on this
        /// host.
        protocols: Vec<String> = PROTOCOLS.iter().copied().map(String::from).collect(), "-ORBProtocols";
        /// Permissions of the unix sockets at which the ORB listens, those of segments included; at
        /// most `0o777`. 384 is `0o600`: only processes of the same user can connect.
        socket_mode: u32 = 0o600;
        /// Octets of a connection's receive segment, rounded up to a power of two. Each side has
        /// one.
        segment_bytes: usize = 64 << 10, in 4 << 10..=1 << 30;
        /// Octets of the arena of a connection over segments, rounded up to whole pages. Arguments
        /// that `Orb::loan` lends lie there, and occupy memory as far as the arena was ever used.
        /// Each side has one; 0 on either side: neither has. A peer's arena may be as long, or up
        /// to 16 MiB.
        segment_arena_bytes: usize = 4 << 20, in 0..=1 << 30;
        /// How long, in microseconds, a thread that waits on a segment polls before it sleeps.
        /// None: twice what a wake-up costs on this machine, which the first use of segments
        /// measures (20 to 200). It polls only while its peer was last seen on another processor.
        /// 0: never.
        segment_spin_us: Option<u64> = None, "-ORBSegmentSpin";
        /// Whether a thread that waits on a segment polls until the wait ends. It sleeps only where
        /// its peer shares its processor. For threads that are pinned to processors of their own:
        /// each occupies one.
        segment_never_sleep: bool = false, "-ORBSegmentNeverSleep";
        /// Numbers of other users who may share segments with this ORB, in both directions.
        segment_users: Vec<u32> = Vec::new();
        /// The number of senders that a UDP endpoint keeps state for.
        udp_peers: usize = 64, in 1..;
        /// The most octets that a UDP endpoint sends to an address, as a multiple of those that
        /// came from it, until the sender has proved that it receives there: its address may be
        /// forged. Longer replies wait for the proof. Clients of isorb give it when they are asked;
        /// others do not get such replies. 0: no limit, for networks where all hosts are yours.
        udp_amplification: u32 = 3, in 0..=1_000_000;
        /// The interface for joining groups and sending to them: its name, or an IPv4 address.
        /// Empty: the routed one.
        #[cfg(feature = "miop")]
        multicast_interface: String = String::new();
        /// The number of networks that a message to a group may cross. 1: it stays in the local
        /// network.
        #[cfg(feature = "miop")]
        multicast_hops: u32 = 1, in 0..=255;
        /// Whether messages to a group also reach its members on this host.
        #[cfg(feature = "miop")]
        multicast_loopback: bool = true;
        /// The longest packet to a group, in octets.
        #[cfg(feature = "miop")]
        multicast_packet_bytes: usize = isorb_transport::miop::ETHERNET_PACKET,
            in 128..=isorb_transport::LONGEST_DATAGRAM;
        /// The longest message to or from a group, in octets.
        #[cfg(feature = "miop")]
        multicast_message_bytes: usize = 64 << 10, in 1024..=16 << 20;
        /// The number of messages in several packets that a member of a group assembles at a time.
        #[cfg(feature = "miop")]
        multicast_messages: usize = 16, in 1..=1024;
        /// Time from the first packet of such a message to its last, in milliseconds.
        #[cfg(feature = "miop")]
        multicast_timeout_ms: u64 = 500;
    }
}

impl Setting for TransportConfig {
    const FORM: &'static str = "";
    fn set(&mut self, _: &str) -> Result<(), String> {
        Err("is a table".into())
    }
    fn show(&self) -> String {
        String::new()
    }
}

impl TransportConfig {
    #[cfg(feature = "segments")]
    pub(crate) fn segment_spin(&self) -> isorb_transport::Spin {
        isorb_transport::Spin {
            limit: self.segment_spin_us.map(Duration::from_micros),
            never_sleep: self.segment_never_sleep,
        }
    }

    /// Checks the ranges, and what they do not say.
    ///
    /// # Errors
    /// A sentence that names the key.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.check_ranges()?;
        if self.socket_mode > 0o777 {
            return Err(format!("socket_mode is at most 0o777, not {:#o}", self.socket_mode));
        }
        if self.protocols.is_empty() {
            return Err("protocols must name a transport".into());
        }
        if self.segment_never_sleep && self.segment_spin_us == Some(0) {
            return Err("segment_never_sleep = true contradicts segment_spin_us = 0; leave one out".into());
        }
        Ok(())
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
    fn a_segment_never_sleeps_or_never_polls() {
        let both = TransportConfig {
            segment_spin_us: Some(0),
            segment_never_sleep: true,
            ..TransportConfig::default()
        };
        assert!(both.check().unwrap_err().contains("segment_never_sleep"));
        assert_eq!(TransportConfig { segment_spin_us: None, ..both }.check(), Ok(()));
    }

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

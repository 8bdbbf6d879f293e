//! The configuration of agents and of their scheduler.

use crate::memory::{Reader, Writer};
use crate::wire::Channel;
use isorb_rt::clock_sync::RoundTrips;
use std::net::SocketAddr;

/// The limits and intervals of a scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SchedulerConfig {
    /// The most push agents.
    pub pushes: usize,
    /// The most receive agents.
    pub receives: usize,
    /// The longest silence of a push agent, after which it sends a heartbeat.
    pub heartbeat_ns: u64,
    /// A value that does not change is pushed again at this interval, for readers that lost it; 0
    /// for never.
    pub refresh_ns: u64,
    /// Bytes a second of the link, for all agents together; 0 for no limit. Datagrams wait here,
    /// where the most urgent goes first, instead of in the queue of the network interface, where
    /// all are equal and the last are dropped.
    pub link_bytes_per_s: u64,
}

impl Default for SchedulerConfig {
    /// 4,096 agents of each kind, a heartbeat each 100 ms, a refresh each second.
    fn default() -> SchedulerConfig {
        SchedulerConfig {
            pushes: 4096,
            receives: 4096,
            heartbeat_ns: 100_000_000,
            refresh_ns: 1_000_000_000,
            link_bytes_per_s: 0,
        }
    }
}

/// When a value is pushed; the reader chooses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// After each write.
    OnWrite,
    /// At intervals, written or not.
    Periodic {
        /// The interval.
        period_ns: u64,
    },
}

/// The admitted parameters of a push.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Guarantee {
    /// The shortest time between two releases; an earlier one waits.
    pub period_ns: u64,
    /// The time from the release to the last datagram. Less is more urgent.
    pub deadline_ns: u64,
    /// How long a push may stay in the lower band: D - R.
    pub promotion_ns: u64,
    /// Processor time of one push.
    pub cost_ns: u64,
}

/// The parameters of a new push agent.
#[derive(Debug)]
pub struct PushSpec {
    /// The channel that was agreed upon with the receiver.
    pub channel: Channel,
    /// The receiver.
    pub to: SocketAddr,
    /// The receiver's address on the second path, where both ends have one.
    pub second: Option<SocketAddr>,
    /// The area.
    pub source: Reader,
    /// When a value is pushed.
    pub mode: Mode,
    /// The admitted parameters; none for best effort.
    pub guarantee: Option<Guarantee>,
    /// Bytes a second that the channel may take of the link; 0 for no limit.
    pub rate: u64,
    /// Bytes that may be sent at once.
    pub burst: usize,
}

/// The parameters of a new receive agent.
#[derive(Debug)]
pub struct ReceiveSpec {
    /// The channel that was agreed upon with the sender.
    pub channel: Channel,
    /// The sender.
    pub peer: SocketAddr,
    /// The replica.
    pub target: Writer,
    /// Older values are stale; none: values do not age.
    pub fresh_ns: Option<u64>,
    /// The writer's node counts as dead after this time without any datagram.
    pub silence_ns: u64,
    /// The sender's second path.
    pub second: Option<SecondPath>,
    /// The urgency of a guaranteed channel's datagrams, which are received before all others: less
    /// is more urgent, on the scale of [`Guarantee::deadline_ns`]. None for best effort, which is
    /// received in order of arrival.
    pub deadline_ns: Option<u64>,
    /// The estimated offset of the sender's clock.
    pub clock: RoundTrips,
}

/// A second path from the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SecondPath {
    /// The address that its datagrams come from.
    pub peer: SocketAddr,
    /// A path that is silent for so long has failed.
    pub after_ns: u64,
}

/// The classes of datagrams on the network.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TrafficClass {
    /// Values of admitted channels.
    Guaranteed,
    /// Heartbeats and other control datagrams: short, and few.
    Control,
    /// All other values.
    BestEffort,
}

/// The marks of a class of datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The differentiated-services code point, for routers and switches.
    pub dscp: u8,
    /// The priority inside this machine (`SO_PRIORITY`).
    pub priority: u8,
}

/// The marks of all classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marks {
    /// Values of admitted channels.
    pub guaranteed: Mark,
    /// Heartbeats and other control datagrams.
    pub control: Mark,
    /// All other values.
    pub best_effort: Mark,
}

impl Default for Marks {
    /// Expedited forwarding (46) for guaranteed channels, operation and management (CS2, 16) for
    /// control, both with priority 6; best effort has none (RFC 4594).
    fn default() -> Marks {
        Marks {
            guaranteed: Mark { dscp: 46, priority: 6 },
            control: Mark { dscp: 16, priority: 6 },
            best_effort: Mark { dscp: 0, priority: 0 },
        }
    }
}

impl Marks {
    /// The mark of a class.
    pub fn of(&self, class: TrafficClass) -> Mark {
        match class {
            TrafficClass::Guaranteed => self.guaranteed,
            TrafficClass::Control => self.control,
            TrafficClass::BestEffort => self.best_effort,
        }
    }
}

/// One of the paths between two nodes; each has a socket of its own at both ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u32)]
pub enum Via {
    /// The path that is used as long as it works.
    First = 0,
    /// The other path.
    Second = 1,
}

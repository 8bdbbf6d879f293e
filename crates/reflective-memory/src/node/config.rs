//! The configuration of a node's server.

use super::dispatcher::DispatcherConfig;
use crate::admission::NodeConfig;
use crate::error::{CallerError, Error};
use crate::wire::ETHERNET_FRAGMENT;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// The configuration of a node's server.
///
/// [`new`](Self::new) has the defaults. The methods named after a field replace it and return the
/// configuration, so that they can be chained; fields without one are set directly.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The node's name, unique among the coordinator's nodes.
    pub name: String,
    /// The local socket that libraries connect to.
    pub socket: PathBuf,
    /// The address that other nodes send datagrams to. None: the address that the sockets are bound
    /// to.
    pub publish: Option<IpAddr>,
    /// The port of the first dispatching thread as other nodes see it, behind a router that
    /// translates addresses; the other threads' ports follow. None: the ports that the sockets are
    /// bound to. With it no channel is guaranteed at its reader's end, because those have ports of
    /// their own.
    pub publish_port: Option<u16>,
    /// Dispatching threads.
    pub dispatchers: usize,
    /// The configuration of each of them.
    pub dispatcher: DispatcherConfig,
    /// The resources that guaranteed channels may use. A link rate of 0 is read from the interface
    /// of the datagrams' address. All datagrams are paced by a rate that is given, and by one that
    /// was read while there are guaranteed channels.
    pub admission: NodeConfig,
    /// A writer's node that is silent for this long counts as dead. At least two
    /// [heartbeats](crate::agents::SchedulerConfig::heartbeat_ns), so that one may be late or lost;
    /// at most a day. On the ORB's paths at least two seconds, because calls may have to wait.
    pub silence: Duration,
    /// The time that the coordinator and other nodes' servers have to answer a call. A server that
    /// hangs delays only the set-up that needs it.
    pub answer: Duration,
    /// Bytes of a fragment.
    pub fragment: usize,
    /// Limits of the tables.
    pub limits: Limits,
}

/// The limits of a server's tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Areas on this node.
    pub areas: usize,
    /// Areas that one process hands back to a restarted server, so that no process fills the table
    /// with areas that no server made.
    pub handed_back: usize,
    /// Bytes of all segments of this server.
    pub bytes: usize,
    /// Processes with a session.
    pub sessions: usize,
    /// Writers and readers of all sessions.
    pub attachments: usize,
    /// Channels on the ORB's path that start here; each has a thread.
    pub orb_channels: usize,
}

impl Default for Limits {
    /// 4,096 areas in 4 GiB, half of them handed back by one process; 1,024 processes, 65,536
    /// attachments, 64 channels on the ORB's path.
    fn default() -> Limits {
        Limits {
            areas: 4096,
            handed_back: 2048,
            bytes: 4 << 30,
            sessions: 1024,
            attachments: 65_536,
            orb_channels: 64,
        }
    }
}

impl ServerConfig {
    /// A server called `name` at the local socket `socket`, which uses loopback between nodes.
    pub fn new(name: impl Into<String>, socket: impl Into<PathBuf>) -> ServerConfig {
        ServerConfig {
            name: name.into(),
            socket: socket.into(),
            publish: None,
            publish_port: None,
            dispatchers: 1,
            dispatcher: DispatcherConfig {
                udp: SocketAddr::from(([127, 0, 0, 1], 0)),
                second: None,
                multicast: None,
                scheduler: crate::agents::SchedulerConfig::default(),
                class: isorb_rt::sched::SchedClass::Other,
                marks: crate::agents::Marks::default(),
                common_clock: None,
            },
            admission: NodeConfig { link_bits_per_s: 0, ..NodeConfig::default() },
            silence: Duration::from_millis(350),
            answer: Duration::from_secs(5),
            fragment: ETHERNET_FRAGMENT,
            limits: Limits::default(),
        }
    }

    /// Sends and receives datagrams at this address.
    pub fn udp(mut self, address: SocketAddr) -> ServerConfig {
        self.dispatcher.udp = address;
        self
    }

    /// Uses a second network path at this address.
    pub fn second_path(mut self, address: SocketAddr) -> ServerConfig {
        self.dispatcher.second = Some(address);
        self
    }

    /// Takes part in multicast, from this first group on.
    pub fn multicast(mut self, first: SocketAddr) -> ServerConfig {
        self.dispatcher.multicast = Some(first);
        self
    }

    /// Starts this many dispatching threads.
    pub fn dispatchers(mut self, threads: usize) -> ServerConfig {
        self.dispatchers = threads;
        self
    }

    /// Admits guaranteed channels by these resources.
    pub fn admission(mut self, resources: NodeConfig) -> ServerConfig {
        self.admission = resources;
        self
    }

    /// Counts a node as dead after this silence.
    pub fn silence(mut self, silence: Duration) -> ServerConfig {
        self.silence = silence;
        self
    }

    /// Gives other servers this long to answer a call.
    pub fn answer(mut self, answer: Duration) -> ServerConfig {
        self.answer = answer;
        self
    }

    /// Limits the tables.
    pub fn limits(mut self, limits: Limits) -> ServerConfig {
        self.limits = limits;
        self
    }

    /// A live node sends heartbeats. With a second path, the first has failed after two thirds of
    /// the silence, so two heartbeats must fit.
    pub(super) fn check(&self) -> Result<(), Error> {
        let least = Duration::from_nanos(self.dispatcher.scheduler.heartbeat_ns).saturating_mul(2);
        let (given, most) = (self.silence, LONGEST_SILENCE);
        match (least..=most).contains(&given) {
            true => Ok(()),
            false => Err(CallerError::Silence { given, least, most }.into()),
        }
    }
}

/// A reader that may learn of a node's death later than this does not need to learn of it.
const LONGEST_SILENCE: Duration = Duration::from_secs(24 * 60 * 60);

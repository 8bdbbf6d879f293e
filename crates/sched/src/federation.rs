//! The analysis of a federation: several channels, the links between them, and the consumers of
//! each other's events, in one analysis.
//!
//! ```text
//!   radar/imu ─► gateway ─► message on a link ─► delay, clock error ─► gateway ─► display/show
//!   processor    processor   packets, by level    joins the jitter      processor   processor
//! ```
//!
//! Each of these is a task of one graph. Deadlines count from the arrival at the first channel:
//! from the creation of the event. Each processor and each link is analysed by itself, and
//! the responses become jitter of what follows, until nothing changes (holistic analysis: Tindell
//! and Clark 1994). So a consumer knows the worst case of an event from its creation on another
//! host, whatever else those hosts and links do within what is declared.

mod file;
mod merged;
mod report;
mod responses;
mod text;

pub use file::{FederationFile, TopologyError};
pub use report::{EndToEnd, FederationReport, LinkUse, Pace, Part};

use crate::graph::{Graph, OperationId};
use crate::schedule::Config;
use crate::{Link, Nanos};
use std::fmt;

/// The octets that a message of a gateway has besides the data of its event: headers of GIOP or of
/// the datagram, and of the event. Gateways pace by the same measure.
pub const MESSAGE_OVERHEAD: u64 = 160;

/// The most channels, links or events of a federation.
pub const MOST: usize = 1_024;

/// The most octets of an event, of a packet or around it, and of a queue of other traffic.
const MOST_OCTETS: u64 = 1 << 32;

/// The most levels of a federation's links.
pub const MOST_LEVELS: usize = 8;

/// A channel: a processor with its operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelNode {
    /// Its name, unique.
    pub name: String,
    /// How its operations are scheduled. Its policy serves in order of arrival.
    pub config: Config,
    /// Its operations.
    pub graph: Graph,
    /// The worst case of a gateway for one event, to forward or to receive it; zero leaves it out.
    pub gateway: Nanos,
}

/// What else waits in the queue of a link's interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marking {
    /// Events are marked by their level, and the queues on the path serve marked packets first: an
    /// event waits for one packet of other traffic.
    Marked,
    /// Events are not marked: they wait behind this many octets of other traffic, and behind each
    /// other in order of arrival. `None` where no bound is known.
    Unmarked(Option<u64>),
}

/// One direction of a link between two channels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelLink {
    /// Its name, unique.
    pub name: String,
    /// The channel that sends, by index.
    pub from: usize,
    /// The channel that receives, by index.
    pub to: usize,
    /// Its rate and packets.
    pub wire: Link,
    /// The longest time from the end of sending to the receiving gateway, other than for the queue
    /// at its start: propagation, switches, interrupts.
    pub delay: Nanos,
    /// The largest error of the offset between the clocks of both hosts. A consumer that compares
    /// the time of creation with its own clock may see an event so much later.
    pub clock_error: Nanos,
    /// How events and other traffic share it.
    pub marking: Marking,
}

/// An operation of a channel, by the indices of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    /// The channel.
    pub channel: usize,
    /// The operation.
    pub operation: OperationId,
}

/// Events of one operation that are consumed at other channels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteEvent {
    /// Its name, unique.
    pub name: String,
    /// The operation that pushes it.
    pub from: Site,
    /// The operations that it releases at other channels.
    pub to: Vec<Site>,
    /// The links to use, by index; empty for the path with the fewest.
    pub over: Vec<usize>,
    /// The data of an event in octets, at most.
    pub octets: u64,
    /// The events that one run pushes.
    pub times: u32,
    /// The level at which it crosses links, 0 the least urgent; `None` for the level of the
    /// consumer's priority.
    pub level: Option<u8>,
}

/// Several channels and the links between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// The channels.
    pub channels: Vec<ChannelNode>,
    /// The links.
    pub links: Vec<ChannelLink>,
    /// The events that cross them.
    pub events: Vec<RemoteEvent>,
    /// The CORBA priorities at which levels begin, the least urgent first.
    pub levels: Vec<u16>,
}

/// Why a federation cannot be analysed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FederationError {
    /// The channel, link or event that it is about.
    pub about: String,
    /// A sentence about it.
    pub message: String,
}

impl fmt::Display for FederationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.about, self.message)
    }
}

impl std::error::Error for FederationError {}

impl FederationError {
    fn new(about: impl Into<String>, message: impl Into<String>) -> FederationError {
        FederationError { about: about.into(), message: message.into() }
    }
}

impl Topology {
    /// Analyses all channels and links together.
    ///
    /// # Errors
    /// [`FederationError`] where there is nothing to analyse: no path between two channels, a
    /// policy that serves by deadline, a link without a bound, a circle of releases. Missed
    /// deadlines are no error but refusals of the report.
    ///
    /// # Real-time
    /// Off line.
    ///
    /// ```
    /// use isorb_sched::federation::FederationFile;
    /// let schedule = |name: &str| match name {
    ///     "radar.toml" => Ok("[[operation]]\nname = 'imu'\ncost = '1 ms'\nperiod = '20 ms'".to_string()),
    ///     _ => Ok("[[operation]]\nname = 'show'\ncost = '2 ms'\ndeadline = '10 ms'".to_string()),
    /// };
    /// let text = r#"
    /// [[channel]]
    /// name = "radar"
    /// schedule = "radar.toml"
    /// [[channel]]
    /// name = "display"
    /// schedule = "display.toml"
    /// [[link]]
    /// name = "up"
    /// from = "radar"
    /// to = "display"
    /// rate = "10 Mbit/s"
    /// delay = "300 us"
    /// clock_error = "100 us"
    /// [[event]]
    /// from = "radar/imu"
    /// to = ["display/show"]
    /// octets = 1000
    /// "#;
    /// let report = FederationFile::parse("both.toml", text, schedule)?.topology.check()?;
    /// assert!(report.holds());
    /// // 1 ms, 2.23 ms on the link, 0.4 ms, 2 ms
    /// assert_eq!(report.paths[0].worst.map(|time| time.to_string()).as_deref(), Some("5.63 ms"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(&self) -> Result<FederationReport, FederationError> {
        self.check_shape()?;
        // The level of an event is that of its consumer, which its own rank determines.
        let probe = merged::Merged::of(self, &|_, _| 0)?;
        let priorities = responses::Queues::of(self, &probe)?.consumers(self, &probe);
        let level = |event: usize, target: usize| match self.events[event].level {
            Some(level) => level,
            None => self.level_of(priorities[event][target]),
        };
        let merged = merged::Merged::of(self, &level)?;
        let queues = responses::Queues::of(self, &merged)?;
        let found = responses::Responses::of(self, &merged, &queues)?;
        Ok(report::build(self, &merged, &found))
    }

    /// The level of a CORBA priority.
    #[must_use]
    pub fn level_of(&self, priority: u16) -> u8 {
        let below = self.levels.iter().take_while(|begin| **begin <= priority).count();
        below.saturating_sub(1) as u8
    }

    fn check_shape(&self) -> Result<(), FederationError> {
        let ascend = self.levels.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascend || self.levels.is_empty() || self.levels.len() > MOST_LEVELS {
            let message = format!("give 1 to {MOST_LEVELS} priorities, each greater than the one before");
            return Err(FederationError::new("levels", message));
        }
        for (what, count) in
            [("channels", self.channels.len()), ("links", self.links.len()), ("events", self.events.len())]
        {
            if count > MOST {
                return Err(FederationError::new(
                    what,
                    format!("there are {count}, and at most {MOST} may be"),
                ));
            }
        }
        for channel in &self.channels {
            if channel.config.policy.order() != crate::Order::Arrival {
                let message = format!(
                    "its policy is {}, and responses over several channels are known for rms, dm, criticality \
                     and declared",
                    channel.config.policy
                );
                return Err(FederationError::new(&channel.name, message));
            }
        }
        for link in &self.links {
            if link.wire.bits_per_second == 0 || link.wire.packet_octets == 0 {
                return Err(FederationError::new(&link.name, "its rate and its packets must not be zero"));
            }
            let queue = match link.marking {
                Marking::Marked | Marking::Unmarked(None) => 0,
                Marking::Unmarked(Some(queue)) => queue,
            };
            if link.wire.packet_octets.max(link.wire.overhead_octets).max(queue) > MOST_OCTETS {
                let message = format!("packet, overhead and queue are at most {MOST_OCTETS} octets");
                return Err(FederationError::new(&link.name, message));
            }
            if link.marking == Marking::Unmarked(None) {
                let message = "its events are not marked, and what other traffic may stand before them is not \
                               declared: mark them (marked = true), or give the octets of that queue (queue)";
                return Err(FederationError::new(&link.name, message));
            }
        }
        for event in &self.events {
            if event.octets > MOST_OCTETS {
                let message = format!("an event has at most {MOST_OCTETS} octets, not {}", event.octets);
                return Err(FederationError::new(&event.name, message));
            }
            if event.level.is_some_and(|level| usize::from(level) >= self.levels.len()) {
                let message = format!("its level is one of 0 to {}", self.levels.len() - 1);
                return Err(FederationError::new(&event.name, message));
            }
        }
        Ok(())
    }
}

//! What `isorb-bench` can be asked for, one file each.

mod attacks;
mod banded;
mod banded_load;
mod call_layers;
pub mod catalogue;
mod clients;
mod context;
pub mod counted;
mod cremes;
mod demux;
mod events;
pub mod federation;
mod footprint;
mod interconnect;
mod inversion;
mod inversion_scene;
mod log_load;
mod low_threads;
mod memory_cost;
mod network_load;
mod nodes;
pub mod one;
mod paced;
mod pi_mutex;
pub mod report;
mod scope;
pub mod serve;
mod server_work;
mod spread;
mod storm;
mod tao_overhead;
mod throughput;
mod timer_resolution;
mod transports;
pub mod two_way;
pub mod worst;

pub use context::{Context, Urgency};
pub(crate) use events::pairs;

use std::fmt;

use isorb_netlab::LabError;
use isorb_rt::sched::{MissingRight, SpawnError};

use crate::process::PeerError;

/// Why an experiment gave no result.
#[derive(Debug)]
pub enum BenchError {
    /// Real-time scheduling was required and is not granted.
    NotRealTime(MissingRight),
    /// A process of the control failed, or of the only subject there was.
    Peer(PeerError),
    /// A tool that this needs is not there; its Debian package.
    NoTool(&'static str),
    /// None of the subjects can run here.
    NoSubject,
    /// A placement needs more processors than this process may use.
    NoPlacement,
    /// A thread that measures could not be started, or panicked.
    Thread(SpawnError),
    /// An event channel refused something; its sentence.
    Channel(String),
    /// Reflective memory refused something; its sentence.
    Memory(String),
    /// A service did not keep a promise, or is not there; its sentence.
    Service(String),
    /// There is no network lab.
    Lab(LabError),
    /// The ORB in this process refused.
    Orb(isorb::SystemException),
    /// A file or pipe of our own.
    Io(std::io::Error),
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::NotRealTime(missing) => write!(f, "{missing}"),
            BenchError::Peer(error) => write!(f, "{error}"),
            BenchError::NoTool(tool) => write!(f, "{tool} is not installed (apt-get install {tool})"),
            BenchError::NoSubject => f.write_str("none of the subjects can run here"),
            BenchError::NoPlacement => f.write_str("the placement needs two processors, and there is one"),
            BenchError::Thread(error) => write!(f, "{error}"),
            BenchError::Channel(why) => write!(f, "event channel: {why}"),
            BenchError::Memory(why) => write!(f, "reflective memory: {why}"),
            BenchError::Service(why) => f.write_str(why),
            BenchError::Lab(error) => write!(f, "no network lab: {error}"),
            BenchError::Orb(exception) => write!(f, "{exception}"),
            BenchError::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for BenchError {}

impl From<PeerError> for BenchError {
    fn from(error: PeerError) -> Self {
        BenchError::Peer(error)
    }
}

impl From<LabError> for BenchError {
    fn from(error: LabError) -> Self {
        BenchError::Lab(error)
    }
}

impl From<SpawnError> for BenchError {
    fn from(error: SpawnError) -> Self {
        BenchError::Thread(error)
    }
}

impl From<isorb::SystemException> for BenchError {
    fn from(exception: isorb::SystemException) -> Self {
        BenchError::Orb(exception)
    }
}

impl From<std::io::Error> for BenchError {
    fn from(error: std::io::Error) -> Self {
        BenchError::Io(error)
    }
}

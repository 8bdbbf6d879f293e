//! How server and client of a workload are set up; both take it as one argument, in JSON.

use std::path::PathBuf;
use std::str::FromStr;

use isorb::Config;
use isorb_rt::sched::RealTime;
use serde::{Deserialize, Serialize};

/// How server and client are set up.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// CORBA priorities of the lanes, ascending, each with one thread
    pub lanes: Vec<i16>,
    /// A lane for each priority; without it one pool of as many threads at the lowest priority
    pub sorted: bool,
    /// A connection for each lane's priority; without it connections are shared
    pub banded: bool,
    /// All requests have the priority of the lowest lane, instead of their clients'
    pub declared: bool,
    /// By which transport: tcp, unix or segment
    pub transport: String,
    /// Packets are marked according to the priority
    pub marked: bool,
    /// A raw socket beside the ORB, at the highest lane's priority. Where there is one pool, as
    /// many threads serve all raw connections; else each has its own
    pub probe: bool,
    /// Client and server stamp their ends of calls that ask for it, and the raw socket does (see
    /// [`layers`](super::layers))
    pub layers: bool,
    /// Memory of upcalls from the heap instead of scopes
    pub heap: bool,
    /// Octets of the region of an upcall; `None` is what the ORB has by itself
    pub region_bytes: Option<usize>,
    /// Ordinary threads of the server that take memory from the heap and give it back, without a
    /// pause, and one heap for all
    pub allocating: u32,
    /// Lower CORBA priorities belong to the ordinary class
    pub ordinary_below: i16,
    /// Connections that the client opens at most
    pub connections: usize,
    /// Where the server listens
    pub host: String,
    /// Real-time scheduling is not to be had
    pub no_real_time: bool,
}

impl Setup {
    /// With these lanes, sorted, on this host.
    pub fn lanes(lanes: &[i16]) -> Setup {
        Setup {
            lanes: lanes.to_vec(),
            sorted: true,
            banded: true,
            declared: false,
            transport: "tcp".to_owned(),
            marked: false,
            probe: false,
            layers: false,
            heap: false,
            region_bytes: None,
            allocating: 0,
            ordinary_below: 0,
            connections: 5,
            host: "127.0.0.1".to_owned(),
            no_real_time: false,
        }
    }

    /// Where the process `id` listens, if that is a file.
    pub fn socket_file(&self, id: u32) -> Option<PathBuf> {
        let file = || std::env::temp_dir().join(format!("isorb-bench-{id}"));
        (self.transport != "tcp").then(file)
    }

    /// A place of its own for the process to listen at.
    fn endpoint(&self) -> String {
        match self.socket_file(std::process::id()) {
            Some(file) => format!("{}:{}", self.transport, file.display()),
            None => self.lane_endpoint(),
        }
    }

    /// Where lanes listen, whatever the transport that clients take: at TCP.
    pub fn lane_endpoint(&self) -> String {
        format!("{}:0", self.host)
    }

    /// The configuration of either side's ORB.
    pub fn config(&self) -> Config {
        let mut config = Config { connections_per_server: self.connections, ..Config::default() };
        config.endpoints = vec![self.endpoint()];
        config.transport.protocols = vec![self.transport.clone()];
        config.real_time.mode = if self.no_real_time { RealTime::Off } else { RealTime::Prefer };
        // What is above is left to the kernel's own threads.
        config.real_time.native_max = 45;
        config.real_time.ordinary_below = self.ordinary_below;
        config
    }
}

#[cfg(test)]
impl Setup {
    /// The names of the switches that another set-up has otherwise.
    pub fn switches(&self, other: &Setup) -> Vec<String> {
        let [ours, theirs] = [self, other].map(|setup| serde_json::to_value(setup).unwrap());
        let names = ours.as_object().unwrap().iter().filter(|(name, value)| theirs[name] != **value);
        names.map(|(name, _)| name.clone()).collect()
    }
}

impl FromStr for Setup {
    type Err = serde_json::Error;

    fn from_str(json: &str) -> serde_json::Result<Setup> {
        serde_json::from_str(json)
    }
}

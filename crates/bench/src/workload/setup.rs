//! How server and client of a workload are set up; both take it as arguments.

use std::path::PathBuf;

use clap::Args;
use isorb::Config;
use isorb_rt::sched::RealTime;

/// How server and client are set up.
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct Setup {
    /// CORBA priorities of the lanes, ascending, each with one thread
    #[arg(long, value_delimiter = ',', required = true)]
    pub lanes: Vec<i16>,
    /// Lanes and banded connections; without it one pool of as many threads at the lowest priority, and shared connections
    #[arg(long)]
    pub sorted: bool,
    /// Where it is not sorted, requests run at their clients' priorities all the same
    #[arg(long)]
    pub propagated: bool,
    /// By which transport: tcp, unix or segment
    #[arg(long, default_value = "tcp")]
    pub transport: String,
    /// Packets are marked according to the priority
    #[arg(long)]
    pub marked: bool,
    /// A raw socket beside the ORB, at the highest lane's priority
    #[arg(long)]
    pub probe: bool,
    /// Client and server stamp their ends of calls that ask for it, and the raw socket does (see [`layers`](super::layers))
    #[arg(long)]
    pub layers: bool,
    /// Memory of upcalls from the heap instead of scopes
    #[arg(long)]
    pub heap: bool,
    /// Ordinary threads of the server that take memory from the heap and give it back, without a pause, and one heap for all
    #[arg(long, default_value_t = 0)]
    pub allocating: u32,
    /// Lower CORBA priorities belong to the ordinary class
    #[arg(long, default_value_t = 0)]
    pub ordinary_below: i16,
    /// Connections that the client opens at most
    #[arg(long, default_value_t = 5)]
    pub connections: usize,
    /// Where the server listens
    #[arg(long, default_value = "127.0.0.1")]
    pub host: String,
    /// Real-time scheduling is not to be had
    #[arg(long)]
    pub no_real_time: bool,
}

impl Setup {
    /// With these lanes, sorted, on this host.
    pub fn lanes(lanes: &[i16]) -> Setup {
        Setup {
            lanes: lanes.to_vec(),
            sorted: true,
            propagated: false,
            transport: "tcp".to_owned(),
            marked: false,
            probe: false,
            layers: false,
            heap: false,
            allocating: 0,
            ordinary_below: 0,
            connections: 5,
            host: "127.0.0.1".to_owned(),
            no_real_time: false,
        }
    }

    /// The words that lead back to it.
    pub fn words(&self) -> Vec<String> {
        let lanes: Vec<String> = self.lanes.iter().map(ToString::to_string).collect();
        let mut words = vec![format!("--lanes={}", lanes.join(","))];
        let flags = [
            (self.sorted, "--sorted"),
            (self.propagated, "--propagated"),
            (self.marked, "--marked"),
            (self.probe, "--probe"),
            (self.layers, "--layers"),
            (self.heap, "--heap"),
            (self.no_real_time, "--no-real-time"),
        ];
        words.extend(flags.iter().filter(|(on, _)| *on).map(|(_, flag)| (*flag).to_owned()));
        words.push(format!("--allocating={}", self.allocating));
        words.push(format!("--ordinary-below={}", self.ordinary_below));
        words.push(format!("--connections={}", self.connections));
        words.push(format!("--host={}", self.host));
        words.push(format!("--transport={}", self.transport));
        words
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
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        setup: Setup,
    }

    #[test]
    fn words_lead_back_to_their_setup() {
        let mut setup = Setup::lanes(&[100, 30_000]);
        for _ in 0..2 {
            let words = std::iter::once("x".to_owned()).chain(setup.words());
            assert_eq!(Program::parse_from(words).setup, setup);
            setup = Setup {
                sorted: false,
                marked: true,
                propagated: true,
                transport: "segment".to_owned(),
                probe: true,
                layers: true,
                heap: true,
                allocating: 3,
                ordinary_below: 1000,
                connections: 200,
                host: "10.77.0.1".to_owned(),
                no_real_time: true,
                ..setup
            };
        }
    }
}

//! The command line of the benchmark, and of the peers that it starts.

mod experiments;
mod peer;

use std::fmt::Display;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::experiments::{counted, federation, one, report, serve, two_way};
use crate::faults;
use crate::process::Launcher;
use experiments::Named;
pub use peer::PeerArgs;

/// Measures isorb beside raw sockets and other ORBs.
#[derive(Args, Debug)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// How long calls take: void, octets, a string, structures, and oneways
    TwoWay(two_way::Options),
    /// User-space instructions a call, under valgrind
    Instructions(counted::Options),
    /// System calls a call, under strace
    Syscalls(counted::Options),
    /// How a federation of event channels grows, simulated in virtual time
    Federation(federation::Options),
    /// Servers for the clients of another host, until standard input ends
    Serve(serve::Options),
    /// The papers' experiments, all or some, as one HTML page with plots
    Report(report::Options),
    /// Every system call of each service fails in turn, under strace; what held
    Campaign(faults::CampaignOptions),
    /// All services for hours, with churn of clients, kills, full disks and an unplugged link
    Soak(faults::SoakOptions),
    #[command(flatten)]
    Experiment(Named),
}

impl BenchArgs {
    /// Runs the command; a failure has been written to standard error.
    pub fn run(self) -> ExitCode {
        exit_code(Launcher::current().map_err(Into::into).and_then(|launcher| match self.command {
            Command::TwoWay(options) => two_way::run(&launcher, &options),
            Command::Instructions(options) => counted::instructions(&launcher, &options),
            Command::Syscalls(options) => counted::syscalls(&launcher, &options),
            Command::Federation(options) => federation::run(&options),
            Command::Serve(options) => serve::run(&launcher, &options),
            Command::Report(options) => report::run(&launcher, &options),
            Command::Campaign(options) => faults::campaign(&launcher, &options),
            Command::Soak(options) => faults::soak(&launcher, &options),
            Command::Experiment(Named { experiment, options }) => one::run(&launcher, experiment, options),
        }))
    }
}

fn exit_code<E: Display>(result: Result<(), E>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("isorb-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use isorb_rt::sched::RealTime;

    use super::*;
    use crate::experiments::{Urgency, catalogue};

    #[derive(Parser, Debug)]
    struct Bench {
        #[command(flatten)]
        args: BenchArgs,
    }

    fn parse(line: &str) -> Result<Command, clap::Error> {
        Bench::try_parse_from(line.split(' ')).map(|bench| bench.args.command)
    }

    #[test]
    fn every_experiment_is_a_command() {
        for experiment in catalogue::ALL {
            let line = format!("bench {} --quick --priority 50", experiment.name);
            let Ok(Command::Experiment(named)) = parse(&line) else { panic!("{line}") };
            assert_eq!(named.experiment.name, experiment.name);
            let urgency = Urgency { real_time: RealTime::Prefer, priority: 50 };
            let options =
                one::Options { quick: true, json: false, urgency, smoke: false, servers: None, blocks: None };
            assert_eq!(named.options, options);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [
            "bench",
            "bench two-way --subjects tao",
            "bench two-way --cases void:3",
            "bench two-way --priority 0",
            "bench two-way --quick --seconds 3",
            "bench two-way --real-time maybe",
            "bench demux --seconds 3",
            "bench nothing",
            "bench report nothing",
            "bench federation --channels many",
            "bench worst --quick --blocks 100",
            "bench worst --blocks 8",
            "bench demux --blocks 100",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        for line in [
            "two-way --quick",
            "worst --blocks 9",
            "federation --channels 1000 --consumers 100 --branches 4 --delay 1 --json",
            "two-way --subjects raw,raw-again --cases void,octets:64 --placement two-core",
        ] {
            assert!(parse(&format!("bench {line}")).is_ok(), "{line}");
        }
    }
}

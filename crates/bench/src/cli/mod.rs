//! The command line, as `isorb-bench` and the hidden `isorb-bench bench-peer` have it.

mod experiments;

use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use isorb_rt::sched::RealTime;

use crate::cases::Case;
use crate::contention;
use crate::contention::client::ClientArgs;
use crate::contention::flood::FloodArgs;
use crate::contention::server::ServerArgs;
use crate::distant::Distant;
use crate::experiments::{instructions, one, report, syscalls, two_way};
use crate::process::{Launcher, Place, place};
use crate::report::Placement;
use crate::subjects::{Subject, afresh, band, isorb, raw, tls};
use experiments::{Named, ReportArgs};

/// A run that is not quick gives each case so long.
const EACH: Duration = Duration::from_secs(12);
/// A quick one ends within a minute, the last blocks and the end of the subjects included.
const QUICK: Duration = Duration::from_secs(50);

/// Measures isorb beside raw sockets and other ORBs.
#[derive(Args, Debug)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// How long calls take: void, octets, a string, structures, and oneways
    TwoWay(TwoWay),
    /// User-space instructions a call, under valgrind
    Instructions(Counted),
    /// System calls a call, under strace
    Syscalls(Counted),
    /// The papers' experiments, all or some, as one HTML page with plots
    Report(ReportArgs),
    #[command(flatten)]
    Experiment(Named),
}

#[derive(Args, Debug)]
struct TwoWay {
    /// At most a minute, with fewer rounds
    #[arg(long)]
    quick: bool,
    /// Seconds for each case and placement (12 if not given)
    #[arg(long, conflicts_with = "quick")]
    seconds: Option<u32>,
    /// One JSON object a line on standard output; the tables go to standard error
    #[arg(long)]
    json: bool,
    /// Subjects, separated by commas; all if not given
    #[arg(long, value_delimiter = ',')]
    subjects: Vec<Subject>,
    /// Cases such as void,octets:1024,oneway; all if not given
    #[arg(long, value_delimiter = ',')]
    cases: Vec<Case>,
    /// Both processes on one core, on two, or both ways if not given
    #[arg(long, value_enum)]
    placement: Option<PlacementName>,
    /// Real-time priority for the subjects: require, prefer or off
    #[arg(long, default_value = "prefer")]
    real_time: RealTime,
    /// The native priority
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u8).range(1..=99))]
    priority: u8,
}

#[derive(Args, Debug)]
struct Counted {
    /// One JSON object a line on standard output; the table goes to standard error
    #[arg(long)]
    json: bool,
    /// Subjects, separated by commas; all that differ and can be counted if not given
    #[arg(long, value_delimiter = ',')]
    subjects: Vec<Subject>,
    /// The call
    #[arg(long, default_value = "void")]
    case: Case,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum PlacementName {
    OneCore,
    TwoCore,
}

impl BenchArgs {
    /// Does it; a failure has been written to standard error.
    pub fn run(self) -> ExitCode {
        let launcher = match Launcher::current() {
            Ok(launcher) => launcher,
            Err(e) => return failed(e),
        };
        let result = match self.what {
            What::TwoWay(args) => two_way::run(&launcher, &args.options()),
            What::Instructions(args) => instructions::run(&launcher, &args.options(&NOT_UNDER_VALGRIND)),
            What::Syscalls(args) => syscalls::run(&launcher, &args.options(&SAME)),
            What::Report(args) => report::run(&launcher, &args.options()),
            What::Experiment(Named { experiment, options }) => one::run(&launcher, experiment, options),
        };
        result.map_or_else(failed, |()| ExitCode::SUCCESS)
    }
}

impl TwoWay {
    fn options(self) -> two_way::Options {
        let placements = self.placement.map(|name| match name {
            PlacementName::OneCore => vec![Placement::OneCore],
            PlacementName::TwoCore => vec![Placement::TwoCore],
        });
        let each = self.seconds.map_or(EACH, |s| Duration::from_secs(s.into()));
        two_way::Options {
            subjects: or_all(self.subjects, &Subject::ALL),
            cases: or_all(self.cases, &Case::all()),
            placements,
            length: if self.quick { two_way::Length::All(QUICK) } else { two_way::Length::Each(each) },
            real_time: self.real_time,
            priority: self.priority,
            json: self.json,
        }
    }
}

impl Counted {
    fn options(self, unless_named: &[Subject]) -> instructions::Options {
        let usual: Vec<Subject> = Subject::ALL.into_iter().filter(|s| !unless_named.contains(s)).collect();
        instructions::Options { subjects: or_all(self.subjects, &usual), case: self.case, json: self.json }
    }
}

/// The two raw subjects are one program.
const SAME: [Subject; 1] = [Subject::RawAgain];
/// valgrind 3.19, which stable distributions have, does not know `epoll_pwait2`, on which lanes wait.
const NOT_UNDER_VALGRIND: [Subject; 3] = [Subject::RawAgain, Subject::IsorbLane, Subject::IsorbBand];

fn or_all<T: Clone>(given: Vec<T>, all: &[T]) -> Vec<T> {
    if given.is_empty() { all.to_vec() } else { given }
}

/// What the binary does when the harness has started it again.
#[derive(Args, Debug)]
pub struct PeerArgs {
    #[command(subcommand)]
    what: PeerWhat,
}

#[derive(Subcommand, Debug)]
enum PeerWhat {
    /// Takes its place and becomes another program
    Place {
        /// Process id of the harness
        #[arg(long)]
        parent: u32,
        /// The processor
        #[arg(long)]
        cpu: Option<usize>,
        /// The native priority in SCHED_FIFO
        #[arg(long)]
        fifo: Option<u8>,
        /// The program and its arguments
        #[arg(last = true, required = true)]
        program: Vec<OsString>,
    },
    /// isorb's server
    IsorbServer {
        /// Requests run at the priority that their client sends
        #[arg(long)]
        propagated: bool,
        /// The ORB's arguments
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// isorb's client
    IsorbClient {
        /// Calls have a priority
        #[arg(long)]
        propagated: bool,
        /// The ORB's arguments, and the server's reference
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// isorb's server with lanes
    IsorbBandServer,
    /// isorb's client at a priority
    IsorbBandClient {
        /// The server's reference
        reference: String,
    },
    /// The server of a contest
    LoadServer(ServerArgs),
    /// The client of a contest
    LoadClient(ClientArgs),
    /// Sends more than a link carries
    Flood(FloodArgs),
    /// The other end of an event channel
    #[command(subcommand)]
    Distant(Distant),
    /// Those who connect and ask for nothing
    Storm {
        /// The server's
        address: contention::storm::Address,
    },
    /// The control's server
    RawServer,
    /// The control's client
    RawClient {
        /// The server's
        address: String,
    },
    /// The server of the control over a unix socket
    RawUnixServer,
    /// Its client
    RawUnixClient {
        /// The server's
        path: PathBuf,
    },
    /// The server of the control over TLS
    RawTlsServer {
        /// With the certificates
        folder: PathBuf,
    },
    /// Its client
    RawTlsClient {
        /// With the certificates
        folder: PathBuf,
        /// The server's
        address: String,
    },
    /// isorb's server over TLS
    IsorbTlsServer {
        /// With the certificates
        folder: PathBuf,
        /// Of the ORB
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// isorb's client over TLS
    IsorbTlsClient {
        /// With the certificates
        folder: PathBuf,
        /// The server's reference
        address: String,
    },
    /// The same with a connection for each call
    IsorbTlsAfreshClient {
        /// With the certificates
        folder: PathBuf,
        /// The server's reference
        address: String,
    },
}

impl PeerArgs {
    /// Does it; a failure has been written to standard error.
    pub fn run(self) -> ExitCode {
        let result = match self.what {
            PeerWhat::Place { parent, cpu, fifo, program } => {
                Err(place(parent, Place { cpu, fifo }, &program))
            }
            PeerWhat::IsorbServer { propagated, arguments } => isorb::serve(&arguments, propagated),
            PeerWhat::IsorbClient { propagated, arguments } => isorb::call(&arguments, propagated),
            PeerWhat::IsorbBandServer => band::serve(),
            PeerWhat::IsorbBandClient { reference } => band::call(&reference),
            PeerWhat::LoadServer(args) => contention::server::serve(&args),
            PeerWhat::LoadClient(args) => contention::client::call(&args),
            PeerWhat::Flood(args) => contention::flood::flood(&args),
            PeerWhat::Distant(program) => program.run(),
            PeerWhat::Storm { address } => contention::storm::obey(&address),
            PeerWhat::RawServer => raw::serve(),
            PeerWhat::RawClient { address } => raw::call(&address),
            PeerWhat::RawUnixServer => raw::serve_unix(),
            PeerWhat::RawUnixClient { path } => raw::call_unix(&path),
            PeerWhat::RawTlsServer { folder } => raw::serve_tls(&folder),
            PeerWhat::RawTlsClient { folder, address } => raw::call_tls(&folder, &address),
            PeerWhat::IsorbTlsServer { folder, mut arguments } => {
                arguments.extend(["-ORBEndPoint", "giop:ssl:127.0.0.1:0;connection"].map(str::to_owned));
                tls::orb(&folder, "server", &arguments).and_then(|orb| isorb::serve_by(&orb, false))
            }
            PeerWhat::IsorbTlsClient { folder, address } => {
                tls::orb(&folder, "client", &[]).and_then(|orb| isorb::call_by(orb, &address))
            }
            PeerWhat::IsorbTlsAfreshClient { folder, address } => afresh::call(&folder, address),
        };
        result.map_or_else(failed, |()| ExitCode::SUCCESS)
    }
}

fn failed(error: impl Display) -> ExitCode {
    eprintln!("isorb-bench: {error}");
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cases::Kind;
    use crate::experiments::catalogue;

    #[derive(Parser, Debug)]
    struct Bench {
        #[command(flatten)]
        args: BenchArgs,
    }

    fn parse(line: &str) -> Result<What, clap::Error> {
        Bench::try_parse_from(line.split(' ')).map(|bench| bench.args.what)
    }

    #[test]
    fn what_is_not_given_is_everything() {
        let Ok(What::TwoWay(args)) = parse("bench two-way") else { panic!() };
        let options = args.options();
        assert_eq!(options.subjects, Subject::ALL);
        assert_eq!(options.cases, Case::all());
        assert_eq!((options.placements, options.length), (None, two_way::Length::Each(EACH)));
        let Ok(What::Instructions(args)) = parse("bench instructions") else { panic!() };
        let options = args.options(&NOT_UNDER_VALGRIND);
        assert_eq!(options.case, Case { kind: Kind::Void, size: 0 });
        let all = Subject::ALL.into_iter();
        assert!(options.subjects.iter().copied().eq(all.filter(|s| !NOT_UNDER_VALGRIND.contains(s))));
        assert!(
            options.subjects.contains(&Subject::Isorb) && !options.subjects.contains(&Subject::IsorbLane)
        );
        let Ok(What::Instructions(args)) = parse("bench instructions --subjects isorb-lane") else {
            panic!()
        };
        assert_eq!(args.options(&NOT_UNDER_VALGRIND).subjects, [Subject::IsorbLane]);
    }

    #[test]
    fn lists_are_separated_by_commas() {
        let line = "bench two-way --quick --json --subjects raw,raw-again --cases void,octets:64 --placement two-core";
        let Ok(What::TwoWay(args)) = parse(line) else { panic!() };
        let options = args.options();
        assert_eq!(options.subjects, [Subject::Raw, Subject::RawAgain]);
        assert_eq!(options.cases.len(), 2);
        assert_eq!(options.placements, Some(vec![Placement::TwoCore]));
        assert_eq!((options.length, options.json), (two_way::Length::All(QUICK), true));
    }

    #[test]
    fn every_experiment_is_a_command() {
        for experiment in catalogue::ALL {
            let line = format!("bench {} --quick --priority 50", experiment.name);
            let Ok(What::Experiment(named)) = parse(&line) else { panic!("{line}") };
            assert_eq!(named.experiment.name, experiment.name);
            let real_time = RealTime::Prefer;
            assert_eq!(
                named.options,
                one::Options { quick: true, json: false, real_time, priority: 50, smoke: false }
            );
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
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}

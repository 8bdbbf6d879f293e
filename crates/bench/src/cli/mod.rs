//! The command line of the benchmark, and of the peers that it starts.

mod experiments;
mod peer;

use std::fmt::Display;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use isorb_rt::sched::RealTime;

use crate::cases::Case;
use crate::experiments::{counted, one, report, serve, two_way};
use crate::process::Launcher;
use crate::report::Placement;
use crate::subjects::Subject;
use experiments::{Named, ReportArgs};
pub use peer::PeerArgs;

/// The time for each case of a run that is not quick.
const EACH: Duration = Duration::from_secs(12);
/// A quick run ends within a minute, the last blocks and the end of the subjects included.
const QUICK: Duration = Duration::from_secs(50);

/// Measures isorb beside raw sockets and other ORBs.
#[derive(Args, Debug)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// How long calls take: void, octets, a string, structures, and oneways
    TwoWay(TwoWay),
    /// User-space instructions a call, under valgrind
    Instructions(Counted),
    /// System calls a call, under strace
    Syscalls(Counted),
    /// Servers for the clients of another host, until standard input ends
    Serve(Serve),
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
    /// Subjects, separated by commas; the usual ones if not given
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

#[derive(Args, Debug)]
struct Serve {
    /// The address of this host that the clients reach
    #[arg(long)]
    host: String,
    /// Real-time priority for the servers: require, prefer or off
    #[arg(long, default_value = "prefer")]
    real_time: RealTime,
    /// The native priority
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u8).range(1..=99))]
    priority: u8,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum PlacementName {
    OneCore,
    TwoCore,
}

impl BenchArgs {
    /// Runs the command; a failure has been written to standard error.
    pub fn run(self) -> ExitCode {
        let launcher = match Launcher::current() {
            Ok(launcher) => launcher,
            Err(e) => return exit_code(Err(e)),
        };
        exit_code(match self.command {
            Command::TwoWay(args) => two_way::run(&launcher, &args.options()),
            Command::Instructions(args) => {
                counted::instructions(&launcher, &args.options(&NOT_UNDER_VALGRIND))
            }
            Command::Syscalls(args) => counted::syscalls(&launcher, &args.options(&SAME)),
            Command::Serve(Serve { host, real_time, priority }) => {
                serve::run(&launcher, &host, real_time, priority)
            }
            Command::Report(args) => report::run(&launcher, &args.options()),
            Command::Experiment(Named { experiment, options }) => one::run(&launcher, experiment, options),
        })
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
            subjects: or_all(self.subjects, Subject::usual()),
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
    fn options(self, unless_named: &[Subject]) -> counted::Options {
        let usual = Subject::usual().iter().copied().filter(|s| !unless_named.contains(s));
        let subjects = or_all(self.subjects, &usual.collect::<Vec<_>>());
        counted::Options { subjects, case: self.case, json: self.json }
    }
}

/// The two raw subjects are one program.
const SAME: [Subject; 1] = [Subject::RawAgain];
/// valgrind 3.19, which stable distributions have, does not know `epoll_pwait2`, on which lanes
/// wait.
const NOT_UNDER_VALGRIND: [Subject; 3] = [Subject::RawAgain, Subject::IsorbLane, Subject::IsorbBand];

fn or_all<T: Clone>(given: Vec<T>, all: &[T]) -> Vec<T> {
    if given.is_empty() { all.to_vec() } else { given }
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

    use super::*;
    use crate::cases::Kind;
    use crate::experiments::catalogue;

    #[derive(Parser, Debug)]
    struct Bench {
        #[command(flatten)]
        args: BenchArgs,
    }

    fn parse(line: &str) -> Result<Command, clap::Error> {
        Bench::try_parse_from(line.split(' ')).map(|bench| bench.args.command)
    }

    #[test]
    fn an_option_that_is_not_given_means_everything() {
        let Ok(Command::TwoWay(args)) = parse("bench two-way") else { panic!() };
        let options = args.options();
        assert_eq!(options.subjects, Subject::usual());
        assert_eq!(options.cases, Case::all());
        assert_eq!((options.placements, options.length), (None, two_way::Length::Each(EACH)));
        let Ok(Command::Instructions(args)) = parse("bench instructions") else { panic!() };
        let counted::Options { subjects, case, .. } = args.options(&NOT_UNDER_VALGRIND);
        assert_eq!(case, Case { kind: Kind::Void, size: 0 });
        let usual = Subject::usual().iter().filter(|s| !NOT_UNDER_VALGRIND.contains(s));
        assert!(subjects.iter().eq(usual));
        assert!(subjects.contains(&Subject::Isorb) && !subjects.contains(&Subject::IsorbLane));
        let Ok(Command::Instructions(args)) = parse("bench instructions --subjects isorb-lane") else {
            panic!()
        };
        assert_eq!(args.options(&NOT_UNDER_VALGRIND).subjects, [Subject::IsorbLane]);
    }

    #[test]
    fn lists_are_separated_by_commas() {
        let line = "bench two-way --quick --json --subjects raw,raw-again --cases void,octets:64 --placement two-core";
        let Ok(Command::TwoWay(args)) = parse(line) else { panic!() };
        let options = args.options();
        assert_eq!(options.subjects, [Subject::Raw, Subject::RawAgain]);
        assert_eq!((options.cases.len(), options.placements), (2, Some(vec![Placement::TwoCore])));
        assert_eq!((options.length, options.json), (two_way::Length::All(QUICK), true));
    }

    #[test]
    fn every_experiment_is_a_command() {
        for experiment in catalogue::ALL {
            let line = format!("bench {} --quick --priority 50", experiment.name);
            let Ok(Command::Experiment(named)) = parse(&line) else { panic!("{line}") };
            assert_eq!(named.experiment.name, experiment.name);
            let real_time = RealTime::Prefer;
            let options = one::Options {
                quick: true,
                json: false,
                real_time,
                priority: 50,
                smoke: false,
                servers: None,
            };
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
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}

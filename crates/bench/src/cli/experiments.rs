//! The experiments of the catalogue and their report, as commands.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use isorb_rt::sched::RealTime;

use crate::experiments::catalogue::{self, Experiment};
use crate::experiments::{one, report};

#[derive(Args, Debug)]
pub(super) struct ReportArgs {
    /// Names of experiments; all if not given
    #[arg(value_parser = experiment)]
    experiments: Vec<&'static Experiment>,
    /// Each experiment within a minute
    #[arg(long)]
    quick: bool,
    /// The page
    #[arg(long, value_name = "FILE", default_value = "isorb-report.html")]
    output: PathBuf,
    /// Lines of JSON that `isorb-bench NAME --json` wrote, here or on another machine; may be given
    /// several times, and then only the named experiments run
    #[arg(long, value_name = "FILE")]
    read: Vec<PathBuf>,
    /// Real-time priority for what is measured: require, prefer or off
    #[arg(long, default_value = "prefer")]
    real_time: RealTime,
    /// The native priority
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u8).range(1..=90))]
    priority: u8,
}

fn experiment(name: &str) -> Result<&'static Experiment, String> {
    let names = || catalogue::ALL.iter().map(|experiment| experiment.name).collect::<Vec<_>>().join(", ");
    Experiment::named(name).ok_or_else(|| format!("expected one of: {}", names()))
}

/// An experiment of the catalogue: a command for each, so that a new one needs an entry there and
/// nothing here.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) experiment: &'static Experiment,
    pub(super) options: one::Options,
}

#[derive(Args, Debug)]
struct Common {
    /// At most a minute, with fewer samples
    #[arg(long)]
    quick: bool,
    /// JSON lines on standard output, the verdict last; the tables go to standard error
    #[arg(long)]
    json: bool,
    /// Real-time priority for what is measured: require, prefer or off
    #[arg(long, default_value = "prefer")]
    real_time: RealTime,
    /// The native priority
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u8).range(1..=90))]
    priority: u8,
    /// Only shows that it runs
    #[arg(long, hide = true)]
    smoke: bool,
    /// What `isorb-bench serve` printed on another host: its servers are called (worst)
    #[arg(long, value_name = "FILE", value_parser = servers)]
    servers: Option<Servers>,
}

/// Addresses by the names of subjects.
#[derive(Clone, Debug)]
struct Servers(BTreeMap<String, String>);

fn servers(file: &str) -> Result<Servers, String> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map(Servers).map_err(|error| error.to_string())
}

impl Subcommand for Named {
    fn augment_subcommands(command: Command) -> Command {
        catalogue::ALL.iter().fold(command, |command, experiment| {
            let about = format!("{} ({})", experiment.about, experiment.source);
            command.subcommand(Common::augment_args(Command::new(experiment.name)).about(about))
        })
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Named::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        Experiment::named(name).is_some()
    }
}

impl FromArgMatches for Named {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Named, clap::Error> {
        let none = || clap::Error::new(ErrorKind::MissingSubcommand);
        let (name, matches) = matches.subcommand().ok_or_else(none)?;
        let experiment = Experiment::named(name).ok_or_else(none)?;
        let Common { quick, json, real_time, priority, smoke, servers } = Common::from_arg_matches(matches)?;
        let servers = servers.map(|Servers(servers)| servers);
        Ok(Named { experiment, options: one::Options { quick, json, real_time, priority, smoke, servers } })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Named::from_arg_matches(matches)?;
        Ok(())
    }
}

impl ReportArgs {
    pub(super) fn options(self) -> report::Options {
        let ReportArgs { experiments, quick, output, read, real_time, priority } = self;
        report::Options { experiments, output, read, quick, real_time, priority }
    }
}

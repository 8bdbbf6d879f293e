//! The experiments of the catalogue as commands: a new one needs an entry there and nothing here.

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};

use crate::experiments::catalogue::{self, Experiment};
use crate::experiments::one::Options;
use crate::experiments::worst;

/// An experiment of the catalogue.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) experiment: &'static Experiment,
    pub(super) options: Options,
}

impl Subcommand for Named {
    fn augment_subcommands(command: Command) -> Command {
        catalogue::ALL.iter().fold(command, |command, experiment| {
            let about = format!("{} ({})", experiment.about, experiment.source);
            command.subcommand(Options::augment_args(Command::new(experiment.name)).about(about))
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
        let options = Options::from_arg_matches(matches)?;
        if experiment.name != worst::NAME && (options.servers.is_some() || options.blocks.is_some()) {
            let text = format!("--servers and --blocks are for {} only\n", worst::NAME);
            return Err(clap::Error::raw(ErrorKind::ArgumentConflict, text));
        }
        Ok(Named { experiment, options })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Named::from_arg_matches(matches)?;
        Ok(())
    }
}

//! `isorb event`: watches, pushes, records and replays events of a channel in another process.

mod export;
mod ls;
mod push;
mod record;
mod replay;
mod selection;
mod watch;

use crate::commands::arguments::to_read;
use crate::typed::Typed;
use isorb::{Config, Orb};
use isorb_event::remote::RemoteChannel;
use std::error::Error;
use std::path::PathBuf;

type Outcome = Result<(), Box<dyn Error>>;

/// Arguments of `isorb event`. Further arguments go to the ORB (`-ORB…`).
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Prints each event as it comes.
    Watch(watch::Args),
    /// Pushes events.
    Push(push::Args),
    /// Records events with their payloads and times into a file, until it is interrupted.
    Record(record::Args),
    /// Pushes the events of a recording, at the distances in time at which they were recorded.
    Replay(replay::Args),
    /// Lists the consumers of a channel and the events that it keeps.
    Ls(ls::Args),
    /// Writes a recording as a trace for Perfetto (ui.perfetto.dev).
    Export(export::Args),
}

/// The type of the payloads.
#[derive(Debug, Default, clap::Args)]
struct PayloadArgs {
    /// IDL file with the type of the payloads, which are shown and read as JSON.
    #[arg(long, value_name = "FILE", requires = "payload", value_parser = to_read())]
    idl: Option<PathBuf>,
    /// Name of the type in the IDL file (`Module::Type`).
    #[arg(long, value_name = "TYPE", requires = "idl")]
    payload: Option<String>,
    /// Directory to search for `#include`; repeatable.
    #[arg(short = 'I', value_name = "DIR")]
    include: Vec<PathBuf>,
}

impl PayloadArgs {
    /// The type, if one was named.
    fn load(&self) -> Result<Option<Typed>, String> {
        match (&self.idl, &self.payload) {
            (Some(file), Some(name)) => Typed::encapsulated(file, &self.include, name).map(Some),
            _ => Ok(None),
        }
    }
}

/// Runs the command.
pub fn run(args: &Args, orb_arguments: Vec<String>) -> Outcome {
    let orb = || -> Result<Orb, Box<dyn Error>> {
        let (config, _) = Config::from_args(orb_arguments.clone())?;
        let orb = super::orb::plain(config)?;
        // Consumers are called back.
        orb.root_poa()?.manager().activate()?;
        Ok(orb)
    };
    match &args.action {
        Action::Watch(args) => watch::run(args, &orb()?),
        Action::Push(args) => push::run(args, &orb()?),
        Action::Record(args) => record::run(args, &orb()?),
        Action::Replay(args) => replay::run(args, &orb()?),
        Action::Ls(args) => ls::run(args, &orb()?),
        Action::Export(args) => export::run(args),
    }
}

/// Connects to a channel.
fn connect(orb: &Orb, url: &str) -> Result<RemoteChannel, Box<dyn Error>> {
    Ok(RemoteChannel::connect(orb, url)?)
}

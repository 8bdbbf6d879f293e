//! `isorb demo`: a first look at isorb.

mod avionics;
pub mod calls;
mod cast;
mod machine;
mod pod;
mod process;
mod report;

pub use pod::{Args as PodArgs, run as pod};
use std::error::Error;

/// Arguments of `isorb demo`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    which: Option<DemoCommand>,
    /// Short for `demo calls --calls N`.
    #[arg(long, value_name = "N")]
    calls: Option<usize>,
    #[command(flatten)]
    avionics: avionics::Args,
}

#[derive(Debug, clap::Subcommand)]
enum DemoCommand {
    /// A mission computer: sensors, facades and a display at their rates over two event channels
    /// (the default).
    Avionics(avionics::Args),
    /// A naming service and a servant that is found, called and measured.
    Calls(calls::Args),
}

pub fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    match (&args.which, args.calls) {
        (Some(DemoCommand::Calls(args)), _) => calls::run(args),
        (Some(DemoCommand::Avionics(args)), _) => avionics::run(args),
        (None, Some(calls)) => calls::run(&calls::Args { calls }),
        (None, None) => avionics::run(&args.avionics),
    }
}

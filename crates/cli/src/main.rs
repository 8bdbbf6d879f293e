//! The one binary, `isorb`: a thin layer over the crates. Each command is a module of `commands`.
#![forbid(unsafe_code)]

mod commands;
mod typed;

use clap::{Parser, Subcommand};
use std::io::ErrorKind;
use std::process::ExitCode;

/// isorb: an isochronous object request broker.
#[derive(Debug, Parser)]
#[command(name = "isorb", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs a mission computer over two federated event channels and shows what happened in time; or calls a servant.
    Demo(commands::demo::Args),
    /// The demo's servant, in a process of its own.
    #[command(hide = true)]
    DemoServer(commands::demo::calls::ServerArgs),
    /// The avionics demo's second process.
    #[command(hide = true)]
    DemoPod(commands::demo::PodArgs),
    /// Checks IDL, or generates Rust from it.
    Idl(commands::idl::Args),
    /// Explains a reference or an object URL, field by field.
    Ior(commands::ior::Args),
    /// Runs a naming service.
    Naming(commands::naming::Args),
    /// Lists, resolves and changes names in a naming service.
    Name(commands::name::Args),
    /// Runs an event channel: TAO's real-time interfaces and the OMG's Event Service.
    EventChannel(commands::event_channel::Args),
    /// Gives a running event channel other modules, or fetches its trace.
    EventControl(commands::event_control::Args),
    /// Says what of this machine stands in the way of real time, and what to do about it.
    Doctor(commands::doctor::Args),
    /// Looks at reflective memory, and writes into it.
    Crm(commands::crm::Args),
    /// Runs a node's server of reflective memory.
    CrmServer(commands::crm_server::ServerArgs),
    /// Holds the areas of a node, so that they outlive its server even when nobody uses them.
    CrmHolder(commands::crm_server::HolderArgs),
    /// Runs the coordinator of reflective memory.
    CrmCoordinator(commands::crm_server::CoordinatorArgs),
    /// Checks a schedule file, or draws its timeline.
    Sched(commands::sched::Args),
    /// Runs a scheduling service: TAO's interface, with a schedule file behind it.
    Scheduler(commands::scheduler::Args),
    /// Draws what event channels recorded, as a page and for Perfetto.
    Timeline(commands::timeline::Args),
    /// Says where the benchmark is: a program of its own.
    #[command(hide = true, disable_help_flag = true)]
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    let (arguments, orb) = split_orb_arguments(std::env::args().collect());
    match Cli::parse_from(arguments).command {
        Command::Demo(args) => report(commands::demo::run(&args)),
        Command::DemoServer(args) => report(commands::demo::calls::serve(&args)),
        Command::DemoPod(args) => report(commands::demo::pod(&args)),
        Command::Idl(args) => commands::idl::run(&args),
        Command::Ior(args) => report(commands::ior::run(&args)),
        Command::Naming(args) => report(commands::naming::run(&args, orb)),
        Command::Name(args) => report(commands::name::run(&args, orb)),
        Command::EventChannel(args) => report(commands::event_channel::run(&args, orb)),
        Command::EventControl(args) => report(commands::event_control::run(&args, orb)),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Crm(args) => report(commands::crm::run(&args, orb)),
        Command::CrmServer(args) => report(commands::crm_server::server(&args, orb)),
        Command::CrmHolder(args) => report(commands::crm_server::holder(&args, orb)),
        Command::CrmCoordinator(args) => report(commands::crm_server::coordinator(&args, orb)),
        Command::Sched(args) => commands::sched::run(&args),
        Command::Scheduler(args) => report(commands::scheduler::run(&args, orb)),
        Command::Timeline(args) => report(commands::timeline::run(&args)),
        Command::Bench { arguments } => bench_has_moved(&arguments),
    }
}

/// The benchmark left this tool; the exit code is that of a usage error.
fn bench_has_moved(arguments: &[String]) -> ExitCode {
    let name = arguments.first().map_or("NAME", String::as_str);
    eprintln!(
        "isorb: the benchmark is a program of its own now: run `cargo run --release -p isorb-bench -- {name}`, \
         or `isorb-bench {name}` where it is installed"
    );
    ExitCode::from(2)
}

/// Takes the arguments of the ORB out, `-ORB…` with a value each, wherever they stand before `--`.
fn split_orb_arguments(arguments: Vec<String>) -> (Vec<String>, Vec<String>) {
    let (mut others, mut orb) = (Vec::new(), Vec::new());
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            others.push(argument);
            others.extend(arguments);
            break;
        }
        if argument.starts_with("-ORB") {
            orb.push(argument);
            orb.extend(arguments.next());
        } else {
            others.push(argument);
        }
    }
    (others, orb)
}

/// Errors of commands are sentences for people.
fn report(result: Result<(), Box<dyn std::error::Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the output has seen enough.
        Err(error)
            if error.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe) =>
        {
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("isorb: {error}");
            ExitCode::FAILURE
        }
    }
}

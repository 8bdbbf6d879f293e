//! The one binary, `isorb`: a thin layer over the crates. Each command is a module of `commands`.
#![forbid(unsafe_code)]

mod commands;

use clap::{Parser, Subcommand};
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
    /// Starts a naming service and a servant, calls it, shows what happened and how fast.
    Demo(commands::demo::Args),
    /// The demo's servant, in a process of its own.
    #[command(hide = true)]
    DemoServer(commands::demo::ServerArgs),
    /// Checks IDL, or generates Rust from it.
    Idl(commands::idl::Args),
    /// Explains a reference or an object URL, field by field.
    Ior(commands::ior::Args),
    /// Measures calls beside raw sockets and omniORB.
    Bench(isorb_bench::BenchArgs),
    /// A subject of the benchmark, in a process of its own.
    #[command(hide = true, name = "bench-peer")]
    BenchPeer(isorb_bench::PeerArgs),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Demo(args) => report(commands::demo::run(&args)),
        Command::DemoServer(args) => report(commands::demo::serve(&args)),
        Command::Idl(args) => commands::idl::run(&args),
        Command::Ior(args) => report(commands::ior::run(&args)),
        Command::Bench(args) => args.run(),
        Command::BenchPeer(args) => args.run(),
    }
}

/// Errors of commands are sentences for people.
fn report(result: Result<(), Box<dyn std::error::Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("isorb: {error}");
            ExitCode::FAILURE
        }
    }
}

//! The program `isorb`: a thin layer over the crates. Each command is a module of `commands`.
#![forbid(unsafe_code)]

mod commands;
mod printable;
mod typed;

use clap::{CommandFactory, Parser, Subcommand};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// With the commit where the sources are a checkout.
const VERSION: &str = env!("ISORB_VERSION");

const ORB_ARGUMENTS: &str = "Arguments -ORBNAME VALUE, such as -ORBRoundTripTimeout 500, configure the ORB of any command, \
    as does the file isorb.toml in the working folder: docs/reference/configuration.md lists them.";

/// isorb: an isochronous object request broker.
#[derive(Debug, Parser)]
#[command(name = "isorb", version = VERSION, arg_required_else_help = true, after_help = ORB_ARGUMENTS)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// The log records to write to standard error: off, error, warn, info or debug, also for
    /// single targets (warn,isorb::server=debug) [default: ISORB_LOG, or info].
    #[arg(long, global = true, value_name = "LEVELS")]
    log: Option<String>,
    /// Files of the own certificate, its key, and the authorities that sign those of peers, in PEM
    /// form; a fourth one has the authorities' lists of revoked certificates. Calls go over TLS,
    /// and services listen over TLS instead of TCP; clients need a certificate.
    #[arg(long, global = true, value_name = "CERTIFICATE,KEY,AUTHORITIES[,REVOCATIONS]")]
    tls: Option<String>,
    /// User name, and a file with the password in its first line that only its owner can read.
    /// Calls over TLS to servers that ask for a password have both (CSIv2).
    #[arg(long, global = true, value_name = "USER,FILE")]
    login: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs a mission computer over two federated event channels and draws its timeline, or
    /// measures calls.
    Demo(commands::demo::Args),
    /// Serves the calls demo; the demo starts it.
    #[command(hide = true)]
    DemoServer(commands::demo::calls::ServerArgs),
    /// Runs the avionics demo's second process; the demo starts it.
    #[command(hide = true)]
    DemoPod(commands::demo::PodArgs),
    /// Makes a project that builds and runs: an object, events, or reflective memory.
    New(commands::new::Args),
    /// Checks IDL, or generates Rust from it.
    Idl(commands::idl::Args),
    /// Calls an object by the interface in an IDL file or an interface repository, with JSON.
    Call(commands::call::Args),
    /// Serves an interface in an IDL file by rules, for tests of clients.
    Serve(commands::serve::Args),
    /// Runs an interface repository that answers from IDL files.
    Ifr(commands::ifr::Args),
    /// Runs an implementation repository, which starts servers on demand, or administers one.
    Imr(commands::imr::Args),
    /// Explains a reference or an object URL, field by field.
    Ior(commands::ior::Args),
    /// Prints a line for a file of users; reads the password from standard input.
    User(commands::user::Args),
    /// Runs a naming service.
    Naming(commands::naming::Args),
    /// Lists, resolves and changes names in a naming service.
    Name(commands::name::Args),
    /// Runs a Lightweight Log service, which stores records of programs.
    LogService(commands::log_service::Args),
    /// Writes, reads and administers the log of a Lightweight Log service.
    Log(commands::log::Args),
    /// Runs an event channel: TAO's real-time interfaces and the OMG's Event Service.
    EventChannel(commands::event_channel::Args),
    /// Watches, pushes, records and replays events of a channel, and lists its consumers.
    Event(commands::event::Args),
    /// Replaces modules of a running event channel, or fetches its trace.
    EventControl(commands::event_control::Args),
    /// Checks whether this machine is set up for real time, and says what to change.
    Doctor(commands::doctor::Args),
    /// Lists, shows and writes areas of reflective memory.
    #[command(alias = "crm")]
    Memory(commands::memory::Args),
    /// Runs a node's server of reflective memory.
    #[command(alias = "crm-server")]
    MemoryServer(commands::memory_server::ServerArgs),
    /// Keeps the areas of a node mapped, so that unused areas survive a restart of its server.
    #[command(alias = "crm-holder")]
    MemoryHolder(commands::memory_server::HolderArgs),
    /// Runs the coordinator of reflective memory.
    #[command(alias = "crm-coordinator")]
    MemoryCoordinator(commands::memory_server::CoordinatorArgs),
    /// Checks a schedule file or those of a federation, or draws a timeline.
    Sched(commands::sched::Args),
    /// Runs a scheduling service: TAO's interface, with a schedule file behind it.
    Scheduler(commands::scheduler::Args),
    /// Draws traces of event channels and node servers, as a page and for Perfetto.
    Timeline(commands::timeline::Args),
    /// Writes man pages and completions for shells, for packages.
    #[cfg(feature = "packaging")]
    #[command(hide = true)]
    Generate(commands::generate::Args),
    /// Prints all commands and their arguments, for tests.
    #[command(name = "command-tree", hide = true)]
    Tree,
    /// Names the program that replaced this command.
    #[command(hide = true, disable_help_flag = true)]
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    survive_file_size_limit();
    let (arguments, orb) = split_orb_arguments(std::env::args_os().collect());
    let Cli { command, log, tls, login } = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return refuse(&arguments, &error),
    };
    let orb = match orb.into_iter().map(OsString::into_string).collect::<Result<Vec<String>, _>>() {
        Ok(orb) => orb,
        Err(argument) => {
            let argument = printable::argument(&argument.to_string_lossy());
            let message = format!("{argument} is not UTF-8, as an argument of the ORB is");
            Cli::command().error(clap::error::ErrorKind::InvalidUtf8, message).exit()
        }
    };
    // Commands read them with defaults of their own. Here they are checked, as all usage is.
    if let Some(wrong) = Some(&orb[..]).filter(|orb| !orb.is_empty()).and_then(wrong_for_the_orb) {
        let message = printable::lines(&wrong);
        Cli::command().error(clap::error::ErrorKind::InvalidValue, message).exit()
    }
    if let Some(Err(wrong)) = log.map(|levels| isorb_rt::log::set_levels(&levels)) {
        Cli::command()
            .error(clap::error::ErrorKind::InvalidValue, printable::lines(&format!("--log: {wrong}")))
            .exit();
    }
    if let Some(Err(wrong)) = tls.as_deref().map(commands::orb::set_tls) {
        Cli::command()
            .error(clap::error::ErrorKind::InvalidValue, printable::lines(&format!("--tls: {wrong}")))
            .exit();
    }
    if let Some(Err(wrong)) = login.as_deref().map(commands::orb::set_login) {
        Cli::command()
            .error(clap::error::ErrorKind::InvalidValue, printable::lines(&format!("--login: {wrong}")))
            .exit();
    }
    match command {
        Command::Demo(args) => report(commands::demo::run(&args)),
        Command::DemoServer(args) => report(commands::demo::calls::serve(&args)),
        Command::DemoPod(args) => report(commands::demo::pod(&args)),
        Command::New(args) => report(commands::new::run(&args)),
        Command::Idl(args) => commands::idl::run(&args),
        Command::Call(args) => match commands::call::run(&args, orb) {
            Ok(code) => code,
            Err(error) => report(Err(error)),
        },
        Command::Serve(args) => report(commands::serve::run(&args, orb)),
        Command::Ifr(args) => report(commands::ifr::run(&args, orb)),
        Command::Imr(args) => report(commands::imr::run(&args, orb)),
        Command::Ior(args) => report(commands::ior::run(&args)),
        Command::User(args) => report(commands::user::run(&args)),
        Command::Naming(args) => report(commands::naming::run(&args, orb)),
        Command::Name(args) => report(commands::name::run(&args, orb)),
        Command::LogService(args) => report(commands::log_service::run(&args, orb)),
        Command::Log(args) => report(commands::log::run(&args, orb)),
        Command::EventChannel(args) => report(commands::event_channel::run(&args, orb)),
        Command::Event(args) => report(commands::event::run(&args, orb)),
        Command::EventControl(args) => report(commands::event_control::run(&args, orb)),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Memory(args) => report(commands::memory::run(&args, orb)),
        Command::MemoryServer(args) => report(commands::memory_server::server(&args, orb)),
        Command::MemoryHolder(args) => report(commands::memory_server::holder(&args, orb)),
        Command::MemoryCoordinator(args) => report(commands::memory_server::coordinator(&args, orb)),
        Command::Sched(args) => commands::sched::run(&args),
        Command::Scheduler(args) => report(commands::scheduler::run(&args, orb)),
        Command::Timeline(args) => report(commands::timeline::run(&args)),
        #[cfg(feature = "packaging")]
        Command::Generate(args) => report(commands::generate::run(&args, Cli::command()).map_err(Into::into)),
        Command::Tree => report(commands::command_tree::run(Cli::command()).map_err(Into::into)),
        Command::Bench { arguments } => bench_has_moved(&arguments),
    }
}

/// A write beyond the limit of the size of a file (`RLIMIT_FSIZE`) is an error, as on a full disk:
/// its signal ends a process that has no handler. If it were ignored, programs that this one starts
/// would ignore it too. Where there can be no handler, all else works.
fn survive_file_size_limit() {
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}

/// `isorb bench` was this command once. The exit code is that of a usage error.
fn bench_has_moved(arguments: &[String]) -> ExitCode {
    let name = printable::argument(arguments.first().map_or("NAME", String::as_str));
    eprintln!(
        "isorb: `isorb bench` is the program isorb-bench now: run `cargo run --release -p isorb-bench -- {name}`, \
         or `isorb-bench {name}` where it is installed"
    );
    ExitCode::from(2)
}

/// Says what is wrong with the arguments, or prints what they ask for. They may be anything: what a
/// terminal would obey is shown as text, and what is long is cut.
fn refuse(arguments: &[OsString], error: &clap::Error) -> ExitCode {
    let quoted = arguments.iter().map(|argument| argument.to_string_lossy());
    let hostile: Vec<_> = quoted.filter(|argument| *argument != printable::argument(argument)).collect();
    if hostile.is_empty() || !error.use_stderr() {
        let _ = error.print();
    } else {
        // An error quotes an argument, or the value in it.
        let mut text = error.render().to_string();
        for argument in hostile {
            let value = argument.split_once('=').map_or("", |(_, value)| value);
            for part in [&*argument, value].into_iter().filter(|part| !part.is_empty()) {
                text = text.replace(part, &printable::argument(part));
            }
        }
        eprint!("{}", printable::lines(&text));
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Separates the ORB's arguments, `-ORB…` with a value each, from the others. Arguments after `--`
/// are the command's.
fn split_orb_arguments(arguments: Vec<OsString>) -> (Vec<OsString>, Vec<OsString>) {
    let (mut others, mut orb) = (Vec::new(), Vec::new());
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            others.push(argument);
            others.extend(arguments);
            break;
        }
        if argument.as_encoded_bytes().starts_with(b"-ORB") {
            orb.push(argument);
            orb.extend(arguments.next());
        } else {
            others.push(argument);
        }
    }
    (others, orb)
}

/// What is wrong about the arguments of the ORB.
fn wrong_for_the_orb(arguments: &[String]) -> Option<String> {
    let exception = isorb::Config::from_args(arguments.to_owned()).err()?;
    Some(exception.detail.as_deref().map_or_else(|| exception.to_string(), str::to_owned))
}

/// Prints a command's error.
fn report(result: Result<(), Box<dyn std::error::Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The program that read the output has closed the pipe, for example `head`.
        Err(error)
            if error.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe) =>
        {
            ExitCode::SUCCESS
        }
        Err(error) => {
            // What led to the error stands before it.
            isorb_rt::log::flush(Duration::from_millis(500));
            eprintln!("isorb: {}", printable::lines(&error.to_string()));
            match error.is::<commands::arguments::Wrong>() {
                true => ExitCode::from(2),
                false => ExitCode::FAILURE,
            }
        }
    }
}

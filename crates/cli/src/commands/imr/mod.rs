//! `isorb imr`: the implementation repository, and its administration.

mod registration;
mod serve;

use super::remote_service::{RemoteService, line, shown};
use isorb::{Config, Orb, Policies, Reference, SystemException};
use isorb_implementation_repository::REPOSITORY;
use isorb_implementation_repository::isorb_implementation_repository::repository::{
    AddError, ChangeError, RemoveError, StartError,
};
use isorb_implementation_repository::isorb_implementation_repository::{
    Activation, RepositoryRef, State, Status,
};
use std::error::Error;
use std::time::Duration;

/// The port, unless another one is named. None is registered for implementation repositories.
pub const PORT: u16 = 2812;

const IMPLEMENTATION_REPOSITORY: RemoteService =
    RemoteService { name: "implementation repository", key: REPOSITORY, port: PORT, option: "--service" };

/// A start may take as long as its `--start-timeout`, which is a day at most.
const LONGEST: Duration = Duration::from_secs(90_000);

/// Arguments of `isorb imr`. Further arguments go to the ORB (`-ORB…`).
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Runs an implementation repository.
    Serve(Box<serve::Args>),
    /// Registers a server.
    Add {
        #[command(flatten)]
        at: At,
        #[command(flatten)]
        server: registration::Added,
    },
    /// Gives a registered server other values; one that runs keeps its own until its next start.
    Change {
        #[command(flatten)]
        at: At,
        #[command(flatten)]
        server: registration::Changed,
    },
    /// Lists the servers with their states.
    Ls {
        #[command(flatten)]
        at: At,
        /// As JSON, an object a line.
        #[arg(long)]
        json: bool,
    },
    /// Prints all about a server.
    Show {
        #[command(flatten)]
        at: At,
        /// The server.
        name: String,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Starts a server, and waits until it runs.
    Start {
        #[command(flatten)]
        at: At,
        /// The server.
        name: String,
    },
    /// Ends the process of a server, by SIGTERM and after 10 s by SIGKILL. The next request starts
    /// it again, unless it is manual.
    Stop {
        #[command(flatten)]
        at: At,
        /// The server.
        name: String,
    },
    /// Removes a registration; a server that runs goes on, and its references lead nowhere.
    Remove {
        #[command(flatten)]
        at: At,
        /// The server.
        name: String,
    },
}

/// The repository that is administered.
#[derive(Debug, clap::Args)]
struct At {
    /// The implementation repository: a URL, host or host:port; -ORBInitRef
    /// ImplementationRepository unless given, else 127.0.0.1:2812.
    #[arg(long, value_name = "URL")]
    service: Option<String>,
}

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Runs the command.
///
/// # Errors
/// What the repository refuses, or that it cannot be reached.
pub fn run(args: &Args, orb_arguments: Vec<String>) -> Outcome {
    let at = match &args.action {
        Action::Serve(args) => return serve::run(args, orb_arguments),
        Action::Add { at, .. }
        | Action::Change { at, .. }
        | Action::Ls { at, .. }
        | Action::Show { at, .. }
        | Action::Start { at, .. }
        | Action::Stop { at, .. }
        | Action::Remove { at, .. } => at,
    };
    let (config, _) = Config::from_args(orb_arguments)?;
    let url = IMPLEMENTATION_REPOSITORY.url(at.service.as_deref(), &config);
    let orb = super::orb::plain(config)?;
    let result = act(&args.action, &orb, &url);
    result.map_err(|error| match error.downcast::<SystemException>() {
        Ok(exception) => IMPLEMENTATION_REPOSITORY.failed(&url, &exception),
        Err(error) => error,
    })
}

fn act(action: &Action, orb: &Orb, url: &str) -> Outcome {
    let repository: RepositoryRef = orb.string_to_object(url)?.unchecked_narrow();
    match action {
        Action::Serve(_) => Ok(()),
        Action::Add { server, .. } => repository.add(&server.registration()?).map_err(|error| match error {
            AddError::AlreadyRegistered(known) => {
                format!("{} is registered already (isorb imr change, isorb imr remove)", shown(&known.name))
                    .into()
            }
            AddError::Invalid(wrong) => shown(&wrong.reason).into(),
            AddError::System(exception) => exception.into(),
        }),
        Action::Change { server, .. } => {
            let Status { server: before, .. } = repository.show(server.name()).map_err(unknown)?;
            repository.change(&server.over(before)?).map_err(|error| match error {
                ChangeError::NotRegistered(unknown) => not_registered(&unknown.name),
                ChangeError::Invalid(wrong) => shown(&wrong.reason).into(),
                ChangeError::System(exception) => exception.into(),
            })
        }
        Action::Ls { json, .. } => list(&repository, *json),
        Action::Show { name, json, .. } => show(&repository.show(name).map_err(unknown)?, *json),
        Action::Start { name, .. } => patient(&repository).start(name).map_err(refused),
        Action::Stop { name, .. } => patient(&repository).stop(name).map_err(refused),
        Action::Remove { name, .. } => repository.remove(name).map_err(unknown),
    }
}

/// The repository, for calls that wait for processes.
fn patient(repository: &RepositoryRef) -> RepositoryRef {
    let policies = Policies { round_trip_timeout: Some(LONGEST), ..Policies::default() };
    repository.object().with_policies(policies).unchecked_narrow()
}

fn list(repository: &RepositoryRef, json: bool) -> Outcome {
    for name in repository.list()? {
        // It may have been removed meanwhile.
        let status = match repository.show(&name) {
            Ok(status) => status,
            Err(RemoveError::NotRegistered(_)) => continue,
            Err(RemoveError::System(exception)) => return Err(exception.into()),
        };
        match json {
            true => line(&as_json(&status))?,
            false => {
                let (name, state) = (shown(&name), state(status.server_state));
                let mode = registration::mode_name(status.server.activation_mode);
                line(&format_args!("{name}\t{state}\t{mode}\t{}", shown(&status.server.program)))?;
            }
        }
    }
    Ok(())
}

fn show(status: &Status, json: bool) -> Outcome {
    if json {
        return line(&as_json(status));
    }
    let server = &status.server;
    let command = std::iter::once(&server.program).chain(&server.arguments);
    let command: Vec<String> = command.map(|word| shown(word)).collect();
    line(&format_args!("name           {}", shown(&server.name)))?;
    line(&format_args!("state          {}", state(status.server_state)))?;
    match process(status) {
        Some(number) => line(&format_args!("process        {number}"))?,
        None => line(&"process        none")?,
    }
    line(&format_args!("starts         {}", status.starts))?;
    line(&format_args!("last failure   {}", shown(&status.last_failure)))?;
    line(&format_args!("command        {}", command.join(" ")))?;
    line(&format_args!("folder         {}", shown(&server.folder)))?;
    line(&format_args!("activation     {}", registration::mode_name(server.activation_mode)))?;
    line(&format_args!("start timeout  {} ms", server.start_timeout_ms))?;
    line(&format_args!("restart limit  {} in {} ms", server.restart_limit, server.restart_period_ms))
}

fn as_json(status: &Status) -> serde_json::Value {
    let server = &status.server;
    serde_json::json!({
        "name": server.name,
        "state": state(status.server_state),
        "process": process(status),
        "starts": status.starts,
        "last_failure": status.last_failure,
        "program": server.program,
        "arguments": server.arguments,
        "folder": server.folder,
        "activation": registration::mode_name(server.activation_mode),
        "start_timeout_ms": server.start_timeout_ms,
        "restart_limit": server.restart_limit,
        "restart_period_ms": server.restart_period_ms,
    })
}

/// The process that the repository started, if there is one.
fn process(status: &Status) -> Option<u32> {
    (status.process != 0).then_some(status.process)
}

fn state(state: State) -> &'static str {
    match state {
        State::Stopped => "stopped",
        State::Starting => "starting",
        State::Running => "running",
        State::Leaving => "leaving",
    }
}

/// A time such as `500ms`, `10s`, `5m` or `1h`.
fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "give a time such as 500ms, 10s, 5m or 1h, of 1 ms to a day".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let factor = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    let milliseconds = number.saturating_mul(factor);
    if !(1..=86_400_000).contains(&milliseconds) {
        return Err(wrong());
    }
    Ok(Duration::from_millis(milliseconds))
}

fn unknown(error: RemoveError) -> Box<dyn Error> {
    match error {
        RemoveError::NotRegistered(unknown) => not_registered(&unknown.name),
        RemoveError::System(exception) => exception.into(),
    }
}

fn refused(error: StartError) -> Box<dyn Error> {
    match error {
        StartError::NotRegistered(unknown) => not_registered(&unknown.name),
        StartError::Failed(failed) => shown(&failed.reason).into(),
        StartError::System(exception) => exception.into(),
    }
}

fn not_registered(name: &str) -> Box<dyn Error> {
    format!("no server {} is registered (isorb imr ls)", shown(name)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, milliseconds) in [("1ms", 1), ("10s", 10_000), ("5m", 300_000), ("24h", 86_400_000)] {
            assert_eq!(time(text), Ok(Duration::from_millis(milliseconds)));
        }
        for wrong in
            ["", "s", "5", "0s", "25h", "1.5s", "-1s", "99999999999999999999s", "18446744073709551615h"]
        {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}

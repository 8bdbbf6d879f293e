//! The values of a server on the command line.

use super::{Activation, Outcome, time};
use crate::commands::remote_service::shown;
use isorb_implementation_repository::isorb_implementation_repository::Registration;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// When a server is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// By the first request for one of its objects.
    Normal,
    /// By `isorb imr start` only, or by others.
    Manual,
    /// As normal, and when the repository starts.
    AutoStart,
}

/// Starts in a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit {
    starts: u32,
    period: Duration,
}

fn limit(text: &str) -> Result<Limit, String> {
    let wrong = || "give starts and a time, such as 5/1m".to_owned();
    let (starts, period) = text.split_once('/').ok_or_else(wrong)?;
    let starts = starts.parse().ok().filter(|starts| *starts > 0).ok_or_else(wrong)?;
    Ok(Limit { starts, period: time(period)? })
}

/// Values of a server, each of which has a default.
#[derive(Clone, Debug, clap::Args)]
struct Values {
    /// Working folder of the server on the host of the repository [default: that of the
    /// repository].
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// When the server is started [default: normal, without a program manual].
    #[arg(long, value_enum)]
    activation: Option<Mode>,
    /// How long a start may take until the server registers; it is killed then [default: 10s].
    #[arg(long, value_name = "TIME", value_parser = time)]
    start_timeout: Option<Duration>,
    /// Starts by requests in a time; further requests are refused (TRANSIENT) [default: 5/1m].
    #[arg(long, value_name = "N/TIME", value_parser = limit)]
    restart_limit: Option<Limit>,
    /// The program of the server and its arguments, behind --. The arguments that name the
    /// repository follow them. Without a program others start the server.
    #[arg(last = true, value_name = "PROGRAM")]
    command: Vec<String>,
}

/// Arguments of `isorb imr add`.
#[derive(Clone, Debug, clap::Args)]
pub struct Added {
    /// The name of the server, which it has as its setting `server_name`.
    name: String,
    #[command(flatten)]
    values: Values,
}

/// Arguments of `isorb imr change`.
#[derive(Clone, Debug, clap::Args)]
pub struct Changed {
    /// The name of the server.
    name: String,
    #[command(flatten)]
    values: Values,
}

impl Added {
    /// The registration.
    ///
    /// # Errors
    /// A program that is not found.
    pub fn registration(&self) -> Outcome<Registration> {
        let outside = self.values.command.is_empty();
        let defaults = Registration {
            name: self.name.clone(),
            activation_mode: if outside { Activation::Manual } else { Activation::Normal },
            start_timeout_ms: 10_000,
            restart_limit: 5,
            restart_period_ms: 60_000,
            ..Registration::default()
        };
        self.values.over(defaults)
    }
}

impl Changed {
    /// The name of the server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The registration, from the one before.
    ///
    /// # Errors
    /// A program that is not found.
    pub fn over(&self, before: Registration) -> Outcome<Registration> {
        self.values.over(before)
    }
}

impl Values {
    fn over(&self, before: Registration) -> Outcome<Registration> {
        let mut server = before;
        if let Some((program, arguments)) = self.command.split_first() {
            server.program = text(&found(program)?)?;
            server.arguments = arguments.to_vec();
        }
        if let Some(folder) = &self.folder {
            server.folder = text(&std::path::absolute(folder)?)?;
        }
        match self.activation {
            Some(Mode::Normal) => server.activation_mode = Activation::Normal,
            Some(Mode::Manual) => server.activation_mode = Activation::Manual,
            Some(Mode::AutoStart) => server.activation_mode = Activation::AutoStart,
            None => {}
        }
        if let Some(time) = self.start_timeout {
            server.start_timeout_ms = milliseconds(time);
        }
        if let Some(Limit { starts, period }) = self.restart_limit {
            (server.restart_limit, server.restart_period_ms) = (starts, milliseconds(period));
        }
        Ok(server)
    }
}

/// The absolute path of a program, which is looked for as a shell does.
fn found(program: &str) -> Outcome<PathBuf> {
    if program.contains('/') {
        return Ok(std::path::absolute(program)?);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file());
    found.ok_or_else(|| {
        let name = shown(program);
        format!("{name} is in no folder of PATH; give the path of the program").into()
    })
}

fn text(path: &Path) -> Outcome<String> {
    path.to_str().map(str::to_owned).ok_or_else(|| format!("{} is not UTF-8", path.display()).into())
}

fn milliseconds(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

/// The name of a mode.
pub fn mode_name(mode: Activation) -> &'static str {
    match mode {
        Activation::Normal => "normal",
        Activation::Manual => "manual",
        Activation::AutoStart => "auto-start",
    }
}

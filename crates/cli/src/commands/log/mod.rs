//! `isorb log`: writes, reads and administers the log of any Lightweight Log service.

mod moment;
mod read;
mod write;

use super::remote_service::{RemoteService, line, shown};
use isorb::{Config, Orb, SystemException};
use isorb_log_service::cos_lw_log::log_administrator::SetMaxSizeError;
use isorb_log_service::cos_lw_log::log_consumer::GetRecordIdFromTimeError;
use isorb_log_service::cos_lw_log::{
    AdministrativeState, LogFullAction, LogRef, OperationalState, ProducerLogRecord,
};
use std::error::Error;

const LOG_SERVICE: RemoteService = RemoteService {
    name: "log service",
    key: super::log_service::NAME,
    port: super::log_service::PORT,
    option: "--service",
};

/// The names of the standard's levels, from 1 on.
const LEVELS: [&str; 9] = [
    "security-alarm",
    "failure-alarm",
    "degraded-alarm",
    "exception-error",
    "flow-control-error",
    "range-error",
    "usage-error",
    "administrative-event",
    "statistic-report",
];

/// Arguments of `isorb log`. Further arguments go to the ORB (`-ORB…`).
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The log service: a URL, host or host:port; -ORBInitRef LogService unless given, else
    /// 127.0.0.1:2811.
    #[arg(long, value_name = "URL", global = true)]
    service: Option<String>,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Writes a record, or one for each line of standard input, and waits until they are stored.
    Write(write::Args),
    /// Prints records, in the order in which they were written.
    Read(read::Args),
    /// Prints the state of the log.
    Status {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Changes the settings of the log.
    Set(Set),
    /// Removes all records.
    Clear,
    /// Ends the log, with all records.
    Destroy {
        /// Does it.
        #[arg(long, required = true)]
        yes: bool,
    },
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
struct Set {
    /// Greatest size, in octets; not below the current one.
    #[arg(long, value_name = "OCTETS")]
    max_size: Option<u64>,
    /// What a full log does: wrap loses the oldest records, halt discards new ones.
    #[arg(long, value_enum)]
    full_action: Option<Full>,
    /// Whether the log takes records.
    #[arg(long, value_enum)]
    state: Option<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Full {
    Wrap,
    Halt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum State {
    Locked,
    Unlocked,
}

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Runs the command.
///
/// # Errors
/// What the service refuses, or that it cannot be reached.
pub fn run(args: &Args, orb_arguments: Vec<String>) -> Outcome {
    let (config, _) = Config::from_args(orb_arguments)?;
    let url = LOG_SERVICE.url(args.service.as_deref(), &config);
    let orb = super::orb::plain(config)?;
    let result = act(&args.action, &orb, &url);
    result.map_err(|error| match error.downcast::<SystemException>() {
        Ok(exception) => LOG_SERVICE.failed(&url, &exception),
        Err(error) => error,
    })
}

fn act(action: &Action, orb: &Orb, url: &str) -> Outcome {
    let log: LogRef = orb.string_to_object(url)?.unchecked_narrow();
    match action {
        Action::Write(args) => write::run(args, &log),
        Action::Read(args) => read::run(args, &log),
        Action::Status { json } => status(&log, *json),
        Action::Set(settings) => set(&log, settings),
        Action::Clear => Ok(log.clear_log()?),
        Action::Destroy { .. } => Ok(log.destroy()?),
    }
}

fn set(log: &LogRef, settings: &Set) -> Outcome {
    if let Some(size) = settings.max_size {
        log.set_max_size(size).map_err(|error| -> Box<dyn Error> {
            match error {
                SetMaxSizeError::InvalidParam(wrong) => {
                    format!("--max-size: {}", shown(&wrong.details)).into()
                }
                SetMaxSizeError::System(exception) => exception.into(),
            }
        })?;
    }
    if let Some(action) = settings.full_action {
        log.set_log_full_action(match action {
            Full::Wrap => LogFullAction::Wrap,
            Full::Halt => LogFullAction::Halt,
        })?;
    }
    if let Some(state) = settings.state {
        log.set_administrative_state(match state {
            State::Locked => AdministrativeState::Locked,
            State::Unlocked => AdministrativeState::Unlocked,
        })?;
    }
    Ok(())
}

fn status(log: &LogRef, json: bool) -> Outcome {
    let (records, size, max_size) = (log.get_n_records()?, log.get_current_size()?, log.get_max_size()?);
    let full_action = match log.get_log_full_action()? {
        LogFullAction::Wrap => "wrap",
        LogFullAction::Halt => "halt",
    };
    let state = match log.get_administrative_state()? {
        AdministrativeState::Locked => "locked",
        AdministrativeState::Unlocked => "unlocked",
    };
    let operation = match log.get_operational_state()? {
        OperationalState::Disabled => "disabled",
        OperationalState::Enabled => "enabled",
    };
    let availability = log.get_availability_status()?;
    if json {
        let status = serde_json::json!({
            "records": records,
            "size": size,
            "max_size": max_size,
            "full_action": full_action,
            "administrative_state": state,
            "operational_state": operation,
            "off_duty": availability.off_duty,
            "log_full": availability.log_full,
        });
        return line(&status);
    }
    line(&format_args!("records               {records}"))?;
    line(&format_args!("size                  {size} of {max_size} octets"))?;
    line(&format_args!("full action           {full_action}"))?;
    line(&format_args!("administrative state  {state}"))?;
    line(&format_args!("operational state     {operation}"))?;
    line(&format_args!("off duty              {}", availability.off_duty))?;
    line(&format_args!("log full              {}", availability.log_full))
}

/// A level by its name or number.
fn level(text: &str) -> Result<u16, String> {
    if let Some(place) = LEVELS.iter().position(|name| *name == text) {
        return Ok(place as u16 + 1);
    }
    text.parse()
        .map_err(|_| format!("give a number, 10 to 26 for debugging, or one of {}", LEVELS.join(", ")))
}

fn level_name(level: u16) -> Option<&'static str> {
    LEVELS.get(usize::from(level).checked_sub(1)?).copied()
}

fn retrieval(error: GetRecordIdFromTimeError) -> Box<dyn Error> {
    match error {
        GetRecordIdFromTimeError::InvalidParam(wrong) => shown(&wrong.details).into(),
        GetRecordIdFromTimeError::System(exception) => exception.into(),
    }
}

//! `isorb log-service`: the Lightweight Log service as a process.

use super::metrics::family;
use super::service::ServiceArgs;
use crate::commands::arguments::to_write;
use isorb_log_service::store::FullAction;
use isorb_log_service::{Limits, LogService, LogStore, Settings};
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

/// The port, unless another one is named. None is registered for log services.
pub const PORT: u16 = 2811;

/// The object key of its URL, and its name in a naming service.
pub const NAME: &str = "LogService";

/// What a full log does with a new record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Full {
    /// Loses the oldest records for it.
    Wrap,
    /// Discards it.
    Halt,
}

/// Arguments of `isorb log-service`. Further arguments go to the ORB (`-ORB…`).
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    service: ServiceArgs,
    /// File that stores the records; created if it does not exist.
    #[arg(long, value_name = "FILE", default_value = "isorb-log.redb", conflicts_with = "memory", value_parser = to_write())]
    store: PathBuf,
    /// Stores nothing; the records are lost at the end of the process.
    #[arg(long)]
    memory: bool,
    /// Greatest size of a new log, in octets; `isorb log set` changes that of one that exists. The
    /// file may be three times as large.
    #[arg(long, value_name = "OCTETS", default_value_t = 64 << 20, value_parser = clap::value_parser!(u64).range(1..))]
    max_size: u64,
    /// What a new log does when it is full; `isorb log set` changes it of one that exists.
    #[arg(long, value_enum, default_value = "wrap")]
    full_action: Full,
    /// Greatest record, in octets of its texts.
    #[arg(long, value_name = "OCTETS", default_value_t = 64 << 10, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    max_record: u32,
    /// Part of the greatest size, in percent, at which the process says that the log fills.
    #[arg(long, value_name = "PERCENT", default_value_t = 80, value_parser = clap::value_parser!(u8).range(1..=100))]
    capacity_alarm: u8,
    /// URL of a naming service, such as corbaloc::host/NameService, to bind `LogService` in.
    #[arg(long, value_name = "URL")]
    ns: Option<String>,
    /// File to write the reference of the log to.
    #[arg(long, value_name = "FILE", value_parser = to_write())]
    ior_file: Option<PathBuf>,
}

/// Serves until SIGTERM. It can be killed at any time without damage.
///
/// # Errors
/// A store that cannot be opened, and what [`ServiceArgs::start`] refuses.
pub fn run(args: &Args, orb_arguments: Vec<String>) -> Result<(), Box<dyn Error>> {
    let config = args.service.config(orb_arguments, PORT)?;
    let full_action = match args.full_action {
        Full::Wrap => FullAction::Wrap,
        Full::Halt => FullAction::Halt,
    };
    let settings = Settings { max_size: args.max_size, full_action };
    let store = match args.memory {
        true => LogStore::memory(settings)?,
        false => LogStore::open(&args.store, settings)
            .map_err(|error| format!("{}: {error}", args.store.display()))?,
    };
    let mut process = args.service.start(config)?;
    let orb = process.orb.clone();
    let limits =
        Limits { record: args.max_record as usize, alarm_percent: args.capacity_alarm, ..Limits::default() };
    let service = LogService::start(&orb, store, limits)?;
    if let Some(file) = &args.ior_file {
        std::fs::write(file, format!("{}\n", service.object()))
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    orb.root_poa()?.manager().activate()?;
    if let Some(url) = &args.ns {
        super::ready::bind(&orb, url, NAME, service.object())?;
    }
    let counted = service.clone();
    process.add_metrics(Arc::new(move |text| metrics(text, &counted)));
    let _metrics = process.ready(&super::ready::reference(&orb, NAME, service.object()), "")?;
    process.run();
    Ok(())
}

/// Adds the families of the log.
fn metrics(text: &mut String, service: &LogService) {
    let numbers = service.numbers();
    let mut family = |name: &str, kind: &str, help: &str, value| family(text, name, kind, help, value);
    if let Some(status) = numbers.status {
        family("isorb_log_service_records", "gauge", "Records of the log.", status.records);
        family("isorb_log_service_bytes", "gauge", "Octets of the log.", status.size);
        let limit = status.settings.max_size;
        family("isorb_log_service_bytes_limit", "gauge", "The most octets of the log.", limit);
        let help = "Records that were lost for newer ones, since the log was made.";
        family("isorb_log_service_lost", "counter", help, status.lost);
    }
    let help = "Records that were not written.";
    family("isorb_log_service_discarded", "counter", help, numbers.discarded);
}

//! `isorb imr serve`: the implementation repository as a process.

use crate::commands::arguments::to_write;
use crate::commands::metrics::family;
use crate::commands::ready::{corbaloc, reference};
use crate::commands::service::ServiceArgs;
use isorb_implementation_repository::{Limits, REPOSITORY, RegistrationStore, Repository, Settings};
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Arguments of `isorb imr serve`. Further arguments go to the ORB (`-ORB…`).
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    service: ServiceArgs,
    /// File that stores the registrations; created if it does not exist.
    #[arg(long, value_name = "FILE", default_value = "isorb-imr.redb", conflicts_with = "memory", value_parser = to_write())]
    store: PathBuf,
    /// Stores nothing; the registrations are lost at the end of the process.
    #[arg(long)]
    memory: bool,
    /// Folder with a file for the output of each server, NAME.log [default: standard error of this
    /// process].
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Requests that may wait for one server; further ones are refused (TRANSIENT).
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    max_waiting: u32,
    /// How long a server may take to say where an object is. Clients of a frozen one get TRANSIENT
    /// then.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = super::time)]
    answer_timeout: Duration,
    /// File to write the reference of the repository to.
    #[arg(long, value_name = "FILE", value_parser = to_write())]
    ior_file: Option<PathBuf>,
}

/// Serves until SIGTERM. It can be killed at any time without damage. Servers go on without it.
///
/// # Errors
/// A store that cannot be opened, and what [`ServiceArgs::start`] refuses.
pub fn run(args: &Args, orb_arguments: Vec<String>) -> Result<(), Box<dyn Error>> {
    let config = args.service.config(orb_arguments, super::PORT)?;
    if let Some(folder) = args.output.as_ref().filter(|folder| !folder.is_dir()) {
        return Err(format!("--output: {} is no folder; make it first", folder.display()).into());
    }
    let store = match args.memory {
        true => RegistrationStore::memory()?,
        false => RegistrationStore::open(&args.store)
            .map_err(|error| format!("{}: {error}", args.store.display()))?,
    };
    let mut process = args.service.start(config)?;
    let orb = process.orb.clone();
    // Opens the endpoints: the URL has their ports.
    let root = orb.root_poa()?;
    let url = Some(corbaloc(&orb, REPOSITORY)).filter(|_| !orb.endpoint_addresses().is_empty());
    let limits =
        Limits { waiting: args.max_waiting as usize, answer: args.answer_timeout, ..Limits::default() };
    let repository = Repository::start(
        &orb,
        store,
        Settings { url: url.unwrap_or_default(), output: args.output.clone(), limits },
    )?;
    if let Some(file) = &args.ior_file {
        std::fs::write(file, format!("{}\n", repository.object()))
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    root.manager().activate()?;
    let counted = repository.clone();
    process.add_metrics(Arc::new(move |text| metrics(text, &counted)));
    let _metrics = process.ready(&reference(&orb, REPOSITORY, repository.object()), "")?;
    repository.start_automatic();
    process.run();
    Ok(())
}

/// Adds the families of the repository.
fn metrics(text: &mut String, repository: &Repository) {
    let numbers = repository.numbers();
    let mut family = |name: &str, kind: &str, help: &str, value| {
        family(text, &format!("isorb_implementation_repository_{name}"), kind, help, value);
    };
    family("servers", "gauge", "Registered servers.", numbers.servers);
    family("running", "gauge", "Servers that run.", numbers.running);
    family("starts", "counter", "Starts of servers.", numbers.starts);
    let help = "Starts that failed, and processes that ended without leaving.";
    family("failures", "counter", help, numbers.failures);
    family("forwarded", "counter", "Requests that were forwarded.", numbers.forwarded);
    let help = "Requests for objects of registered servers that were not forwarded.";
    family("refused", "counter", help, numbers.refused);
}

//! `isorb naming`: the naming service as a process.

use super::service::ServiceArgs;
use crate::commands::arguments::to_write;
use isorb_naming::{FileStore, Limits, MemoryStore, NamingService, Store};
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

/// The port of naming services (registered as corbaloc).
pub const PORT: u16 = 2809;

/// Arguments of `isorb naming`. Further arguments go to the ORB (`-ORB…`).
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    service: ServiceArgs,
    /// Follows names into the naming contexts of other services, which this one then calls. Without
    /// it the client is told where to go on (CannotProceed).
    #[arg(long)]
    follow_contexts: bool,
    /// Bindings and contexts that one client may have made: one certificate, else one user of this
    /// host, else one address. 0 for no limit.
    #[arg(long, value_name = "N", default_value_t = 0)]
    max_peer_bindings: usize,
    /// File that stores the names; created if it does not exist.
    #[arg(long, value_name = "FILE", default_value = "isorb-naming.redb", conflicts_with = "memory", value_parser = to_write())]
    store: PathBuf,
    /// Stores nothing; the names are lost at the end of the process.
    #[arg(long)]
    memory: bool,
    /// File to write the reference of the root context to.
    #[arg(long, value_name = "FILE", value_parser = to_write())]
    ior_file: Option<PathBuf>,
}

/// Serves until SIGTERM. It can be killed at any time without damage.
pub fn run(args: &Args, orb_arguments: Vec<String>) -> Result<(), Box<dyn Error>> {
    let config = args.service.config(orb_arguments, PORT)?;
    let store: Arc<dyn Store> = match args.memory {
        true => Arc::new(MemoryStore::new()),
        false => Arc::new(
            FileStore::open(&args.store).map_err(|error| format!("{}: {error}", args.store.display()))?,
        ),
    };
    let process = args.service.start(config)?;
    let orb = &process.orb;
    let limits =
        Limits { follow: args.follow_contexts, peer_bindings: args.max_peer_bindings, ..Limits::default() };
    let service = NamingService::start(orb, store, limits)?;
    if let Some(file) = &args.ior_file {
        std::fs::write(file, format!("{}\n", service.object()))
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    // Requests wait until the root POA's manager is active, so that a client can call as soon as it
    // reads this line.
    orb.root_poa()?.manager().activate()?;
    let _metrics = process.ready(&super::ready::reference(orb, "NameService", service.object()), "")?;
    process.run();
    Ok(())
}

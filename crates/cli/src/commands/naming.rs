//! `isorb naming`: the naming service as a process.

use super::listen;
use isorb::Orb;
use isorb_naming::{FileStore, Limits, MemoryStore, NamingService, Store};
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// The port of naming services (registered as corbaloc).
const PORT: u16 = 2809;

/// Arguments of `isorb naming`. Further arguments go to the ORB (`-ORB…`).
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Port to listen at; 0 for a free one [default: 2809].
    #[arg(long)]
    port: Option<u16>,
    /// Address to listen at; 0.0.0.0 or :: for all [default: 127.0.0.1].
    #[arg(long)]
    host: Option<String>,
    /// File that stores the names; created if it does not exist.
    #[arg(long, value_name = "FILE", default_value = "isorb-naming.redb", conflicts_with = "memory")]
    store: PathBuf,
    /// Stores nothing; the names are lost at the end of the process.
    #[arg(long)]
    memory: bool,
    /// File to write the reference of the root context to.
    #[arg(long, value_name = "FILE")]
    ior_file: Option<PathBuf>,
}

/// Serves until it is killed. It can be killed at any time without damage.
pub fn run(args: &Args, orb_arguments: Vec<String>) -> Result<(), Box<dyn Error>> {
    let (mut config, named) = listen::config(orb_arguments)?;
    if !named || args.host.is_some() || args.port.is_some() {
        let host = args.host.as_deref().unwrap_or("127.0.0.1");
        let port = args.port.unwrap_or(PORT);
        config.endpoints = vec![listen::endpoint(host, port)];
    }
    let store: Arc<dyn Store> = match args.memory {
        true => Arc::new(MemoryStore::new()),
        false => Arc::new(
            FileStore::open(&args.store).map_err(|error| format!("{}: {error}", args.store.display()))?,
        ),
    };
    let orb = Orb::with_config(config)?;
    let service = NamingService::start(&orb, store, Limits::default())?;
    if let Some(file) = &args.ior_file {
        std::fs::write(file, format!("{}\n", service.object()))
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    // Requests wait until the root POA's manager is active, so that a client can call as soon as it
    // reads this line.
    orb.root_poa()?.manager().activate()?;
    let mut output = std::io::stdout();
    writeln!(output, "READY {}", super::ready::reference(&orb, "NameService", service.object()))?;
    output.flush()?;
    orb.run();
    Ok(())
}

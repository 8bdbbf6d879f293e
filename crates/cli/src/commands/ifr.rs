//! `isorb ifr`: the interface repository as a process.

use super::service::ServiceArgs;
use crate::commands::arguments::{to_read, to_write};
use isorb_ifr::{Contents, RepositoryService};
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

/// The port, unless another one is named. None is registered for interface repositories.
const PORT: u16 = 3699;

/// Arguments of `isorb ifr`. Further arguments go to the ORB (`-ORB…`).
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    service: ServiceArgs,
    /// IDL file to answer from; repeatable. The files are compiled together, as if one file
    /// included them all.
    #[arg(long, value_name = "FILE", required = true, value_parser = to_read())]
    idl: Vec<PathBuf>,
    /// Directory to search for `#include`; repeatable.
    #[arg(short = 'I', value_name = "DIR")]
    include: Vec<PathBuf>,
    /// File to write the reference of the repository to.
    #[arg(long, value_name = "FILE", value_parser = to_write())]
    ior_file: Option<PathBuf>,
}

/// Serves until SIGTERM.
///
/// # Errors
/// IDL files with errors, and what [`ServiceArgs::start`] refuses.
pub fn run(args: &Args, orb_arguments: Vec<String>) -> Result<(), Box<dyn Error>> {
    let config = args.service.config(orb_arguments, PORT)?;
    let contents = Arc::new(Contents::compile(&args.idl, &args.include)?);
    let process = args.service.start(config)?;
    let orb = &process.orb;
    let service = RepositoryService::start(orb, contents)?;
    if let Some(file) = &args.ior_file {
        std::fs::write(file, format!("{}\n", service.object()))
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    orb.root_poa()?.manager().activate()?;
    let _metrics =
        process.ready(&super::ready::reference(orb, "InterfaceRepository", service.object()), "")?;
    process.run();
    Ok(())
}

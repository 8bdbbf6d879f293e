//! `isorb serve`: a stub server that answers by rules, for tests of clients.

mod rules;
mod script;
mod stub;

use super::listen::{Listen, over_tls};
use crate::commands::arguments::{to_read, to_write};
use crate::typed::load_interface;
use rules::Rules;
use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use stub::Stub;

/// The key in `corbaloc::host:port/stub`.
const KEY: &str = "stub";

/// Arguments of `isorb serve`. Further arguments go to the ORB (`-ORB…`).
#[derive(Debug, clap::Args)]
pub struct Args {
    /// IDL file with the interface to serve.
    #[arg(long, value_name = "FILE", value_parser = to_read())]
    idl: PathBuf,
    /// Directory to search for `#include`; repeatable.
    #[arg(short = 'I', value_name = "DIR")]
    include: Vec<PathBuf>,
    /// TOML file with the rules by which requests are answered.
    #[arg(long, value_name = "RULES", value_parser = to_read())]
    script: PathBuf,
    /// File to write the reference to.
    #[arg(long, value_name = "FILE", value_parser = to_write())]
    ior_file: Option<PathBuf>,
    #[command(flatten)]
    listen: Listen,
}

/// Serves until the process is ended.
///
/// # Errors
/// An IDL file or a script with errors, the ORB's arguments, a file that cannot be written.
pub fn run(args: &Args, orb_arguments: Vec<String>) -> Result<(), Box<dyn Error>> {
    let mut config = args.listen.config(orb_arguments, 0)?;
    if super::orb::has_tls() {
        config.endpoints = config.endpoints.iter().map(|endpoint| over_tls(endpoint)).collect();
    }
    let name = args.script.display().to_string();
    let text = std::fs::read_to_string(&args.script).map_err(|error| format!("{name}: {error}"))?;
    let script = script::parse(&text, &name)?;
    let served = load_interface(&args.idl, &args.include, script.interface.as_deref())?;
    let orb = super::orb::plain(config)?;
    let rules = Rules::new(&script, &served, &orb)?;
    let stub = Arc::new(Stub::new(rules));
    let poa = orb.root_poa()?;
    let id = poa.activate_object(served.interface()?.servant(stub))?;
    let object = poa.id_to_reference(&id)?;
    orb.register_corbaloc_key(KEY, &object);
    if let Some(file) = &args.ior_file {
        std::fs::write(file, format!("{object}\n"))
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    poa.manager().activate()?;
    // The reference names its interface, so that `isorb call` needs the operation's name only.
    let mut output = std::io::stdout();
    writeln!(output, "READY {object}").and_then(|()| output.flush())?;
    orb.run();
    Ok(())
}

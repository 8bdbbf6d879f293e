//! `isorb ior SHOW`.

use crate::commands::arguments::Wrong;
use std::error::Error;

/// Arguments of `isorb ior`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// `IOR:…`, `corbaloc:…`, `corbaname:…`, `file:…`, or a file that holds one of them.
    show: String,
}

pub fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let text = match std::fs::read_to_string(&args.show) {
        Ok(text) => text,
        Err(_) => args.show.clone(),
    };
    let explained = isorb_giop::explain::explain(text.trim());
    print!("{}", explained.map_err(|error| Wrong(error.to_string()))?);
    Ok(())
}

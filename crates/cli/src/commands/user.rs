//! `isorb user`: a line for a file of users.

use isorb_csi::Users;
use std::error::Error;

/// Options of `isorb user`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The user's name.
    name: String,
}

/// Prints the line.
///
/// # Errors
/// A name that cannot stand in the file, no password.
pub fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let mut password = String::new();
    std::io::stdin().read_line(&mut password)?;
    let password = password.trim_end_matches(['\n', '\r']);
    println!("{}", Users::line(&args.name, password.as_bytes())?);
    Ok(())
}

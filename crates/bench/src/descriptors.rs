//! The limit of this process for descriptors.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Takes as many as the process may have.
pub fn raise() -> io::Result<()> {
    let limits = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, ..limits })?)
}

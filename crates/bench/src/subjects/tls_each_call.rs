//! isorb over TLS with a connection for each call: what is saved by keeping one.

use std::io;
use std::path::{Path, PathBuf};

use super::isorb::generated::bench::TargetRef;
use super::isorb::{Caller, failed};
use super::tls;
use crate::cases::Case;
use crate::protocol::{Client, obey};

/// Calls the object at `address` as the harness orders, by a new ORB each time, with the
/// certificates of `folder`.
pub fn call(folder: &Path, address: String) -> io::Result<()> {
    obey(&mut EachCall { folder: folder.into(), address, case: None })
}

struct EachCall {
    folder: PathBuf,
    address: String,
    case: Option<Case>,
}

impl Client for EachCall {
    type Error = io::Error;

    fn prepare(&mut self, case: Case, _: usize) -> io::Result<()> {
        self.case = Some(case);
        Ok(())
    }

    fn call(&mut self) -> io::Result<()> {
        let case = self.case.ok_or(io::ErrorKind::InvalidInput)?;
        let orb = tls::orb(&self.folder, "client", &[])?;
        let target: TargetRef = orb.resolve(&self.address).map_err(failed)?;
        let mut caller = Caller::new(orb.clone(), target);
        caller.prepare(case, 1).map_err(failed)?;
        caller.call().map_err(failed)?;
        orb.shutdown(true).map_err(failed)
    }

    fn arrived(&mut self) -> io::Result<()> {
        Ok(())
    }
}

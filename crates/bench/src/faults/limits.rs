//! Limits of the kernel that a running process meets.

use std::fs;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::daemon::Daemon;

/// What a process gets no more of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// Descriptors, beyond those that it has.
    Descriptors,
    /// Octets in files. The kernel also sends SIGXFSZ, which ends a process that does not care.
    FileSize,
    /// Address space, beyond that which it has.
    Memory,
}

impl Limit {
    pub const ALL: [Limit; 3] = [Limit::Descriptors, Limit::FileSize, Limit::Memory];

    /// As in prlimit(2).
    pub fn name(self) -> &'static str {
        match self {
            Limit::Descriptors => "RLIMIT_NOFILE",
            Limit::FileSize => "RLIMIT_FSIZE",
            Limit::Memory => "RLIMIT_AS",
        }
    }

    fn resource(self) -> Resource {
        match self {
            Limit::Descriptors => Resource::Nofile,
            Limit::FileSize => Resource::Fsize,
            Limit::Memory => Resource::As,
        }
    }

    /// The greatest value with which the process gets no more.
    fn value(self, daemon: &Daemon) -> Option<u64> {
        match self {
            // The kernel gives the least free number, if it is below the limit.
            Limit::Descriptors => {
                let open = |number: &u64| fs::exists(format!("/proc/{}/fd/{number}", daemon.id())).ok();
                (0..).find(|number| open(number) != Some(true))
            }
            Limit::FileSize => Some(0),
            Limit::Memory => {
                let sizes = fs::read_to_string(format!("/proc/{}/statm", daemon.id())).ok()?;
                let pages: u64 = sizes.split(' ').next()?.parse().ok()?;
                Some(pages * rustix::param::page_size() as u64)
            }
        }
    }
}

/// A process with a limit, until this is dropped.
#[derive(Debug)]
pub struct Limited {
    pid: Pid,
    limit: Limit,
    before: Rlimit,
}

impl Limited {
    /// Limits a running process to what it has.
    ///
    /// # Errors
    /// A sentence, if the process has ended, or the kernel refuses.
    pub fn to(daemon: &Daemon, limit: Limit) -> Result<Limited, String> {
        let pid = i32::try_from(daemon.id()).ok().and_then(Pid::from_raw).ok_or("no process")?;
        let value = limit.value(daemon).ok_or_else(|| format!("{}: the service has ended", limit.name()))?;
        let before = rustix::process::getrlimit(limit.resource());
        let to = Rlimit { current: Some(value), maximum: before.maximum };
        let set = prlimit(Some(pid), limit.resource(), to);
        let before = set.map_err(|error| format!("{}: {error}", limit.name()))?;
        Ok(Limited { pid, limit, before })
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = prlimit(Some(self.pid), self.limit.resource(), self.before);
    }
}

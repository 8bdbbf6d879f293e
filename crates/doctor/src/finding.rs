//! What a check comes to.

use std::fmt;

use serde::Serialize;

/// What one check found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// The check's name, which stays the same from run to run.
    pub check: &'static str,
    /// How much it stands in the way.
    pub level: Level,
    /// What is the case here.
    pub found: String,
    /// What that does to real-time threads; empty where nothing is wrong.
    pub matters: &'static str,
    /// Commands, or lines of a file, each of which changes it. Run as root unless they say
    /// otherwise.
    pub fix: Vec<String>,
}

/// How much a finding stands in the way of real time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Not at all.
    Good,
    /// It is worth knowing, and may be meant so.
    Note,
    /// Could not be found out.
    Unknown,
    /// Latencies are longer than they need be.
    Warning,
    /// Real-time scheduling as asked for is not possible.
    Blocking,
}

/// What the process will ask of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The highest native priority in `SCHED_FIFO`, 1 to 99.
    pub native_priority: u8,
}

impl Default for Wanted {
    /// Above the kernel's interrupt threads (50), below its watchdogs.
    fn default() -> Self {
        Wanted { native_priority: 90 }
    }
}

impl Finding {
    pub(crate) fn good(check: &'static str, found: impl Into<String>) -> Finding {
        Finding { check, level: Level::Good, found: found.into(), matters: "", fix: Vec::new() }
    }

    pub(crate) fn new(
        check: &'static str,
        level: Level,
        found: impl Into<String>,
        matters: &'static str,
    ) -> Finding {
        Finding { check, level, found: found.into(), matters, fix: Vec::new() }
    }

    pub(crate) fn fix(mut self, command: impl Into<String>) -> Finding {
        self.fix.push(command.into());
        self
    }
}

impl Level {
    /// As the reports spell it.
    pub fn name(self) -> &'static str {
        match self {
            Level::Good => "good",
            Level::Note => "note",
            Level::Unknown => "unknown",
            Level::Warning => "warning",
            Level::Blocking => "blocking",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

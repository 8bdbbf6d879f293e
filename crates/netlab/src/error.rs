//! Why there is no lab.

use std::fmt;
use std::io;

/// Why there is no lab.
#[derive(Debug)]
pub enum LabError {
    /// Only root may make network namespaces.
    NotPermitted,
    /// A program is not installed; its name.
    NoTool(&'static str),
    /// A program refused; its command line and what it said. A kernel without a queueing discipline
    /// shows here.
    Refused {
        /// The command line.
        command: String,
        /// What it wrote to standard error.
        output: String,
    },
    /// A program could not be run, or a namespace not be entered.
    Io(io::Error),
}

impl LabError {
    /// Is it the machine that cannot have a lab, rather than a mistake in the asking? A test skips
    /// then, and says why.
    pub fn is_of_the_machine(&self) -> bool {
        matches!(self, LabError::NotPermitted | LabError::NoTool(_))
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabError::NotPermitted => f.write_str("only root may make network namespaces"),
            LabError::NoTool(tool) => write!(f, "{tool} is not installed (apt-get install iproute2)"),
            LabError::Refused { command, output } => write!(f, "{command}: {}", output.trim()),
            LabError::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for LabError {}

impl From<io::Error> for LabError {
    fn from(error: io::Error) -> Self {
        LabError::Io(error)
    }
}

//! The programs of iproute2.

use std::io::ErrorKind;
use std::process::{Command, Stdio};

use crate::LabError;

/// Runs `ip` with these words, which must succeed; what it printed.
pub(crate) fn ip(words: &str) -> Result<String, LabError> {
    run("ip", words)
}

/// Runs `tc` with these words, which must succeed.
pub(crate) fn tc(words: &str) -> Result<String, LabError> {
    run("tc", words)
}

fn run(tool: &'static str, words: &str) -> Result<String, LabError> {
    // Where Debian puts them, which is not on everybody's path.
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output =
        Command::new(tool).args(words.split_whitespace()).env("PATH", path).stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(output) => Err(LabError::Refused {
            command: format!("{tool} {words}"),
            said: String::from_utf8_lossy(&output.stderr).into_owned(),
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(LabError::NoTool(tool)),
        Err(error) => Err(error.into()),
    }
}

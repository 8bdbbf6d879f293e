//! The programs of iproute2.

use std::io::ErrorKind;
use std::path::PathBuf;
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

/// Where a program of iproute2 lies: on the path, else where Debian puts it, which is not on everybody's path.
pub fn tool_place(tool: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut places = std::env::split_paths(&path).chain(usual).map(|folder| folder.join(tool));
    places.find(|place| place.is_file()).unwrap_or_else(|| tool.into())
}

fn run(tool: &'static str, words: &str) -> Result<String, LabError> {
    let output = Command::new(tool_place(tool)).args(words.split_whitespace()).stdin(Stdio::null()).output();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nowhere_keeps_its_name() {
        assert_eq!(tool_place("no-tool-has-this-name"), PathBuf::from("no-tool-has-this-name"));
        assert!(tool_place("sh").is_absolute());
    }
}

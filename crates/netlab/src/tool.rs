//! The programs of iproute2.

use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::LabError;

/// Runs `ip` with these words, which must succeed; what it printed.
pub(crate) fn ip(words: &str) -> Result<String, LabError> {
    run("ip", words, "")
}

/// Runs `ip` in a namespace with each of these lines, all of which must succeed.
pub(crate) fn ip_batch(namespace: &str, lines: &str) -> Result<(), LabError> {
    run("ip", &format!("-n {namespace} -batch -"), lines).map(drop)
}

/// Runs `tc` with these words, which must succeed.
pub(crate) fn tc(words: &str) -> Result<String, LabError> {
    run("tc", words, "")
}

/// Where a program of iproute2 lies: on the path, else where Debian puts it, which is not on
/// everybody's path.
pub fn tool_place(tool: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut places = std::env::split_paths(&path).chain(usual).map(|folder| folder.join(tool));
    places.find(|place| place.is_file()).unwrap_or_else(|| tool.into())
}

fn run(tool: &'static str, words: &str, input: &str) -> Result<String, LabError> {
    let mut command = Command::new(tool_place(tool));
    command.args(words.split_whitespace());
    match output(command, input) {
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(output) => Err(LabError::Refused {
            command: format!("{tool} {words}"),
            output: String::from_utf8_lossy(&output.stderr).into_owned(),
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(LabError::NoTool(tool)),
        Err(error) => Err(error.into()),
    }
}

/// Runs a command that reads this, a few kilobytes.
fn output(mut command: Command, input: &str) -> std::io::Result<Output> {
    if input.is_empty() {
        return command.stdin(Stdio::null()).output();
    }
    let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = streams.spawn()?;
    // A tool that ends before it reads all its input reports the reason.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
    child.wait_with_output()
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

//! Further processes of the demos, with the same program.

use std::error::Error;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A child process that is ready. Dropping it ends the process.
pub struct Process {
    pub child: Child,
    /// Its line that begins with READY.
    pub ready: String,
    output: BufReader<ChildStdout>,
}

impl Process {
    pub fn start<A: AsRef<OsStr>>(command: &str, args: &[A]) -> Result<Process, Box<dyn Error>> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(command)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or("no output")?;
        let mut output = BufReader::new(output);
        let mut ready = String::new();
        while !ready.starts_with("READY") {
            ready.clear();
            if output.read_line(&mut ready)? == 0 {
                let _ = child.kill();
                return Err(format!("isorb {command} ended before it was ready: {}", child.wait()?).into());
            }
        }
        Ok(Process { child, ready: ready.trim().to_string(), output })
    }

    /// Closes its standard input, waits for its end, and returns the rest of its output.
    pub fn finish(mut self) -> Result<String, Box<dyn Error>> {
        drop(self.child.stdin.take());
        let mut rest = String::new();
        self.output.read_to_string(&mut rest)?;
        self.child.wait()?;
        Ok(rest)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! A child process. Its lines are read with a time limit, and it is ended by its own id.

use std::io::{BufRead, BufReader, Error};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Killed when dropped, unless it has ended.
pub(super) struct Process {
    child: Child,
    lines: Receiver<String>,
}

/// The result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Text(String),
    End,
    Late,
}

impl Process {
    /// # Errors
    /// The error of the operating system.
    pub fn start(mut command: Command, verbose: bool) -> Result<Process, Error> {
        let errors = if verbose { Stdio::inherit() } else { Stdio::null() };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn()?;
        let (lines, read) = channel();
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || {
                // Peers may print what is not UTF-8.
                for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                    if lines.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
                        break;
                    }
                }
            });
        }
        Ok(Process { child, lines: read })
    }

    pub fn line(&self, end: Instant) -> Line {
        match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => Line::Text(line),
            Err(RecvTimeoutError::Disconnected) => Line::End,
            Err(RecvTimeoutError::Timeout) => Line::Late,
        }
    }

    /// Closes its standard input and waits for its end; `None` when it had to be killed.
    pub fn stop(mut self, within: Duration) -> Option<ExitStatus> {
        drop(self.child.stdin.take());
        let end = Instant::now() + within;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(10)),
                _ => return None,
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            // It may have ended at this moment, which is equivalent.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

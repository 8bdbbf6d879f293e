//! A service as a process: its first line, its log, and what the kernel says of it.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::strace;
use crate::process::Launcher;

/// Octets of a log that are kept; a service that logs more is wrong in another way.
const LOG_LIMIT: usize = 256 << 10;
/// A process that was killed ends at once, unless its tracer hangs.
const END_LIMIT: Duration = Duration::from_secs(5);
/// A service that says nothing for so long hangs.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A running service. Dropping it kills it as `kill -9` does, and waits for its end.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    log: Arc<Mutex<String>>,
    /// What followed READY on its first line.
    pub url: String,
}

/// A service that ended, or said nothing, before it was ready.
#[derive(Debug)]
pub struct NotReady {
    /// How it ended; `None` if it hung and was killed.
    pub status: Option<ExitStatus>,
    /// Its log.
    pub log: String,
}

/// What a process has of the machine.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Usage {
    /// Resident memory in octets.
    pub resident: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Threads.
    pub threads: u64,
}

impl Daemon {
    /// Starts a program, which cannot outlive this one, and waits until it is ready.
    ///
    /// # Errors
    /// [`NotReady`].
    pub fn start(launcher: &Launcher, words: &[OsString]) -> Result<Daemon, NotReady> {
        let mut all = launcher.peer(&["start", "--parent"]);
        all.extend([std::process::id().to_string().into(), "--".into()]);
        all.extend_from_slice(words);
        let failed = |log: String| NotReady { status: None, log };
        let mut command = Command::new(&all[0]);
        command.args(&all[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        let log = Arc::new(Mutex::new(String::new()));
        let mut daemon = Daemon { child, log: Arc::clone(&log), url: String::new() };
        let reader = errors.map(|errors| std::thread::spawn(move || keep(errors, &log)));
        let (first, url) = channel();
        std::thread::spawn(move || {
            let mut lines = output.into_iter().flat_map(|output| BufReader::new(output).lines());
            while let Some(Ok(line)) = lines.next() {
                // The lines that follow are read too, so that the pipe does not fill.
                let _ = first.send(line);
            }
        });
        match url.recv_timeout(START_LIMIT) {
            Ok(line) if line.starts_with("READY ") => {
                line["READY ".len()..].trim().clone_into(&mut daemon.url);
                Ok(daemon)
            }
            Ok(line) => Err(failed(format!("its first line is {line:?}"))),
            Err(RecvTimeoutError::Timeout) => Err(failed(format!("it hangs: {}", daemon.log()))),
            Err(RecvTimeoutError::Disconnected) => {
                let status = daemon.child.wait().ok();
                // The rest of the log.
                let _ = reader.map(std::thread::JoinHandle::join);
                Err(NotReady { status, log: daemon.log() })
            }
        }
    }

    /// Kills it as `kill -9` does. It is reaped when this is dropped, so the number is its own.
    pub fn kill(&self) {
        if let Some(pid) = i32::try_from(self.id()).ok().and_then(Pid::from_raw) {
            // An error means that it has ended by itself.
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How it ended; `None` while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Processor time of all threads that it has now, since their start.
    pub fn processor_time(&self) -> Duration {
        let of = |task: PathBuf| -> Option<u64> {
            fs::read_to_string(task.join("schedstat")).ok()?.split(' ').next()?.parse().ok()
        };
        Duration::from_nanos(self.tasks().into_iter().filter_map(of).sum())
    }

    /// Memory, descriptors and threads; `None` if it has ended.
    pub fn usage(&self) -> Option<Usage> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).ok()?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kib: u64 = resident.trim().strip_suffix(" kB")?.parse().ok()?;
        let descriptors = fs::read_dir(format!("/proc/{}/fd", self.id())).ok()?.count() as u64;
        Some(Usage { resident: kib << 10, descriptors, threads: self.tasks().len() as u64 })
    }

    /// The folders of its threads.
    pub fn tasks(&self) -> Vec<PathBuf> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.id()));
        tasks.into_iter().flatten().flatten().map(|task| task.path()).collect()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // An error means that it has ended by itself.
        let _ = self.child.kill();
        let start = Instant::now();
        while self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            if start.elapsed() > END_LIMIT {
                strace::end_tracer(self);
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = self.child.wait();
    }
}

/// Keeps the first octets, and reads on.
fn keep(mut errors: impl Read, log: &Mutex<String>) {
    let mut octets = [0; 4096];
    while let Ok(n @ 1..) = errors.read(&mut octets) {
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.len() < LOG_LIMIT {
            log.push_str(&String::from_utf8_lossy(&octets[..n]));
        }
    }
}

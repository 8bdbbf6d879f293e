//! The binary as tests run it: commands that end, processes that serve, folders for their files.
#![allow(dead_code, reason = "each test program uses its part")]

pub mod events;

use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

pub const ISORB: &str = env!("CARGO_BIN_EXE_isorb");

/// Exit code, standard output and standard error of a command that ends.
pub type Ended = (Option<i32>, String, String);

/// Runs `isorb` with these arguments.
pub fn run(args: &[&str]) -> Ended {
    ended(Command::new(ISORB).args(args))
}

/// Runs a command to its end.
pub fn ended(command: &mut Command) -> Ended {
    let output = command.output().unwrap();
    let text = |octets| String::from_utf8(octets).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A process; killed at the end as `kill -9` does it.
pub struct Process {
    child: Child,
    lines: Option<Lines<BufReader<ChildStdout>>>,
}

impl Process {
    /// Starts `isorb` with these arguments.
    pub fn start(args: &[&str]) -> Process {
        Process::of(Command::new(ISORB).args(args))
    }

    /// Starts a command. What it says is read line by line.
    pub fn of(command: &mut Command) -> Process {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = child.stdout.take().map(|output| BufReader::new(output).lines());
        Process { child, lines }
    }

    /// Starts `isorb` and lets nobody hear what it says, however much that is.
    pub fn unheard(args: &[&str]) -> Process {
        let child = Command::new(ISORB).args(args).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        Process { child: child.unwrap(), lines: None }
    }

    /// What it says next, behind this word.
    pub fn says(&mut self, word: &str) -> String {
        let line = self.lines.as_mut().and_then(Iterator::next).map(Result::unwrap).unwrap_or_default();
        let said = line.strip_prefix(word).and_then(|said| said.strip_prefix(' '));
        said.unwrap_or_else(|| panic!("it says {line:?} instead of {word}")).to_owned()
    }

    /// The process's number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that serves, and what it said when it was ready: its URL, mostly.
pub struct Service {
    process: Process,
    pub url: String,
}

impl Service {
    /// Starts `isorb` with these arguments, and waits until it is ready.
    pub fn start(args: &[&str]) -> Service {
        Service::of(Command::new(ISORB).args(args))
    }

    /// Starts a command, and waits until it is ready.
    pub fn of(command: &mut Command) -> Service {
        let mut process = Process::of(command);
        let url = process.says("READY");
        Service { process, url }
    }

    /// As [`Service::start`], of one that has a live page: at this address.
    pub fn with_page(args: &[&str]) -> (Service, String) {
        let mut service = Service::start(args);
        let page = service.process.says("ADMIN");
        let address = page.strip_prefix("http://").expect("it is a page's address").trim_end_matches('/');
        (service, address.to_owned())
    }

    /// The process's number.
    pub fn id(&self) -> u32 {
        self.process.id()
    }
}

/// A folder of a test's own; removed at the end.
pub struct Folder(PathBuf);

impl Folder {
    /// Two of one name in a test program are one.
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("isorb-cli-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where a file of it is.
    pub fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

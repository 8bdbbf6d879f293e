//! Runs the binary: commands that end and processes that serve.
#![allow(dead_code, reason = "each test program uses a part")]

pub mod events;

use isorb_testkit::Process;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

pub const ISORB: &str = env!("CARGO_BIN_EXE_isorb");

/// The exit code, standard output and standard error of a command that has ended.
pub type Ended = (Option<i32>, String, String);

/// Runs `isorb` with these arguments.
pub fn run(args: &[&str]) -> Ended {
    ended(isorb(args))
}

/// The command `isorb` with these arguments.
pub fn isorb(args: &[&str]) -> Command {
    let mut command = Command::new(ISORB);
    command.args(args);
    command
}

/// Starts `isorb` with these arguments and discards its output.
pub fn unread(args: &[&str]) -> Process {
    Process::unread(&mut isorb(args))
}

/// Runs a command to its end.
pub fn ended(mut command: impl std::borrow::BorrowMut<Command>) -> Ended {
    let output = command.borrow_mut().output().unwrap();
    let text = |octets| String::from_utf8(octets).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// The answer of a service's live page or metrics, head and body.
pub fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// A process that serves.
pub struct Service {
    process: Process,
    /// The rest of its line `READY …`, which is its URL with most commands.
    pub url: String,
}

impl Service {
    /// Starts `isorb` with these arguments and waits until it is ready.
    pub fn start(args: &[&str]) -> Service {
        Service::of(&mut isorb(args))
    }

    /// Starts a command and waits until it is ready.
    pub fn of(command: &mut Command) -> Service {
        let (process, url) = Process::ready(command);
        Service { process, url }
    }

    /// Starts a service that has a live page. Returns the page's address, too.
    pub fn with_page(args: &[&str]) -> (Service, String) {
        let mut service = Service::start(args);
        let page = service.process.expect_line("ADMIN");
        let address = page.strip_prefix("http://").expect("a URL").trim_end_matches('/');
        (service, address.to_owned())
    }

    /// Starts a command and waits until it is ready. Returns the rest of its next line, too, which
    /// begins with `word`.
    pub fn with_line(command: &mut Command, word: &str) -> (Service, String) {
        let mut service = Service::of(command);
        let line = service.process.expect_line(word);
        (service, line)
    }

    /// How the process ended; `None` while it runs.
    pub fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.process.ended()
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }
}

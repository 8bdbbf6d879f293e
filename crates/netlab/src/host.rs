//! One of the two hosts.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::Command;
use std::thread;

use crate::tool::tool_place;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A host of a [`Lab`](crate::Lab): a network namespace with a loopback and one end of the link.
#[derive(Debug)]
pub struct Host {
    namespace: String,
    address: Ipv4Addr,
}

impl Host {
    pub(crate) fn new(namespace: String, address: Ipv4Addr) -> Host {
        Host { namespace, address }
    }

    /// Its address on the link.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// The namespace's name, as `ip netns` shows it.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name of its end of the link.
    pub fn interface(&self) -> &'static str {
        super::lab::INTERFACE
    }

    /// A command that runs `program` in this host. It becomes the program itself, so that the
    /// child's process id is the program's and killing it kills the program.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(tool_place("ip"));
        command.args(["netns", "exec", &self.namespace]).arg(program);
        command
    }

    /// Calls `f` on a thread of this process that is in this host, and waits for it: sockets that
    /// `f` makes belong to the host for ever, wherever they are used afterwards.
    ///
    /// # Errors
    /// Where the namespace may not be entered.
    ///
    /// # Panics
    /// Where `f` does.
    pub fn run<R: Send>(&self, f: impl FnOnce() -> R + Send) -> io::Result<R> {
        let namespace = File::open(format!("/run/netns/{}", self.namespace))?;
        let result = thread::scope(|scope| {
            let entered = scope.spawn(move || {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
                Ok(f())
            });
            entered.join()
        });
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

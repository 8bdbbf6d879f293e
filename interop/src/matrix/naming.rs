//! The naming services.

use super::peers::{Installed, Peer};
use super::process::Process;
use super::temporary;
use std::io::{Error, ErrorKind};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    OmniNames,
    Isorb,
    JacOrb,
}

const START: Duration = Duration::from_secs(30);

impl Service {
    pub const ALL: [Service; 3] = [Service::OmniNames, Service::Isorb, Service::JacOrb];

    pub fn name(self) -> &'static str {
        match self {
            Service::OmniNames => "omninames",
            Service::Isorb => "isorb-naming",
            Service::JacOrb => "jacorb-naming",
        }
    }

    pub fn how_to_get(self) -> &'static str {
        match self {
            Service::OmniNames => "omniNames (interop/setup.sh omniorb)",
            Service::Isorb => "isorb's naming service (cargo build -p isorb-cli, into the same folder)",
            Service::JacOrb => "JacORB's name server (interop/setup.sh jacorb)",
        }
    }

    pub fn is_there(self, installed: &Installed) -> bool {
        match self {
            Service::OmniNames => {
                let path = std::env::var_os("PATH").unwrap_or_default();
                std::env::split_paths(&path).any(|folder| folder.join("omniNames").exists())
            }
            Service::Isorb => installed.isorb("isorb").exists(),
            Service::JacOrb => installed.built(Peer::JacOrb, "naming").exists(),
        }
    }

    /// Starts it on a free port.
    ///
    /// # Errors
    /// The error of the operating system; `TimedOut` when it does not listen in time.
    pub fn start(self, installed: &Installed, verbose: bool) -> Result<Running, Error> {
        // Another process could take the port before the service does; the service then fails to
        // start.
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let folder = temporary("-names");
        std::fs::create_dir_all(&folder)?;
        let number = port.to_string();
        let command = match self {
            Service::OmniNames => {
                let mut command = Command::new("omniNames");
                let endpoint = format!("giop:tcp:127.0.0.1:{port}");
                command.args(["-start", &number, "-ORBendPoint", &endpoint]).arg("-logdir").arg(&folder);
                command.arg("-errlog").arg(folder.join("errors"));
                command
            }
            Service::Isorb => {
                let mut command = Command::new(installed.isorb("isorb"));
                command.args(["naming", "--port", &number]).arg("--store").arg(folder.join("names"));
                command
            }
            Service::JacOrb => {
                let mut command = Command::new(installed.built(Peer::JacOrb, "naming"));
                command.arg(&number);
                command
            }
        };
        let url = format!("corbaloc:iiop:1.2@127.0.0.1:{port}/NameService");
        let running = Running { _process: Process::start(command, verbose)?, url, folder };
        let end = Instant::now() + START;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if Instant::now() > end {
                return Err(ErrorKind::TimedOut.into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(running)
    }
}

/// Killed and cleaned up when dropped.
pub(super) struct Running {
    _process: Process,
    url: String,
    folder: PathBuf,
}

impl Running {
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let folder: &Path = &self.folder;
        // Left-overs in the folder for temporary files do no harm.
        let _ = std::fs::remove_dir_all(folder);
    }
}

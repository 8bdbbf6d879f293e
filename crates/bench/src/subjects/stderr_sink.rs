//! Standard errors that take nothing, or little.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write, pipe};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::OFlags;

use crate::process::{Launcher, PEER};

/// What a program's standard error leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Sink {
    /// A pipe without a reader.
    Closed,
    /// A device without room.
    Full,
    /// A full pipe that is never read.
    Stuck,
    /// A full pipe of which 4 KiB are read in a quarter of a second.
    Slow,
}

impl Sink {
    /// The program with such a standard error.
    pub fn of(self, launcher: &Launcher, program: Vec<OsString>) -> Vec<OsString> {
        let name = match self {
            Sink::Closed => "closed",
            Sink::Full => "full",
            Sink::Stuck => "stuck",
            Sink::Slow => "slow",
        };
        [launcher.peer(&["stderr", name, "--"]), program].concat()
    }

    /// Becomes `program`; returns only if that fails.
    pub fn exec(self, program: &[OsString]) -> io::Error {
        let [name, arguments @ ..] = program else { return io::ErrorKind::InvalidInput.into() };
        match self.open() {
            Ok(stderr) => Command::new(name).args(arguments).stderr(stderr).exec(),
            Err(error) => error,
        }
    }

    fn open(self) -> io::Result<Stdio> {
        Ok(match self {
            Sink::Full => File::options().write(true).open("/dev/full")?.into(),
            Sink::Closed => pipe()?.1.into(),
            Sink::Stuck => stuck()?.into(),
            Sink::Slow => {
                let (reader, writer) = pipe()?;
                fill(writer.as_raw_fd())?;
                let mut drain = Command::new(std::env::current_exe()?);
                drain.args([PEER, "drain"]).stdin(reader).stdout(Stdio::null()).spawn()?;
                writer.into()
            }
        })
    }
}

/// Both ends of a pipe in one descriptor, so that the reader is there as long as the writer.
fn stuck() -> io::Result<File> {
    let (_reader, writer) = pipe()?;
    fill(writer.as_raw_fd())?;
    File::options().read(true).write(true).open(path(writer.as_raw_fd()))
}

/// Fills a pipe by a description of its own, which does not block.
fn fill(pipe: RawFd) -> io::Result<()> {
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
    let mut filling = File::options().write(true).custom_flags(nonblocking).open(path(pipe))?;
    while filling.write(b"x").is_ok() {}
    Ok(())
}

fn path(fd: RawFd) -> String {
    format!("/proc/self/fd/{fd}")
}

/// Reads slowly until the writer has gone.
pub fn drain() -> io::Result<()> {
    while io::stdin().read(&mut [0; 4096])? > 0 {
        std::thread::sleep(Duration::from_millis(250));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stuck_pipe_has_no_room() {
        let file = stuck().unwrap();
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap();
        let mut again = File::options().write(true).custom_flags(flags).open(path(file.as_raw_fd())).unwrap();
        assert_eq!(again.write(b"x").unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}

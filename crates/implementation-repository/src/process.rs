//! Processes of servers.

use crate::registration::Registration;
use crate::server::ProcessId;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// How processes are started.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The URL of the repository, for the servers.
    pub url: String,
    /// The folder of the files with the output of servers; their output is that of the repository
    /// otherwise.
    pub output: Option<PathBuf>,
}

/// Variables of the repository's service manager, which are not meant for servers.
const OF_SERVICE_MANAGER: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];

impl Launch {
    /// Starts a server: its program without a shell, as the user of the repository, in a process
    /// group of its own.
    ///
    /// # Errors
    /// A sentence that names the program or the file.
    pub fn start(&self, server: &Registration, token: &str) -> Result<(Child, ProcessId), String> {
        let (output, error) = self.output_of(&server.name)?;
        let mut command = Command::new(&server.program);
        command
            .args(&server.arguments)
            .args(["-ORBServerName", &server.name, "-ORBImplementationRepository", &self.url])
            .env(isorb::SERVER_TOKEN, token)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(error)
            .process_group(0);
        OF_SERVICE_MANAGER.iter().for_each(|name| _ = command.env_remove(name));
        if !server.folder.is_empty() {
            command.current_dir(&server.folder);
        }
        let child = command.spawn().map_err(|error| format!("{}: {error}", server.program))?;
        // The child is not awaited yet, so that its number is its own.
        let started = start_time(child.id()).unwrap_or_default();
        let process = ProcessId { number: child.id(), started };
        Ok((child, process))
    }

    fn output_of(&self, name: &str) -> Result<(Stdio, Stdio), String> {
        // Standard output of the repository has its line READY.
        let Some(folder) = &self.output else { return Ok((io::stderr().into(), io::stderr().into())) };
        let path = folder.join(format!("{name}.log"));
        let open = || {
            let file = OpenOptions::new().create(true).append(true).open(&path)?;
            Ok((Stdio::from(file.try_clone()?), Stdio::from(file)))
        };
        open().map_err(|error: io::Error| format!("{}: {error}", path.display()))
    }
}

/// The time of a process's start, in clock ticks since the machine's; `None` if there is no such
/// process.
fn start_time(number: u32) -> Option<u64> {
    let line = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // The name of the program, in parentheses, may have any characters.
    let fields = line.rsplit_once(')')?.1;
    fields.split_whitespace().nth(19)?.parse().ok()
}

fn pid(process: ProcessId) -> Option<Pid> {
    Pid::from_raw(i32::try_from(process.number).ok()?)
}

/// Waits until a child has ended, and says how. It stays a zombie until then it is awaited, so that
/// its number is not used again meanwhile.
pub fn await_child(process: ProcessId) -> String {
    let Some(pid) = pid(process) else { return "ended".into() };
    loop {
        match waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Ok(Some(status)) => {
                return match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => format!("ended with exit status {code}"),
                    (None, Some(signal)) => format!("ended by signal {signal}"),
                    _ => "ended".into(),
                };
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return format!("ended ({error})"),
        }
    }
}

/// Waits until a process of an earlier run of the repository has ended.
pub fn await_other(process: ProcessId) -> String {
    let ended = || "ended while the repository did not run, or is no child of it".to_owned();
    let Some(descriptor) = pid(process).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
        return ended();
    };
    // The descriptor is open: the process that it stands for is the one that this reads of.
    if !exists(process) {
        return ended();
    }
    loop {
        let mut ready = [PollFd::new(&descriptor, PollFlags::IN)];
        match poll(&mut ready, None) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            _ => return "ended".into(),
        }
    }
}

/// Whether a process runs.
pub fn exists(process: ProcessId) -> bool {
    start_time(process.number) == Some(process.started)
}

/// Sends SIGTERM, or SIGKILL with `force`, to a process and those that it has started. A frozen one
/// is woken for it.
pub fn end(process: ProcessId, force: bool) {
    let Some(pid) = pid(process).filter(|_| exists(process)) else { return };
    // An error means that it has ended.
    let _ = kill_process_group(pid, if force { Signal::KILL } else { Signal::TERM });
    let _ = kill_process_group(pid, Signal::CONT);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registration::tests::sample;
    use isorb_testkit::TempFolder;

    #[test]
    fn a_process_gets_its_arguments_and_its_end_is_said() {
        let folder = TempFolder::new();
        let launch = Launch { url: "corbaloc::h/R".into(), output: Some(folder.path().into()) };
        let script = "printf '%s\n' \"$@\" \"$ISORB_SERVER_TOKEN\"; exit 3";
        let server = Registration {
            program: "/bin/sh".into(),
            arguments: ["-c", script, "sh", "a b", "$(id)"].map(String::from).into(),
            ..sample("lamp")
        };
        let (mut child, process) = launch.start(&server, "t").unwrap();
        assert!(exists(process));
        assert_eq!(await_child(process), "ended with exit status 3");
        child.wait().unwrap();
        assert!(!exists(process));
        let wanted = "a b\n$(id)\n-ORBServerName\nlamp\n-ORBImplementationRepository\ncorbaloc::h/R\nt\n";
        assert_eq!(std::fs::read_to_string(folder.file("lamp.log")).unwrap(), wanted);
        assert_eq!(await_other(process), "ended while the repository did not run, or is no child of it");
    }

    #[test]
    fn a_frozen_process_is_ended() {
        let launch = Launch { url: String::new(), output: None };
        let server = Registration {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), "kill -STOP $$; sleep 1000".into(), "sh".into()],
            ..sample("lamp")
        };
        let (mut child, process) = launch.start(&server, "").unwrap();
        isorb_testkit::wait_until("the process is frozen", || {
            let line = std::fs::read_to_string(format!("/proc/{}/stat", process.number)).unwrap();
            line.contains(") T ")
        });
        end(process, false);
        assert_eq!(await_child(process), "ended by signal 15");
        child.wait().unwrap();
        let missing = Registration { program: "/no/such".into(), ..sample("lamp") };
        assert!(launch.start(&missing, "").unwrap_err().contains("/no/such"));
    }
}

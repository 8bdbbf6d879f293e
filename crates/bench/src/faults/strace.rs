//! strace: which system calls a program makes, and a fault at one of them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::daemon::Daemon;

/// A fault at a system call, as strace injects it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Injected {
    /// The call returns this error.
    Error(&'static str),
    /// The process is killed in front of the call.
    Kill,
}

/// The number of calls by name: of the thread that makes the most, because strace counts by thread.
pub type Calls = BTreeMap<String, u32>;

/// The words in front of a program that list these calls of all its threads in a file. strace is
/// the grandchild, so that the program is the child.
pub fn listing(log: &Path, calls: &[&str]) -> Vec<OsString> {
    words(log, &calls.join(","), None)
}

/// The words in front of a program in which the `nth` such call of each thread has the fault.
pub fn injecting(log: &Path, call: &str, fault: &Injected, nth: u32) -> Vec<OsString> {
    words(log, call, Some(inject(call, fault, Some(nth))))
}

fn words(log: &Path, calls: &str, inject: Option<String>) -> Vec<OsString> {
    let mut words = ["strace", "-D", "-I2", "-f", "-qq", "-o"].map(OsString::from).to_vec();
    words.push(log.into());
    words.extend(["-e".into(), format!("trace={calls}").into()]);
    words.extend(inject.into_iter().flat_map(|inject| ["-e".into(), inject.into()]));
    words.push("--".into());
    words
}

fn inject(call: &str, fault: &Injected, nth: Option<u32>) -> String {
    let when = nth.map_or_else(String::new, |nth| format!(":when={nth}"));
    match fault {
        Injected::Error(error) => format!("inject={call}:error={error}{when}"),
        Injected::Kill => format!("inject={call}:signal=KILL{when}"),
    }
}

/// A fault that lasts: strace, attached to a running process until it is dropped.
#[derive(Debug)]
pub struct Attached(Child);

impl Attached {
    /// Lets each such call of a process fail from now on.
    ///
    /// # Errors
    /// A sentence, if strace cannot be started or attached.
    pub fn to(daemon: &Daemon, log: &Path, call: &str, error: &'static str) -> Result<Attached, String> {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o"]).arg(log).args(["-e", &format!("trace={call}")]);
        command.args(["-e", &inject(call, &Injected::Error(error), None)]);
        command.args(["-p", &daemon.id().to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut attached = Attached(command.spawn().map_err(|error| format!("strace: {error}"))?);
        let start = Instant::now();
        let traced = |task: &Path| {
            // A thread that has just ended is as good as traced.
            fs::read_to_string(task.join("status")).map_or(true, |text| !text.contains("TracerPid:\t0\n"))
        };
        while !daemon.tasks().iter().all(|task| traced(task)) {
            if attached.0.try_wait().is_ok_and(|ended| ended.is_some()) || start.elapsed().as_secs() > 20 {
                return Err("strace does not attach to the service".to_owned());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(attached)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // At this signal strace lets go of the process.
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::INT);
        }
        let _ = self.0.wait();
    }
}

/// What the kernel says of a process, as long as it is not reaped.
struct Traced {
    tracer: Option<Pid>,
    has_ended: bool,
}

impl Traced {
    fn of(daemon: &Daemon) -> Traced {
        let status = fs::read_to_string(format!("/proc/{}/status", daemon.id())).unwrap_or_default();
        Traced::parse(&status)
    }

    fn parse(status: &str) -> Traced {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let tracer = field("TracerPid:").and_then(|number| Pid::from_raw(number.parse().ok()?));
        Traced { tracer, has_ended: field("State:").is_some_and(|state| state.starts_with('Z')) }
    }
}

/// Ends the tracing of a process that was started under strace: the fault is over. strace counts by
/// thread, and the thread of each new connection would meet the fault again. (With `--seccomp-bpf`
/// the calls would fail for ever from then on.)
pub fn detach(daemon: &Daemon) {
    let start = Instant::now();
    while start.elapsed().as_secs() < 20 {
        let Traced { tracer: Some(tracer), has_ended } = Traced::of(daemon) else { return };
        if has_ended {
            return end_tracer(daemon);
        }
        // At this signal strace lets go of the process.
        let _ = kill_process(tracer, Signal::INT);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Kills the tracer of a process that has ended. While strace lets go, it waits for the first
/// thread alone, and the kernel reports the end of that thread after those of all others: when the
/// process ends meanwhile, strace hangs, and nothing reaps the process.
pub fn end_tracer(daemon: &Daemon) {
    if let Traced { tracer: Some(tracer), has_ended: true } = Traced::of(daemon) {
        let _ = kill_process(tracer, Signal::KILL);
    }
}

/// Whether the fault was injected, by strace's log.
pub fn reached(log: &Path) -> bool {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.contains("(INJECTED)") || text.contains("+++ killed by SIGKILL")
}

/// The calls in a log.
pub fn calls(log: &str) -> Calls {
    let mut threads: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for line in log.lines() {
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        let name = rest.trim_start().split('(').next().unwrap_or_default();
        let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        // The second half of a call is a line of its own, which begins with `<...`.
        if is_name && rest.contains('(') {
            *threads.entry((thread, name)).or_default() += 1;
        }
    }
    let mut calls = Calls::new();
    for ((_, name), count) in threads {
        let most = calls.entry(name.to_owned()).or_default();
        *most = count.max(*most);
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_the_thread_that_makes_the_most() {
        let log = "\
7 pwrite64(5, \"a(b\", 3, 0) = 3
7 pwrite64(5, \"\", 0, 0 <unfinished ...>
8   fdatasync(5)            = 0
8   pwrite64(5, \"\", 0, 0)   = -1 EIO (Input/output error) (INJECTED)
7 <... pwrite64 resumed>)   = 0
8 --- SIGINT {si_signo=SIGINT} ---
7 +++ exited with 0 +++
";
        assert_eq!(calls(log), Calls::from([("fdatasync".into(), 1), ("pwrite64".into(), 2)]));
        assert_eq!(calls("garbage\n\n7\n"), Calls::new());
    }

    #[test]
    fn the_tracer_of_a_process_that_ended_is_known() {
        let ended = Traced::parse("Name:\tisorb\nState:\tZ (zombie)\nTracerPid:\t25580\nUid:\t0\n");
        assert_eq!((ended.tracer, ended.has_ended), (Pid::from_raw(25_580), true));
        let runs = Traced::parse("State:\tS (sleeping)\nTracerPid:\t0\n");
        assert_eq!((runs.tracer, runs.has_ended), (None, false));
        let gone = Traced::parse("");
        assert_eq!((gone.tracer, gone.has_ended), (None, false));
    }

    #[test]
    fn a_fault_is_told_as_strace_reads_it() {
        let error = Injected::Error("ENOSPC");
        assert_eq!(inject("write", &error, Some(3)), "inject=write:error=ENOSPC:when=3");
        assert_eq!(inject("write", &error, None), "inject=write:error=ENOSPC");
        assert_eq!(inject("write", &Injected::Kill, Some(1)), "inject=write:signal=KILL:when=1");
    }
}

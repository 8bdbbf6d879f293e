//! Child processes that cannot outlive a run.
//!
//! A subject's client and server may run at real-time priority, where an endless loop takes a
//! processor away from all other programs. So each of them
//! - is started by [`become_program`], which sets a limit on processor time without a system call
//!   that blocks, and has the kernel kill it when its parent dies, before it gives it any priority;
//! - ends when its standard input does;
//! - is killed, by its process id, when [`Peer`] is dropped, and when an answer does not come in
//!   time.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use isorb_rt::sched::{Cpus, SchedClass, set_current_cpus};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getppid, getrlimit, kill_process, set_parent_process_death_signal,
    setrlimit,
};

/// The first argument with which the own binary becomes a peer instead of a harness.
pub const PEER: &str = "bench-peer";

/// Which part of a subject a process is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Calls, and measures.
    Client,
    /// Answers.
    Server,
}

/// A process of a subject that did not do what it should.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerError {
    /// The subject.
    pub subject: &'static str,
    /// Its part.
    pub side: Side,
    /// What went wrong.
    pub fault: Fault,
}

/// What a peer did wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It could not be started.
    Start(ErrorKind),
    /// It ended, or closed its output, before it was told to.
    Ended,
    /// It did not answer within so many seconds.
    Silent(u64),
    /// It answered something that the protocol does not have.
    Garbled,
}

/// Where a process runs: the processor, and the class if real-time scheduling was granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scheduling {
    /// The processor; `None` leaves that to the kernel.
    pub cpu: Option<usize>,
    /// The native priority in `SCHED_FIFO`; `None` is an ordinary process.
    pub fifo: Option<u8>,
}

impl Scheduling {
    /// Anywhere, without priority.
    pub const ANY: Scheduling = Scheduling { cpu: None, fifo: None };
}

/// How the own binary is started again, as a peer.
#[derive(Clone, Debug)]
pub struct Launcher {
    exe: PathBuf,
}

impl Launcher {
    /// With the binary that is running.
    pub fn current() -> io::Result<Launcher> {
        Ok(Launcher { exe: std::env::current_exe()? })
    }

    /// The words that make the own binary the peer `what`.
    pub fn peer(&self, what: &[&str]) -> Vec<OsString> {
        let mut words = vec![self.exe.clone().into_os_string(), PEER.into()];
        words.extend(what.iter().map(OsString::from));
        words
    }

    /// The words that start `program` through [`become_program`].
    fn placed(&self, place: Scheduling, program: &[OsString]) -> Vec<OsString> {
        let mut words = self.peer(&["start", "--parent"]);
        words.push(std::process::id().to_string().into());
        let mut option = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                words.extend([name.into(), value.into()]);
            }
        };
        option("--cpu", place.cpu.map(|cpu| cpu.to_string()));
        option("--fifo", place.fifo.map(|priority| priority.to_string()));
        words.push("--".into());
        words.extend_from_slice(program);
        words
    }
}

/// Puts the calling process in its place and becomes `program`; returns only if that fails.
pub fn become_program(parent: u32, place: Scheduling, program: &[OsString]) -> io::Error {
    match prepare(parent, place) {
        Ok(()) => match program {
            [name, arguments @ ..] => Command::new(name).args(arguments).exec(),
            [] => io::Error::from(ErrorKind::InvalidInput),
        },
        Err(e) => e,
    }
}

fn prepare(parent: u32, place: Scheduling) -> io::Result<()> {
    die_with(parent)?;
    if let Some(cpu) = place.cpu {
        set_current_cpus(&Cpus::one(cpu)).map_err(io::Error::other)?;
    }
    if let Some(priority) = place.fifo {
        limit_spinning()?;
        SchedClass::Fifo(priority).set_current().map_err(io::Error::other)?;
    }
    Ok(())
}

/// The kernel ends the process if a real-time thread runs for two seconds without once blocking: a
/// bug must not take the machine away.
pub fn limit_spinning() -> io::Result<()> {
    const MICROSECONDS: u64 = 2_000_000;
    let hard = getrlimit(Resource::Rttime).maximum.unwrap_or(u64::MAX).min(MICROSECONDS);
    Ok(setrlimit(Resource::Rttime, Rlimit { current: Some(hard), maximum: Some(hard) })?)
}

fn die_with(parent: u32) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have died before the line above.
    match getppid() {
        Some(now) if now.as_raw_nonzero().get() as u32 == parent => Ok(()),
        _ => Err(io::Error::from(ErrorKind::BrokenPipe)),
    }
}

/// A running process of a subject, spoken to in lines over its standard input and output.
#[derive(Debug)]
pub struct Peer {
    subject: &'static str,
    side: Side,
    child: Child,
    // Taken when the process is told to end.
    input: Option<ChildStdin>,
    output: ChildStdout,
    // Read and not yet used.
    pending: Vec<u8>,
}

impl Peer {
    /// Starts `program` at `place`. What it writes to standard error appears on ours.
    pub fn start(
        launcher: &Launcher,
        subject: &'static str,
        side: Side,
        place: Scheduling,
        program: &[OsString],
    ) -> Result<Peer, PeerError> {
        let error = |kind| PeerError { subject, side, fault: Fault::Start(kind) };
        let words = launcher.placed(place, program);
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| error(e.kind()))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(error(ErrorKind::BrokenPipe));
        };
        Ok(Peer { subject, side, child, input: Some(input), output, pending: Vec::new() })
    }

    /// Starts a program as [`start`](Self::start) and waits until it is ready; what it says then.
    pub fn start_ready(
        launcher: &Launcher,
        subject: &'static str,
        side: Side,
        scheduling: Scheduling,
        program: &[OsString],
        within: Duration,
    ) -> Result<(Peer, String), PeerError> {
        let mut peer = Peer::start(launcher, subject, side, scheduling, program)?;
        let address = peer.expect("ready", within)?;
        Ok((peer, address))
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its resident memory in KiB, as the kernel counts it.
    pub fn resident_kib(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    }

    /// How many of its threads do not run where and as `place` says, of how many. A program may
    /// change its threads; figures of one that does are not comparable.
    pub fn misplaced_threads(&self, place: Scheduling) -> (usize, usize) {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.id()));
        let files = tasks.into_iter().flatten().flatten().map(|task| task.path());
        // A thread that has just ended has no files any more, and is no stray.
        let threads = files.filter_map(|path| {
            let stat = std::fs::read_to_string(path.join("stat")).ok()?;
            Some(is_placed(&stat, &std::fs::read_to_string(path.join("status")).ok()?, place))
        });
        threads.fold((0, 0), |(misplaced_threads, all), placed| {
            (misplaced_threads + usize::from(!placed), all + 1)
        })
    }

    /// Sends a line.
    pub fn send(&mut self, line: &str) -> Result<(), PeerError> {
        let error = self.error(Fault::Ended);
        let input = self.input.as_mut().ok_or(error)?;
        writeln!(input, "{line}").and_then(|()| input.flush()).map_err(|_| error)
    }

    /// The next line without its end, which must begin with `word`; what follows the word is
    /// returned.
    pub fn expect(&mut self, word: &str, within: Duration) -> Result<String, PeerError> {
        let until = Instant::now() + within;
        let end = loop {
            if let Some(end) = self.pending.iter().position(|&b| b == b'\n') {
                break end;
            }
            self.read_more(until, within)?;
        };
        let line: Vec<u8> = self.pending.drain(..=end).collect();
        let line = String::from_utf8(line).map_err(|_| self.error(Fault::Garbled))?;
        match line.trim_end().strip_prefix(word) {
            Some(rest) if rest.is_empty() || rest.starts_with(' ') => Ok(rest.trim_start().to_owned()),
            _ => Err(self.error(Fault::Garbled)),
        }
    }

    /// The next `count` numbers, eight octets each in the order of the machine.
    pub fn numbers(&mut self, count: usize, within: Duration) -> Result<Vec<u64>, PeerError> {
        let until = Instant::now() + within;
        while self.pending.len() < count * 8 {
            self.read_more(until, within)?;
        }
        let bytes: Vec<u8> = self.pending.drain(..count * 8).collect();
        let (chunks, _) = bytes.as_chunks::<8>();
        Ok(chunks.iter().map(|&chunk| u64::from_ne_bytes(chunk)).collect())
    }

    /// The answer `samples N` and its N numbers, at most so many.
    pub fn samples(&mut self, most: usize, within: Duration) -> Result<Vec<u64>, PeerError> {
        match self.expect("samples", within)?.parse() {
            Ok(count) if count <= most => self.numbers(count, within),
            _ => Err(self.error(Fault::Garbled)),
        }
    }

    /// Stops it where it is, so that its clocks and wake-ups do not disturb the others, until
    /// [`resume`](Self::resume).
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Closes its input and waits for its end; kills it if that takes longer than `within`.
    pub fn end(mut self, within: Duration) -> Result<(), PeerError> {
        self.resume();
        drop(self.input.take());
        match self.wait(within) {
            Some(status) if status.success() => Ok(()),
            Some(_) => Err(self.error(Fault::Ended)),
            None => Err(self.error(Fault::Silent(within.as_secs()))),
        }
    }

    /// An error of this process.
    pub fn error(&self, fault: Fault) -> PeerError {
        PeerError { subject: self.subject, side: self.side, fault }
    }

    fn wait(&mut self, within: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + within;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(2)),
                Ok(None) | Err(_) => return None,
            }
        }
    }

    fn read_more(&mut self, until: Instant, within: Duration) -> Result<(), PeerError> {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos().into() };
        let mut fds = [PollFd::new(&self.output, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) => return Err(self.error(Fault::Silent(within.as_secs()))),
            Err(Errno::INTR) => return Ok(()),
            Ok(_) | Err(_) => {}
        }
        let mut chunk = [0; 16 * 1024];
        match self.output.read(&mut chunk) {
            Ok(0) => Err(self.error(Fault::Ended)),
            Ok(n) => {
                self.pending.extend_from_slice(&chunk[..n]);
                Ok(())
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => Ok(()),
            Err(_) => Err(self.error(Fault::Ended)),
        }
    }

    fn signal(&self, signal: Signal) {
        // Not waited for yet, so the id is still this process's. That it has ended shows at the
        // next exchange.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }
}

/// Of proc(5): fields 40 and 41 of `stat` are the native priority and the class, `status` has the
/// processors.
fn is_placed(stat: &str, status: &str, place: Scheduling) -> bool {
    // The name in parentheses, field 2, may contain anything.
    let Some((_, rest)) = stat.rsplit_once(") ") else { return false };
    let field = |n: usize| rest.split(' ').nth(n - 3).and_then(|word| word.parse::<u32>().ok());
    let class = match (field(41), field(40)) {
        (Some(SCHED_FIFO), Some(priority)) => Some(priority),
        _ => None,
    };
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(str::trim);
    class == place.fifo.map(u32::from)
        && place.cpu.is_none_or(|cpu| cpus.is_some_and(|list| list == cpu.to_string()))
}

/// The kernel's number of the class.
const SCHED_FIFO: u32 = 1;

impl Drop for Peer {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // Works on a stopped process as well.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Client => "client",
            Side::Server => "server",
        })
    }
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} of {} ", self.side, self.subject)?;
        match self.fault {
            Fault::Start(kind) => write!(f, "could not be started: {kind}"),
            Fault::Ended => f.write_str("ended before it was told to"),
            Fault::Silent(seconds) => write!(f, "did not answer within {seconds} s"),
            Fault::Garbled => f.write_str("answered something else than it was asked"),
        }
    }
}

impl std::error::Error for PeerError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_placed_if_class_priority_and_processor_are() {
        let stat = |priority, class| {
            let zeros = vec!["0"; 36].join(" ");
            format!("7 (a) name) S {zeros} {priority} {class} 0 0")
        };
        let status = "Name:\ta\nCpus_allowed:\t2\nCpus_allowed_list:\t1\n";
        let place = Scheduling { cpu: Some(1), fifo: Some(40) };
        assert!(is_placed(&stat(40, 1), status, place));
        assert!(!is_placed(&stat(41, 1), status, place));
        assert!(!is_placed(&stat(40, 2), status, place), "SCHED_RR");
        assert!(!is_placed(&stat(40, 1), status, Scheduling { cpu: Some(0), ..place }));
        assert!(!is_placed(&stat(0, 0), status, place));
        assert!(is_placed(&stat(0, 0), status, Scheduling::ANY));
        assert!(!is_placed("", status, place));
    }
}

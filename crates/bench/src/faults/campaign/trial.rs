//! One fault at one service, and what must hold then.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use isorb::Orb;

use super::plan::{Fault, Made, Serves};
use super::random::{Random, Rounds};
use crate::faults::daemon::{Daemon, NotReady};
use crate::faults::limits::{Limit, Limited};
use crate::faults::strace::{self, Attached, Calls, Injected};
use crate::faults::subjects::{Client, Room, Subject, client_orb};
use crate::process::Launcher;

/// A service that has not recovered then does not. Long, because many trials share the machine.
const RECOVERY: Duration = Duration::from_secs(40);
/// Reads that go on succeed at once, or when the client has a new connection.
const READS: u32 = 3;
/// Writes of the scenario: in front of a lasting fault, and in all.
const BEFORE: u32 = 2;
const WRITES: u32 = 4;
/// Writes that a service under load has to keep at a time.
const HELD: usize = 24;
/// The write of a client that was not there before.
const NEWCOMER: u32 = 100;
/// The exit code of a program that could not be loaded.
const LOADER: i32 = 127;
/// The sentence of Rust's library when a new thread gets no memory for its signal stack, before
/// anything of the program runs in that thread. The library then ends the process.
const NO_SIGNAL_STACK: &str = "failed to allocate an alternative stack";
/// Its sentence when an allocation that cannot be refused gets no memory. Only a process that gets
/// none at all may end so.
const NO_ALLOCATION: &str = "memory allocation of ";
/// The part of the rest that an idle process may compute.
const IDLE: u32 = 20;

/// What trials share.
#[derive(Clone, Debug)]
pub struct Setting {
    pub launcher: Launcher,
    pub isorb: PathBuf,
    /// How long the processor time of an idle service is measured.
    pub rest: Duration,
}

/// What became of a trial.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The service did not make the call as often.
    NotReached,
    /// All promises held.
    Held,
    /// The first promise that did not, with the end of the log.
    Broken(String),
}

/// The calls that the service makes in the scenario without a fault.
///
/// # Errors
/// A sentence, if the scenario does not succeed.
pub fn calls(setting: &Setting, subject: Subject, number: u32) -> Result<Calls, String> {
    let folder = tempfile::tempdir().map_err(text)?;
    let room = Room::new(folder.path(), number);
    let log = folder.path().join("strace");
    let mut trial = Trial::new(setting, subject, &room)?;
    let listing = strace::listing(&log, &super::plan::listed());
    let mut daemon = trial.start(&listing).map_err(|failed| format!("it does not start: {}", failed.log))?;
    trial.connect(&daemon)?;
    (0..WRITES).try_for_each(|number| trial.write(&mut daemon, number))?;
    trial.newcomer(&mut daemon, Duration::ZERO)?;
    drop(daemon);
    std::fs::read_to_string(&log).map(|log| strace::calls(&log)).map_err(text)
}

/// Whether Rust's library has ended the process with one of these sentences. The next process must
/// have all that was acknowledged, as after any other end.
fn ended_by_library(daemon: &mut Daemon, sentences: &[&str]) -> bool {
    let start = Instant::now();
    loop {
        let says_so = sentences.iter().any(|sentence| daemon.log().contains(sentence));
        let patience = match (daemon.ended().is_some(), says_so) {
            (ended, says_so) if ended == says_so => return ended,
            // Its last words may still be on their way.
            (true, _) => Duration::from_secs(1),
            // It writes a backtrace behind them, which takes long on a busy machine.
            (false, _) => RECOVERY,
        };
        if start.elapsed() > patience {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Tries a fault.
pub fn run(setting: &Setting, subject: Subject, fault: &Fault, number: u32) -> Outcome {
    let tried = || -> Result<bool, String> {
        let folder = tempfile::tempdir().map_err(text)?;
        let room = Room::new(folder.path(), number);
        let log = folder.path().join("strace");
        let mut trial = Trial::new(setting, subject, &room)?;
        let words = |injected, nth| strace::injecting(&log, fault.call, injected, nth);
        match fault.made {
            Made::Once(error, nth) => trial.once(&words(&Injected::Error(error), nth))?,
            Made::Lasts(error) => {
                let begin = |daemon: &_| Attached::to(daemon, &log, fault.call, error);
                trial.lasting(fault.serves, &[NO_SIGNAL_STACK], begin)?;
            }
            Made::Killed(nth) => trial.killed(&words(&Injected::Kill, nth))?,
            Made::Limited(limit) => {
                let may_end: &[&str] = match limit {
                    Limit::Memory => &[NO_SIGNAL_STACK, NO_ALLOCATION],
                    Limit::Descriptors | Limit::FileSize => &[],
                };
                trial.lasting(fault.serves, may_end, |daemon| Limited::to(daemon, limit))?;
            }
        }
        trial.restart()?;
        Ok(matches!(fault.made, Made::Limited(_)) || strace::reached(&log))
    };
    match tried() {
        Ok(true) => Outcome::Held,
        Ok(false) => Outcome::NotReached,
        Err(broken) => Outcome::Broken(broken),
    }
}

/// Kills a service at a random moment of each round, and starts it again.
pub fn rounds(
    setting: &Setting,
    subject: Subject,
    number: u32,
    rounds: u32,
    random: &mut Random,
    held: &dyn Fn(),
) -> Rounds {
    let mut result = Rounds::default();
    let mut run = || -> Result<(), String> {
        let folder = tempfile::tempdir().map_err(text)?;
        let room = Room::new(folder.path(), number);
        let mut trial = Trial::new(setting, subject, &room)?;
        let mut next = 0;
        let mut daemon = trial.back()?;
        for _ in 0..rounds {
            trial.load(&daemon, random.moment(), &mut next, &mut result);
            if let Some(status) = daemon.ended().filter(|status| status.code().is_some()) {
                return Err(format!("the service ended: {status}{}", tail(&daemon.log())));
            }
            trial.log_says_it(&daemon.log(), false)?;
            drop(daemon);
            if !subject.keeps_writes() {
                trial.acknowledged.clear();
                trial.client = None;
            }
            daemon = trial.back()?;
            result.read += trial.acknowledged.len() as u64;
            result.held += 1;
            held();
        }
        Ok(())
    };
    let broken = run().err();
    Rounds { broken, ..result }
}

struct Trial<'t> {
    setting: &'t Setting,
    subject: Subject,
    room: &'t Room,
    orb: Orb,
    client: Option<Box<dyn Client>>,
    /// The writes that were acknowledged.
    acknowledged: Vec<u32>,
    /// Whether a request was refused.
    refused: bool,
}

impl<'t> Trial<'t> {
    fn new(setting: &'t Setting, subject: Subject, room: &'t Room) -> Result<Trial<'t>, String> {
        let orb = client_orb().map_err(text)?;
        Ok(Trial { setting, subject, room, orb, client: None, acknowledged: Vec::new(), refused: false })
    }

    fn start(&self, in_front: &[OsString]) -> Result<Daemon, NotReady> {
        let mut words = in_front.to_vec();
        words.push(self.setting.isorb.clone().into());
        words.extend(self.subject.arguments(self.room).into_iter().map(OsString::from));
        Daemon::start(&self.setting.launcher, &words)
    }

    /// Connects a client, unless there is one that outlived an earlier process.
    fn connect(&mut self, daemon: &Daemon) -> Result<(), String> {
        if self.client.is_none() {
            self.client = Some(self.subject.connect(&self.orb, &daemon.url)?);
        }
        Ok(())
    }

    fn client(&mut self) -> Result<&mut Box<dyn Client>, String> {
        self.client.as_mut().ok_or_else(|| "there is no client".to_owned())
    }

    /// Makes a write once.
    fn write(&mut self, daemon: &mut Daemon, number: u32) -> Result<(), String> {
        let written = self.client()?.write(number);
        match &written {
            Ok(()) => self.acknowledged.push(number),
            Err(_) => self.refused = true,
        }
        if let Some(status) = daemon.ended() {
            return Err(format!("the service ended: {status}{}", tail(&daemon.log())));
        }
        written
    }

    /// Makes a write until it succeeds: the service recovers by itself.
    fn write_until(&mut self, daemon: &mut Daemon, number: u32) -> Result<(), String> {
        let start = Instant::now();
        loop {
            match self.write(daemon, number) {
                Err(error) if start.elapsed() > RECOVERY || daemon.ended().is_some() => {
                    return Err(format!(
                        "write {number} does not succeed again: {error}{}",
                        tail(&daemon.log())
                    ));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
                Ok(()) => return Ok(()),
            }
        }
    }

    /// Reads all that was acknowledged.
    fn read(&mut self, daemon: &Daemon, what: &str) -> Result<(), String> {
        for number in self.acknowledged.clone() {
            let mut attempt = 1;
            loop {
                match self.client()?.read(number) {
                    Ok(true) => break,
                    Ok(false) => {
                        return Err(format!(
                            "{what}: write {number}, which was acknowledged, is lost{}",
                            tail(&daemon.log())
                        ));
                    }
                    Err(error) if attempt == READS => {
                        return Err(format!(
                            "{what}: write {number} cannot be read: {error}{}",
                            tail(&daemon.log())
                        ));
                    }
                    Err(_) => self.refused = true,
                }
                attempt += 1;
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// A client that was not there before, which tries until the limit. It stays the same client:
    /// strace counts by thread, so that each connection's thread would meet the fault again.
    fn newcomer(&mut self, daemon: &mut Daemon, limit: Duration) -> Result<(), String> {
        let orb = client_orb().map_err(text)?;
        let (start, mut client) = (Instant::now(), None);
        let mut attempt = || -> Result<bool, String> {
            let client = match &mut client {
                Some(client) => client,
                none => none.insert(self.subject.connect(&orb, &daemon.url)?),
            };
            client.write(NEWCOMER)?;
            client.read(NEWCOMER)
        };
        let served = loop {
            match attempt() {
                Ok(true) => break Ok(()),
                Ok(false) => break Err("a newcomer's write is lost".to_owned()),
                Err(error) if start.elapsed() > limit => {
                    break Err(format!("a newcomer is not served: {error}"));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        };
        drop(client);
        let _ = orb.shutdown(false);
        served.map_err(|why| why + &tail(&daemon.log()))
    }

    /// A thread that spins computes all the time, however busy the machine is.
    fn rests(&self, daemon: &Daemon) -> Result<(), String> {
        let rest = self.setting.rest;
        let measure = || {
            let before = daemon.processor_time();
            std::thread::sleep(rest);
            daemon.processor_time().saturating_sub(before)
        };
        // What it still had to do is over in the second round.
        let computed = measure();
        if computed <= rest / IDLE {
            return Ok(());
        }
        let again = measure();
        match again <= rest / IDLE {
            true => Ok(()),
            false => Err(format!("a thread spins: {again:?} of {rest:?} at rest{}", tail(&daemon.log()))),
        }
    }

    /// What was refused, and why the service ended, stands in the log; a panic is never the reason.
    fn log_says_it(&self, log: &str, must: bool) -> Result<(), String> {
        if log.contains("panicked") {
            return Err(format!("it panics{}", tail(log)));
        }
        if must && log.trim().is_empty() {
            return Err("its log says nothing of the fault".to_owned());
        }
        Ok(())
    }

    /// One call fails. A service that cannot start says why, and starts the next time.
    fn once(&mut self, in_front: &[OsString]) -> Result<(), String> {
        let mut daemon = match self.start(in_front) {
            Ok(daemon) => daemon,
            Err(failed) if failed.status.is_none() => return Err(failed.log),
            // The loader has no memory for the program: nothing of it has run.
            Err(failed) if failed.status.and_then(|of| of.code()) == Some(LOADER) => return Ok(()),
            Err(failed) => return self.log_says_it(&failed.log, true),
        };
        let held = self.recovers(&mut daemon);
        if held.is_err() && ended_by_library(&mut daemon, &[NO_SIGNAL_STACK]) {
            return Ok(());
        }
        held
    }

    /// A service of which a call fails ends before it served anyone, with the reason in its log, or
    /// serves all.
    fn recovers(&mut self, daemon: &mut Daemon) -> Result<(), String> {
        let start = Instant::now();
        while let Err(error) = self.connect(daemon).and_then(|()| self.write(daemon, 0)) {
            // As one that is never ready.
            if daemon.ended().is_some_and(|status| status.code().is_some()) {
                return self.log_says_it(&daemon.log(), true);
            }
            if daemon.ended().is_some() || start.elapsed() > RECOVERY {
                return Err(format!("no client is served: {error}{}", tail(&daemon.log())));
            }
            strace::detach(daemon);
            std::thread::sleep(Duration::from_millis(50));
        }
        for number in 1..WRITES {
            if self.write(daemon, number).is_err() {
                strace::detach(daemon);
                self.write_until(daemon, number)?;
            }
            self.read(daemon, "after the fault")?;
        }
        if self.newcomer(daemon, Duration::ZERO).is_err() {
            strace::detach(daemon);
            self.newcomer(daemon, RECOVERY)?;
        }
        self.rests(daemon)?;
        self.log_says_it(&daemon.log(), false)
    }

    /// A fault that lasts until what `begin` returns is dropped. Rust's library may end the process
    /// with one of the sentences `may_end`, at any moment of it.
    fn lasting<F>(
        &mut self,
        serves: Serves,
        may_end: &[&str],
        begin: impl FnOnce(&Daemon) -> Result<F, String>,
    ) -> Result<(), String> {
        let mut daemon = self.start(&[]).map_err(|failed| format!("it does not start: {}", failed.log))?;
        self.connect(&daemon)?;
        (0..BEFORE).try_for_each(|number| self.write(&mut daemon, number))?;
        let fault = begin(&daemon)?;
        let held = self.during(&mut daemon, serves).and_then(|()| {
            drop(fault);
            self.after(&mut daemon, serves)
        });
        if held.is_err() && ended_by_library(&mut daemon, may_end) {
            return Ok(());
        }
        held
    }

    /// What holds while a fault lasts.
    fn during(&mut self, daemon: &mut Daemon, serves: Serves) -> Result<(), String> {
        for number in BEFORE..WRITES {
            // It may be refused.
            let _ = self.write(daemon, number);
            if serves == Serves::Store {
                self.read(daemon, "during the fault")?;
            }
        }
        // It may be turned away.
        self.refused |= self.newcomer(daemon, Duration::ZERO).is_err();
        self.rests(daemon)?;
        match daemon.ended() {
            Some(status) => Err(format!("the service ended: {status}{}", tail(&daemon.log()))),
            None => Ok(()),
        }
    }

    /// What holds once it is over.
    fn after(&mut self, daemon: &mut Daemon, serves: Serves) -> Result<(), String> {
        for number in BEFORE..WRITES {
            self.write_until(daemon, number)?;
        }
        self.read(daemon, "after the fault")?;
        self.newcomer(daemon, RECOVERY)?;
        self.rests(daemon)?;
        self.log_says_it(&daemon.log(), self.refused && serves == Serves::Store)
    }

    /// The process is killed at a call.
    fn killed(&mut self, in_front: &[OsString]) -> Result<(), String> {
        let Ok(mut daemon) = self.start(in_front) else { return Ok(()) };
        if self.connect(&daemon).is_err() {
            return Ok(());
        }
        for number in 0..WRITES {
            if self.write(&mut daemon, number).is_err() {
                break;
            }
        }
        self.log_says_it(&daemon.log(), false)
    }

    /// Writes, and takes the oldest writes back, until the process is killed at this moment.
    fn load(&mut self, daemon: &Daemon, moment: Duration, next: &mut u32, result: &mut Rounds) {
        // A library that waits for the next server shall not begin to.
        let killed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(moment);
                killed.store(true, Ordering::Relaxed);
                daemon.kill();
            });
            let mut step = || -> Result<(), String> {
                if self.acknowledged.len() >= HELD {
                    // Whether it is there is not known when the answer is lost.
                    let oldest = self.acknowledged.remove(0);
                    self.client()?.remove(oldest)?;
                    result.removed += 1;
                }
                *next += 1;
                self.client()?.write(*next)?;
                self.acknowledged.push(*next);
                result.acknowledged += 1;
                Ok(())
            };
            loop {
                if killed.load(Ordering::Relaxed) || step().is_err() {
                    break;
                }
            }
        });
    }

    /// A process that follows has all that was acknowledged, and serves.
    fn restart(&mut self) -> Result<(), String> {
        let mut daemon = self.back()?;
        self.write_until(&mut daemon, WRITES)
    }

    /// A process that follows has all that was acknowledged.
    fn back(&mut self) -> Result<Daemon, String> {
        let daemon =
            self.start(&[]).map_err(|failed| format!("it does not start after the fault: {}", failed.log))?;
        let start = Instant::now();
        let back = loop {
            match self.connect(&daemon) {
                Err(error) if start.elapsed() > RECOVERY => break Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
                Ok(()) => break Ok(()),
            }
        };
        back.map_err(|error| format!("no client can connect after a restart: {error}"))?;
        if self.subject.keeps_writes() {
            // A session needs a while to find the new process.
            while let Err(error) = self.read(&daemon, "after a restart") {
                if start.elapsed() > RECOVERY || error.contains("is lost") && !self.is_handed_back() {
                    return Err(error);
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        Ok(daemon)
    }

    /// The areas of a node's server come back from their writers, after it is ready.
    fn is_handed_back(&self) -> bool {
        self.subject == Subject::MemoryServer
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        self.client = None;
        let _ = self.orb.shutdown(false);
    }
}

/// The last lines of a log.
fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().rev().take(4).collect();
    if lines.is_empty() {
        return "; its log is empty".to_owned();
    }
    format!("; its log ends: {}", lines.into_iter().rev().collect::<Vec<_>>().join(" / "))
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

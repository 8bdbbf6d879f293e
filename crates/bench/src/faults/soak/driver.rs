//! A process of a service, and a thread that makes and breaks connections to it, writes, reads and
//! kills.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Run;
use crate::faults::daemon::{Daemon, Usage};
use crate::faults::subjects::{Client, Room, Subject, client_orb};

/// Writes that stay for the whole run.
const KEPT: u32 = 8;
/// Numbers of the writes that are taken back.
const PASSING: u32 = 32;
/// Rounds after which a service that loses its oldest writes gets those again that stay, long
/// before it is full.
const WRITTEN_AGAIN: u32 = 1_000;
/// Between two rounds.
const PAUSE: Duration = Duration::from_millis(100);
/// A service that acknowledges nothing for so long does not recover, unless its disk is full.
const RECOVERY: Duration = Duration::from_secs(40);

/// What happens to the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// It runs to the end, and its disk is filled.
    Steady,
    /// It is killed again and again.
    Killed,
}

/// What became of it.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The service.
    pub subject: Option<Subject>,
    /// Clients that came and went.
    pub clients: u64,
    /// Writes that were acknowledged.
    pub acknowledged: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Kills.
    pub kills: u64,
    /// The promises that did not hold.
    pub broken: Vec<String>,
}

/// The process and its thread.
#[derive(Debug)]
pub struct Driver {
    subject: Subject,
    life: Life,
    daemon: Arc<Mutex<Option<Daemon>>>,
    acknowledged: Arc<AtomicU64>,
    thread: JoinHandle<Report>,
}

impl Driver {
    /// Starts both.
    ///
    /// # Errors
    /// The service does not start.
    pub fn start(
        run: &Arc<Run>,
        subject: Subject,
        life: Life,
        folder: &Path,
        room: u32,
    ) -> Result<Driver, String> {
        let (daemon, acknowledged) = (Arc::new(Mutex::new(None)), Arc::new(AtomicU64::new(0)));
        let mut driven = Driven {
            run: Arc::clone(run),
            subject,
            room: Room::new(folder, room),
            daemon: Arc::clone(&daemon),
            kept: None,
            held: Vec::new(),
            last: Instant::now(),
            count: Arc::clone(&acknowledged),
            report: Report { subject: Some(subject), ..Report::default() },
        };
        if life == Life::Steady {
            // A child ends with the thread that started it, and this one is sampled to the end.
            driven.boot()?;
        }
        let thread = std::thread::spawn(move || driven.drive(life));
        Ok(Driver { subject, life, daemon, acknowledged, thread })
    }

    /// What the steady process has of the machine.
    pub fn usage(&self) -> Option<(Subject, Usage)> {
        let usage = lock(&self.daemon).as_ref()?.usage()?;
        (self.life == Life::Steady).then_some((self.subject, usage))
    }

    /// Writes acknowledged so far.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Waits for the thread, which sees that the run ends, and ends the process.
    pub fn finish(self) -> Report {
        let panicked = || Report {
            subject: Some(self.subject),
            broken: vec![format!("{}: its driver panicked", self.subject)],
            ..Report::default()
        };
        self.thread.join().unwrap_or_else(|_| panicked())
    }
}

fn lock(daemon: &Mutex<Option<Daemon>>) -> MutexGuard<'_, Option<Daemon>> {
    daemon.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Driven {
    run: Arc<Run>,
    subject: Subject,
    room: Room,
    daemon: Arc<Mutex<Option<Daemon>>>,
    /// The client that stays, and its writes that were acknowledged.
    kept: Option<(isorb::Orb, Box<dyn Client>)>,
    held: Vec<u32>,
    /// When a write was acknowledged last.
    last: Instant,
    count: Arc<AtomicU64>,
    report: Report,
}

impl Driven {
    fn boot(&mut self) -> Result<(), String> {
        let mut words: Vec<OsString> = vec![self.run.isorb.clone().into()];
        words.extend(self.subject.arguments(&self.room).into_iter().map(OsString::from));
        let started = Daemon::start(&self.run.launcher, &words);
        let daemon = started.map_err(|failed| format!("it does not start: {}", failed.log))?;
        *lock(&self.daemon) = Some(daemon);
        Ok(())
    }

    fn drive(mut self, life: Life) -> Report {
        if life == Life::Killed
            && let Err(why) = self.boot()
        {
            self.broken(&why);
            return self.report;
        }
        let (mut round, mut killed) = (0, Instant::now());
        while !self.run.ends.load(Ordering::Relaxed) && self.report.broken.len() < 5 {
            let passing = self.passing(round);
            self.attempt(passing);
            let kept = self.kept(round);
            self.attempt(kept);
            if life == Life::Killed && killed.elapsed() > self.run.kill_every {
                self.kill();
                killed = Instant::now();
            }
            if lock(&self.daemon).as_mut().is_none_or(|daemon| daemon.ended().is_some()) {
                self.broken("the service ended by itself");
            }
            self.recovers();
            round += 1;
            std::thread::sleep(PAUSE);
        }
        // Before the ORB of the client goes.
        self.kept = None;
        *lock(&self.daemon) = None;
        self.report
    }

    fn url(&self) -> String {
        lock(&self.daemon).as_ref().map_or_else(String::new, |daemon| daemon.url.clone())
    }

    /// A client that comes, writes, reads, takes it back and goes. `Ok(false)` if a write is lost.
    fn passing(&mut self, round: u32) -> Result<bool, String> {
        let orb = client_orb().map_err(|error| error.to_string())?;
        let number = KEPT + round % PASSING;
        let attempt = || -> Result<bool, String> {
            let mut client = self.subject.connect(&orb, &self.url())?;
            client.write(number)?;
            let there = client.read(number)?;
            client.remove(number)?;
            Ok(there)
        };
        let there = attempt();
        let _ = orb.shutdown(false);
        self.report.clients += 1;
        if there.is_ok() {
            self.acknowledge();
        }
        there
    }

    /// The client that stays writes until it has all, and reads one of them in turn.
    fn kept(&mut self, round: u32) -> Result<bool, String> {
        let url = self.url();
        if self.kept.is_none() {
            let orb = client_orb().map_err(|error| error.to_string())?;
            let client = self.subject.connect(&orb, &url)?;
            self.kept = Some((orb, client));
        }
        if self.subject.wraps() && round.is_multiple_of(WRITTEN_AGAIN) {
            self.held.clear();
        }
        let Some((_, client)) = &mut self.kept else { return Ok(true) };
        if let Some(number) = (0..KEPT).find(|number| !self.held.contains(number)) {
            client.write(number)?;
            self.held.push(number);
            self.acknowledge();
            return Ok(true);
        }
        client.read(self.held[round as usize % self.held.len()])
    }

    fn acknowledge(&mut self) {
        self.report.acknowledged += 1;
        self.count.fetch_add(1, Ordering::Relaxed);
        self.last = Instant::now();
    }

    fn attempt(&mut self, outcome: Result<bool, String>) {
        match outcome {
            Ok(true) => {}
            Ok(false) => self.broken("a write that was acknowledged is lost"),
            Err(_) => self.report.refused += 1,
        }
    }

    /// Kills the process, and starts one that has all that was acknowledged.
    fn kill(&mut self) {
        *lock(&self.daemon) = None;
        self.report.kills += 1;
        if let Err(why) = self.boot() {
            return self.broken(&why);
        }
        if !self.subject.keeps_writes() {
            self.held.clear();
            // Its references have gone with the process.
            self.kept = None;
            return;
        }
        let start = Instant::now();
        for number in self.held.clone() {
            loop {
                let Some((_, client)) = &mut self.kept else { return };
                match client.read(number) {
                    Ok(true) => break,
                    // The writer hands an area back after the server is ready, and a busy channel
                    // loses events that it cannot deliver at once.
                    Ok(false) if self.subject.comes_back_later() && start.elapsed() < RECOVERY => {}
                    Err(_) if start.elapsed() < RECOVERY => {}
                    other => return self.broken(&format!("after a kill, write {number} is {other:?}")),
                }
                std::thread::sleep(PAUSE);
            }
        }
    }

    fn recovers(&mut self) {
        if self.run.is_full.load(Ordering::Relaxed) {
            self.last = Instant::now();
        } else if self.last.elapsed() > RECOVERY {
            self.broken("it acknowledges nothing any more");
            self.last = Instant::now();
        }
    }

    fn broken(&mut self, why: &str) {
        let log = lock(&self.daemon).as_ref().map_or_else(String::new, Daemon::log);
        let last = log.lines().last().unwrap_or("nothing").to_owned();
        self.report.broken.push(format!("{}: {why}; its log ends: {last}", self.subject));
    }
}

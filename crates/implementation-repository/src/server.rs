//! The state of one server, without processes and without a clock of its own.

use crate::refusal::Refusal;
use crate::registration::{Mode, Registration};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;

/// A process, by its number and the time of its start in clock ticks, since numbers are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    pub number: u32,
    pub started: u64,
}

/// A server that was started or has registered, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// Proves that a process is the one that was started. Empty for one that others started.
    pub token: String,
    /// The stringified reference of its object; empty until it has registered.
    pub reference: String,
    /// The process, if the repository started it.
    pub process: Option<ProcessId>,
}

/// What a server does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    Stopped,
    /// Started; it has to register in time.
    Starting {
        instance: Instance,
        until: Duration,
    },
    Running(Instance),
    /// It has left, or cannot be reached, and its process has not ended.
    Leaving {
        instance: Instance,
        until: Duration,
    },
}

/// What a server is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    Request,
    Administrator,
}

/// What a thread does that needs a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Asks the server behind this reference.
    Ask(String),
    /// Starts it, with this token.
    Start(String),
    /// Waits for a change until this time.
    Wait(Duration),
    /// Kills a process that has not registered in time.
    Kill(Option<ProcessId>),
    Refuse(Refusal),
}

/// A registered server.
#[derive(Debug)]
pub struct Server {
    pub registration: Registration,
    pub phase: Phase,
    /// The times of the starts in the restart period.
    recent: VecDeque<Duration>,
    pub starts: u64,
    /// Why the last start failed or the last process ended.
    pub last_failure: String,
    /// Requests that wait for it.
    pub waiting: usize,
    /// Whether the log says that the restart limit was reached.
    pub limit_logged: bool,
}

impl Server {
    /// A server that does not run.
    pub fn new(registration: Registration) -> Server {
        Server {
            registration,
            phase: Phase::Stopped,
            recent: VecDeque::new(),
            starts: 0,
            last_failure: String::new(),
            waiting: 0,
            limit_logged: false,
        }
    }

    /// A server that ran when the repository ended. Whether it still does will turn out.
    pub fn resume(registration: Registration, instance: Instance, now: Duration) -> Server {
        let until = now + registration.start_timeout;
        let phase = match instance.reference.is_empty() {
            true => Phase::Starting { instance, until },
            false => Phase::Running(instance),
        };
        Server { phase, ..Server::new(registration) }
    }

    /// What was started or has registered.
    pub fn instance(&self) -> Option<&Instance> {
        match &self.phase {
            Phase::Stopped => None,
            Phase::Starting { instance, .. } | Phase::Running(instance) | Phase::Leaving { instance, .. } => {
                Some(instance)
            }
        }
    }

    fn process(&self) -> Option<ProcessId> {
        self.instance()?.process
    }

    /// What a thread does that needs the server. `awaited`: it has waited for a start, and so does
    /// not begin another one. `token`: for a start.
    pub fn decide(
        &mut self,
        now: Duration,
        demand: Demand,
        awaited: bool,
        token: impl FnOnce() -> String,
    ) -> Decision {
        match &self.phase {
            Phase::Running(instance) => return Decision::Ask(instance.reference.clone()),
            Phase::Starting { until, instance } if now >= *until => {
                let process = instance.process;
                let seconds = self.registration.start_timeout.as_secs_f64();
                self.last_failure = format!("it did not register within {seconds} s (--start-timeout)");
                self.phase = Phase::Stopped;
                return Decision::Kill(process);
            }
            Phase::Leaving { until, instance: Instance { process: Some(process), .. } } if now >= *until => {
                let name = self.registration.name.clone();
                return Decision::Refuse(Refusal::Leaving { name, process: process.number });
            }
            Phase::Starting { until, .. } | Phase::Leaving { until, .. } => return Decision::Wait(*until),
            Phase::Stopped => {}
        }
        let name = || self.registration.name.clone();
        if awaited {
            return Decision::Refuse(Refusal::Start { name: name(), why: self.last_failure.clone() });
        }
        if self.registration.program.is_empty() {
            return Decision::Refuse(Refusal::NoProgram(name()));
        }
        if self.registration.mode == Mode::Manual && demand == Demand::Request {
            return Decision::Refuse(Refusal::Manual(name()));
        }
        let (limit, period) = (self.registration.restart_limit, self.registration.restart_period);
        while self.recent.front().is_some_and(|start| now.saturating_sub(*start) >= period) {
            self.recent.pop_front();
        }
        // An administrator is no loop.
        if demand == Demand::Request && self.recent.len() >= limit as usize {
            let why = self.last_failure.clone();
            return Decision::Refuse(Refusal::Restarts { name: name(), limit, period, why });
        }
        self.recent.push_back(now);
        self.starts += 1;
        self.limit_logged = false;
        let token = token();
        let instance = Instance { token: token.clone(), reference: String::new(), process: None };
        self.phase = Phase::Starting { instance, until: now + self.registration.start_timeout };
        Decision::Start(token)
    }

    /// The process with this token was made. Returns false if the server no longer waits for it.
    pub fn launched(&mut self, token: &str, process: ProcessId) -> bool {
        match &mut self.phase {
            Phase::Starting { instance, .. } | Phase::Running(instance) if instance.token == token => {
                instance.process = Some(process);
                true
            }
            _ => false,
        }
    }

    /// No process could be made.
    pub fn not_launched(&mut self, token: &str, why: String) {
        if self.instance().is_some_and(|instance| instance.token == token) {
            self.phase = Phase::Stopped;
            self.last_failure = why;
        }
    }

    /// Whether this token is that of the server.
    pub fn has_token(&self, token: &str) -> bool {
        !token.is_empty() && self.instance().is_some_and(|instance| instance.token == token)
    }

    /// A process says that it is the server, and has proved that it may. Returns whether that
    /// changes anything.
    ///
    /// # Errors
    /// [`Refusal::Occupied`] where another process is the server.
    pub fn registered(&mut self, token: &str, reference: &str) -> Result<bool, Refusal> {
        let process = match self.has_token(token) {
            true => self.process(),
            false => match &self.phase {
                // One that others started may have moved.
                Phase::Stopped | Phase::Running(Instance { process: None, .. }) => None,
                _ => return Err(Refusal::Occupied(self.registration.name.clone())),
            },
        };
        let phase = Phase::Running(Instance { token: token.into(), reference: reference.into(), process });
        let changes = self.phase != phase;
        self.phase = phase;
        Ok(changes)
    }

    /// The server with this token says that it ends. Returns whether that changes anything.
    pub fn left(&mut self, now: Duration, token: &str) -> bool {
        match &self.phase {
            Phase::Running(instance) if instance.token == token => self.leave(now),
            _ => return false,
        }
        true
    }

    /// The server behind this reference could not be reached. Returns whether that changes
    /// anything.
    pub fn lost(&mut self, now: Duration, reference: &str) -> bool {
        match &self.phase {
            Phase::Running(instance) if instance.reference == reference => self.leave(now),
            _ => return false,
        }
        true
    }

    /// Two processes are never the server: one that may still run has to end first.
    fn leave(&mut self, now: Duration) {
        let until = now + self.registration.start_timeout;
        self.phase = match std::mem::replace(&mut self.phase, Phase::Stopped) {
            Phase::Running(instance) if instance.process.is_some() => Phase::Leaving { instance, until },
            _ => Phase::Stopped,
        };
    }

    /// A process has ended. Returns whether it was the server.
    pub fn exited(&mut self, process: ProcessId, how: &str) -> bool {
        if self.process() != Some(process) {
            return false;
        }
        self.last_failure = match self.phase {
            Phase::Starting { .. } => format!("{how} before it registered"),
            _ => how.into(),
        };
        self.phase = Phase::Stopped;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registration::tests::sample;

    const PROCESS: ProcessId = ProcessId { number: 7, started: 1 };

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn request(server: &mut Server, now: u64) -> Decision {
        server.decide(at(now), Demand::Request, false, || format!("token at {now}"))
    }

    /// A server that was started at `now`.
    fn start(server: &mut Server, now: u64) -> String {
        let Decision::Start(token) = request(server, now) else { panic!("{server:?}") };
        assert!(server.launched(&token, PROCESS));
        token
    }

    #[test]
    fn it_is_started_once_and_asked_from_then_on() {
        let mut server = Server::new(sample("lamp"));
        let token = start(&mut server, 1);
        assert_eq!(request(&mut server, 2), Decision::Wait(at(11)));
        assert_eq!(server.registered(&token, "IOR:1"), Ok(true));
        assert_eq!(server.registered(&token, "IOR:1"), Ok(false), "it says so again");
        assert_eq!(request(&mut server, 100), Decision::Ask("IOR:1".into()));
        assert_eq!(server.starts, 1);
    }

    #[test]
    fn one_that_ends_is_started_again() {
        let mut server = Server::new(sample("lamp"));
        let token = start(&mut server, 1);
        server.registered(&token, "IOR:1").unwrap();
        assert!(!server.exited(ProcessId { number: 7, started: 2 }, "x"), "another process of this number");
        assert!(server.exited(PROCESS, "signal 9"));
        assert_eq!(server.last_failure, "signal 9");
        let again = start(&mut server, 2);
        assert_ne!(again, token);
        assert!(!server.has_token(&token) && !server.has_token(""));
        assert_eq!(server.registered(&token, "IOR:1"), Err(Refusal::Occupied("lamp".into())));
    }

    #[test]
    fn a_start_that_fails_ends_the_wait() {
        let mut server = Server::new(sample("lamp"));
        start(&mut server, 1);
        assert!(server.exited(PROCESS, "exit status 3"));
        let waited = server.decide(at(2), Demand::Request, true, String::new);
        let why = "exit status 3 before it registered".to_owned();
        assert_eq!(waited, Decision::Refuse(Refusal::Start { name: "lamp".into(), why }));
        let Decision::Start(token) = request(&mut server, 2) else { panic!() };
        server.not_launched(&token, "no such file".into());
        assert_eq!((server.phase.clone(), &*server.last_failure), (Phase::Stopped, "no such file"));
    }

    #[test]
    fn one_that_does_not_register_is_killed() {
        let mut server = Server::new(sample("lamp"));
        start(&mut server, 1);
        assert_eq!(request(&mut server, 10), Decision::Wait(at(11)));
        assert_eq!(request(&mut server, 11), Decision::Kill(Some(PROCESS)));
        assert!(server.last_failure.contains("--start-timeout"));
        let Decision::Start(token) = request(&mut server, 12) else { panic!() };
        // Making the process took too long.
        assert_eq!(request(&mut server, 22), Decision::Kill(None));
        assert!(!server.launched(&token, PROCESS));
    }

    #[test]
    fn a_loop_of_crashes_ends_at_the_limit() {
        let mut server = Server::new(sample("lamp"));
        for now in [1, 2, 3] {
            start(&mut server, now);
            server.exited(PROCESS, "exit status 1");
        }
        let Decision::Refuse(Refusal::Restarts { limit: 3, why, .. }) = request(&mut server, 60) else {
            panic!("{server:?}");
        };
        assert!(why.contains("exit status 1"));
        let by_hand = server.decide(at(60), Demand::Administrator, false, String::new);
        assert!(matches!(by_hand, Decision::Start(_)));
        server.not_launched("", "x".into());
        assert!(matches!(request(&mut server, 61), Decision::Refuse(Refusal::Restarts { .. })));
        assert!(matches!(request(&mut server, 63), Decision::Start(_)), "the period is over");
    }

    #[test]
    fn two_processes_are_never_the_server() {
        let mut server = Server::new(sample("lamp"));
        let token = start(&mut server, 1);
        server.registered(&token, "IOR:1").unwrap();
        assert!(!server.left(at(2), "wrong") && !server.lost(at(2), "IOR:0"));
        assert!(server.left(at(2), &token));
        assert_eq!(request(&mut server, 3), Decision::Wait(at(12)));
        assert_eq!(
            request(&mut server, 12),
            Decision::Refuse(Refusal::Leaving { name: "lamp".into(), process: 7 })
        );
        // It was only slow to answer.
        assert_eq!(server.registered(&token, "IOR:1"), Ok(true));
        assert!(server.lost(at(20), "IOR:1") && server.exited(PROCESS, "exit status 0"));
        assert!(matches!(request(&mut server, 21), Decision::Start(_)));
    }

    #[test]
    fn a_manual_server_is_not_started_by_requests() {
        let mut server = Server::new(Registration { mode: Mode::Manual, ..sample("lamp") });
        assert_eq!(request(&mut server, 1), Decision::Refuse(Refusal::Manual("lamp".into())));
        // Others start it, and it moves.
        assert_eq!(server.registered("", "IOR:1"), Ok(true));
        assert_eq!(server.registered("", "IOR:2"), Ok(true));
        assert_eq!(request(&mut server, 1), Decision::Ask("IOR:2".into()));
        assert!(server.lost(at(2), "IOR:2"));
        assert_eq!(server.phase, Phase::Stopped);
        server.registration.program.clear();
        let by_hand = server.decide(at(3), Demand::Administrator, false, String::new);
        assert_eq!(by_hand, Decision::Refuse(Refusal::NoProgram("lamp".into())));
    }

    #[test]
    fn a_restarted_repository_goes_on() {
        let running = Instance { token: "t".into(), reference: "IOR:1".into(), process: Some(PROCESS) };
        let mut server = Server::resume(sample("lamp"), running.clone(), at(5));
        assert_eq!(request(&mut server, 6), Decision::Ask("IOR:1".into()));
        let starting = Instance { reference: String::new(), ..running };
        let mut server = Server::resume(sample("lamp"), starting, at(5));
        assert_eq!(request(&mut server, 6), Decision::Wait(at(15)));
        assert_eq!(server.registered("t", "IOR:2"), Ok(true));
    }
}

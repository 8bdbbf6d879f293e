//! Why a client is not forwarded, or a command not obeyed.

use isorb::{Kind, SystemException, minor};
use isorb_store::Fault;
use std::fmt;
use std::time::Duration;

/// Why a server is not available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No server of this name is registered.
    NotRegistered(String),
    /// It does not run, and only an administrator starts it.
    Manual(String),
    /// It does not run, and the repository has no program of it.
    NoProgram(String),
    /// It could not be started.
    Start {
        /// The server.
        name: String,
        /// Why.
        why: String,
    },
    /// It was started as often as it may be.
    Restarts {
        /// The server.
        name: String,
        /// Starts in the period.
        limit: u32,
        /// The period.
        period: Duration,
        /// Why the last one ended.
        why: String,
    },
    /// As many requests wait for it as may.
    Waiting {
        /// The server.
        name: String,
        /// How many.
        limit: usize,
    },
    /// It runs and does not answer.
    Silent(String),
    /// It has left, and its process does not end.
    Leaving {
        /// The server.
        name: String,
        /// The process.
        process: u32,
    },
    /// Another process of this name runs.
    Occupied(String),
    /// It was not started by the repository, which cannot end it.
    NotStartedHere(String),
    /// The store is broken.
    Failed(Fault),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NotRegistered(name) => write!(f, "no server {name} is registered (isorb imr ls)"),
            Refusal::Manual(name) => {
                write!(f, "the server {name} does not run; it is manual (isorb imr start {name})")
            }
            Refusal::NoProgram(name) => {
                write!(f, "the server {name} does not run; the repository has no program to start")
            }
            Refusal::Start { name, why } => write!(f, "the server {name} could not be started: {why}"),
            Refusal::Restarts { name, limit, period, why } => {
                write!(f, "the server {name} was started {limit} times within {period:?} (--restart-limit)")?;
                if why.is_empty() { Ok(()) } else { write!(f, "; the last time: {why}") }
            }
            Refusal::Waiting { name, limit } => {
                write!(f, "{limit} requests wait for the server {name} already (--max-waiting)")
            }
            Refusal::Silent(name) => {
                write!(f, "the server {name} runs and does not answer (isorb imr stop {name})")
            }
            Refusal::Leaving { name, process } => {
                write!(
                    f,
                    "the server {name} has left, and its process {process} does not end (isorb imr stop {name})"
                )
            }
            Refusal::Occupied(name) => write!(f, "another process is the server {name}"),
            Refusal::NotStartedHere(name) => {
                write!(f, "the server {name} was not started by the repository, which cannot stop it")
            }
            Refusal::Failed(fault) => write!(f, "{fault}"),
        }
    }
}

impl std::error::Error for Refusal {}

isorb_store::store_error! { Refusal }

impl From<Refusal> for SystemException {
    /// TRANSIENT: the same request may succeed later. OBJECT_NOT_EXIST for an unknown server.
    fn from(refusal: Refusal) -> SystemException {
        let (kind, code) = match &refusal {
            Refusal::NotRegistered(_) => (Kind::ObjectNotExist, 0),
            Refusal::Manual(_) | Refusal::NoProgram(_) => (Kind::Transient, minor::TRANSIENT_SERVER_STOPPED),
            Refusal::Start { .. } => (Kind::Transient, minor::TRANSIENT_SERVER_START),
            Refusal::Restarts { .. } => (Kind::Transient, minor::TRANSIENT_SERVER_RESTARTS),
            Refusal::Waiting { .. } => (Kind::Transient, minor::TRANSIENT_SERVER_WAITING),
            Refusal::Silent(_) | Refusal::Leaving { .. } => (Kind::Transient, minor::TRANSIENT_SERVER_SILENT),
            Refusal::Occupied(_) | Refusal::NotStartedHere(_) => (Kind::BadInvOrder, 0),
            Refusal::Failed(_) => (Kind::PersistStore, 0),
        };
        SystemException::from(kind).minor(code).detail(refusal.to_string())
    }
}

//! The owner of the link to the coordinator.
//!
//! A call to the coordinator may fail, or be served after its caller has stopped waiting. Both
//! sides may then disagree about this node's areas. The link therefore registers the node again,
//! with all of its areas, until the coordinator has confirmed them.

use super::failover::FailoverRef;
use crate::Error;
use crate::error::PeerError;
use crate::idl::{Area, CRM_CommRef, Glob_CommRef, Node, Placement};
use isorb::Kind;
use isorb_rt::sync::PiMutex;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Registrations after a call that failed. The second one covers a call that is served during the
/// first.
const REPEATED: u32 = 2;

/// The state machine of the link: is the coordinator's knowledge of this node up to date?
#[derive(Debug, Default)]
pub(super) struct RegistrationState {
    /// Counts calls of which the outcome is unknown.
    failures: u64,
    /// Registrations that are still to be made.
    registrations_due: u32,
    /// The last call got no answer.
    unanswered: bool,
}

/// The next call to the coordinator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LinkAction {
    /// Ask whether it still knows this node.
    CheckAlive,
    /// Register the node and its areas.
    Register,
}

impl RegistrationState {
    pub fn next_action(&self) -> LinkAction {
        if self.registrations_due > 0 { LinkAction::Register } else { LinkAction::CheckAlive }
    }

    /// A call got no answer, or the coordinator did not know this node.
    pub fn failed(&mut self) {
        self.failures += 1;
        self.registrations_due = REPEATED;
        self.unanswered = true;
    }

    /// A registration that began after `failures` failed calls was answered. True if it is up to
    /// date.
    pub fn answered(&mut self, failures: u64) -> bool {
        self.unanswered = false;
        self.failures == failures
    }

    /// The answer also covered all changes of the node's areas.
    pub fn confirmed(&mut self, failures: u64) {
        if self.failures == failures {
            self.registrations_due = self.registrations_due.saturating_sub(1);
        }
    }
}

/// The link to the coordinator. A node without one registers nothing and finds no other node.
#[derive(Debug)]
pub(super) struct CoordinatorLink {
    coordinator: Option<FailoverRef<Glob_CommRef>>,
    /// This node.
    name: String,
    incarnation: u64,
    server: OnceLock<CRM_CommRef>,
    answer: Duration,
    state: PiMutex<RegistrationState>,
}

/// The coordinator's answer to a registration.
pub(super) struct Registered {
    /// Areas of which another node holds the name.
    pub elsewhere: Vec<String>,
    failures: u64,
}

impl CoordinatorLink {
    pub fn new(coordinator: Option<&Glob_CommRef>, name: &str, answer: Duration) -> CoordinatorLink {
        CoordinatorLink {
            coordinator: coordinator.map(|glob| FailoverRef::of(glob, answer, Arc::default())),
            name: name.into(),
            incarnation: super::secret(),
            server: OnceLock::new(),
            answer,
            state: PiMutex::default(),
        }
    }

    /// The reference of this node's server, once it is activated.
    pub fn server(&self) -> Option<&CRM_CommRef> {
        self.server.get()
    }

    pub fn set_server(&self, server: CRM_CommRef) {
        let _ = self.server.set(server);
    }

    /// A number that no other server of this name has.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    pub fn next_action(&self) -> LinkAction {
        self.state.lock().next_action()
    }

    /// Registers the node with these areas. None where there is no coordinator, or its answer is
    /// out of date because another call failed meanwhile.
    pub fn register(&self, areas: &[Area]) -> Result<Option<Registered>, Error> {
        let (Some(coordinator), Some(server)) = (&self.coordinator, self.server.get()) else {
            return Ok(None);
        };
        let (name, incarnation) = (self.name.clone(), self.incarnation);
        let node = Node { name, incarnation, server: Some(server.clone()) };
        let failures = self.state.lock().failures;
        match coordinator.call(|glob| glob.register_node(&node, areas)) {
            Ok(elsewhere) => {
                let is_current = self.state.lock().answered(failures);
                Ok(is_current.then_some(Registered { elsewhere, failures }))
            }
            Err(error) => {
                self.state.lock().failed();
                Err(error)
            }
        }
    }

    pub fn confirm(&self, registered: &Registered) {
        self.state.lock().confirmed(registered.failures);
    }

    /// Registers one new area.
    pub fn register_area(&self, what: &Area) -> Result<(), Error> {
        let Some(coordinator) = &self.coordinator else { return Ok(()) };
        coordinator.call(|glob| glob.register_area(&self.name, what)).map_err(|error| {
            if !matches!(error, Error::AreaExists(_)) {
                // It may have served the call.
                self.state.lock().failed();
            }
            match self.no_answer("the coordinator", error) {
                Error::UnknownNode(_) => PeerError::Restarted.into(),
                other => other,
            }
        })
    }

    /// An area is gone. A coordinator that does not answer learns it from the next registration.
    pub fn unregister_area(&self, name: &str) {
        if let Some(coordinator) = &self.coordinator
            && coordinator.call(|glob| glob.unregister_area(&self.name, name)).is_err()
        {
            self.state.lock().failed();
        }
    }

    /// May an area that was handed back be this node's? None: another node has it. True: the
    /// coordinator did not confirm it, and the next registration asks again.
    pub fn offer_area(&self, what: &Area) -> Option<bool> {
        let Some(coordinator) = &self.coordinator else { return Some(false) };
        // Asking a silent coordinator would cost a time-out for each area.
        if !self.state.lock().unanswered {
            match coordinator.call(|glob| glob.register_area(&self.name, what)) {
                Ok(()) => return Some(false),
                Err(Error::AreaExists(_)) => return None,
                Err(_) => {}
            }
        }
        self.state.lock().failed();
        Some(true)
    }

    /// The name and the server of the node that holds an area.
    pub fn locate(&self, name: &str) -> Result<(String, CRM_CommRef), Error> {
        let coordinator = self.coordinator.as_ref().ok_or_else(|| Error::unknown_area(name))?;
        let node = coordinator
            .call(|glob| glob.locate(name))
            .map_err(|error| self.no_answer("the coordinator", error))?;
        let server = node.server.filter(|_| node.name != self.name);
        Ok((node.name, server.ok_or_else(|| Error::unknown_area(name))?))
    }

    /// Areas of all nodes with names that match; none without a coordinator.
    pub fn find_areas(&self, pattern: &str, limit: u32) -> Result<Vec<Placement>, Error> {
        let Some(coordinator) = &self.coordinator else { return Ok(Vec::new()) };
        let found = coordinator.call(|glob| glob.find_areas(pattern, limit));
        found.map_err(|error| self.no_answer("the coordinator", error))
    }

    /// Does the coordinator know this incarnation? True where it does not answer.
    pub fn is_known(&self) -> bool {
        self.coordinator.as_ref().is_none_or(|coordinator| {
            let known = coordinator.call(|glob| glob.alive(&self.name, self.incarnation));
            !matches!(known, Err(Error::UnknownNode(_)))
        })
    }

    /// Names the server that let a call time out.
    pub fn no_answer(&self, peer: &str, error: impl Into<Error>) -> Error {
        match error.into() {
            Error::System(error) if error.kind == Kind::Timeout => {
                PeerError::NoAnswer { peer: peer.into(), within: self.answer }.into()
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_call_is_followed_by_two_registrations() {
        let mut state = RegistrationState::default();
        assert_eq!(state.next_action(), LinkAction::CheckAlive);
        state.failed();
        assert!(state.unanswered && state.failures == 1);
        for _ in 0..REPEATED {
            assert_eq!(state.next_action(), LinkAction::Register);
            assert!(state.answered(1) && !state.unanswered);
            state.confirmed(1);
        }
        assert_eq!(state.next_action(), LinkAction::CheckAlive);
    }

    #[test]
    fn an_answer_does_not_count_for_a_call_that_failed_after_it_was_asked() {
        let mut state = RegistrationState::default();
        state.failed();
        let before = state.failures;
        state.failed();
        assert!(!state.answered(before));
        state.confirmed(before);
        assert_eq!(state.registrations_due, REPEATED);
    }
}

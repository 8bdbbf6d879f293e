//! POA managers: requests of a group of POAs run, wait, or are rejected (clause 15.3.3).

use super::admission::{AdmissionState, DESTROYING, HOLDING, NOTIFY_IDLE};
use super::current;
use super::errors::{DEADLOCK, DESTROYED, DISCARDED, no};
use super::wait_deadline::TIMED_OUT;
use super::{ManagerError, Poa};
use crate::indirect::Indirect;
use isorb_giop::{Kind, SystemException, minor};
use isorb_rt::sync::{PiCondvar, PiMutex};
use isorb_rt::time::Deadline;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The state of a POA manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Requests wait. The first state.
    Holding,
    /// Requests run.
    Active,
    /// The client gets TRANSIENT with minor code OMG|1.
    Discarding,
    /// The client gets OBJ_ADAPTER with minor code OMG|1. The last state.
    Inactive,
}

/// How long a request waits for a manager that was never activated before that is logged.
const HINT_AFTER: Duration = Duration::from_secs(2);

/// Runs, holds or rejects the requests of its POAs. Cheap to clone: all clones are one manager.
#[derive(Clone)]
pub struct PoaManager(Arc<Manager>);

pub(super) struct Manager {
    id: Box<str>,
    /// Identifies the ORB in the process.
    orb: usize,
    /// The number of requests that may wait.
    limit: u32,
    /// Is told that the server serves.
    indirect: Option<Arc<Indirect>>,
    body: PiMutex<Body>,
    changed: PiCondvar,
}

struct Body {
    state: State,
    poas: Vec<Poa>,
    /// Requests that wait for a change of state.
    waiting: u32,
    /// Threads that wait for requests to end.
    watchers: u32,
    /// Counts changes of state.
    changes: u64,
    /// The application called one of the operations, with or without effect.
    touched: bool,
}

impl PoaManager {
    /// Default number of requests that may wait while a manager holds them.
    pub const DEFAULT_MAX_HELD: u32 = 256;

    pub(super) fn new(id: &str, orb: usize, limit: u32, indirect: Option<Arc<Indirect>>) -> PoaManager {
        PoaManager(Arc::new(Manager {
            id: id.into(),
            orb,
            limit,
            indirect,
            body: PiMutex::new(Body {
                state: State::Holding,
                poas: Vec::new(),
                waiting: 0,
                watchers: 0,
                changes: 0,
                touched: false,
            }),
            changed: PiCondvar::new(),
        }))
    }

    /// Its name, unique in the ORB; that of the root POA's manager is `RootPOAManager`.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// The present state.
    pub fn state(&self) -> State {
        self.0.body.lock().state
    }

    /// Runs requests, the waiting ones first.
    ///
    /// # Errors
    /// AdapterInactive after [`deactivate`](Self::deactivate).
    pub fn activate(&self) -> Result<(), ManagerError> {
        self.change(State::Active, false)
    }

    /// Holds requests up to the limit; further ones are discarded. `wait`: returns when the running
    /// requests have ended, or another thread changes the state.
    ///
    /// # Errors
    /// AdapterInactive after [`deactivate`](Self::deactivate). BAD_INV_ORDER with minor code OMG|3
    /// for `wait` in an upcall of this ORB; the state does not change then.
    pub fn hold_requests(&self, wait: bool) -> Result<(), ManagerError> {
        self.change(State::Holding, wait)
    }

    /// Rejects requests with TRANSIENT, waiting ones included. `wait` as for
    /// [`hold_requests`](Self::hold_requests).
    ///
    /// # Errors
    /// As [`hold_requests`](Self::hold_requests).
    pub fn discard_requests(&self, wait: bool) -> Result<(), ManagerError> {
        self.change(State::Discarding, wait)
    }

    /// Rejects requests for ever, waiting ones included. `etherealize`: once the running requests
    /// have ended, the servant activators of its POAs get all active objects; only the first call
    /// decides. `wait`: returns after that.
    ///
    /// # Errors
    /// BAD_INV_ORDER with minor code OMG|3 for `wait` in an upcall of this ORB; the state does not
    /// change then.
    pub fn deactivate(&self, etherealize: bool, wait: bool) -> Result<(), SystemException> {
        if wait && current::inside(self.0.orb) {
            return Err(DEADLOCK);
        }
        let poas = {
            let mut body = self.0.body.lock();
            if body.state == State::Inactive {
                Vec::new()
            } else {
                self.enter_state(&mut body, State::Inactive);
                for poa in body.poas.iter().filter(|_| etherealize) {
                    poa.etherealize_when_idle();
                }
                body.poas.clone()
            }
        };
        poas.iter().for_each(Poa::advance);
        if wait {
            self.wait_idle(None, Poa::is_etherealized);
        }
        Ok(())
    }

    /// Activates the manager if its state was never changed.
    pub(super) fn activate_untouched(&self) {
        let mut body = self.0.body.lock();
        if !body.touched {
            self.enter_state(&mut body, State::Active);
        }
    }

    fn change(&self, state: State, wait: bool) -> Result<(), ManagerError> {
        if wait && current::inside(self.0.orb) {
            return Err(DEADLOCK.into());
        }
        let changes = {
            let mut body = self.0.body.lock();
            if body.state == State::Inactive {
                return Err(ManagerError::AdapterInactive);
            }
            self.enter_state(&mut body, state);
            body.changes
        };
        if wait {
            self.wait_idle(Some(changes), Poa::is_idle);
        }
        Ok(())
    }

    fn enter_state(&self, body: &mut Body, state: State) {
        body.touched = true;
        if body.state == state {
            return;
        }
        body.state = state;
        body.changes += 1;
        for poa in &body.poas {
            match state {
                State::Active => poa.admission().clear(HOLDING),
                _ => poa.admission().set(HOLDING),
            }
        }
        self.0.changed.notify_all(&self.0.body);
        self.announce(body);
    }

    /// Tells the thread that registers the server, if there is one, that a persistent POA serves.
    fn announce(&self, body: &Body) {
        if let Some(indirect) = &self.0.indirect
            && body.state == State::Active
            && body.poas.iter().any(|poa| poa.policies().persistent())
        {
            indirect.serves();
        }
    }

    /// Waits until all POAs are idle, or the state changes.
    fn wait_idle(&self, changes: Option<u64>, idle: impl Fn(&Poa) -> bool) {
        let mut body = self.0.body.lock();
        body.watchers += 1;
        body.poas.iter().for_each(|poa| poa.admission().set(NOTIFY_IDLE));
        self.0.changed.wait_while(&mut body, Deadline::NONE, |body| {
            changes.is_none_or(|changes| changes == body.changes) && !body.poas.iter().all(&idle)
        });
        body.watchers -= 1;
        if body.watchers == 0 && body.state != State::Inactive {
            body.poas.iter().for_each(|poa| poa.admission().clear(NOTIFY_IDLE));
        }
    }

    /// Waits, for a blocked request, until the manager is active.
    ///
    /// # Errors
    /// The error of the state; TRANSIENT when too many requests wait or the POA is destroyed
    /// meanwhile; TIMEOUT at the deadline.
    ///
    /// # Real-time
    /// Blocks while the manager holds requests.
    pub(super) fn await_active(
        &self,
        admission: &AdmissionState,
        deadline: Deadline,
    ) -> Result<(), SystemException> {
        let mut hinted = false;
        let mut body = self.0.body.lock();
        loop {
            match body.state {
                _ if admission.has(DESTROYING) => return Err(DESTROYED),
                State::Active => return Ok(()),
                State::Discarding => return Err(DISCARDED),
                State::Inactive => return Err(no(Kind::ObjAdapter, minor::OBJ_ADAPTER_ACTIVATOR)),
                State::Holding if deadline.is_past() => return Err(TIMED_OUT),
                State::Holding if body.waiting >= self.0.limit => return Err(DISCARDED),
                State::Holding => {
                    body.waiting += 1;
                    let patient =
                        if body.touched || hinted { Deadline::NONE } else { Deadline::after(HINT_AFTER) };
                    let changed = self.0.changed.wait_until(&mut body, patient.earlier(deadline));
                    body.waiting -= 1;
                    if !changed && !hinted && patient.is_past() && body.state == State::Holding {
                        hinted = true;
                        crate::log::warn(
                            "isorb::poa",
                            format_args!(
                                "a request waits because POA manager {} is not active: call activate() on it, or Orb::run",
                                self.0.id
                            ),
                        );
                    }
                }
            }
        }
    }

    /// Wakes the threads that wait, after a POA became idle or was destroyed.
    pub(super) fn wake(&self) {
        drop(self.0.body.lock());
        self.0.changed.notify_all(&self.0.body);
    }

    pub(super) fn register(&self, poa: &Poa) {
        let mut body = self.0.body.lock();
        if body.state != State::Active {
            poa.admission().set(HOLDING);
        }
        if body.watchers > 0 {
            poa.admission().set(NOTIFY_IDLE);
        }
        body.poas.push(poa.clone());
        self.announce(&body);
    }

    pub(super) fn unregister(&self, poa: &Poa) {
        self.0.body.lock().poas.retain(|other| other != poa);
        self.wake();
    }

    pub(super) fn downgrade(&self) -> Weak<Manager> {
        Arc::downgrade(&self.0)
    }

    pub(super) fn is_of(&self, orb: usize) -> bool {
        self.0.orb == orb
    }

    /// The number of waiting requests.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> u32 {
        self.0.body.lock().waiting
    }
}

impl From<Arc<Manager>> for PoaManager {
    fn from(manager: Arc<Manager>) -> PoaManager {
        PoaManager(manager)
    }
}

impl PartialEq for PoaManager {
    fn eq(&self, other: &PoaManager) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for PoaManager {}

impl fmt::Debug for PoaManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PoaManager({:?})", self.id())
    }
}

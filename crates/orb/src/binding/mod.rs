//! What decides over which connections a client's calls go: overrides of Real-Time CORBA policies,
//! what a reference says about real time, and the plan made of both.

mod overrides;
mod plan;
mod reference;

pub use overrides::{Overrides, set_thread_overrides, thread_overrides};

pub(crate) use overrides::{SharedOverrides, thread_stamp};
pub(crate) use plan::{Conflict, Key, Parts, Plan, Plans, in_bands};
pub(crate) use reference::{Facts, Model};

use crate::sched::Setup;
use isorb_rt::priority::{NetworkPriorityMapping, Unmarked};
use isorb_rt::sync::PiMutex;
use std::sync::{Arc, OnceLock};

/// What an ORB keeps of Real-Time CORBA for its connections.
pub(crate) struct ClientState {
    pub overrides: SharedOverrides,
    pub network: PiMutex<Arc<dyn NetworkPriorityMapping>>,
    /// What the sockets of those are told who connect to the ORB's own endpoints.
    accepting: OnceLock<Setup>,
}

impl ClientState {
    /// What the sockets of those who connect from now on are told. The first POA that says anything is heard.
    pub fn set_up(&self, setup: Setup) {
        let _ = self.accepting.set(setup);
    }

    pub fn accepting(&self) -> Option<&Setup> {
        self.accepting.get()
    }
}

impl Default for ClientState {
    fn default() -> ClientState {
        ClientState {
            overrides: SharedOverrides::default(),
            network: PiMutex::new(Arc::new(Unmarked)),
            accepting: OnceLock::new(),
        }
    }
}

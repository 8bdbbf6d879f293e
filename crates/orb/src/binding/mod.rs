//! The connections of a client's calls: overrides of Real-Time CORBA policies, the real-time
//! components of a reference, and the plan made from both.

mod overrides;
mod plan;
mod reference;

pub use overrides::{Overrides, set_thread_overrides, thread_overrides};

pub(crate) use overrides::{SharedOverrides, thread_stamp};
pub(crate) use plan::{
    Conflict, Key, Plan, PlanInput, Plans, in_bands, reconcile_bands, reconcile_protocols,
};
pub(crate) use reference::{Model, RtComponents};

use crate::sched::Setup;
use isorb_rt::priority::{NetworkPriorityMapping, Unmarked};
use isorb_rt::sync::PiMutex;
use std::sync::{Arc, OnceLock};

/// The Real-Time CORBA state of an ORB for its connections.
pub(crate) struct ClientState {
    pub overrides: SharedOverrides,
    pub network: PiMutex<Arc<dyn NetworkPriorityMapping>>,
    /// The socket settings of connections to the ORB's own endpoints.
    accepting: OnceLock<Setup>,
}

impl ClientState {
    /// Sets the socket settings of new connections. The first POA with any decides; `None` for
    /// another one.
    pub fn set_up(&self, setup: Setup) -> Option<&Setup> {
        self.accepting.set(setup).ok()?;
        self.accepting()
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

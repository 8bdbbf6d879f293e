//! `RTCORBA::RTORB`: what the ORB itself offers to real-time programs.

use super::config::RealTimeConfig;
use super::mutex::{Mutex, MutexNotFound, Mutexes};
use super::priorities::{Priorities, PriorityTransform};
use crate::{Orb, Result};
use isorb_rt::priority::PriorityMapping;
use std::fmt;
use std::sync::Arc;

/// The real-time face of an [`Orb`] (RT-CORBA 1.2, clause 5.2), from [`Orb::rt`]. Cheap to clone.
///
/// ```
/// let orb = isorb::Orb::with_config(isorb::Config::default());
/// let rt = orb.rt();
/// let (mutex, created) = rt.create_named_mutex("display")?;
/// assert!(created);
/// mutex.lock()?;
/// assert!(rt.open_named_mutex("display").is_ok());
/// mutex.unlock()?;
/// # Ok::<(), isorb::SystemException>(())
/// ```
#[derive(Clone)]
pub struct RtOrb {
    pub(super) orb: Orb,
}

/// What an ORB keeps for this.
pub(crate) struct State {
    pub priorities: Priorities,
    pub mutexes: Mutexes,
}

impl State {
    pub fn new(config: &RealTimeConfig) -> State {
        State { priorities: Priorities::new(config), mutexes: Mutexes::default() }
    }
}

impl RtOrb {
    pub(crate) fn new(orb: Orb) -> RtOrb {
        RtOrb { orb }
    }

    /// The ORB.
    pub fn orb(&self) -> &Orb {
        &self.orb
    }

    /// A mutex without a name.
    ///
    /// # Real-time
    /// Allocates. What its use costs stands with [`Mutex`].
    pub fn create_mutex(&self) -> Mutex {
        self.orb.rt_state().mutexes.create()
    }

    /// Ends a mutex: who uses it from now on, or waits for it, gets OBJECT_NOT_EXIST. Who holds it may still unlock it.
    pub fn destroy_mutex(&self, mutex: &Mutex) {
        self.orb.rt_state().mutexes.destroy(mutex);
    }

    /// The mutex of a name in this ORB, made if there is none; says whether it was made.
    ///
    /// # Errors
    /// IMP_LIMIT for more than 65,536 of them.
    pub fn create_named_mutex(&self, name: &str) -> Result<(Mutex, bool)> {
        self.orb.rt_state().mutexes.create_named(name)
    }

    /// The mutex of a name in this ORB.
    ///
    /// # Errors
    /// [`MutexNotFound`].
    pub fn open_named_mutex(&self, name: &str) -> Result<Mutex, MutexNotFound> {
        self.orb.rt_state().mutexes.open_named(name)
    }

    /// The mapping from CORBA priorities to native ones.
    pub fn priority_mapping(&self) -> Arc<dyn PriorityMapping> {
        self.orb.rt_state().priorities.mapping()
    }

    /// Replaces the mapping. Set it before threads are given priorities: those that have one keep it.
    pub fn set_priority_mapping(&self, mapping: Arc<dyn PriorityMapping>) {
        self.orb.rt_state().priorities.set_mapping(mapping);
    }

    /// The priority transform, if one is set.
    pub fn priority_transform(&self) -> Option<Arc<dyn PriorityTransform>> {
        self.orb.rt_state().priorities.transform()
    }

    /// Sets, replaces or takes away the priority transform. Requests that run are not affected.
    pub fn set_priority_transform(&self, transform: Option<Arc<dyn PriorityTransform>>) {
        self.orb.rt_state().priorities.set_transform(transform);
    }
}

impl fmt::Debug for RtOrb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RtOrb").field("orb", &self.orb).finish()
    }
}

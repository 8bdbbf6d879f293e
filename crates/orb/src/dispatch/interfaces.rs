//! The definitions of interfaces that the server has fetched for `_get_interface`.

use crate::{Object, Orb, Result};
use isorb_rt::sync::{ExclusiveSlot, PiMutex};
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;

/// Finds definitions. How that is done lies above this layer, since it takes a call.
pub(crate) struct InterfaceDefinitions {
    pub find: fn(&Orb, &'static str) -> Result<Object>,
    /// By repository id. As many as the process has interfaces at most.
    #[cfg_attr(not(feature = "interface-repository"), expect(dead_code, reason = "none is fetched"))]
    pub known: PiMutex<HashMap<&'static str, Object>>,
    /// Held by the thread that asks the repository.
    #[cfg_attr(not(feature = "interface-repository"), expect(dead_code, reason = "none is fetched"))]
    pub asking: ExclusiveSlot<()>,
    /// The time of the monotonic clock, in nanoseconds, before which no thread asks again.
    #[cfg_attr(not(feature = "interface-repository"), expect(dead_code, reason = "none is fetched"))]
    pub not_before: AtomicU64,
}

impl InterfaceDefinitions {
    pub fn new(find: fn(&Orb, &'static str) -> Result<Object>) -> InterfaceDefinitions {
        InterfaceDefinitions {
            find,
            known: PiMutex::default(),
            asking: ExclusiveSlot::new(()),
            not_before: AtomicU64::new(0),
        }
    }
}

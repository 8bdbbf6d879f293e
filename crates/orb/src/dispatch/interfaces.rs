//! The definitions of interfaces that the server has fetched for `_get_interface`.

use crate::{Object, Result, Upcall};
use isorb_rt::sync::PiMutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Finds definitions. How that is done lies above this layer, since it takes a call.
pub(crate) struct InterfaceDefinitions {
    /// With [`LATER`](crate::Deferred::LATER) it has deferred the reply.
    pub find: fn(Upcall<'_>, &'static str) -> Result<Object>,
    /// By repository id. As many as the process has interfaces at most.
    #[cfg_attr(not(feature = "interface-repository"), expect(dead_code, reason = "none is fetched"))]
    pub known: PiMutex<HashMap<&'static str, Object>>,
    /// A thread is asking the repository.
    #[cfg_attr(not(feature = "interface-repository"), expect(dead_code, reason = "none is fetched"))]
    pub asking: AtomicBool,
    /// The time of the monotonic clock, in nanoseconds, before which no thread asks again.
    #[cfg_attr(not(feature = "interface-repository"), expect(dead_code, reason = "none is fetched"))]
    pub not_before: AtomicU64,
}

impl InterfaceDefinitions {
    pub fn new(find: fn(Upcall<'_>, &'static str) -> Result<Object>) -> InterfaceDefinitions {
        InterfaceDefinitions {
            find,
            known: PiMutex::default(),
            asking: AtomicBool::new(false),
            not_before: AtomicU64::new(0),
        }
    }
}

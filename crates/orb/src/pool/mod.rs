//! Thread pools (RT-CORBA 1.2): the configured threads, and their endpoints.
//!
//! A pool has lanes, each with a priority, threads, an endpoint and the connections to it. A pool
//! without lanes is one lane at the default priority; its threads take the priority of each request
//! for its upcall. The lanes' work is in `server/`; this module has their construction and the
//! table of pools.

mod blocks;
mod heap;
mod options;
mod threadpool;

pub use crate::sched::ThreadpoolId;
pub(crate) use heap::HeapGuard;
pub use options::{
    DestroyError, InvalidThreadpool, LaneMessages, LaneStatus, RequestBuffering, ThreadpoolLane,
    ThreadpoolOptions,
};
pub(crate) use threadpool::{PoolLane, Pools, Threadpool};

use crate::indirect::Indirect;
use crate::sched::policy::RtPolicy;
use crate::server::Endpoints;
use isorb_rt::sync::PiMutex;
use std::sync::{Arc, OnceLock};

/// The endpoints and thread pools of an ORB.
#[derive(Default)]
pub(crate) struct ServerResources {
    pub endpoints: OnceLock<Arc<Endpoints>>,
    pub pools: Pools,
    /// The implementation repository of this server, from before its first POA on.
    pub indirect: OnceLock<Arc<Indirect>>,
    /// Real-time policies of POAs that set none of their type.
    pub poa_policies: PiMutex<Vec<RtPolicy>>,
}

impl ServerResources {
    /// The endpoints, once they are open.
    pub fn endpoints(&self) -> Option<&Arc<Endpoints>> {
        self.endpoints.get()
    }

    /// The implementation repository of this server, if it has one.
    pub fn indirect(&self) -> Option<&Arc<Indirect>> {
        self.indirect.get()
    }
}

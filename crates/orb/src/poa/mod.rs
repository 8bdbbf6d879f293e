//! The Portable Object Adapter (CORBA 3.3 part 1, clause 15): from an object key to the servant,
//! with all policies in between.
//!
//! It does not read requests, write replies or know connections: the dispatcher passes an object
//! key and gets the servant, or the reason why there is none.
//!
//! The path of a request: `key` parses the object key; `table` (transient) or one hash of the path
//! (persistent) finds the POA, at any depth; `admission` counts the request, unless the POA's
//! manager holds or rejects it; `active_map` finds the servant, or a servant manager or the default
//! servant provides it; the thread model decides when the upcall runs; `upcall_target` reverses it
//! all at the end.
//!
//! # Real-time
//! For an active object: two locks with priority inheritance, each held for a look-up and the clone
//! of a shared pointer, or none if the dispatcher has a weak reference to the object
//! (`upcall_target`); no allocation after a thread's first request. It waits only where the
//! application asked for it: a manager that holds requests, the single-thread and main-thread
//! models, an object that is being etherealised, an adapter that is being created.

mod activation;
mod active_map;
mod adapters;
mod admission;
mod creation;
mod current;
mod errors;
mod ids;
mod key;
mod lifecycle;
mod main_thread;
mod manager;
mod managers;
#[allow(clippy::module_inception)] // The one type that all the others are about.
mod poa;
pub mod policies;
mod priorities;
mod registry;
mod request_priority;
mod rt_adapter;
mod serve;
mod table;
#[cfg(test)]
mod tests;
mod threads;
mod upcall_target;
mod wait_deadline;

pub use current::Current;
pub use errors::{
    ActivateError, ActivateWithIdError, CreateError, DefaultServantError, FindError, GroupError,
    ManagerError, NoContext, ObjectIdError, PolicyError, ServantError, ToIdError, ToServantError,
};
pub use key::ObjectId;
pub use manager::{PoaManager, State};
pub use managers::{
    AdapterActivator, Cookie, ForwardRequest, Refusal, ServantActivator, ServantLocator, ServantManager,
};
pub use poa::Poa;
pub use policies::PoaPolicies;

/// The name of the server in the object key of an indirect reference; `None` for another key. For
/// implementation repositories.
///
/// # Real-time
/// Reads the key.
#[must_use]
pub fn server_of_key(key: &[u8]) -> Option<&str> {
    key::server_of(key)
}

pub(crate) use current::warm_up;
pub(crate) use main_thread::RunOutcome;
pub(crate) use managers::write_refusal;
pub(crate) use registry::{ComponentSource, Registry};
pub(crate) use request_priority::RequestPriority;
pub(crate) use upcall_target::{ActiveObjectRef, UpcallTarget, WeakTarget};
pub(crate) use wait_deadline::{current as request_deadline, with_wait_deadline};

//! The Portable Object Adapter (CORBA 3.3 part 1, clause 15): from an object key to the servant, and what an application
//! can say about everything on that way.
//!
//! It does not read requests, write replies or know about connections: the dispatcher hands in an object key and gets the
//! servant, or the reason why there is none.
//!
//! The way of a request: `key` takes the object key apart; `table` (transient) or one hash of the path (persistent)
//! gives the POA, at any depth; its `gate` counts the request in, unless the POA's manager holds, discards or is inactive;
//! `active_map` gives the servant, or a servant manager or the default servant does; the thread model decides when the
//! upcall runs; `entered` undoes it all.
//!
//! # Real-time
//! For an active object: two locks with priority inheritance, each held for a look-up and the clone of a shared pointer, or none
//! where the dispatcher kept a trace of the object (`entered`); no allocation after a thread's first request. It waits only where the application asked for it: a manager that holds,
//! the single-thread and main-thread models, an object that is just being etherealised, an adapter that is just made.

mod activation;
mod active_map;
mod adapters;
mod creation;
mod current;
mod entered;
mod errors;
mod gate;
mod ids;
mod key;
mod lifecycle;
mod main_queue;
mod manager;
mod managers;
mod patience;
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

pub(crate) use current::warm_up;
pub(crate) use entered::{Entered, Found, Trace};
pub(crate) use main_queue::Ran;
pub(crate) use managers::write_refusal;
pub(crate) use patience::waiting_until;
pub(crate) use registry::{ComponentSource, Registry};
pub(crate) use request_priority::Urgency;

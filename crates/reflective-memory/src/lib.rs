//! Reflective memory: a writer's memory appears in its readers' memories, on this node and on others.
//!
//! CReMeS (Chung, González, Ramamritham, Shen, RTSS 2000) on isorb. Inside a node, processes share the memory itself ([`memory`]); between
//! nodes, agents push it by UDP ([`wire`]) or through the ORB. It is for state of which the latest value counts; it is no queue.
//!
//! ```text
//!  application: Library, Rio ── local socket, Lib_Comm ──► node: NodeServer ── CRM_Comm ──► other nodes
//!        │ maps                                              │ dispatching threads      ╲
//!        ▼                                                   ▼                           Glob_Comm: coordinator
//!  memory: areas ◄───────────────────────────────────── scheduler: agents, dual priority ── admission
//!                                                            └ wire: datagrams, parity, pacing
//! ```
//!
//! [`memory`], [`wire`], [`agents`] and [`admission`] know no socket, thread or clock and can be used alone. The service uses nothing of the
//! ORB that is not public. `docs/reference/reflective-memory.md` teaches it.
#![forbid(unsafe_code)]

pub mod admission;
#[allow(missing_docs)]
mod generated {
    isorb::include_idl!("reflective_memory");
}
pub use generated::reflective_memory as idl;
pub use isorb_memory_area as memory;
pub mod agents;
pub mod coordinator;
mod error;
mod fail_points;
#[cfg(test)]
mod frozen_tests;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod kill_tests;
mod library;
pub mod node;
#[cfg(test)]
mod registration_tests;
mod session_socket;
pub use error::Error;
pub use library::{
    AreaReader, AreaWriter, EventSink, Holder, Library, Notice, NoticeCounts, Notifier, RemoteChannel, Rio,
};
pub mod wire;

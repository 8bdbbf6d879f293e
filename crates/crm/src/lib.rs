//! Reflective memory: a writer's memory appears in its readers' memories, on this node and on others.
//!
//! CReMeS (Chung, González, Ramamritham, Shen, RTSS 2000) on isorb. Inside a node, processes share the memory itself
//! ([`memory`]); between nodes, agents push it by UDP ([`wire`]) or through the ORB.
#![forbid(unsafe_code)]

pub mod admission;
#[allow(missing_docs)]
mod generated {
    isorb::include_idl!("reflective_memory");
}
pub use generated::reflective_memory as idl;
pub use isorb_crm_memory as memory;
pub mod coordinator;
mod error;
mod library;
pub mod node;
mod passing;
pub mod plane;
pub use error::Error;
pub use library::{AreaReader, AreaWriter, Library, Rio};
pub mod wire;

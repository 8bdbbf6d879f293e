//! Reflective memory: a writer's memory appears in its readers' memories, on this node and on others.
//!
//! CReMeS (Chung, González, Ramamritham, Shen, RTSS 2000) on isorb. Inside a node, processes share the memory itself
//! ([`memory`]); between nodes, agents push it by UDP ([`wire`]) or through the ORB.
#![forbid(unsafe_code)]

pub mod admission;
pub use isorb_crm_memory as memory;
pub mod plane;
pub mod wire;

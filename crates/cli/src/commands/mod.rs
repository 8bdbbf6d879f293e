//! The commands, one module each.

pub mod demo;
pub mod doctor;
pub mod idl;
pub mod ior;
pub mod name;
pub mod naming;
pub mod sched;

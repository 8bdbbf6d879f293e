//! The commands, one module each.

pub mod admin;
pub mod arguments;
pub mod call;
pub mod command_tree;
pub mod demo;
pub mod doctor;
pub mod event;
pub mod event_channel;
pub mod event_control;
#[cfg(feature = "packaging")]
pub mod generate;
pub mod idl;
pub mod ifr;
pub mod imr;
pub mod ior;
pub mod listen;
pub mod log;
pub mod log_service;
pub mod memory;
pub mod memory_server;
pub mod metrics;
pub mod name;
pub mod naming;
pub mod new;
pub mod orb;
pub mod ready;
mod remote_service;
mod request_metrics;
pub mod sched;
pub mod scheduler;
pub mod serve;
pub mod service;
pub mod timeline;
pub mod user;

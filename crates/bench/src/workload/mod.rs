//! Clients that compete for one server: the machinery of the experiments on priorities.
//!
//! A [`Workload`] is a server process and a client process, on one processor. The client's threads
//! play [`Role`]s: so many of them, at such a rate or without a pause, with so much work a call, at
//! such a CORBA priority. All are connected before a barrier lets them go. A negative control is
//! the same pair with one switch off: [`Setup::sorted`] (one pool for all priorities) or
//! [`Setup::banded`] (connections that are shared).
//!
//! ```text
//!   harness ── run 4000 1:20:100:0:30000:0:message ... ──► client ══ calls ══► server
//!           ◄── of each role: calls, due, in time, samples ──
//! ```

pub mod attack;
mod background_load;
pub mod client;
pub mod connection_storm;
pub mod layers;
pub mod link_flood;
pub mod many_clients;
mod plan;
mod processes;
mod raw_probe;
pub mod server;
mod setup;

pub use background_load::BackgroundLoad;
pub use plan::{Call, Plan, Role};
pub use processes::{RoleResult, Workload, calibrate_work};
pub use setup::Setup;

//! The implementation repository: starts servers on demand, and finds them after a move.
//!
//! A server with the settings `implementation_repository` and `server_name` makes references of its
//! persistent objects that lead to the repository. A client's first request goes there. The
//! repository starts the server if it does not run, and forwards the client to it
//! (LOCATION_FORWARD); further requests go to the server directly. When the server has gone, the
//! client's ORB returns to the repository, as CORBA asks.
//!
//! ```text
//!   request ─► forward ─► Server (its state) ─► start ─► process ─► registers ─┐
//!                │            stopped, starting, running, leaving ◄────────────┘
//!                └─► asks the server for the reference ─► LOCATION_FORWARD
//! ```
//!
//! Registrations, and where servers run, are on the disk before they are acknowledged: the
//! repository may be killed at any moment, and servers go on meanwhile.
//!
//! # Real-time
//! The repository allocates, takes locks, starts processes and waits for them and for its disk:
//! give it an ORB of its own. A client meets it with the first request of a reference and after a
//! server has ended, never in between.
#![forbid(unsafe_code)]

mod process;
mod refusal;
mod registration;
mod server;
mod servers;
mod service;
mod store;

isorb::include_idl!("isorb_implementation_repository");

pub use isorb_store::{Fault, OpenError};
pub use refusal::Refusal;
pub use registration::{InvalidRegistration, Limits, Mode, Registration};
pub use servers::Numbers;
pub use service::{REPOSITORY, Repository, Settings};
pub use store::RegistrationStore;

//! The naming service: CosNaming with NamingContextExt (OMG Naming Service 1.3), persistent and
//! federated.
//!
//! Names lead to objects. A server binds its objects; a client resolves their names, or writes a
//! name into a URL (`corbaname::host#lab/t1`). It is neither a trader nor a directory: it finds by
//! name only, and does not test whether a bound object still exists.
//!
//! ```text
//!   request ─► locator ─► servant of all contexts ─► tree (names of several steps) ─► store (single atomic steps)
//!                                     │                                                  memory, or a file
//!                                     └─► the context elsewhere that a name leads through
//! ```
//!
//! What is acknowledged has been written: the process may be killed at any moment. References to
//! contexts hold over restarts, as long as host, port and file stay.
//!
//! ```no_run
//! use isorb_naming::{FileStore, Limits, NamingService};
//! use std::sync::Arc;
//!
//! let orb = isorb::Orb::init(["-ORBEndPoint".into(), "127.0.0.1:2809".into()])?;
//! let store = FileStore::open("names.redb").expect("a naming store");
//! let service = NamingService::start(&orb, Arc::new(store), Limits::default())?;
//! println!("{}", service.object());
//! orb.run();
//! # Ok::<(), isorb::SystemException>(())
//! ```
//!
//! # Real-time
//! Naming allocates, takes locks and waits for its disk: give it an ORB of its own, or an endpoint
//! without a real-time priority. Clients resolve at start, not in a loop.
#![forbid(unsafe_code)]

#[cfg(feature = "service")]
pub mod binding;
mod client;
#[cfg(feature = "service")]
mod iterators;
#[cfg(feature = "service")]
mod limits;
#[cfg(feature = "service")]
mod service;
#[cfg(feature = "service")]
pub mod store;
#[cfg(feature = "service")]
pub mod tree;

isorb::include_idl!("cos_naming");

pub use client::Naming;
#[cfg(feature = "service")]
pub use limits::Limits;
#[cfg(feature = "service")]
pub use service::NamingService;
#[cfg(feature = "service")]
pub use store::{FileStore, MemoryStore, Store};

//! The Lightweight Log service: CosLwLog (OMG Lightweight Logging, formal/05-02-02), persistent.
//!
//! Producers of a system write records into one log; consumers read them by number, time, level and
//! producer; an administrator says how large the log may become, and what happens then. It is
//! neither the ORB's own log (`isorb_rt::log`) nor a Telecom Log: it has no constraints, no
//! schedule and no events.
//!
//! ```text
//!   request ─► servant (rights, limits) ─► LogStore (one transaction a request)
//!                   │                           memory, or a file
//!                   └─► capacity alarm ─► the process's log
//! ```
//!
//! What is acknowledged has been written: the process may be killed at any moment. A producer that
//! wants the acknowledgement sets [`SyncScope::WithTarget`](isorb::SyncScope), since the standard's
//! write operations are oneway.
//!
//! ```no_run
//! use isorb_log_service::{Limits, LogService, LogStore, Settings};
//!
//! let orb = isorb::Orb::init(["-ORBEndPoint".into(), "127.0.0.1:2811".into()])?;
//! let store = LogStore::open("log.redb", Settings::default()).expect("a store of records");
//! let service = LogService::start(&orb, store, Limits::default())?;
//! println!("{}", service.object());
//! orb.run();
//! # Ok::<(), isorb::SystemException>(())
//! ```
//!
//! # Real-time
//! The service allocates, takes locks and waits for its disk: give it an ORB of its own, or an
//! endpoint without a real-time priority. A producer that sends oneways waits for its socket only.
#![forbid(unsafe_code)]

#[cfg(feature = "service")]
mod limits;
#[cfg(feature = "service")]
mod service;
#[cfg(feature = "service")]
pub mod store;

isorb::include_idl!("cos_lw_log");

#[cfg(feature = "service")]
pub use limits::Limits;
#[cfg(feature = "service")]
pub use service::{LogService, Numbers};
#[cfg(feature = "service")]
pub use store::{LogStore, Settings};

//! Real-Time CORBA: priorities from the client's thread to the servant and back.
//!
//! ```text
//!   client thread ─ RtCurrent ─► effective policies ─► band ─► connection ═► lane ─► upcall at the request's priority
//! ```
//!
//! [`policy`] has the six policies, which a POA is made with and a client overrides.

pub mod policy;

//! User names and passwords over TLS: CSIv2 (CORBA 3.3 part 2, clause 10) with GSSUP, as JacORB and
//! the application servers of Java have it.
//!
//! ```text
//!   ClientSecurity                                       ServerSecurity
//!   reference has TAG_CSI_SEC_MECH_LIST ◄──────────────  publishes it beside an address over TLS
//!   EstablishContext, user and password ──── TLS ─────►  CredentialCheck, trust in asserted names
//!   NO_PERMISSION, or results           ◄──── TLS ─────  principal ─► Caller::principal of servants
//! ```
//!
//! A password goes over encrypted connections only, whatever a reference says; a server refuses one
//! that came over another. Contexts are for one request each: the server keeps none between
//! requests, which it says to clients that ask for that. Attributes other than identity
//! (authorization tokens) are not looked at, and clients do not delegate.
//!
//! # Real-time
//! A request with a password costs the client a look-up and a copy, the server a keyed hash and a
//! look-up, both under PI locks and without an allocation. The reply has a context, which the
//! server allocates and writes as [`isorb::interceptor`] says; TLS allocates for each message too.
//! The first request with each user and password waits for the [`CredentialCheck`]; that of a
//! [`Users`] file takes tenths of a second on the thread of the request. Let clients of real-time
//! lanes make a first call before time counts, or authenticate them by certificate.
#![forbid(unsafe_code)]

mod check;
mod client;
mod credentials;
mod file;
mod guesses;
mod server;
mod users;
mod verified;

pub use check::CredentialCheck;
pub use client::ClientSecurity;
pub use credentials::Credentials;
pub use file::FileError;
pub use server::ServerSecurity;
pub use users::Users;

/// The target of log records.
pub(crate) const LOG: &str = "isorb::csi";

//! TLS as a transport of isorb: certificates on one or both sides, over TCP.
//!
//! It is a separate crate, since most real-time systems want no cryptography in the process. An ORB
//! gets it by [`OrbInitInfo::add_transport`](https://docs.rs/isorb). It authenticates peers by the
//! authorities that signed their certificates, and encrypts messages. It has no access control for
//! single operations.
//!
//! ```text
//!   TCP accept ─► handshake thread: many at a time, each with a time limit ─► queue ─► accept()
//! ```
//!
//! References carry the address in the component TAG_SSL_SEC_TRANS of the IIOP profile, as those of
//! omniORB and JacORB do.
//!
//! # Real-time
//! Encryption costs time and allocates memory for each message. No real-time thread does a
//! handshake: a real-time thread that connects waits for an ordinary thread.
#![forbid(unsafe_code)]

mod config;
mod context;
mod handshake;
mod handshake_thread;
mod identity;
mod listener;
mod stream;
#[cfg(feature = "testing")]
pub mod testing;
mod transport;
mod verify;

pub use config::{ClientCertificates, TlsConfig, TlsError};
pub use transport::{TAG_TLS, Tls};

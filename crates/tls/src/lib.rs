//! TLS as a transport of isorb: certificates on one or both sides, over TCP.
//!
//! It is a crate of its own, since most real-time systems want no cryptography in the process; it adds to an ORB by
//! [`OrbInitInfo::add_transport`](https://docs.rs/isorb). What it is not: a policy language for who may call what. It says who the
//! peer is to whoever signed the certificates, and keeps what is said from others.
//!
//! ```text
//!   TCP accept ─► greeter thread: many handshakes at a time, each with a time limit ─► queue ─► accept()
//! ```
//!
//! References carry the address in the component TAG_SSL_SEC_TRANS of the IIOP profile, as omniORB's and JacORB's do.
//!
//! # Real-time
//! Encryption costs time and memory at every message; nothing here is free of allocation. No real-time thread ever does a handshake: one that connects waits for
//! an ordinary thread to do it.
#![forbid(unsafe_code)]

mod config;
mod context;
mod greeter;
mod handshake;
mod listener;
mod stream;
#[cfg(feature = "testing")]
pub mod testing;
mod transport;
mod verify;

pub use config::{ClientCertificates, TlsConfig, TlsError};
pub use transport::{TAG_TLS, Tls};

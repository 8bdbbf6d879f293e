//! isorb's side of the interoperability tests: a server and a client with the contract of
//! `interop/README.md`, and the runner that puts them against the other peers.
//!
//! It is not a test of the run-time by itself (each crate has its own): every case here is worth
//! something because on the other side is an ORB that no one here wrote.
#![forbid(unsafe_code)]

pub mod cases;
pub mod check;
pub mod matrix;
pub mod options;
pub mod servants;
pub mod types;

/// What the IDL compiler made of `interop/idl/interop.idl`.
pub mod generated {
    isorb::include_idl!("interop");
}

//! isorb's side of the interoperability tests: a server and a client with the contract of
//! `interop/README.md`, and the runner that tests them against the other peers.
//!
//! It does not test the run-time by itself (each crate does): every case matters because the other
//! side is an independent ORB.
#![forbid(unsafe_code)]

pub mod cases;
pub mod check;
pub mod dynamic;
pub mod matrix;
pub mod options;
pub mod servants;
pub mod types;
pub mod values;

/// The generated code of `interop/idl/interop.idl` and `interop/idl/values.idl`.
pub mod generated {
    isorb::include_idl!("interop");
    isorb::include_idl!("values");
}

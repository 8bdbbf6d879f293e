//! General Inter-ORB Protocol (CORBA 3.3 part 2, clause 9): messages, references, service contexts, object URLs.
//!
//! The protocol without I/O: bytes in, values out, and back. This crate opens no socket, reads no clock and starts no
//! thread.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

pub mod exception;

pub use exception::{Completion, Kind, SystemException, minor};

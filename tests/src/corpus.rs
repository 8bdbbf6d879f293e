//! The corpus of `isorb-idl-rust` as Rust, which must compile without a warning.
#![deny(warnings, missing_docs, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/corpus.rs"));

//! The corpus of odd IDL, generated and compiled with every warning an error. Nothing here is for use.
#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/corpus.rs"));

//! The IDL front end: preprocess, parse, resolve, check, diagnose.
#![forbid(unsafe_code)]

pub mod model;

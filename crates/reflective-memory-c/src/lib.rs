//! `libisorb_crm`: [reflective memory](isorb_reflective_memory) for C and C++.
//!
//! The header is `include/isorb_crm.h`, which cbindgen makes from this crate;
//! `include/isorb_crm.hpp` has classes for C++. `docs/guides/reflective-memory-from-c.md` is the
//! guide.
//!
//! - Each function returns a code. [`isorb_crm_error_text`] has the sentence.
//! - Sessions, writers and readers are numbers, not pointers: one that was closed is an error. A
//!   writer or reader that another thread is using is an error too. A session may be used by
//!   several threads at the same time.
//! - No panic leaves a function.
//!
//! `unsafe` is in the exported functions and in `pointers`, which checks what can be checked about
//! pointers from C: that they are not null, and that they are aligned.
#![deny(unsafe_code)]
#![allow(non_camel_case_types, reason = "the types are named as in the header")]

mod handles;
#[allow(unsafe_code)]
mod pointers;
#[allow(unsafe_code)]
mod reader;
mod result;
#[allow(unsafe_code)]
mod session;
#[allow(unsafe_code)]
mod sets;
mod types;
#[allow(unsafe_code)]
mod writer;

pub use reader::*;
pub use result::*;
pub use session::*;
pub use sets::*;
pub use types::*;
pub use writer::*;

//! The IDL front end: it turns IDL files into a checked [`model`] or into [`Diagnostic`]s that say
//! what is wrong.
//!
//! It knows no target language, opens no file but through a [`Loader`], and keeps no state between
//! runs. It covers CORBA 3.x IDL without the component model, and accepts IDL 4 annotations and
//! integer type names.
//!
//! ```text
//! files ─▶ pp (tokens, macros, includes) ─▶ syntax (tree) ─▶ sema (names, types, constants, rules) ─▶ model::Spec
//!            └──────────────┬──────────────────┴───────────────────┘
//!                           ▼
//!                   diagnostics, sorted, with source lines
//! ```
//!
//! ```
//! use isorb_idl::{MemoryLoader, Options, compile_with};
//! use std::path::Path;
//!
//! let files = MemoryLoader::new().with("a.idl", "module M { interface I { void ping(in long x); }; };");
//! let outcome = compile_with(&Options::default(), &files, Path::new("a.idl"));
//! let spec = outcome.spec.expect("the file is correct");
//! let ping = spec.find("M::I::ping").expect("it is defined");
//! assert_eq!(spec[ping].repository_id, "IDL:M/I/ping:1.0");
//!
//! let files = MemoryLoader::new().with("a.idl", "struct S { Missing m; };");
//! let outcome = compile_with(&Options::default(), &files, Path::new("a.idl"));
//! assert!(outcome.spec.is_none());
//! assert!(outcome.render(false).contains("a.idl:1:12"));
//! ```
#![forbid(unsafe_code)]

mod compile;
mod diagnostic;
mod limits;
pub mod model;
mod pp;
mod rule;
mod sema;
mod source;
pub mod standard;
mod syntax;

pub use compile::{Options, Outcome, compile, compile_with};
pub use diagnostic::{Diagnostic, Label, Severity};
pub use rule::Rule;
pub use source::{EmbeddedFiles, FsLoader, Loader, MemoryLoader, SourceMap};

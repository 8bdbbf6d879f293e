//! The Rust back end of the IDL compiler: from the checked model to Rust source.
//!
//! `docs/reference/idl-to-rust.md` documents the mapping. This crate does not read
//! IDL (that is `isorb-idl`) and does not run generated code (that is `isorb`, the run-time that
//! generated code names as `::isorb`).
//!
//! ```text
//!  Spec ─► names   names of all items              ┐
//!       ─► shape   structure of each type          ├─► emit (one file a kind of definition) ─► format ─► String
//!       ─► lowered operations and attributes as one ┘
//! ```
//!
//! A build script uses [`Build`]:
//!
//! ```no_run
//! isorb_idl_rust::Build::new().include("idl").compile("idl/sensors.idl");
//! ```
#![forbid(unsafe_code)]

mod build;
mod codec;
mod docs;
mod emit;
mod format;
mod hash;
mod in_place;
mod lints;
mod lowered;
mod module;
mod names;
mod options;
mod shape;
mod types;

pub use build::{Build, Built};
pub use format::rustfmt;
pub use options::Options;

use isorb_idl::model::Spec;

/// Generates the Rust source of a specification: the definitions of its main file and of included
/// files, without external modules ([`Options::extern_module`]).
///
/// The text is a sequence of items, to be included into a module (`isorb::include_idl!`) or to be
/// one. It is formatted; [`rustfmt`] formats it as rustfmt does, if that is installed.
pub fn generate(spec: &Spec, options: &Options) -> String {
    let r#gen = module::Gen::new(spec, options);
    let top = module::Module::new(&r#gen, None);
    format::file(top.contents(None), spec)
}

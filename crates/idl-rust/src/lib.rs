//! The Rust back end of the IDL compiler: from the checked model to Rust source.
//!
//! `docs/reference/idl-to-rust.md` says what becomes of each piece of IDL. This crate does not read
//! IDL (that is `isorb-idl`) and does not run generated code (that is `isorb`, the run-time that
//! generated code names as `::isorb`).
//!
//! ```text
//!  Spec ─► names   what everything is called        ┐
//!       ─► shape   what each type is made of        ├─► emit (one file a kind of definition) ─► format ─► String
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

/// The Rust source for a specification: what belongs to its main file and all included files,
/// modules that are external ([`Options::extern_module`]) aside.
///
/// The text is a row of items, made to be included into a module (`isorb::include_idl!`) or to be
/// one. It is formatted; [`rustfmt`] brings it into the form that rustfmt would give it, where
/// rustfmt is installed.
pub fn generate(spec: &Spec, options: &Options) -> String {
    let r#gen = module::Gen::new(spec, options);
    let top = module::Module::new(&r#gen, None);
    format::file(top.contents(None), spec)
}

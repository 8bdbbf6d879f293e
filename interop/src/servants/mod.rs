//! The server: a servant for each group of `interop.idl`.

#[macro_use]
mod echo;
mod anys;
mod exceptions;
mod forwards;
mod objects;
mod suite;
mod values;

pub use objects::Receiving;
pub(crate) use objects::internal;
pub use suite::serve;

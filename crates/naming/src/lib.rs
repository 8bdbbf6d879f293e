//! The naming service.
#![forbid(unsafe_code)]

pub mod binding;
mod iterators;
pub mod store;
#[cfg(test)]
mod testing;
pub mod tree;

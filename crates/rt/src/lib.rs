//! Placeholder while the crate is written.
pub mod sync;
pub mod time;

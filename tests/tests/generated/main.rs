//! Generated Rust in use: calls and servants, values on the wire, values in an `any`.

mod anys;
mod usage;
mod wire;

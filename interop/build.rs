//! Generates Rust from the contract that all peers share, and of their values.

fn main() {
    isorb_idl_rust::Build::new().include("../idl").asynchronous(true).compile("idl/interop.idl");
    isorb_idl_rust::Build::new().include("../idl").compile("idl/values.idl");
}

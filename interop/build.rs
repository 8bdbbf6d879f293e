//! Generates Rust from the contract that all peers share.

fn main() {
    isorb_idl_rust::Build::new().include("../idl").compile("idl/interop.idl");
}

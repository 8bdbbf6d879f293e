//! Compiles the standard modules that the run-time itself offers.

fn main() {
    isorb_idl_rust::Build::new().include("../../idl").compile("../../idl/CosNaming.idl");
}

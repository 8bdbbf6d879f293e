//! Compiles the IDL of the naming service.

fn main() {
    isorb_idl_rust::Build::new().include("../../idl").compile("../../idl/CosNaming.idl");
}

//! Compiles the tests' IDL.

fn main() {
    isorb_idl_rust::Build::new().include("../idl").compile("idl/steady.idl");
}

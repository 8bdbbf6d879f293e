//! Compiles the tests' IDL.

fn main() {
    let build = || isorb_idl_rust::Build::new().include("../idl");
    build().compile("idl/steady.idl");
    build().compile("idl/gate.idl");
    // What it takes of the module CORBA is known to the compiler itself.
    build().embedded(|name| (name == "orb.idl").then_some("")).compile("idl/any.idl");
}

//! Compiles the IDL.

fn main() {
    isorb_idl_rust::Build::new().compile("lamp.idl");
}

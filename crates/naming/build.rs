//! Compiles the IDL of the naming service.

fn main() {
    isorb_idl_rust::Build::new().compile_standard("CosNaming.idl");
}

//! Compiles the IDL of the Lightweight Log service.

fn main() {
    isorb_idl_rust::Build::new().compile_standard("CosLwLog.idl");
}

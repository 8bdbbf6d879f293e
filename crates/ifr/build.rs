//! Compiles the IDL of the Interface Repository.

fn main() {
    isorb_idl_rust::Build::new().compile_standard("InterfaceRepository.idl");
}

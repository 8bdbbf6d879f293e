//! Compiles the IDL of the implementation repository.

fn main() {
    isorb_idl_rust::Build::new().compile_standard("IsorbImplementationRepository.idl");
}

//! Compiles the interfaces of the scheduling service.

fn main() {
    isorb_idl_rust::Build::new().compile_standard("RtecSchedulerTao1.idl");
}

//! Compiles the interfaces of the scheduling service.

fn main() {
    isorb_idl_rust::Build::new().include("../../idl").compile("../../idl/RtecSchedulerTao1.idl");
}

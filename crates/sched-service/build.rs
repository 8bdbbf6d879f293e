//! Compiles the interface of the scheduling service.

fn main() {
    isorb_idl_rust::Build::new().include("../../idl").compile("../../idl/RtecScheduler.idl");
}

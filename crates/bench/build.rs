//! Makes Rust of the benchmark's IDL.

fn main() {
    isorb_idl_rust::Build::new().compile("idl/bench.idl");
}

//! Compiles the wrappers of libfabric's inline functions.

fn main() {
    println!("cargo:rerun-if-changed=src/libfabric.c");
    cc::Build::new().file("src/libfabric.c").warnings_into_errors(true).compile("isorb_libfabric");
    println!("cargo:rustc-link-lib=fabric");
}

//! Compiles the IDL.

fn main() {
    isorb_idl_rust::Build::new().compile("idl/lamp.idl");
    // What the loader adjusts at the start, in a form that takes a tenth of the room: glibc 2.36 or musl 1.2.4 at run time.
    println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
}

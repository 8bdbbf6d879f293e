//! Compiles the IDL, and has the linker leave out what the smallest programs do not need.

fn main() {
    isorb_idl_rust::Build::new().compile("idl/lamp.idl");
    // What the loader adjusts at the start, in a form that takes a tenth of the room: glibc 2.36 or musl 1.2.4 at run time.
    println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    leave_out_frames();
}

/// The tables that unwinding needs, of which the standard library has its own compiled in, are a seventh of the program. The profile
/// `minimum` aborts at a panic, and is the one that optimises like this; with another, a panic must still find them.
fn leave_out_frames() {
    let variable = |name| std::env::var(name).unwrap_or_default();
    println!("cargo::rerun-if-changed=no-frames.ld");
    if variable("OPT_LEVEL") == "z" && variable("CARGO_CFG_TARGET_OS") == "linux" {
        println!("cargo::rustc-link-arg-bins=-Wl,--no-eh-frame-hdr");
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{}/no-frames.ld", variable("CARGO_MANIFEST_DIR"));
    }
}

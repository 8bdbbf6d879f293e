//! Compiles the IDL, and makes the linker omit the tables for unwinding.

fn main() {
    isorb_idl_rust::Build::new().compile("idl/lamp.idl");
    // Packed relocations take a tenth of the space. They need glibc 2.36 or musl 1.2.4 at run time.
    println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    omit_unwind_tables();
}

/// The tables for unwinding are a seventh of the program; the standard library brings its own. The
/// profile `minimum` aborts at a panic and never reads them. It is recognised by its optimisation
/// level. With other profiles a panic needs the tables.
fn omit_unwind_tables() {
    let variable = |name| std::env::var(name).unwrap_or_default();
    println!("cargo::rerun-if-changed=no-frames.ld");
    if variable("OPT_LEVEL") == "z" && variable("CARGO_CFG_TARGET_OS") == "linux" {
        println!("cargo::rustc-link-arg-bins=-Wl,--no-eh-frame-hdr");
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{}/no-frames.ld", variable("CARGO_MANIFEST_DIR"));
    }
}

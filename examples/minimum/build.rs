//! Compiles the IDL, and makes the linker omit the tables for unwinding.

fn main() {
    isorb_idl_rust::Build::new().compile("idl/lamp.idl");
    // Packed relocations take a tenth of the space. They need glibc 2.36 or musl 1.2.4 at run time.
    println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    omit_unwind_tables();
    fold_identical_functions();
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

/// Functions of the same instructions become one, half a percent of the program. rustc's own linker
/// can do so, which is the default for this target; that of GNU refuses the option.
fn fold_identical_functions() {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let target = "x86_64-unknown-linux-gnu";
    let chosen = !variable("RUSTC_LINKER").is_empty() || variable("CARGO_ENCODED_RUSTFLAGS").contains("link");
    if variable("OPT_LEVEL") != "z" || variable("TARGET") != target || variable("HOST") != target || chosen {
        return;
    }
    let said = std::process::Command::new(variable("RUSTC")).args(["--print", "sysroot"]).output();
    let sysroot = said.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let linker = format!("{}/lib/rustlib/{target}/bin/gcc-ld/ld.lld", sysroot.unwrap_or_default());
    if std::path::Path::new(&linker).exists() {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}

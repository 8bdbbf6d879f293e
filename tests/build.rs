//! Compiles the IDL of the tests, and the corpus of `isorb-idl-rust`.

use isorb_idl_rust::Build;
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() {
    let build = || Build::new().include("../idl");
    build().asynchronous(true).compile("idl/steady.idl");
    build().compile("idl/gate.idl");
    build().compile("idl/guarded.idl");
    build().asynchronous(true).compile("idl/everyday.idl");
    build().embedded(orb_idl).compile("idl/any.idl");
    build().embedded(orb_idl).asynchronous(true).compile("idl/values.idl");
    corpus();
}

/// Compiles each file of the corpus, and writes a module that includes them all.
fn corpus() {
    let folder = Path::new("../crates/idl-rust/tests/corpus");
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = std::fs::read_dir(folder).expect("the corpus is in the repository");
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.expect("the folder is readable").path()).collect();
    files.push("../interop/idl/interop.idl".into());
    files.sort();
    let mut modules = String::new();
    for file in &files {
        Build::new().include(folder).embedded(orb_idl).asynchronous(true).compile(file);
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let _ = writeln!(
            modules,
            "/// Generated from `{name}.idl`.\npub mod from_{name} {{\n    isorb::include_idl!(\"{name}\");\n}}"
        );
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    std::fs::write(out.join("corpus.rs"), modules).expect("the output folder is writable");
}

/// The compiler knows the types of the module `CORBA` that these files use.
fn orb_idl(name: &str) -> Option<&'static str> {
    (name == "orb.idl").then_some("")
}

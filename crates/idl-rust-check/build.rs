//! Generates Rust from the corpus, each file into `$OUT_DIR`, and the list of modules that includes them all.

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() {
    // Not `env!`: the path of the package may differ from where its parts were compiled.
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let corpus = root.join("idl");
    println!("cargo::rerun-if-changed={}", corpus.display());
    let mut files: Vec<PathBuf> = std::fs::read_dir(&corpus)
        .expect("the corpus is in the package")
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|e| e == "idl"))
        .collect();
    files.push(root.join("../../interop/idl/interop.idl"));
    files.sort();
    let mut modules = String::new();
    for file in &files {
        let build = isorb_idl_rust::Build::new().include(&corpus).embedded(embedded);
        build.compile(file);
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let _ = writeln!(
            modules,
            "/// What `{name}.idl` becomes.\npub mod from_{name} {{\n    isorb::include_idl!(\"{name}\");\n}}"
        );
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    std::fs::write(Path::new(&out).join("corpus.rs"), modules).expect("the output folder can be written");
}

/// The types of the `CORBA` module that the corpus names are known to the compiler itself.
fn embedded(name: &str) -> Option<&'static str> {
    (name == "orb.idl").then_some("")
}

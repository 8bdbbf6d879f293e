//! Module CORBA of the run-time, which generated code names as `::isorb::corba`, is what this crate
//! generates from `idl/orb.idl`. `ISORB_BLESS=1` writes it anew.

use isorb_idl::{MemoryLoader, compile, compile_with};
use isorb_idl_rust::{Options, generate, rustfmt};
use std::path::Path;

/// Stands at the top of the file.
const AGAIN: &str = "// Again: ISORB_BLESS=1 cargo test -p isorb-idl-rust --test standard\n";

fn front() -> isorb_idl::Options {
    isorb_idl::Options { embedded: Some(isorb_idl::standard::file), ..Default::default() }
}

#[test]
fn module_corba_is_generated() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let spec = compile(&front(), &root.join("idl/orb.idl")).spec.unwrap();
    let text = format!("{AGAIN}{}", rustfmt(generate(&spec, &Options::new())));
    let file = root.join("crates/orb/src/standard.rs");
    if std::env::var_os("ISORB_BLESS").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    assert!(std::fs::read_to_string(file).unwrap() == text, "orb.idl has changed; ISORB_BLESS=1 accepts it");
}

fn rust_of(text: &str) -> String {
    let files = MemoryLoader::new().with("a.idl", text).with(
        "other.pidl",
        "module CORBA { typedef sequence<any> AnySeq; typedef sequence<octet> OctetSeq; };",
    );
    let outcome = compile_with(&front(), &files, Path::new("a.idl"));
    let rendered = outcome.render(false);
    generate(&outcome.spec.unwrap_or_else(|| panic!("{rendered}")), &Options::new())
}

#[test]
fn names_of_module_corba_exist() {
    let rust = rust_of("#include <orb.idl>\ninterface I { void f(in CORBA::OctetSeq s); };");
    assert!(rust.contains("::isorb::corba::OctetSeq") && !rust.contains("pub mod corba"), "{rust}");
}

/// Other ORBs split module CORBA into files of their own; what they define comes out here.
#[test]
fn a_module_corba_from_elsewhere_is_generated() {
    let user = "interface I { void f(in CORBA::OctetSeq s); };";
    for includes in [
        "#include \"other.pidl\"\n",
        "#include <orb.idl>\n#include \"other.pidl\"\n",
        "#include \"other.pidl\"\n#include <orb.idl>\n",
    ] {
        let rust = rust_of(&format!("{includes}{user}"));
        // The same sequence twice is no clash, and nothing is missing either way.
        let generated = rust.contains("pub mod corba");
        assert_eq!(rust.contains("::isorb::corba::"), !generated, "{includes}{rust}");
        assert_eq!(generated, !includes.starts_with("#include <orb"), "{includes}");
    }
}

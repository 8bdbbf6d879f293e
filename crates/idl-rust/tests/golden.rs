//! IDL files beside the Rust that they lead to. After a change that is meant, `ISORB_BLESS=1 cargo
//! test -p isorb-idl-rust` writes the files anew; look at the difference before you commit it.

use isorb_idl_rust::{Build, Options, generate, rustfmt};
use std::fs;
use std::path::{Path, PathBuf};

fn idl_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "idl"));
    files.sort();
    files
}

#[test]
fn output_is_as_it_was() {
    let bless = std::env::var_os("ISORB_BLESS").is_some();
    let mut different = Vec::new();
    for file in idl_files() {
        let outcome = isorb_idl::compile(&isorb_idl::Options::default(), &file);
        let text = outcome.render(false);
        let Some(spec) = outcome.spec else { panic!("{text}") };
        let options = Options::new()
            .extern_module("Other", "::other_crate::other")
            .receive_in_place("Camera::Frame")
            .receive_in_place("Camera::Cloud");
        let text = rustfmt(generate(&spec, &options));
        let golden = file.with_extension("rs");
        if bless {
            fs::write(&golden, &text).unwrap();
        } else if fs::read_to_string(&golden).unwrap_or_default() != text {
            different.push(golden);
        }
    }
    assert!(different.is_empty(), "the output changed for {different:?}; ISORB_BLESS=1 accepts it");
}

/// Generated files are clean for rustfmt. Without rustfmt the test proves nothing.
#[test]
fn output_is_clean_for_rustfmt() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let files = fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path());
    for file in files.filter(|path| path.extension().is_some_and(|e| e == "idl")) {
        let options = isorb_idl::Options { embedded: Some(|_| Some("")), ..Default::default() };
        let outcome = isorb_idl::compile(&options, &file);
        let text = outcome.render(false);
        let Some(spec) = outcome.spec else { panic!("{text}") };
        let once = rustfmt(generate(&spec, &Options::new()));
        assert!(!once.contains("compile_error"), "{}", file.display());
        // Not `assert_eq`: the texts have thousands of lines.
        assert!(rustfmt(once.clone()) == once, "rustfmt would change {} again", file.display());
    }
}

#[test]
fn only_plain_unbounded_sequences_are_received_in_place() {
    let folder = std::env::temp_dir().join(format!("isorb-in-place-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("m.idl");
    fs::write(
        &file,
        "module M { typedef sequence<octet> Frame; typedef sequence<octet, 9> Nine; typedef sequence<string> Lines; \
         struct S { octet o; }; typedef Frame Again; };",
    )
    .unwrap();
    let build = |name: &str| Build::new().out_dir(&folder).receive_in_place(name).try_compile(&file);
    for name in ["M::Frame", "M::Again"] {
        assert!(build(name).is_ok(), "{name}");
    }
    for (name, why) in [
        ("M::Nine", "unbounded sequence"),
        ("M::Lines", "unbounded sequence"),
        ("M::S", "not a typedef"),
        ("M::Farme", "no such type"),
    ] {
        let refused = build(name).unwrap_err();
        assert!(refused.contains(name) && refused.contains(why), "{refused}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn only_integer_members_have_defaults_that_they_can_have() {
    let folder = std::env::temp_dir().join(format!("isorb-defaults-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("m.idl");
    fs::write(
        &file,
        "module M { struct S { octet o; float f; }; union U switch (long) { case 1: long l; }; };",
    )
    .unwrap();
    let build =
        |name: &str, value| Build::new().out_dir(&folder).default_value(name, value).try_compile(&file);
    assert!(build("M::S::o", 255).is_ok());
    for (name, value, why) in [
        ("M::S::o", 256, "at most 255"),
        ("M::S::f", 1, "not an integer"),
        ("M::S::p", 1, "no such member"),
        ("M::U::l", 1, "not a struct"),
        ("M::T::o", 1, "no such struct"),
        ("o", 1, "no such struct"),
    ] {
        let refused = build(name, value).unwrap_err();
        assert!(refused.contains(name) && refused.contains(why), "{refused}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

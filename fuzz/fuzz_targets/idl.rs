//! The IDL compiler with any octets: it returns a model or diagnostics, which can be printed.
#![no_main]

use isorb_idl::{MemoryLoader, Options, compile_with};
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|data: &[u8]| {
    let files = MemoryLoader::new().with("fuzz.idl", data).with("other.idl", "module Other {};");
    let outcome = compile_with(&Options::default(), &files, Path::new("fuzz.idl"));
    assert!(outcome.spec.is_some() != outcome.has_errors());
    let _ = outcome.render(false);
});

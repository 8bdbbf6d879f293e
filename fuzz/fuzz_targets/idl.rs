//! The IDL compiler with any octets: it returns a model or diagnostics, which can be printed.
#![no_main]

use isorb_idl::{MemoryLoader, Options, compile_with};
use libfuzzer_sys::fuzz_target;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

/// One of so many inputs, by its hash, has all of its diagnostics printed, and the others two: to
/// print them takes several times as long as to find them.
const PRINTED: u64 = 32;

fuzz_target!(|data: &[u8]| {
    let files = MemoryLoader::new().with("fuzz.idl", data).with("other.idl", "module Other {};");
    let outcome = compile_with(&Options::default(), &files, Path::new("fuzz.idl"));
    assert!(outcome.spec.is_some() != outcome.has_errors());
    let mut hasher = DefaultHasher::new();
    data.hash(&mut hasher);
    if hasher.finish().is_multiple_of(PRINTED) {
        assert!(outcome.render(false).is_empty() == outcome.diagnostics.is_empty());
    }
    for diagnostic in outcome.diagnostics.iter().take(2) {
        assert!(!diagnostic.render(&outcome.sources, false).is_empty());
    }
});

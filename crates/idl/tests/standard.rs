//! The specifications in `idl/` at the root of the repository must compile without a complaint.

use isorb_idl::{Options, compile};
use std::path::Path;

#[test]
fn the_standard_modules_compile_clean() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../idl");
    let Ok(entries) = std::fs::read_dir(&folder) else { return };
    let options = Options { include_dirs: vec![folder], ..Options::default() };
    let mut complaints = String::new();
    for path in entries.map(|e| e.expect("the folder can be read").path()) {
        if path.extension().is_some_and(|e| e == "idl") {
            complaints += &compile(&options, &path).render(false);
        }
    }
    assert!(complaints.is_empty(), "{complaints}");
}

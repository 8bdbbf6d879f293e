//! The repository's documents, for tests that hold them against the code.
//!
//! Documents are found by their file names, so that they can move between the folders of `docs/`.

use std::fs;
use std::path::{Path, PathBuf};

/// The repository's root.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All Markdown files at the repository's root and below `docs/`, `examples/` and `interop/`, by
/// their paths from the root.
///
/// # Panics
/// Where a folder cannot be read.
pub fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(Path::new(""), false, &mut found);
    for folder in ["docs", "examples", "interop"] {
        collect(Path::new(folder), true, &mut found);
    }
    found.sort();
    found
}

/// The text of the document below `docs/` with a path that ends so: `configuration.md`,
/// `guides/tls.md`.
///
/// # Panics
/// Where there are none or several.
#[track_caller]
pub fn document(name: &str) -> String {
    let mut found = Vec::new();
    collect(Path::new("docs"), true, &mut found);
    found.retain(|path| path.ends_with(name));
    let [path] = &found[..] else { panic!("docs/ has one {name}: {found:?}") };
    fs::read_to_string(repository().join(path)).expect("a document is text")
}

fn collect(folder: &Path, recursive: bool, into: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(repository().join(folder));
    for entry in entries.unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let entry = entry.expect("the folder is readable");
        let path = folder.join(entry.file_name());
        if entry.file_type().expect("the entry exists").is_dir() {
            // Builds leave hidden folders and `target` behind.
            let name = entry.file_name();
            if recursive && name != "target" && !name.to_string_lossy().starts_with('.') {
                collect(&path, true, into);
            }
        } else if path.extension().is_some_and(|extension| extension == "md") {
            into.push(path);
        }
    }
}

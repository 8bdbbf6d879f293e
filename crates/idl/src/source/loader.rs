//! Loaders, which supply the text of files.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Finds a standard file by the name in the `#include`, such as `orb.idl` or `CosNaming.idl`.
///
/// The tool's binary carries the standard modules this way, so that it works without an installed
/// `idl/` folder. A file system directory given by the user always wins.
pub type EmbeddedFiles = fn(&str) -> Option<&'static str>;

/// Reads source files. The compiler has no other access to the outside world.
pub trait Loader {
    /// The bytes of the file at `path`, at most `limit` and one more (so that the caller can tell
    /// that it is too large).
    ///
    /// # Errors
    /// After `NotFound` the compiler tries the next directory; it reports all other errors.
    fn load(&self, path: &Path, limit: usize) -> io::Result<Vec<u8>>;

    /// The one true name of the file or folder at `path`: absolute, and without links.
    ///
    /// # Errors
    /// Those of the file system.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        let mut out = PathBuf::new();
        for part in path.components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir
                    if matches!(out.components().next_back(), Some(Component::Normal(_))) =>
                {
                    out.pop();
                }
                part => out.push(part),
            }
        }
        Ok(out)
    }
}

/// Reads from the file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct FsLoader;

impl Loader for FsLoader {
    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        // The folder of a bare file name.
        std::fs::canonicalize(if path.as_os_str().is_empty() { Path::new(".") } else { path })
    }

    fn load(&self, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
        use io::Read;
        // The check comes before the opening, since opening a pipe waits for its other end.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        let file = std::fs::File::open(path)?;
        let mut bytes = Vec::new();
        file.take(limit as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Serves files from memory; for tests, fuzzing and editors.
#[derive(Clone, Debug, Default)]
pub struct MemoryLoader {
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl MemoryLoader {
    /// No files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces a file.
    #[must_use]
    pub fn with(mut self, path: impl Into<PathBuf>, text: impl Into<Vec<u8>>) -> Self {
        self.files.insert(path.into(), text.into());
        self
    }
}

impl Loader for MemoryLoader {
    fn load(&self, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
        let bytes = self.files.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(bytes[..bytes.len().min(limit + 1)].to_vec())
    }
}

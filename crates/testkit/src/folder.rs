//! Temporary folders.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A folder that only this test uses. Its mode is 0700; it is removed when the value is dropped.
#[derive(Debug)]
pub struct TempFolder(TempDir);

impl TempFolder {
    /// Makes a folder with a name of its own.
    ///
    /// # Panics
    /// Where the system's temporary folder cannot be written to.
    #[expect(clippy::new_without_default, reason = "it makes a folder")]
    pub fn new() -> TempFolder {
        let private = Permissions::from_mode(0o700);
        let made = tempfile::Builder::new().prefix("isorb-test-").permissions(private).tempdir();
        TempFolder(made.unwrap_or_else(|error| panic!("no temporary folder: {error}")))
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The path of a file in the folder. The file need not exist.
    pub fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    /// The path of a file in the folder as text, for command lines and URLs.
    pub fn text(&self, name: impl AsRef<Path>) -> String {
        self.file(name).display().to_string()
    }
}

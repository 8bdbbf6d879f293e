//! Files with secrets.

use isorb::transport::PeerProcess;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The most octets of a file.
const LONGEST: u64 = 1 << 20;

/// Why a file is refused: where, what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError(pub(crate) String);

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FileError {}

/// The text of a file that only its owner can read.
pub(crate) fn read_secret(path: &Path) -> Result<String, FileError> {
    let wrong = |why: String| FileError(format!("{}: {why}", path.display()));
    let mut file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    let metadata = file.metadata().map_err(|error| wrong(error.to_string()))?;
    if !metadata.is_file() || metadata.len() > LONGEST {
        return Err(wrong("this must be a regular file of at most 1 MiB".into()));
    }
    let (owner, mode) = (metadata.uid(), metadata.mode() & 0o777);
    if owner != 0 && owner != PeerProcess::this().user {
        return Err(wrong(format!(
            "it belongs to user {owner}; it must belong to the user of this process or to root"
        )));
    }
    if mode & 0o077 != 0 {
        return Err(wrong(format!("others have access to it (mode {mode:o}); chmod 600 it")));
    }
    let mut text = String::new();
    file.by_ref().take(LONGEST).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
    Ok(text)
}

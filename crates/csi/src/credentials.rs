//! The user and password of a client.

use crate::file::{FileError, read_secret};
use std::fmt;
use std::path::Path;

/// A user's name and password. Its `Debug` form does not show the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub(crate) user: String,
    pub(crate) password: Vec<u8>,
}

impl Credentials {
    /// A user by name, perhaps with `@` and the server's target name, and the password.
    pub fn new(user: impl Into<String>, password: impl Into<Vec<u8>>) -> Credentials {
        Credentials { user: user.into(), password: password.into() }
    }

    /// A user with the password in the first line of a file.
    ///
    /// # Errors
    /// A file that cannot be read, is empty, belongs to another user, or that others can read.
    pub fn from_file(user: impl Into<String>, password: &Path) -> Result<Credentials, FileError> {
        let text = read_secret(password)?;
        match text.lines().next() {
            Some(line) if !line.is_empty() => Ok(Credentials::new(user, line)),
            _ => {
                Err(FileError(format!("{}: the first line is the password; it is empty", password.display())))
            }
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

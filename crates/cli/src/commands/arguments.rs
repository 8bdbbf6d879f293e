//! Arguments that are looked at before a command starts, so that a wrong one is an error of usage.

use clap::builder::{OsStringValueParser, TypedValueParser};
use isorb_giop::ObjectUrl;
use rustix::fs::{Access, access};
use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// What is wrong about an argument, where only the command itself can tell. As an error of usage,
/// it ends the program with 2.
#[derive(Debug)]
pub struct Wrong(pub String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Wrong {}

/// A file to read: it is there, it is no folder, and this user may read it.
pub fn to_read() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(readable)
}

/// A file to write: it is no folder, and the folder that it is in is there.
pub fn to_write() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(writable)
}

/// An object URL, as text.
pub fn object_url(text: &str) -> Result<String, String> {
    text.parse::<ObjectUrl>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn readable(name: OsString) -> Result<PathBuf, String> {
    let path = PathBuf::from(name);
    match std::fs::metadata(&path) {
        Ok(found) if found.is_dir() => return Err("it is a folder: name a file".into()),
        Ok(_) => {}
        Err(error) => return Err(format!("{error}: name a file that is there")),
    }
    // Not opened: a pipe would notice.
    match access(&path, Access::READ_OK) {
        Ok(()) => Ok(path),
        Err(error) => Err(format!("{error}: name a file that this user may read")),
    }
}

fn writable(name: OsString) -> Result<PathBuf, String> {
    let path = PathBuf::from(name);
    if path.as_os_str().is_empty() {
        return Err("it is empty: name a file".into());
    }
    if path.is_dir() {
        return Err("it is a folder: name a file".into());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match std::fs::metadata(folder) {
        Ok(found) if found.is_dir() => Ok(path),
        Ok(_) => Err(format!("{} is no folder: name a file in one", folder.display())),
        Err(error) => Err(format!("{}: {error}: make this folder first", folder.display())),
    }
}

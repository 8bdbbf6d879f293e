//! A bare hand-over between two processes that sleep: the program of `peers/futex`.

use std::path::PathBuf;
use std::sync::OnceLock;

use super::build::{cached, installed, step};
use super::{Missing, Programs};

const SOURCES: [(&str, &str); 1] = [("peer.cc", include_str!("../../peers/futex/peer.cc"))];

/// The programs, built unless they are in the cache.
///
/// # Errors
/// [`Missing`].
pub fn programs() -> Result<Programs, Missing> {
    static BUILT: OnceLock<Result<PathBuf, Missing>> = OnceLock::new();
    let peer = BUILT.get_or_init(build).clone()?.join("peer");
    let with = |word: &str| vec![peer.clone().into_os_string(), word.into()];
    Ok(Programs { server: with("server"), client: with("client") })
}

fn build() -> Result<PathBuf, Missing> {
    if !installed("g++") {
        return Err(Missing::NotInstalled("g++"));
    }
    let arguments = ["-std=c++14", "-O2", "-DNDEBUG", "-Wall", "-o", "peer", "peer.cc", "-lpthread"];
    cached("futex", &SOURCES, "", |folder| step(folder, "g++", &arguments)).map_err(|error| {
        eprintln!("futex: {error}");
        Missing::NotBuilt
    })
}

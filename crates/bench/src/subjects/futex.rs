//! Bare hand-overs between two processes that sleep: the programs of `peers/futex`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;

use super::build::{cached, installed, step};
use super::{Missing, Programs};

type Built = OnceLock<Result<PathBuf, Missing>>;
const MAPPED: (&str, &str) = ("mapped.h", include_str!("../../peers/futex/mapped.h"));
const PEER: [(&str, &str); 2] = [("peer.cc", include_str!("../../peers/futex/peer.cc")), MAPPED];
const BANDS: [(&str, &str); 2] = [("bands.cc", include_str!("../../peers/futex/bands.cc")), MAPPED];

/// A word there and back. Built unless they are in the cache.
pub fn programs() -> Result<Programs, Missing> {
    static BUILT: Built = OnceLock::new();
    Ok(pair(&BUILT.get_or_init(|| build("futex", &PEER)).clone()?, &[], &[]))
}

/// Octets there and back, of one client at the native priority `fifo` (`None` is an ordinary
/// thread) and `lows` ordinary ones, each with a thread of the server of its own. They obey the
/// orders of a [workload](crate::workload). Built as those of [`programs`].
pub fn bands(fifo: Option<u8>, lows: usize) -> Result<Programs, Missing> {
    static BUILT: Built = OnceLock::new();
    let built = BUILT.get_or_init(|| build("bands", &BANDS)).clone()?;
    let fifo = fifo.unwrap_or(0).to_string();
    Ok(pair(&built, &[&fifo, &lows.to_string()], &[&fifo]))
}

fn pair(program: &PathBuf, server: &[&str], client: &[&str]) -> Programs {
    let with = |part: &str, more: &[&str]| {
        let mut words: Vec<OsString> = vec![program.into(), part.into()];
        words.extend(more.iter().map(Into::into));
        words
    };
    Programs { server: with("server", server), client: with("client", client) }
}

/// The program of a source and what it includes.
fn build(name: &str, sources: &[(&str, &str); 2]) -> Result<PathBuf, Missing> {
    if !installed("g++") {
        return Err(Missing::NotInstalled("g++"));
    }
    let [(source, _), _] = *sources;
    let arguments = ["-std=c++14", "-O2", "-DNDEBUG", "-Wall", "-o", "peer", source, "-lpthread"];
    let folder = cached(name, sources, "", |folder| step(folder, "g++", &arguments))?;
    Ok(folder.join("peer"))
}

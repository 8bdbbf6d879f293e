//! Builds the peers that are programs in another language, once, into a cache outside of the source
//! tree.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use isorb_rt::log::warn;

use super::Missing;

/// The folder of what was built from exactly these `sources`. Made by `build` in a folder beside
/// it, which is renamed when it is complete, so that an interrupted build, or two at a time, leave
/// nothing half made. A failure is logged.
pub fn cached(
    name: &str,
    sources: &[(&str, &str)],
    extra: &str,
    build: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<PathBuf, Missing> {
    built(name, sources, extra, build).map_err(|error| {
        warn("isorb::bench", format_args!("{name}: {error}"));
        Missing::NotBuilt
    })
}

fn built(
    name: &str,
    sources: &[(&str, &str)],
    extra: &str,
    build: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<PathBuf> {
    let mut hash = Fnv::new();
    for (file, text) in sources {
        hash.add(file);
        hash.add(text);
    }
    hash.add(extra);
    let root = cache_folder();
    let done = root.join(format!("{name}-{:016x}", hash.0));
    if done.is_dir() {
        return Ok(done);
    }
    let work = root.join(format!("{name}-{}.part", std::process::id()));
    fs::create_dir_all(&work)?;
    let result = sources
        .iter()
        .try_for_each(|(file, text)| fs::write(work.join(file), text))
        .and_then(|()| build(&work))
        .and_then(|()| match fs::rename(&work, &done) {
            // Another process was faster.
            Err(_) if done.is_dir() => Ok(()),
            other => other,
        });
    // Gone already if it was renamed.
    let _ = fs::remove_dir_all(&work);
    result.map(|()| done)
}

/// Is there a program of that name?
pub fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Runs a step of a build in `folder`. What it writes to standard error appears on ours.
pub fn step<S: AsRef<OsStr>>(folder: &Path, program: &str, arguments: &[S]) -> io::Result<()> {
    let status = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        // Standard output may be a stream of results.
        .stdout(Stdio::null())
        .status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{program}: {status}"))) }
}

fn cache_folder() -> PathBuf {
    let given = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    given("XDG_CACHE_HOME")
        .or_else(|| given("HOME").map(|home| home.join(".cache")))
        .unwrap_or_else(std::env::temp_dir)
        .join("isorb-bench")
}

/// FNV-1a: tells one set of sources from another; it needs no resistance to attacks.
struct Fnv(u64);

impl Fnv {
    fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, text: &str) {
        for byte in text.bytes().chain([0]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_hashes() {
        // FNV-1a of "a" and of "foobar", without the zero that ends a part.
        let of = |text: &str| {
            text.bytes().fold(Fnv::new().0, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
        };
        assert_eq!((of("a"), of("foobar")), (0xaf63_dc4c_8601_ec8c, 0x8594_4171_f739_67e8));
        let (mut one, mut two) = (Fnv::new(), Fnv::new());
        one.add("ab");
        two.add("a");
        two.add("b");
        assert_ne!(one.0, two.0, "where a part ends matters");
    }

    #[test]
    fn programs_are_found() {
        assert!(installed("sh"));
        assert!(!installed("no-program-has-this-name"));
    }
}

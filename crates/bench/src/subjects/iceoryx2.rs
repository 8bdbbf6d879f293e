//! iceoryx2's request and response, both ends polling: the program of `peers/iceoryx2`, built by
//! cargo when it is asked for.

use std::path::PathBuf;
use std::sync::OnceLock;

use super::build::{cached, step};
use super::{Missing, Programs};

const SOURCES: [(&str, &str); 3] = [
    ("Cargo.toml", include_str!("../../peers/iceoryx2/Cargo.toml")),
    ("Cargo.lock", include_str!("../../peers/iceoryx2/Cargo.lock")),
    ("main.rs", include_str!("../../peers/iceoryx2/main.rs")),
];

/// The programs, built unless they are in the cache, which takes a minute and the packages of
/// crates.io. `in_place`: neither writes or reads the octets of an echo.
pub fn programs(in_place: bool) -> Result<Programs, Missing> {
    // A failed build shall not be tried twice.
    static BUILT: OnceLock<Result<PathBuf, Missing>> = OnceLock::new();
    let peer = BUILT.get_or_init(build).clone()?.join("target/release/peer");
    let with = |word: &str| {
        let mut words = vec![peer.clone().into_os_string(), word.into()];
        words.extend(in_place.then(|| "--in-place".into()));
        words
    };
    Ok(Programs { server: with("server"), client: with("client") })
}

fn build() -> Result<PathBuf, Missing> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    cached("iceoryx2", &SOURCES, "", |folder| {
        step(folder, &cargo, &["build", "--quiet", "--release", "--locked", "--target-dir", "target"])?;
        // What the compiler left behind is a hundred times as large as the program.
        ["build", "deps", "incremental", ".fingerprint"].iter().for_each(|rest| {
            let _ = std::fs::remove_dir_all(folder.join("target/release").join(rest));
        });
        Ok(())
    })
}
